package step_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"drkit/drill"
	"drkit/internal/openai"
	"drkit/internal/pipenet"
	"drkit/internal/standin"
)

const (
	sourceURL = "http://source-canary:8000"
	targetURL = "http://target-canary:8000"
	undoStop  = "fake.stop"
)

// launcher starts replicas that are handlers on the lab's network.
type launcher struct {
	lab     *lab
	engines map[string]*engine                  // by replica name
	broken  string                              // name of a replica whose Stop does not work
	inside  func(argv []string) ([]byte, error) // what runs beside a replica; nil: nothing can
	silent  bool                                // cannot list what runs
	away    func() bool                         // the platform that runs the canaries does not answer; nil: it does
	lost    bool                                // it goes away once it has made what it was asked for: only the answer is lost

	mu      sync.Mutex
	running map[string]*replica
}

func undoLaunch(run, name string) (drill.Undo, error) {
	args, err := json.Marshal(name)
	return drill.Undo{Kind: undoStop, Args: args}, err
}

func (l *launcher) undo(ctx context.Context, args []byte) error {
	var name string
	if err := json.Unmarshal(args, &name); err != nil {
		return err
	}
	l.mu.Lock()
	r := l.running[name]
	l.mu.Unlock()
	if l.gone(name) {
		return errServer
	}
	if r == nil {
		return nil
	}
	return r.Stop(ctx)
}

var errServer = errors.New("the API server does not answer: connection refused")

// gone says that a canary's platform does not answer. The router is a process here.
func (l *launcher) gone(name string) bool { return l.away != nil && l.engines[name] != nil && l.away() }

func (l *launcher) Launch(_ context.Context, s drill.Spec) (drill.Replica, error) {
	gone := l.gone(s.Name)
	if gone && !l.lost {
		return nil, errServer
	}
	r := &replica{launcher: l, name: s.Name, url: "http://" + s.Name + ":8000", exited: make(chan struct{}), log: &logBook{more: make(chan struct{})}}
	l.mu.Lock()
	l.running[s.Name] = r
	l.mu.Unlock()
	if e := l.engines[s.Name]; e != nil {
		go e.run(r, s)
		if gone {
			return nil, errServer
		}
		return r, nil
	}
	return r, l.lab.router.serve(r, s)
}

// kill ends a process as the system does; nothing of it is left to list.
func (l *launcher) kill(name string) {
	l.mu.Lock()
	r := l.running[name]
	delete(l.running, name)
	l.mu.Unlock()
	if r != nil {
		r.end("signal: killed")
	}
}

func (l *launcher) all() []*replica {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.running))
}

func (l *launcher) Find(context.Context, string) ([]drill.Replica, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent {
		return nil, errors.New("the process table cannot be read")
	}
	if l.away != nil && l.away() {
		return nil, errServer
	}
	var all []drill.Replica
	for _, r := range l.running {
		all = append(all, r)
	}
	return all, nil
}

// replica is one fake process.
type replica struct {
	launcher  *launcher
	name, url string
	log       *logBook
	exited    chan struct{}
	parted    atomic.Bool // a part of it went

	mu    sync.Mutex
	state string
	close []func()
}

// Whole: of several parts, until one goes.
func (r *replica) Whole() error {
	if r.parted.Load() {
		return errors.New("worker pod chat-1 is not ready")
	}
	return nil
}

func (r *replica) ID() string                                       { return r.name }
func (r *replica) Endpoint() string                                 { return r.url }
func (r *replica) Log(ctx context.Context) iter.Seq2[string, error] { return r.log.lines(ctx) }
func (r *replica) Exited() <-chan struct{}                          { return r.exited }

func (r *replica) Run(_ context.Context, argv []string) ([]byte, error) {
	if r.launcher.inside == nil {
		return nil, errors.New("nothing runs here")
	}
	return r.launcher.inside(argv)
}

func (r *replica) ExitState() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

func (r *replica) Stop(context.Context) error {
	if r.launcher.broken == r.name {
		return errors.New("process 4242 is still there")
	}
	if r.launcher.gone(r.name) {
		return errServer
	}
	r.end("signal: terminated")
	r.launcher.mu.Lock()
	defer r.launcher.mu.Unlock()
	delete(r.launcher.running, r.name)
	return nil
}

// listen serves h at the replica's address until it ends.
func (r *replica) listen(net *pipenet.Network, h http.Handler) error {
	stop, err := net.Serve(strings.TrimPrefix(r.url, "http://"), h)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != "" {
		stop()
		return nil
	}
	r.close = append(r.close, stop)
	return nil
}

// end is the end of the process: its connections break.
func (r *replica) end(state string) {
	r.mu.Lock()
	if r.state != "" {
		r.mu.Unlock()
		return
	}
	r.state = state
	closers := r.close
	r.mu.Unlock()
	for _, c := range closers {
		c()
	}
	r.log.end()
	close(r.exited)
}

// logBook is a growing log; it is the io.Writer of the process.
type logBook struct {
	mu    sync.Mutex
	all   []string
	ended bool
	more  chan struct{} // closed and made anew with each change
}

func (b *logBook) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	close(b.more)
	b.more = make(chan struct{})
}

func (b *logBook) Write(p []byte) (int, error) {
	b.change(func() { b.all = append(b.all, strings.Split(strings.TrimSuffix(string(p), "\n"), "\n")...) })
	return len(p), nil
}

func (b *logBook) end() { b.change(func() { b.ended = true }) }

func (b *logBook) lines(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for n := 0; ; {
			b.mu.Lock()
			lines, ended, more := b.all[n:], b.ended, b.more
			b.mu.Unlock()
			for _, line := range lines {
				if !yield(line, nil) {
					return
				}
			}
			n += len(lines)
			if len(lines) > 0 {
				continue
			}
			if ended {
				return
			}
			select {
			case <-more:
			case <-ctx.Done():
				return
			}
		}
	}
}

// engine is the stand-in engine, loaded from what was restored. Streams, which
// are the traffic, take virtual time and have no model behind them; all else is
// the engine's own answer.
type engine struct {
	boot   time.Duration          // from launch to the open port
	before func(dir string) error // called before the weights are read
	exits  string                 // the log of an engine that ends in its boot
	hangs  bool                   // accepts connections and never answers
	fail   func(asked int, r openai.CompletionRequest) (status int, message string)
	mute   func(page string) string // changes the metrics page
	slow   time.Duration            // time to first token, else 200 ms
	dies   time.Duration            // after its boot; 0: never
	named  string                   // the name that it serves, else the release's
	late   time.Duration            // for so long after its boot /v1/models lists nothing of it

	mu          sync.Mutex
	broken      bool // every completion is a 500
	turned      bool // answers another prompt than the one that it is asked, with success
	asked, done int
	running     int
	real        http.Handler
	loaded      time.Time
}

func (e *engine) run(r *replica, s drill.Spec) {
	if !sleep(r, e.boot) {
		return
	}
	if e.exits != "" {
		_, _ = r.log.Write([]byte(e.exits))
		r.end("exit status 1")
		return
	}
	var h http.Handler = http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	if !e.hangs {
		if err := e.load(r, s); err != nil {
			fmt.Fprintln(r.log, err)
			r.end("exit status 1")
			return
		}
		h = e
	}
	if err := r.listen(&r.launcher.lab.net, h); err != nil {
		r.end(err.Error())
		return
	}
	if e.dies > 0 && sleep(r, e.dies) {
		r.end("signal: killed")
	}
}

// sleep is false when the replica ended meanwhile.
func sleep(r *replica, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.exited:
		return false
	}
}

func (e *engine) load(r *replica, s drill.Spec) error {
	if e.before != nil {
		if err := e.before(s.Dir); err != nil {
			return err
		}
	}
	o := standin.LoadOptions{ServedModelNames: []string{cmp.Or(e.named, s.Served)}, Log: r.log}
	for name, dir := range s.Adapters {
		o.Adapters = append(o.Adapters, standin.Adapter{Name: name, Dir: dir})
	}
	real, err := standin.Load(s.Model, o)
	if err != nil {
		return err
	}
	e.real, e.loaded = real.Handler(), time.Now()
	fmt.Fprintln(r.log, "Application startup complete.")
	return nil
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/metrics":
		e.metrics(w)
	case "/v1/models":
		if time.Since(e.loaded) < e.late {
			fmt.Fprint(w, `{"object":"list","data":[]}`)
			return
		}
		e.real.ServeHTTP(w, r)
	case "/v1/completions":
		body, _ := io.ReadAll(r.Body)
		var c openai.CompletionRequest
		_ = json.Unmarshal(body, &c)
		r.Body = io.NopCloser(bytes.NewReader(body))
		e.complete(w, r, c)
	default:
		e.real.ServeHTTP(w, r)
	}
}

func (e *engine) metrics(w http.ResponseWriter) {
	e.mu.Lock()
	page := fmt.Sprintf("vllm:num_requests_running %d\nvllm:num_requests_waiting 0\nvllm:request_success_total{finished_reason=\"length\"} %d\n", e.running, e.done)
	e.mu.Unlock()
	if e.mute != nil {
		page = e.mute(page)
	}
	if page == "" {
		http.NotFound(w, nil)
		return
	}
	fmt.Fprint(w, page)
}

func (e *engine) complete(w http.ResponseWriter, r *http.Request, c openai.CompletionRequest) {
	e.mu.Lock()
	e.asked++
	asked, broken, turned := e.asked, e.broken, e.turned
	e.mu.Unlock()
	if turned && !c.Stream {
		r = instead(r, "Another question altogether.")
	}
	if broken {
		http.Error(w, "out of luck", http.StatusInternalServerError)
		return
	}
	if e.fail != nil {
		if status, message := e.fail(asked, c); status != 0 {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(openai.ErrorBody{Error: openai.ErrorDetail{Message: message, Type: "InternalServerError", Code: status}})
			return
		}
	}
	e.count(1, 0)
	ok := true
	if c.Stream {
		ok = e.stream(w, r)
	} else {
		e.real.ServeHTTP(w, r)
	}
	if ok {
		e.count(-1, 1)
		if c.Stream {
			fmt.Fprint(w, "data: [DONE]\n\n")
		}
		return
	}
	e.count(-1, 0)
}

// turn makes the engine answer wrongly from here on, and as fast as before.
func (e *engine) turn() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.turned = true
}

// instead is the request with another prompt.
func instead(r *http.Request, prompt string) *http.Request {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	body["prompt"] = prompt
	data, _ := json.Marshal(body)
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	return r
}

// failOnce makes one completion a 500.
func (e *engine) failOnce() {
	var asked atomic.Bool
	e.fail = func(int, openai.CompletionRequest) (int, string) {
		if asked.Swap(true) {
			return 0, ""
		}
		return http.StatusInternalServerError, "out of blocks"
	}
}

func (e *engine) count(running, done int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running += running
	e.done += done
}

// passes lets time pass, and is false when the request ended before. A timer that has
// run out already is fired by the goroutine that looks at it: where two of a bubble do
// so at once, the race detector ends with a segmentation violation (Go 1.26).
func passes(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// stream brings its first token after 200 ms and ends 200 ms later.
func (e *engine) stream(w http.ResponseWriter, r *http.Request) bool {
	first := 200 * time.Millisecond
	if e.slow > 0 {
		first = e.slow
	}
	for _, part := range []struct {
		after time.Duration
		event string
	}{
		{first, `{"choices":[{"text":"The copy","finish_reason":null}]}`},
		{200 * time.Millisecond, `{"choices":[{"text":".","finish_reason":"length"}]}`},
		{0, `{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":8,"total_tokens":108,"prompt_tokens_details":{"cached_tokens":80}}}`},
	} {
		if !passes(r.Context(), part.after) {
			return false
		}
		fmt.Fprintf(w, "data: %s\n\n", part.event)
		_ = http.NewResponseController(w).Flush()
	}
	return true
}

// router is the rehearsal router and its driver in one.
type router struct {
	stalls  func(asked int) bool // requests that are never answered
	lab     *lab
	lies    bool                 // answers every change with success and does nothing
	exits   bool                 // ends at once
	other   bool                 // is of another kind than the driver's
	refuses bool                 // says that the change did not come about
	sticky  bool                 // lists the change and goes on as before
	cuts    bool                 // breaks the streams of a worker that is removed
	mute    bool                 // has no counters
	twice   bool                 // sends each request two times to its worker
	blind   bool                 // does not count its cache decisions
	names   bool                 // answers name the region that they come from
	sees    drill.Tri            // whether the policy sees text prompts
	dark    func(asked int) bool // requests that are answered with 502

	mu                   sync.Mutex
	up                   *replica
	workers              []drill.Worker
	first, was           string // the first worker ever, and the first in the list now
	counts               map[string]drill.Count
	open                 map[int]openRequest
	asked                int
	known                map[string]bool
	hits, misses, unseen uint64
}

type openRequest struct {
	worker string
	cut    context.CancelFunc
}

func (r *router) serve(up *replica, s drill.Spec) error {
	r.mu.Lock()
	r.up, r.first, r.was = up, s.Values["worker"], s.Values["worker"]
	r.workers = []drill.Worker{{URL: s.Values["worker"], Region: s.Values["worker_region"], Health: drill.Yes}}
	r.counts, r.open, r.known = map[string]drill.Count{}, map[int]openRequest{}, map[string]bool{}
	r.mu.Unlock()
	if r.exits {
		up.end("exit status 2")
		return nil
	}
	return up.listen(&r.lab.net, r)
}

func (l *lab) newRouter(driver, admin, metrics string) (drill.Router, error) {
	if driver != "fake" || admin != "http://rehearsal-router:8000" || metrics != admin {
		return nil, fmt.Errorf("no router %s at %s, %s", driver, admin, metrics)
	}
	if l.router.blind {
		return struct{ drill.Router }{l.router}, nil
	}
	return l.router, nil
}

var errDown = errors.New("connection refused")

func (r *router) alive() error {
	if r.up == nil || r.up.ExitState() != "" {
		return errDown
	}
	return nil
}

func (r *router) Probe(context.Context) (drill.RouterInfo, error) {
	return drill.RouterInfo{Kind: "fake-router", Version: "1", Policy: "cache_aware", SeesText: r.sees, SeesTokens: drill.Yes}, errors.Join(r.alive(), r.kind())
}

func (r *router) kind() error {
	if r.other {
		return errors.New("it is sglang-router")
	}
	return nil
}

func (r *router) Workers(context.Context) ([]drill.Worker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.workers), r.alive()
}

// moveTo is somebody else who changes the router.
func (r *router) moveTo(url string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers, r.was = []drill.Worker{{URL: url, Health: drill.Yes}}, url
}

// killRouter ends the router; its list dies with it.
func (l *lab) killRouter() {
	l.launcher.kill("rehearsal-router")
	l.router.mu.Lock()
	defer l.router.mu.Unlock()
	l.router.workers = nil
}

func (r *router) listed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, w := range r.workers {
		all = append(all, w.URL)
	}
	return all
}

func (r *router) Apply(_ context.Context, c drill.Change) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.alive(); err != nil || r.lies {
		return err
	}
	if r.refuses {
		return errors.New("after 10s its list does not show the worker, although it answered the request with success")
	}
	for _, w := range c.Add {
		if !slices.ContainsFunc(r.workers, func(x drill.Worker) bool { return x.URL == w.URL }) {
			r.workers = append(r.workers, w)
		}
	}
	for _, u := range c.Remove {
		r.workers = slices.DeleteFunc(r.workers, func(w drill.Worker) bool { return w.URL == u })
		for _, o := range r.open {
			if r.cuts && o.worker == u {
				o.cut()
			}
		}
	}
	r.was = r.workers[0].URL
	return nil
}

func (r *router) Counters(context.Context) (map[string]drill.Count, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mute {
		return nil, drill.ErrNotCounted
	}
	all := map[string]drill.Count{}
	for u, c := range r.counts {
		all[u] = c
	}
	return all, r.alive()
}

func (r *router) CacheDecisions(context.Context) (hits, misses, blind uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hits, r.misses, r.unseen, r.alive()
}

// choose picks the worker of a request and counts it.
func (r *router) choose(c openai.CompletionRequest, cut context.CancelFunc) (worker drill.Worker, id int, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if len(r.workers) == 0 {
		return worker, r.asked, true
	}
	worker = r.workers[0]
	if r.sticky {
		worker.URL = r.first
	}
	prefix := worker.URL + " " + c.Prompt.Text[:min(20, len(c.Prompt.Text))] + fmt.Sprint(c.Prompt.IDs[:min(8, len(c.Prompt.IDs))])
	switch {
	case c.Prompt.IDs == nil && r.sees == drill.No:
		r.unseen++
	case r.known[prefix]:
		r.hits++
	default:
		r.misses++
	}
	r.known[prefix] = true
	count := r.counts[worker.URL]
	count.OK, count.Unit = count.OK+1, "attempts"
	r.counts[worker.URL] = count
	r.open[r.asked] = openRequest{worker.URL, cut}
	return worker, r.asked, r.dark != nil && r.dark(r.asked)
}

func (r *router) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	var c openai.CompletionRequest
	_ = json.Unmarshal(body, &c)
	ctx, cut := context.WithCancel(q.Context())
	defer cut()
	worker, id, refused := r.choose(c, cut)
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, id)
	}()
	if r.stalls != nil && r.stalls(id) {
		<-ctx.Done()
		return
	}
	if refused {
		http.Error(w, "no healthy worker", http.StatusBadGateway)
		return
	}
	if r.names {
		w.Header().Set("X-Drkit-Region", map[string]string{sourceURL: "us-east-1", targetURL: "eu-west-1"}[worker.URL])
	}
	if r.twice {
		first, err := http.NewRequestWithContext(ctx, q.Method, worker.URL+q.URL.Path, bytes.NewReader(body))
		if err == nil {
			var answer *http.Response
			if answer, err = r.lab.world.HTTP.Do(first); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
	}
	q = q.WithContext(ctx)
	q.Body = io.NopCloser(bytes.NewReader(body))
	u, _ := url.Parse(worker.URL)
	p := httputil.NewSingleHostReverseProxy(u)
	p.Transport, p.FlushInterval, p.ErrorLog = r.lab.world.HTTP.Transport, -1, log.New(io.Discard, "", 0)
	p.ServeHTTP(w, q)
}
