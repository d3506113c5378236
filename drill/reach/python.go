package reach

// Python does what Try does where drkit's own program is not: the images of engines
// have Python. It is given to python3 -c with the URLs after it.
const Python = `
import json, socket, sys, threading, urllib.error, urllib.parse, urllib.request

PATIENCE = 3

def connect(host, port):
    try:
        socket.create_connection((host, port), PATIENCE).close()
        return ""
    except OSError as e:
        return str(e) or type(e).__name__

class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *a):
        return None

def ask(url):
    try:
        with urllib.request.build_opener(Stay).open(url, timeout=PATIENCE) as r:
            return r.status, ""
    except urllib.error.HTTPError as e:
        return e.code, ""
    except Exception as e:
        return 0, str(e) or type(e).__name__

def attempt(url, out):
    u = urllib.parse.urlsplit(url)
    port = u.port or {"http": 80, "https": 443}.get(u.scheme)
    out["url"] = url
    if not u.hostname or not port:
        out["connect"] = out["http"] = "not a URL with a host and a port"
        return
    both = [threading.Thread(target=lambda: out.update(connect=connect(u.hostname, port))),
            threading.Thread(target=lambda: out.update(zip(("status", "http"), ask(url))))]
    for t in both: t.start()
    for t in both: t.join()

def itself():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(1)
    return connect(*s.getsockname()) == ""

tried = [{} for _ in sys.argv[1:]]
threads = [threading.Thread(target=attempt, args=a) for a in zip(sys.argv[1:], tried)]
for t in threads: t.start()
for t in threads: t.join()
print(json.dumps({"schema": "drkit.reach/1.0", "self": itself(), "tried": tried}))
`
