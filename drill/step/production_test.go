package step_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
	"drkit/drill/step"
	"drkit/drill/traffic"
	"drkit/internal/standin"
	"drkit/playbooks"
)

const (
	prodUS = "http://prod-us:8000"
	prodEU = "http://prod-eu:8000"
)

// plant is production: an engine in each region, and a router with two replicas in
// front of the one in the source.
type plant struct {
	lab     *lab
	us, eu  *engine
	stopUS  func()
	routers map[string]*prodRouter // replicas by admin address
	edge    *edge
}

// prodRouter is one replica of production's router, with faults.
type prodRouter struct {
	lab     *lab
	lies    bool   // acknowledges and does nothing
	sticky  bool   // lists the change and goes on sending as before
	down    bool   // cannot be asked, and serves nothing
	strange string // a worker more, of which nobody knows the region
	outside string // a region that its answers name
	blind   string // an engine that it cannot reach: it lists it, and not as healthy
	onApply func(drill.Change) error

	mu      sync.Mutex
	workers []drill.Worker
	first   string
	counts  map[string]drill.Count
	applied int
}

// real is the release's engine, loaded once: production's engines serve it.
var real = sync.OnceValues(func() (http.Handler, error) {
	e, err := standin.Load(models+"support-tiny", standin.LoadOptions{ServedModelNames: []string{"support"}, Adapters: []standin.Adapter{{Name: "billing", Dir: models + "support-tiny-billing"}}})
	if err != nil {
		return nil, err
	}
	return e.Handler(), nil
})

// livePlaybook is a planned or emergency run, up to its clean-up.
func livePlaybook(t *testing.T, mode string) playbooks.Playbook {
	p := playbooks.Playbook{Name: mode, Mode: mode}
	add := func(kind, with string) {
		s := playbooks.Step{ID: kind, Kind: kind, Text: kind, Timeout: 20 * time.Minute, OnTimeout: playbooks.Abort, When: playbooks.Passed}
		if with != "" {
			s.With = node(t, with)
		}
		p.Steps = append(p.Steps, s)
	}
	if mode == drill.ModeEmergency {
		add("preflight", "")
		add("declare", "")
		add("traffic", "{router: production, request_timeout: 5s}")
	} else {
		add("preflight", "")
		add("traffic", "{router: production}")
		add("declare", "")
	}
	for _, kind := range []string{"verify", "restore", "boot", "behaviour"} {
		add(kind, "")
	}
	add("cutover", "{router: production}")
	add("steady", "{router: production}")
	add("cleanup", "")
	p.Steps[len(p.Steps)-1].When = playbooks.Always
	return p
}

func (l *lab) production(mode string) *plant {
	h, err := real()
	if err != nil {
		l.t.Fatal(err)
	}
	p := &plant{lab: l, us: &engine{real: h}, eu: &engine{real: h}, routers: map[string]*prodRouter{}}
	if p.stopUS, err = l.net.Serve("prod-us:8000", p.us); err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.net.Serve("prod-eu:8000", p.eu); err != nil {
		l.t.Fatal(err)
	}
	l.playbook = livePlaybook(l.t, mode)
	l.start.Mode, l.world.Mode = mode, mode
	l.start.Approvals = []drill.Approval{{ID: "A1", Approver: "mei", Method: "ssh-ed25519", KeyID: "SHA256:mei", Record: 1, SHA256: "ab"}}
	l.world.Back = step.Back(l.playbook)
	l.world.Production = step.Production{Source: []string{prodUS}, Target: []string{prodEU}, OpenRouter: p.open, HTTP: l.world.HTTP,
		OpenEdge: func(step.EdgeAt) (step.Edge, error) { return p.edge, nil }}
	p.router("chat", []string{"us-chat"}, "http://router-0:30000", "http://router-1:30000")
	return p
}

// startUS brings the source's engine back.
func (p *plant) startUS() {
	stop, err := p.lab.net.Serve("prod-us:8000", p.us)
	if err != nil {
		p.lab.t.Fatal(err)
	}
	p.stopUS = stop
}

// router adds a router of production with its replicas.
func (p *plant) router(name string, serves []string, replicas ...string) {
	r := step.ProductionRouter{Name: name, Serves: serves}
	for _, admin := range replicas {
		r.Replicas = append(r.Replicas, step.RouterAt{Driver: "fake", Admin: admin})
		x := &prodRouter{lab: p.lab, first: prodUS, workers: []drill.Worker{{URL: prodUS, Health: drill.Yes}}, counts: map[string]drill.Count{}}
		p.routers[admin] = x
		if _, err := p.lab.net.Serve(strings.TrimPrefix(admin, "http://"), x); err != nil {
			p.lab.t.Fatal(err)
		}
	}
	p.lab.world.Production.Routers = append(p.lab.world.Production.Routers, r)
}

func (p *plant) open(at step.RouterAt) (drill.Router, error) {
	if r := p.routers[at.Admin]; r != nil && at.Driver == "fake" {
		return r, nil
	}
	return nil, fmt.Errorf("no router at %+v", at)
}

// wantWorkers checks what every replica lists, whatever the run says of it.
func (p *plant) wantWorkers(t *testing.T, want ...string) {
	t.Helper()
	for admin, r := range p.routers {
		if got := r.listed(); !slices.Equal(got, want) {
			t.Errorf("router %s lists %v, want %v", admin, got, want)
		}
	}
}

func (r *prodRouter) listed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, w := range r.workers {
		all = append(all, w.URL)
	}
	slices.Sort(all)
	return all
}

func (r *prodRouter) alive() error {
	if r.down {
		return errDown
	}
	return nil
}

func (r *prodRouter) Probe(context.Context) (drill.RouterInfo, error) {
	return drill.RouterInfo{Kind: "fake-router", Version: "1", SeesText: drill.Yes}, r.alive()
}

func (r *prodRouter) Workers(context.Context) ([]drill.Worker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.workers)
	if r.strange != "" {
		all = append(all, drill.Worker{URL: r.strange})
	}
	return all, r.alive()
}

func (r *prodRouter) Apply(_ context.Context, c drill.Change) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.alive(); err != nil || r.lies {
		return err
	}
	r.applied++
	for _, w := range c.Add {
		if !slices.ContainsFunc(r.workers, func(x drill.Worker) bool { return x.URL == w.URL }) {
			if w.Health = drill.Yes; w.URL == r.blind {
				w.Health = drill.No
			}
			r.workers = append(r.workers, w)
		}
		if w.URL == r.blind {
			return errors.New("the worker is in its list, but not as healthy")
		}
	}
	if r.onApply != nil {
		if err := r.onApply(c); err != nil {
			return err
		}
	}
	for _, u := range c.Remove {
		r.workers = slices.DeleteFunc(r.workers, func(w drill.Worker) bool { return w.URL == u })
	}
	return nil
}

func (r *prodRouter) Counters(context.Context) (map[string]drill.Count, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts), r.alive()
}

func (r *prodRouter) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	to := r.workers[0].URL
	if r.sticky {
		to = r.first
	}
	c := r.counts[to]
	c.OK++
	r.counts[to] = c
	r.mu.Unlock()
	if r.down {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	if r.outside != "" {
		w.Header().Set(traffic.HeaderRegion, r.outside)
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	u, _ := url.Parse(to)
	p := httputil.NewSingleHostReverseProxy(u)
	p.Transport, p.FlushInterval, p.ErrorLog = r.lab.world.HTTP.Transport, -1, log.New(io.Discard, "", 0)
	p.ServeHTTP(w, q)
}

// drilledLive runs a live drill in a bubble; nothing of the run is left but what
// stays on purpose.
func drilledLive(t *testing.T, mode string, arrange func(*lab, *plant), judge func(*lab, *plant, *drill.Run)) {
	t.Helper()
	t.Parallel()
	p := mustRelease(t)
	if _, err := real(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, p)
		prod := l.production(mode)
		arrange(l, prod)
		judge(l, prod, l.run())
		l.cancel(nil)
	})
}

// TestPlannedCutover: both replicas are moved, every request lands in the target, and
// the cutover stays; the canary that proved the copy is gone.
func TestPlannedCutover(t *testing.T) {
	drilledLive(t, drill.ModePlanned, func(*lab, *plant) {}, func(l *lab, p *plant, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		l.wantGone(run)
		p.wantWorkers(t, prodEU)
		wantGate(t, run, "cutover-attribution", drill.Passed, "0 failed after the drain", "us-east-1 +0; router counters")
		wantGate(t, run, "steady-attribution", drill.Passed)
		wantGate(t, run, "baseline", drill.Passed, "us-chat: ")
		if kept := run.Kept(); len(kept) != 1 || kept[0].What != "router chat of production (2 replicas): eu-west-1 in, us-east-1 out" {
			t.Errorf("kept: %+v", kept)
		}
		if ok, why := run.Proof(drill.ProofEdge); ok {
			t.Errorf("nobody looked at the edge: %s", why)
		}
		for admin, r := range p.routers { // drkit's own requests went through both
			if r.counts[prodEU].OK < 100 {
				t.Errorf("%s sent %d requests to the target", admin, r.counts[prodEU].OK)
			}
		}
		if len(run.Phases) == 0 || p.eu.done == 0 {
			t.Error("no canary was booted, or the target answered nothing")
		}
		var snapshot step.ProductionArgs
		if err := json.Unmarshal(run.Kept()[0].Undo.Args, &snapshot); err != nil || len(snapshot.Replicas) != 2 || !reflect.DeepEqual(snapshot.Replicas[1].Before, []step.Backed{{URL: prodUS, Region: "us-east-1"}}) {
			t.Errorf("snapshot %+v, %v", snapshot, err)
		}
	})
}

// edge is what moves users: a table, with faults.
type edge struct {
	now    step.Shares
	blind  bool   // shows what was, whatever was asked for
	drags  string // a class that it moves along
	silent string // a class that it says nothing of
	slow   int    // observations until it shows a change
	next   step.Shares
}

func (e *edge) Observe(context.Context) (step.Shares, error) {
	if e.slow--; e.slow <= 0 && e.next != nil {
		e.now, e.next = e.next, nil
	}
	all := maps.Clone(e.now)
	delete(all, e.silent)
	return all, nil
}

func (e *edge) Apply(_ context.Context, want step.Shares) error {
	if e.blind {
		return nil
	}
	e.next = maps.Clone(e.now)
	maps.Copy(e.next, want)
	if e.drags != "" {
		e.next[e.drags] = step.ByRegion{"eu-west-1": 1}
	}
	return nil
}
