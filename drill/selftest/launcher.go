package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"

	"drkit/drill"
	"drkit/drill/reach"
	"drkit/drill/routing/serve"
	"drkit/internal/pipenet"
	"drkit/internal/standin"
	"drkit/manifest/region"
)

// undoStop is the kind of undo that ends what the launcher below started.
const undoStop = "self-test.stop"

const (
	targetCanary = "target-canary"
	routerName   = "rehearsal-router"
)

// launcher starts replicas inside this process, on a network of its own.
type launcher struct {
	net    *pipenet.Network
	engine engine                                        // of the target
	router func(http.Handler) http.Handler               // around the reference router; nil: as it is
	answer func(http.ResponseWriter) http.ResponseWriter // around each answer of the router

	mu      sync.Mutex
	running map[string]*replica
}

// engine says how the target's canary differs from a sound one.
type engine struct {
	damage func(dir string) error          // to what was restored, before the engine reads it
	serves func(http.Handler) http.Handler // instead of the engine's own handler
	exits  bool                            // ends in its boot
}

func undoLaunch(_, name string) (drill.Undo, error) {
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
	if r == nil {
		return nil
	}
	return r.Stop(ctx)
}

// Launch starts an engine or the router; it is ready when it listens.
func (l *launcher) Launch(_ context.Context, s drill.Spec) (drill.Replica, error) {
	life, end := context.WithCancel(context.Background())
	r := &replica{launcher: l, name: s.Name, url: "http://" + s.Name + ":8000", exited: make(chan struct{}), life: life, cancel: end, log: &logBook{more: make(chan struct{})}}
	l.mu.Lock()
	l.running[s.Name] = r
	l.mu.Unlock()
	if s.Name == routerName {
		return r, l.startRouter(r, s)
	}
	go l.startEngine(r, s)
	return r, nil
}

// kill ends a replica as the system does.
func (l *launcher) kill(name string) {
	l.mu.Lock()
	r := l.running[name]
	l.mu.Unlock()
	if r != nil {
		r.end("signal: killed")
	}
}

// Find lists what still runs.
func (l *launcher) Find(context.Context, string) ([]drill.Replica, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []drill.Replica
	for _, r := range l.running {
		all = append(all, r)
	}
	return all, nil
}

func (l *launcher) startRouter(r *replica, s drill.Spec) error {
	router, err := serve.New(serve.Options{HealthEvery: 200 * time.Millisecond, Transport: l.net.Client().Transport, Version: "self-test",
		Workers: []serve.Worker{{URL: s.Values["worker"], Region: s.Values["worker_region"], Residency: region.Residency(s.Values["worker_residency"])}}})
	if err != nil {
		return err
	}
	go router.Run(r.life)
	var h http.Handler = router
	if l.router != nil {
		h = l.router(h)
	}
	if l.answer != nil {
		inner := h
		h = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { inner.ServeHTTP(l.answer(w), q) })
	}
	return r.listen(h)
}

// startEngine loads what was restored into the stand-in engine.
func (l *launcher) startEngine(r *replica, s drill.Spec) {
	var e engine
	if s.Name == targetCanary {
		e = l.engine
	}
	h, err := e.load(r, s)
	if err == nil && e.exits {
		err = fmt.Errorf("RuntimeError: Engine core initialization failed. See root cause above")
	}
	if err != nil {
		fmt.Fprintln(r.log, err)
		r.end("exit status 1")
		return
	}
	if e.serves != nil {
		h = e.serves(h)
	}
	if err := r.listen(h); err != nil {
		r.end(err.Error())
		return
	}
	fmt.Fprintln(r.log, "Application startup complete.")
}

func (e engine) load(r *replica, s drill.Spec) (http.Handler, error) {
	if e.damage != nil {
		if err := e.damage(s.Dir); err != nil {
			return nil, err
		}
	}
	o := standin.LoadOptions{ServedModelNames: []string{s.Served}, Log: r.log}
	for name, dir := range s.Adapters {
		o.Adapters = append(o.Adapters, standin.Adapter{Name: name, Dir: dir})
	}
	loaded, err := standin.Load(s.Model, o)
	if err != nil {
		return nil, err
	}
	return loaded.Handler(), nil
}

// replica is one engine or router of a case.
type replica struct {
	launcher  *launcher
	name, url string
	log       *logBook
	life      context.Context
	cancel    context.CancelFunc
	exited    chan struct{}

	mu    sync.Mutex
	state string
	close func()
}

func (r *replica) ID() string                                       { return r.name }
func (r *replica) Endpoint() string                                 { return r.url }
func (r *replica) Log(ctx context.Context) iter.Seq2[string, error] { return r.log.lines(ctx) }
func (r *replica) Exited() <-chan struct{}                          { return r.exited }

func (r *replica) ExitState() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Run stands for the probe that a drill runs inside a canary: it tries addresses on the
// network of the case.
func (r *replica) Run(ctx context.Context, argv []string) ([]byte, error) {
	found := reach.Result{Schema: reach.Schema, Self: true}
	for _, url := range argv[1:] {
		a := reach.Address{URL: url, HTTP: "not asked"}
		to, err := reach.HostPort(url)
		if err != nil {
			return nil, err
		}
		if conn, err := r.launcher.net.DialContext(ctx, "tcp", to); err != nil {
			a.Connect, a.HTTP = err.Error(), err.Error()
		} else if err := conn.Close(); err != nil {
			return nil, err
		}
		found.Tried = append(found.Tried, a)
	}
	return reach.Encode(found)
}

// Stop ends the replica and forgets it.
func (r *replica) Stop(context.Context) error {
	r.end("signal: terminated")
	r.launcher.mu.Lock()
	defer r.launcher.mu.Unlock()
	delete(r.launcher.running, r.name)
	return nil
}

func (r *replica) listen(h http.Handler) error {
	stop, err := r.launcher.net.Serve(strings.TrimPrefix(r.url, "http://"), h)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != "" {
		stop()
		return nil
	}
	r.close = stop
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
	stop := r.close
	r.mu.Unlock()
	r.cancel()
	if stop != nil {
		stop()
	}
	r.log.change(func() { r.log.ended = true })
	close(r.exited)
}

// logBook is a growing log that is written to as a process writes.
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

// Write takes whole lines.
func (b *logBook) Write(p []byte) (int, error) {
	b.change(func() {
		for line := range bytes.Lines(p) {
			b.all = append(b.all, strings.TrimSuffix(string(line), "\n"))
		}
	})
	return len(p), nil
}

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
