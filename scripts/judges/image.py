"""Pushes a small image for two platforms into a registry, over HTTP alone.

usage: image.py push REGISTRY REPOSITORY:TAG   prints the index's digest and, below it, the digest of one layer
"""

import hashlib, io, json, sys, tarfile, urllib.parse, urllib.request

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def call(method, url, data=None, kind="application/octet-stream"):
    request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": kind})
    return urllib.request.urlopen(request, timeout=10)


def blob(base, data):
    where = urllib.parse.urljoin(base, call("POST", f"{base}/blobs/uploads/", b"").headers["Location"])
    call("PUT", f"{where}&digest={digest(data)}", data)
    return {"digest": digest(data), "size": len(data)}


def layer(name, text):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))
    return out.getvalue()


def image(base, architecture):
    layers = [layer("etc/base", b"base"), layer("opt/engine", b"engine for " + architecture.encode())]
    config = {"architecture": architecture, "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [digest(d) for d in layers]}}
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **blob(base, json.dumps(config).encode())},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", **blob(base, d)} for d in layers],
    }
    data = json.dumps(manifest).encode()
    call("PUT", f"{base}/manifests/{digest(data)}", data, MANIFEST)
    return {"mediaType": MANIFEST, "digest": digest(data), "size": len(data), "platform": {"os": "linux", "architecture": architecture}}, layers


def push(registry, name):
    repository, tag = name.split(":")
    base = f"http://{registry}/v2/{repository}"
    entries, layers = zip(*(image(base, a) for a in ("amd64", "arm64")))
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": list(entries)}).encode()
    call("PUT", f"{base}/manifests/{tag}", index, INDEX)
    print(digest(index))
    print(digest(layers[1][1]))


{"push": push}[sys.argv[1]](*sys.argv[2:])
