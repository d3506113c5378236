package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drkit/drill"
	"drkit/drill/launch/process"
	"drkit/drill/ledger"
	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/playbooks"
)

// stepFunc is a step that does one thing.
type stepFunc func(ctx context.Context, sc drill.Scope) error

func (stepFunc) Check(context.Context, playbooks.Step) []error { return nil }

func (f stepFunc) Do(ctx context.Context, _ playbooks.Step, sc drill.Scope) error { return f(ctx, sc) }

// heldRun is a run of a mode whose canary is a process that lives, and that was held
// after its cutover, as an emergency is.
func heldRun(t *testing.T, mode string) (dir, run string, l *process.Launcher) {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("there is no sleep to launch")
	}
	dir = t.TempDir()
	if err := writeService(dir); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	runs := filepath.Join(dir, ".drkit")
	run = ledger.NewID(now())
	l = &process.Launcher{Dir: filepath.Join(runs, "processes")}
	t.Cleanup(func() {
		found, _ := l.Find(context.Background(), run)
		for _, r := range found {
			_ = r.Stop(context.Background())
		}
	})
	j, err := ledger.Create(runs, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	router := drill.Undo{Kind: "router", Args: json.RawMessage(`{}`), Keep: drill.KeepHeld}
	rn := drill.Runner{Handlers: []drill.Handler{j}, Undo: undos(), Playbook: playbooks.Playbook{Name: "x", Mode: mode, Steps: []playbooks.Step{{ID: "boot", Kind: "boot"}, {ID: "cutover", Kind: "cutover"}, {ID: "wait", Kind: "wait"}}}}
	rn.Undo["router"] = func(context.Context, []byte) error { return nil }
	rn.Steps = map[string]drill.StepHandler{
		"boot": stepFunc(func(ctx context.Context, sc drill.Scope) error {
			u, err := undoLaunch(l)(run, "target-canary")
			u.Keep = drill.KeepWhileUsed
			return errors.Join(err, sc.Change(ctx, "canary target-canary", u, func(ctx context.Context) error {
				_, err := l.Launch(ctx, drill.Spec{Run: run, Name: "target-canary", Command: []string{sleep, "300"}, LogPath: filepath.Join(runs, "log")})
				return err
			}))
		}),
		"cutover": stepFunc(func(ctx context.Context, sc drill.Scope) error {
			return sc.Change(ctx, "router: eu in", router, func(context.Context) error { return nil })
		}),
		"wait": stepFunc(func(context.Context, drill.Scope) error { return drill.ErrPaused }),
	}
	start := drill.RunStarted{Service: "support", Mode: mode, Objectives: drill.Objectives{RTO: time.Minute}}
	if _, err := rn.Run(t.Context(), run, start); !errors.Is(err, drill.ErrPaused) {
		t.Fatal(err)
	}
	return runs, run, l
}

func TestAdoptTakesOver(t *testing.T) {
	dir, run, l := heldRun(t, drill.ModeEmergency)
	status, out, errs := execute(t, "drill", "adopt", run, "--by", "mei", "--output", "json")
	if status != errext.Holds || !strings.Contains(out, `"by": "mei"`) || !strings.Contains(out, "canary target-canary") {
		t.Fatalf("%d: %s%s", status, out, errs)
	}
	if l.AdoptedBy(run, "target-canary") != "mei" {
		t.Error("its mark is not changed")
	}
	r, err := ledger.LoadFile(ledger.Path(dir, run))
	if err != nil || r.Changes[0].Adopted != "mei" || r.Held == nil || len(r.Left()) != 1 {
		t.Errorf("%v %+v", err, r.Changes)
	}
	if status, out, errs := execute(t, "drill", "adopt", run); status != errext.Refused || !strings.Contains(errs, "taken over before") {
		t.Errorf("twice: %d %s%s", status, out, errs)
	}
	if status, out, errs := execute(t, "drill", "gc", "--yes"); status != errext.Holds || !strings.Contains(out, "keep     process target-canary") || !strings.Contains(out, "adopted by mei") {
		t.Errorf("gc: %d %s%s", status, out, errs)
	}
	// The router's undo is unknown to the program, so the abort is not clean; the canary stays.
	execute(t, "drill", "abort", run)
	if found, err := l.Find(t.Context(), run); err != nil || len(found) != 1 {
		t.Errorf("abort: %v %v", found, err)
	}
}

// TestAdoptRefuses: nothing was cut over, or nothing is there to take over.
func TestAdoptRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		mode, want string
		before     func(t *testing.T, dir, run string, l *process.Launcher)
	}{
		"a rehearsal": {drill.ModeRehearsal, "moves nothing of production", nil},
		"a dead canary": {drill.ModeEmergency, "does not run", func(t *testing.T, _, run string, l *process.Launcher) {
			found, err := l.Find(t.Context(), run)
			if err != nil || len(found) != 1 {
				t.Fatal(err)
			}
			if err := found[0].Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, run, l := heldRun(t, c.mode)
			if c.before != nil {
				c.before(t, dir, run, l)
			}
			if status, out, errs := execute(t, "drill", "adopt", run); status != errext.Refused || !strings.Contains(errs, c.want) {
				t.Errorf("%d: %s%s", status, out, errs)
			}
			if r, err := ledger.LoadFile(ledger.Path(dir, run)); err != nil || r.Changes[0].Adopted != "" {
				t.Errorf("%v %+v", err, r.Changes[0])
			}
		})
	}
	dir, run, _ := heldRun(t, drill.ModeEmergency)
	j, err := ledger.Open(dir, run, nil) // as its process does
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if status, _, errs := execute(t, "drill", "adopt", run); status != errext.Refused {
		t.Errorf("a run that lives: %d %s", status, errs)
	}
}

// routerAt is a reference router that lists one worker.
func routerAt(t *testing.T, worker string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"workers":[{"url":%q,"region":"eu-west-1","healthy":true}]}`, worker)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// describe names a router of the target in drkit.yaml of the working directory.
func describe(t *testing.T, admin string) {
	t.Helper()
	if err := replaceIn("drkit.yaml", "role: target", "role: target\n    routers: [{name: chat, driver: reference, replicas: [{admin: \""+admin+"\"}]}]"); err != nil {
		t.Fatal(err)
	}
}

// TestAdoptSaysWhoSends: adopt asks the routers now. What no router lists any more, as
// after a failback, serves nobody; what cannot be asked is not known.
func TestAdoptSaysWhoSends(t *testing.T) {
	canary := func(t *testing.T, run string, l *process.Launcher) string {
		found, err := l.Find(t.Context(), run)
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		return found[0].Endpoint()
	}
	for name, c := range map[string]struct {
		router func(t *testing.T, canary string) string // "": none is described
		status errext.Status
		want   string
	}{
		"a router sends":        {func(t *testing.T, canary string) string { return routerAt(t, canary) }, errext.Holds, "router chat of region eu-west-1"},
		"it was moved away":     {func(t *testing.T, _ string) string { return routerAt(t, "http://127.0.0.9:8000") }, errext.Refused, "serves nobody: no router of"},
		"it cannot be asked":    {func(*testing.T, string) string { return "http://127.0.0.1:1" }, errext.Holds, "is not known: router chat"},
		"no router is known of": {func(*testing.T, string) string { return "" }, errext.Holds, "describes no router"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, run, l := heldRun(t, drill.ModeEmergency)
			if admin := c.router(t, canary(t, run, l)); admin != "" {
				describe(t, admin)
			}
			status, out, errs := execute(t, "drill", "adopt", run, "--by", "mei")
			if status != c.status || !strings.Contains(out+errs, c.want) {
				t.Errorf("%d: %s%s", status, out, errs)
			}
			r, err := ledger.LoadFile(ledger.Path(dir, run))
			if adopted := err == nil && r.Changes[0].Owner() == "mei"; adopted != (c.status == errext.Holds) {
				t.Errorf("adopted %v, %v", adopted, err)
			}
			if status, out, errs := execute(t, "drill", "adopt", run, "--release"); status != errext.Refused || !strings.Contains(errs, "has not ended") {
				t.Errorf("released while it is held: %d %s%s", status, out, errs)
			}
		})
	}
}

// TestReleaseByAnotherService: the routers of another service's drkit.yaml say nothing of
// whom the run's canary serves.
func TestReleaseByAnotherService(t *testing.T) {
	_, run, l := heldRun(t, drill.ModeEmergency)
	describe(t, routerAt(t, "http://127.0.0.9:8000"))
	if err := os.Rename("drkit.yaml", "own.yaml"); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := execute(t, "drill", "adopt", run, "--run-dir", ".drkit", "--by", "mei"); status != errext.Holds {
		t.Fatalf("%d: %s%s", status, out, errs)
	}
	execute(t, "drill", "abort", run, "--run-dir", ".drkit")
	data, err := os.ReadFile("own.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("other.yaml", bytes.Replace(data, []byte("name: support"), []byte("name: search"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := execute(t, "drill", "adopt", run, "--release", "-f", "other.yaml"); status != errext.Refused || !strings.Contains(errs, "is of service support, and") {
		t.Errorf("another's: %d %s%s", status, out, errs)
	}
	if found, err := l.Find(t.Context(), run); err != nil || len(found) != 1 {
		t.Fatalf("it was stopped: %v %v", found, err)
	}
	if status, out, errs := execute(t, "drill", "adopt", run, "--release", "-f", "own.yaml"); !strings.Contains(out, "released  canary target-canary: it is gone") {
		t.Errorf("its own: %d %s%s", status, out, errs)
	}
}

// servingAt is something that runs, known by its address alone.
type servingAt struct {
	drill.Replica
	url string
}

func (s servingAt) Endpoint() string { return s.url }

// TestRoutedByACommand: a router that is driven by a script is asked like any other.
func TestRoutedByACommand(t *testing.T) {
	observe := filepath.Join(t.TempDir(), "observe")
	if err := os.WriteFile(observe, []byte("#!/bin/sh\necho '{\"version\":1,\"workers\":[{\"url\":\"http://10.0.0.7:8000\",\"region\":\"eu-west-1\",\"healthy\":true}]}'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	g := &collector{svc: &service.Service{Dir: filepath.Dir(observe), Regions: []service.Region{{Name: "eu-west-1", Routers: []service.Router{
		{Name: "chat", Driver: "command", Apply: []string{observe}, Observe: []string{observe}, Replicas: []service.RouterReplica{{Admin: "http://10.0.0.1:1"}}}}}}}}
	for url, want := range map[string]string{"http://10.0.0.7:8000": "router chat of region eu-west-1", "http://10.0.0.8:8000": ""} {
		if by, err := g.routed(t.Context(), servingAt{url: url}); err != nil || !strings.HasPrefix(by, want) || (by == "") != (want == "") {
			t.Errorf("%s: %q %v", url, by, err)
		}
	}
}

// TestAdoptOfAnUncleanEnd: what the end could not take back is told, with what to do; what
// an abort then leaves on purpose can be adopted, and the verdict stays.
func TestAdoptOfAnUncleanEnd(t *testing.T) {
	dir, run, l := heldRun(t, drill.ModeEmergency)
	execute(t, "drill", "abort", run, "--undo-cutover") // nobody knows how to undo the router
	load := func() *drill.Run {
		r, err := ledger.LoadFile(ledger.Path(dir, run))
		if err != nil || r.Finished == nil || r.Finished.Status != int(errext.Unclean) {
			t.Fatalf("%v %+v", err, r.Finished)
		}
		return r
	}
	load()
	if status, out, errs := execute(t, "drill", "adopt", run); status != errext.Refused || !strings.Contains(errs, "not proven to be taken back") || !strings.Contains(errs, "drkit drill abort "+run+" takes it back, or says why it stays") {
		t.Errorf("%d: %s%s", status, out, errs)
	}
	execute(t, "drill", "abort", run)
	if r := load(); len(r.Left()) > 0 || len(r.Kept()) != 2 || len(r.LeftAtEnd()) != 2 {
		t.Errorf("left %+v, kept %+v", r.Left(), r.Kept())
	}
	execute(t, "drill", "adopt", run, "--by", "mei")
	if r := load(); r.Changes[0].Owner() != "mei" || len(r.Kept()) != 1 || l.AdoptedBy(run, "target-canary") != "mei" {
		t.Errorf("%+v", r.Changes)
	}
}

// TestReceives: an engine that computes, one whose counters move and one that does not
// say are not collected; an idle and a dead one are.
func TestReceives(t *testing.T) {
	var n atomic.Int64
	page := func(running, moves int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			done := n.Add(1) * int64(moves)
			fmt.Fprintf(w, "vllm:num_requests_running %d\nvllm:num_requests_waiting 0\nvllm:prompt_tokens_total %d\nvllm:generation_tokens_total 0\n", running, done)
		}
	}
	g := &collector{svc: &service.Service{}}
	for name, c := range map[string]struct {
		page http.HandlerFunc
		want string
	}{
		"idle":      {page(0, 0), ""},
		"computes":  {page(2, 0), "computes 2 requests"},
		"moves":     {page(0, 1), "counters move"},
		"no series": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "up 1") }, "does not say what it computes"},
		"below 0": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "vllm:num_requests_running -1\nvllm:num_requests_waiting 1\nvllm:prompt_tokens_total 0\nvllm:generation_tokens_total 0")
		}, "no count can be"},
		"no page": {http.NotFound, "does not say what it computes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(c.page)
			defer srv.Close()
			if got := g.computes(t.Context(), srv.URL); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	srv := httptest.NewServer(http.NotFoundHandler())
	dead := srv.URL
	srv.Close()
	if got := g.computes(t.Context(), dead); got != "" {
		t.Errorf("dead: %q", got)
	}
	if !sameEndpoint("http://localhost:80/", "http://127.0.0.1") || sameEndpoint("http://127.0.0.1:8000", "http://127.0.0.1:8001") || sameEndpoint("", "") {
		t.Error("endpoints are compared by their text")
	}
}
