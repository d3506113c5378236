package step_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
	"drkit/drill/step"
	"drkit/internal/errext"
	"drkit/internal/pipenet"
	"drkit/internal/redact"
	"drkit/playbooks"
)

// own is a playbook of own steps and the world that they run in.
type own struct {
	t       *testing.T
	world   *step.World
	env     map[string]string
	journal *journal
	stopped []string // processes that an undo ended, by name
	ctx     context.Context
}

func newOwn(t *testing.T) *own {
	t.Helper()
	o := &own{t: t, env: map[string]string{"PATH": os.Getenv("PATH")}, journal: &journal{}, ctx: t.Context()}
	o.world = &step.World{
		Service: "support-chat", Source: step.Region{Name: "us"}, Target: step.Region{Name: "eu"}, Dir: t.TempDir(), Redact: redact.New(),
		LookupEnv: func(name string) (string, bool) { v, ok := o.env[name]; return v, ok },
		UndoCommand: func(_, name string) (drill.Undo, error) {
			args, err := json.Marshal(name)
			return drill.Undo{Kind: undoStop, Args: args}, err
		},
	}
	return o
}

func (o *own) undos() map[string]drill.UndoFunc {
	all := step.Undos(nil)
	all[undoStop] = func(_ context.Context, args []byte) error { o.stopped = append(o.stopped, string(args)); return nil }
	return all
}

// load reads steps, each given as YAML of the flow style, without what all have.
func (o *own) load(steps ...string) (playbooks.Playbook, error) {
	var b strings.Builder
	b.WriteString("apiVersion: drkit/v1\nkind: Playbook\nmetadata: {name: own}\nsteps:\n")
	for _, s := range steps {
		if !strings.Contains(s, ", timeout:") {
			s += ", timeout: 1m"
		}
		b.WriteString("  - {text: Own., " + s + "}\n")
	}
	return playbooks.LoadChecked([]byte(b.String()), "own.yaml", step.CheckStep, step.KindNames()...)
}

// run runs the steps and returns the run and the runner's error.
func (o *own) run(steps ...string) (*drill.Run, error) {
	o.t.Helper()
	p, err := o.load(steps...)
	if err != nil {
		o.t.Fatal(err)
	}
	r := drill.Runner{Playbook: p, Handlers: []drill.Handler{o.journal}, Steps: step.Kinds(o.world), Undo: o.undos()}
	return r.Run(o.ctx, "R1", drill.RunStarted{Objectives: drill.Objectives{RTO: time.Hour, MustProve: []string{drill.ProofCopy}}})
}

// want runs one step and checks its result and its gate.
func (o *own) want(stepYAML, stepResult, gateID, gateResult string, words ...string) *drill.Run {
	o.t.Helper()
	run, err := o.run(stepYAML)
	if err != nil {
		o.t.Fatal(err)
	}
	if got := run.Steps[0].Result; got != stepResult {
		o.t.Errorf("%s: the step is %s (%s), want %s; %s", stepYAML, got, run.Steps[0].Error, stepResult, reasons(run))
	}
	if gateID != "" {
		wantGate(o.t, run, gateID, gateResult, words...)
	}
	return run
}

// everything is all that the run journaled, as text.
func (o *own) everything() string {
	all, err := json.Marshal(o.journal.events)
	if err != nil {
		o.t.Fatal(err)
	}
	return string(all)
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, step, result, gate string
		observed                 []string
	}{
		{"succeeds", `command: [sh, -c, "echo done"]`, drill.Passed, drill.Passed, []string{"exit status 0"}},
		{"fails", `command: [sh, -c, "echo first; echo disk is full >&2; exit 3"]`, drill.Failed, drill.Failed, []string{"exit status 3", "disk is full"}},
		{"fails as expected", `command: [sh, -c, "exit 3"], exit: 3`, drill.Passed, drill.Passed, []string{"exit status 3"}},
		{"succeeds unexpectedly", `command: [sh, -c, "exit 0"], exit: 3`, drill.Failed, drill.Failed, []string{"exit status 0"}},
		{"prints the text", `command: [sh, -c, "echo promoted: yes"], stdout: "promoted: yes"`, drill.Passed, drill.Passed, nil},
		{"prints another text", `command: [sh, -c, "echo promoted: no"], stdout: "promoted: yes"`, drill.Failed, drill.Failed, []string{"exit status 0", "the text is not in its output", "promoted: no"}},
		{"prints it as an error only", `command: [sh, -c, "echo yes >&2"], stdout: "yes"`, drill.Failed, drill.Failed, nil},
		{"is killed", `command: [sh, -c, "kill -9 $$"]`, drill.Failed, drill.Failed, []string{"signal: killed"}},
		{"is killed where a failure is wanted", `command: [sh, -c, "kill -9 $$"], exit: 137`, drill.Failed, drill.Failed, []string{"signal: killed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := newOwn(t).want("id: x, kind: run, with: {"+c.step+"}", c.result, "run:x", c.gate, c.observed...)
			if want := errext.Gate; run.Finished.Verdict == drill.Recovered || run.Finished.Status != int(want) { // nothing else was proven
				t.Errorf("verdict %s, status %d", run.Finished.Verdict, run.Finished.Status)
			}
		})
	}
}

// TestRunGetsWhatIsListed: nothing of drkit's environment but PATH and what the
// playbook names; commands run in drkit.yaml's folder.
func TestRunGetsWhatIsListed(t *testing.T) {
	o := newOwn(t)
	for name, v := range map[string]string{"LISTED": "one", "HIDDEN": "two", "DB_PASS": "correct-horse"} {
		o.env[name] = v
		t.Setenv(name, v)
	}
	if err := os.WriteFile(filepath.Join(o.world.Dir, "show.sh"), []byte("#!/bin/sh\nenv | sort > env.txt\npwd > dir.txt\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	o.want("id: x, kind: run, with: {command: [./show.sh], env: [LISTED], secrets: [DB_PASS], set: {COLOUR: blue}}", drill.Passed, "run:x", drill.Passed)
	data, err := os.ReadFile(filepath.Join(o.world.Dir, "env.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(data)) {
		name, _, _ := strings.Cut(line, "=")
		if !slices.Contains([]string{"_", "PWD", "OLDPWD", "SHLVL"}, name) { // the shell's own
			got = append(got, strings.TrimSpace(line))
		}
	}
	want := []string{"COLOUR=blue", "DB_PASS=correct-horse", "DRKIT_REPLICA=step-x", "DRKIT_RUN=R1", "LISTED=one", "PATH=" + os.Getenv("PATH")}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("environment %q", got)
	}
	dir, err := os.ReadFile(filepath.Join(o.world.Dir, "dir.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if wantDir, _ := filepath.EvalSymlinks(o.world.Dir); strings.TrimSpace(string(dir)) != wantDir {
		t.Errorf("ran in %s", dir)
	}
}

// TestRunOutput: its beginning and its end are journaled, and no secret is.
func TestRunOutput(t *testing.T) {
	o := newOwn(t)
	o.env["DB_PASS"] = "correct-horse\nbattery-staple"
	run := o.want(`id: x, kind: run, with: {command: [sh, -c, "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); echo line $i; done; printf %s \"$DB_PASS\"; exit 1"], secrets: [DB_PASS]}`,
		drill.Failed, "run:x", drill.Failed, "exit status 1", "[redacted]")
	all := o.everything()
	for _, secret := range []string{"correct-horse", "battery-staple"} {
		if strings.Contains(all, secret) {
			t.Errorf("%s is in the journal", secret)
		}
	}
	var lines []string
	for _, e := range o.journal.events {
		var l drill.Log
		if e.Type == drill.TypeLog && json.Unmarshal(e.Data, &l) == nil && l.From == "x" {
			lines = append(lines, l.Line)
		}
	}
	// 1000 lines and what has no end: 200 at the beginning, 50 at the end, a word between.
	if n := len(lines); n < 251 || n > 252 || lines[0] != "line 1" || lines[199] != "line 200" || !strings.Contains(lines[200], "lines are not in the journal") || lines[n-1] != "[redacted]" {
		t.Errorf("%d lines: %q … %q", len(lines), lines[:1], lines[len(lines)-2:])
	}
	if run.Finished.Verdict != drill.NotRecovered {
		t.Errorf("verdict %s", run.Finished.Verdict)
	}
	if o.world.Redact.String("a battery-staple") != "a [redacted]" {
		t.Error("the secret is not known to drkit's redactor")
	}
}

// TestRunTimeout: a command that does not end is ended with everything it started.
func TestRunTimeout(t *testing.T) {
	t.Parallel()
	for timeout := 500 * time.Millisecond; ; timeout *= 2 {
		o := newOwn(t)
		p, err := o.load(`id: x, kind: run, with: {command: [sh, -c, "trap '' TERM; sleep 1000 & echo $! > pid; wait; sleep 1000"]}`)
		if err != nil {
			t.Fatal(err)
		}
		p.Steps[0].Timeout = timeout
		r := drill.Runner{Playbook: p, Handlers: []drill.Handler{o.journal}, Steps: step.Kinds(o.world), Undo: o.undos()}
		run, err := r.Run(t.Context(), "R1", drill.RunStarted{Objectives: drill.Objectives{RTO: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		wantGate(t, run, "run:x", drill.Failed, "ran out of its time of "+timeout.String())
		if run.Steps[0].Result != drill.Failed || run.Finished.Verdict != drill.NotRecovered {
			t.Errorf("step %s, verdict %s", run.Steps[0].Result, run.Finished.Verdict)
		}
		if !slices.Equal(o.stopped, []string{`"step-x"`}) {
			t.Errorf("ended by their label: %q", o.stopped)
		}
		data, err := os.ReadFile(filepath.Join(o.world.Dir, "pid"))
		child, bad := strconv.Atoi(strings.TrimSpace(string(data)))
		switch {
		case err == nil && bad == nil:
			wantEnded(t, child)
			return
		case timeout > time.Minute:
			t.Fatal("the command did not begin")
		} // else the machine was too busy to begin it in that time
	}
}

// wantEnded waits until a process is gone; one that nobody reaps counts as gone.
func wantEnded(t *testing.T, pid int) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if syscall.Kill(pid, 0) != nil || err == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("process %d lives", pid)
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// TestRunLeavesNothing: what holds the output of a command that has ended is ended.
func TestRunLeavesNothing(t *testing.T) {
	t.Parallel()
	o := newOwn(t)
	run := o.want(`id: x, kind: run, with: {command: [sh, -c, "sleep 1000 & echo $! > pid"]}`, drill.Passed, "run:x", drill.Passed)
	if !slices.ContainsFunc(run.Notes, func(n string) bool { return strings.Contains(n, "left processes behind") }) {
		t.Errorf("notes %q", run.Notes)
	}
	data, err := os.ReadFile(filepath.Join(o.world.Dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	wantEnded(t, pid)
}

func TestRunIsRefused(t *testing.T) {
	o := newOwn(t)
	o.env["SHORT"], o.env["EMPTY"] = "secret", ""
	for with, word := range map[string]string{
		`command: [no-such-program]`:                          "no-such-program is not found in PATH",
		`command: [./missing.sh]`:                             "missing.sh is not there",
		`command: [sh], undo: [./undo.sh]`:                    "undo.sh is not there",
		`command: [sh], check: [./check.sh]`:                  "check.sh is not there",
		`command: [sh], dir: nowhere`:                         "nowhere is not there",
		`command: [sh], env: [NOT_THERE]`:                     "NOT_THERE is not set",
		`command: [sh], env: [EMPTY]`:                         "EMPTY is not set",
		`command: [sh], secrets: [SHORT]`:                     "shorter than 8 bytes",
		`command: [sh], dir: nowhere, env: [NOT_THERE, GONE]`: "GONE is not set",
	} {
		run, err := o.run("id: x, kind: run, with: {" + with + "}")
		if err != nil {
			t.Fatal(err)
		}
		if run.Finished.Verdict != drill.Refused || run.Finished.Status != int(errext.Refused) {
			t.Errorf("%s: %s (%d)", with, run.Finished.Verdict, run.Finished.Status)
		}
		wantReason(t, run, word)
	}
}

// TestRunNamesEachProblemOnce: command, check and undo get the same variables, and one
// that is not set is one problem.
func TestRunNamesEachProblemOnce(t *testing.T) {
	o := newOwn(t)
	run, err := o.run(`id: x, kind: run, with: {command: [sh], check: [sh], undo: [no-such-program], env: [NOT_THERE, GONE]}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`command "sh": the environment variable NOT_THERE is not set`,
		`command "sh": the environment variable GONE is not set`,
		`command "no-such-program": the program no-such-program is not found in PATH`,
	}
	var got []string
	for _, p := range run.Problems {
		got = append(got, p.What)
		if p.Hint == "" {
			t.Errorf("%s: no hint", p.What)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("problems %q, want %q", got, want)
	}
}

// TestRunUndo: the undo runs after a failure too, from its journaled arguments; one
// that does not end well leaves the run unclean.
func TestRunUndo(t *testing.T) {
	for _, c := range []struct {
		name, command, undo string
		status              errext.Status
		left                int
	}{
		{"succeeds", "echo on > state", "echo off > state", errext.Gate, 0},
		{"fails half-way", "echo on > state; exit 1", "echo off > state", errext.Gate, 0},
		{"cannot be undone", "echo on > state", "echo the lease is gone; exit 4", errext.Unclean, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOwn(t)
			o.env["DB_PASS"] = "correct-horse"
			t.Setenv("DB_PASS", "correct-horse") // the undo's own process has its own environment
			run, err := o.run(`id: x, kind: run, with: {command: [sh, -c, "` + c.command + `"], undo: [sh, -c, "` + c.undo + `; echo $DB_PASS"], secrets: [DB_PASS]}`)
			if err != nil {
				t.Fatal(err)
			}
			if run.Finished.Status != int(c.status) || len(run.Left()) != c.left {
				t.Errorf("status %d, left %d: %s", run.Finished.Status, len(run.Left()), reasons(run))
			}
			if c.left > 0 {
				wantReason(t, run, "undo of step x", "exit status 4", "the lease is gone")
			} else if state, _ := os.ReadFile(filepath.Join(o.world.Dir, "state")); string(state) != "off\n" {
				t.Errorf("state %q", state)
			}
			if strings.Contains(o.everything(), "correct-horse") {
				t.Error("the secret is in the journal")
			}
		})
	}
}

// TestRunUndoHoldsASecret: what another process could not take back from the journal is
// refused before anything runs, and its words are not told.
func TestRunUndoHoldsASecret(t *testing.T) {
	for _, with := range []string{
		`undo: [sh, -c, "release --as=correct-horse"], secrets: [DB_PASS]`,
		`undo: [sh, -c, "release"], set: {AS: correct-horse}, secrets: [DB_PASS]`,
	} {
		o := newOwn(t)
		o.env["DB_PASS"] = "correct-horse"
		run, err := o.run(`id: x, kind: run, with: {command: [sh, -c, "echo on > state"], ` + with + `}`)
		if err != nil {
			t.Fatal(err)
		}
		if run.Finished.Status != int(errext.Refused) {
			t.Errorf("status %d: %s", run.Finished.Status, reasons(run))
		}
		wantReason(t, run, "holds a secret", "after a kill -9")
		if _, err := os.Stat(filepath.Join(o.world.Dir, "state")); err == nil {
			t.Error("the command ran")
		}
		if strings.Contains(o.everything(), "correct-horse") {
			t.Error("the secret is in the journal")
		}
	}
}

// TestRunUndoByAnotherProcess: after a kill the journal is all that is left.
func TestRunUndoByAnotherProcess(t *testing.T) {
	o := newOwn(t)
	if _, err := o.run(`id: x, kind: run, with: {command: [sh, -c, "echo on > state"], undo: [sh, -c, "echo $COLOUR > state"], set: {COLOUR: blue}}`); err != nil {
		t.Fatal(err)
	}
	for n, e := range o.journal.events { // as far as the step's end
		if e.Type == drill.TypeStepFinished {
			o.journal.events = o.journal.events[:n]
			break
		}
	}
	if err := os.WriteFile(filepath.Join(o.world.Dir, "state"), []byte("on"), 0o644); err != nil {
		t.Fatal(err)
	}
	run, err := drill.Abort(t.Context(), o.journal, "kim", o.undos())
	if err != nil || run.Finished.Verdict != drill.Aborted || len(run.Left()) > 0 {
		t.Fatalf("%v, left %v", err, run.Left())
	}
	if state, _ := os.ReadFile(filepath.Join(o.world.Dir, "state")); string(state) != "blue\n" {
		t.Errorf("state %q", state)
	}
}

func TestHTTP(t *testing.T) {
	var mu sync.Mutex
	var seen []*http.Request
	var bodies []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b strings.Builder
		_, _ = b.WriteString(readBody(r))
		mu.Lock()
		seen, bodies = append(seen, r), append(bodies, b.String())
		mu.Unlock()
		switch r.URL.Path {
		case "/ready":
			_, _ = w.Write([]byte(`{"status": {"ready": true, "replicas": 3, "name": "eu", "note": null}, "list": [{"id": 1.50}, {"id": "1"}]}`))
		case "/elsewhere":
			http.Redirect(w, r, "/ready", http.StatusFound)
		case "/echo":
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte("no entry for " + r.Header.Get("Authorization")))
		case "/big":
			_, _ = w.Write([]byte(strings.Repeat("a", 2<<20)))
			_, _ = w.Write([]byte("ready"))
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("ready"))
		case "/made":
			w.WriteHeader(http.StatusCreated)
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	for _, c := range []struct{ with, result, observed string }{
		{`url: U/ready`, drill.Passed, "status 200"},
		{`url: U/ready, contains: '"replicas": 3'`, drill.Passed, ""},
		{`url: U/ready, contains: '"replicas": 4'`, drill.Failed, "the text is not in the answer"},
		{`url: U/ready, json: {status.ready: true, status.replicas: 3, status.name: eu, status.note: null, list.0.id: 1.5, list.1.id: "1"}`, drill.Passed, ""},
		{`url: U/ready, json: {status.ready: "true"}`, drill.Failed, "status.ready is true, not true"}, // text is no truth value
		{`url: U/ready, json: {status.replicas: 2}`, drill.Failed, "status.replicas is 3, not 2"},
		{`url: U/ready, json: {status.replicas: 3e0}`, drill.Passed, ""},
		{`url: U/ready, json: {status.replicas: 1e999999999}`, drill.Failed, "status.replicas is 3"},
		{`url: U/ready, json: {status.replicas: .inf}`, drill.Failed, "status.replicas is 3"},
		{`url: U/ready, json: {status.replicas: "3"}`, drill.Failed, "status.replicas is 3"},
		{`url: U/ready, json: {list.1.id: 1}`, drill.Failed, `list.1.id is "1", not 1`},
		{`url: U/ready, json: {list.2.id: 1}`, drill.Failed, "list.2.id is not there"},
		{`url: U/ready, json: {status.nothing: null}`, drill.Failed, "status.nothing is not there"},
		{`url: U/ready, json: {status: null}`, drill.Failed, "status is {"},
		{`url: U/nothing`, drill.Failed, "status 404"},
		{`url: U/nothing, status: [404]`, drill.Passed, "status 404"},
		{`url: U/made`, drill.Failed, "status 201"},
		{`url: U/made, method: POST, body: x, status: [200, 201]`, drill.Passed, "status 201"},
		{`url: U/elsewhere`, drill.Failed, "status 302"},
		{`url: U/big, contains: ready`, drill.Failed, "in the answer's first 1048576 bytes"},
		{`url: U/cut`, drill.Failed, "no answer: unexpected EOF"},
		{`url: U/nothing, status: [404], json: {a: 1}`, drill.Failed, "the answer is not JSON"},
		{`url: "http://127.0.0.1:1/"`, drill.Failed, "connection refused"},
	} {
		o := newOwn(t)
		o.world.Web = s.Client()
		o.want("id: x, kind: http, with: {"+strings.ReplaceAll(c.with, "U/", s.URL+"/")+"}", c.result, "http:x", c.result, c.observed)
	}

	// Headers and URLs from the environment are used, and stay out of the journal.
	o := newOwn(t)
	o.world.Web = s.Client()
	o.env["API_AUTH"], o.env["STATUS_URL"] = "Bearer zw9f-77-long-token", s.URL+"/echo?key=topsecretkey"
	o.want(`id: x, kind: http, with: {url_env: STATUS_URL, method: PUT, body: hello, headers: {X-Team: sre}, headers_env: {Authorization: API_AUTH}}`, drill.Failed, "http:x", drill.Failed, "status 403", "no entry for [redacted]")
	last, body := seen[len(seen)-1], bodies[len(bodies)-1]
	if last.Header.Get("Authorization") != "Bearer zw9f-77-long-token" || last.Header.Get("X-Team") != "sre" || last.URL.RawQuery != "key=topsecretkey" || last.Method != "PUT" || body != "hello" {
		t.Errorf("sent %s %s %v %q", last.Method, last.URL, last.Header, body)
	}
	o.env["STATUS_URL"] = "http://127.0.0.1:1/?key=topsecretkey"
	o.want(`id: x, kind: http, with: {url_env: STATUS_URL}`, drill.Failed, "http:x", drill.Failed, "connection refused")
	for _, secret := range []string{"zw9f", "topsecretkey"} {
		if strings.Contains(o.everything(), secret) {
			t.Errorf("%s is in the journal", secret)
		}
	}
}

func readBody(r *http.Request) string {
	var b strings.Builder
	buf := make([]byte, 1<<10)
	for {
		n, err := r.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String()
		}
	}
}

func TestHTTPIsRefused(t *testing.T) {
	o := newOwn(t)
	o.env["SHORT"], o.env["NOT_A_URL"], o.env["LINES"] = "x", "ftp://elsewhere.example/", "Bearer\nlong enough"
	for with, word := range map[string]string{
		`url_env: GONE`:      "GONE is not set",
		`url_env: NOT_A_URL`: "is not an http or https URL",
		`url: "http://127.0.0.1/", headers_env: {Authorization: SHORT}`: "shorter than 8 bytes",
		`url: "http://127.0.0.1/", headers_env: {Authorization: LINES}`: "more than one line",
	} {
		run, err := o.run("id: x, kind: http, with: {" + with + "}")
		if err != nil {
			t.Fatal(err)
		}
		if run.Finished.Verdict != drill.Refused {
			t.Errorf("%s: %s", with, run.Finished.Verdict)
		}
		wantReason(t, run, word)
	}
}

// TestSecretsAreTakenOutBeforeTextsAreCut: a server that sends a secret back where the
// text is cut, or where quoting changes it.
func TestSecretsAreTakenOutBeforeTextsAreCut(t *testing.T) {
	const secret = `Abcdefgh"ijkl\mnopqrstuvwxyz0123456789-this-is-a-long-secret-0123456`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent := r.Header.Get("Authorization")
		if r.URL.Path == "/json" {
			_ = json.NewEncoder(w).Encode(map[string]string{"a": strings.Repeat("x", 60) + sent})
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(strings.Repeat("x", 140) + sent))
	}))
	defer s.Close()
	for _, with := range []string{"url: " + s.URL, "url: " + s.URL + "/json, json: {a: z}"} {
		o := newOwn(t)
		o.env["API_AUTH"] = secret
		run, err := o.run("id: x, kind: http, with: {" + with + ", headers_env: {Authorization: API_AUTH}}")
		if err != nil {
			t.Fatal(err)
		}
		told, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		for _, piece := range []string{"Abcdefgh", "ijkl", "mnopqrst", "long-secret"} {
			if strings.Contains(string(told), piece) {
				t.Errorf("%s: %q was told", with, piece)
			}
		}
		if !strings.Contains(string(told), "redacted") {
			t.Errorf("%s: nothing was taken out: the server was not asked", with)
		}
	}
}

// TestHangingHTTP: an answer that does not come is red after its own time, in a
// step that has more.
func TestHangingHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwn(t)
		var net pipenet.Network
		defer net.Close()
		if _, err := net.Serve("hangs:80", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })); err != nil {
			t.Fatal(err)
		}
		o.world.Web = net.Client()
		began := time.Now()
		o.want(`id: x, kind: http, with: {url: "http://hangs/", within: 7s}`, drill.Failed, "http:x", drill.Failed, "no whole answer within 7s")
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwn(t)
		began := time.Now()
		o.want(`id: x, kind: wait, with: {for: 90s}, timeout: 2m`, drill.Passed, "", "")
		if took := time.Since(began); took != 90*time.Second {
			t.Errorf("waited %v", took)
		}
	})
	// An answer that comes about at the fourth try, after 3 x 10 s.
	synctest.Test(t, func(t *testing.T) {
		o := newOwn(t)
		var net pipenet.Network
		defer net.Close()
		asked := 0
		if _, err := net.Serve("late:80", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked < 4 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})); err != nil {
			t.Fatal(err)
		}
		o.world.Web = net.Client()
		o.want(`id: x, kind: wait, with: {http: {url: "http://late/"}, every: 10s}`, drill.Passed, "wait:x", drill.Passed, "status 200", "try 4, after 30s")
	})
	// One that never does: red with what was seen last, and late.
	synctest.Test(t, func(t *testing.T) {
		o := newOwn(t)
		var net pipenet.Network
		defer net.Close()
		if _, err := net.Serve("never:80", http.NotFoundHandler()); err != nil {
			t.Fatal(err)
		}
		o.world.Web = net.Client()
		run := o.want(`id: x, kind: wait, with: {http: {url: "http://never/"}, every: 10s}, timeout: 35s`, drill.Failed, "wait:x", drill.Failed, "status 404", "try 4, after 35s")
		if run.Finished.Verdict != drill.NotRecovered {
			t.Errorf("verdict %s", run.Finished.Verdict)
		}
	})
}

// TestWaitForACommand: a file that the third try finds; one that is never there.
func TestWaitForACommand(t *testing.T) {
	o := newOwn(t)
	run := o.want(`id: x, kind: wait, with: {run: {command: [sh, -c, "echo . >> tries; test $(wc -l < tries) -ge 3"]}, every: 100ms}`, drill.Passed, "wait:x", drill.Passed, "exit status 0", "try 3")
	if len(run.Changes) != 1 || !slices.Equal(o.stopped, []string{`"step-x"`}) {
		t.Errorf("changes %+v, ended %q", run.Changes, o.stopped)
	}
	o = newOwn(t)
	p, err := o.load(`id: x, kind: wait, with: {run: {command: [sh, -c, "sleep 1000"]}, every: 100ms, within: 200ms}`)
	if err != nil {
		t.Fatal(err)
	}
	p.Steps[0].Timeout = 700 * time.Millisecond
	r := drill.Runner{Playbook: p, Handlers: []drill.Handler{o.journal}, Steps: step.Kinds(o.world), Undo: o.undos()}
	if run, err = r.Run(t.Context(), "R1", drill.RunStarted{Objectives: drill.Objectives{RTO: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	wantGate(t, run, "wait:x", drill.Failed, "the command was ended")
}

func TestHuman(t *testing.T) {
	const ask = "id: call, kind: human, who: on-call, timeout: 1h, on_timeout: hold"
	// Somebody is there and says so after ten minutes.
	synctest.Test(t, func(t *testing.T) {
		o := newOwn(t)
		o.world.People = &step.People{Here: true}
		o.world.People.Give("other", step.Ack{By: "bob", Via: "screen"}) // not this step's
		time.AfterFunc(10*time.Minute, func() { o.world.People.Give("call", step.Ack{By: "alice", Via: "screen"}) })
		run := o.want(ask, drill.Passed, "human:call", drill.Passed, "alice said so, 10m0s after")
		if len(run.Asked) != 1 || run.Asked[0].By != "alice" || run.Asked[0].Who != "on-call" || run.Asked[0].Via != "screen" || run.Asked[0].Waited().Elapsed != 10*time.Minute {
			t.Errorf("asked %+v", run.Asked)
		}
	})
	// Nobody answers: the run is held, and nothing is judged.
	synctest.Test(t, func(t *testing.T) {
		o := newOwn(t)
		o.world.People = &step.People{Here: true}
		run, err := o.run(ask)
		if errext.StatusOf(err) != errext.Paused || run.Held == nil || run.Finished != nil || len(run.Gates) > 0 || run.Held.For != "on-call" {
			t.Errorf("%v, held %+v, gates %v", err, run.Held, run.Gates)
		}
		if run.Asked[0].By != "" || run.Asked[0].Waited().Measured {
			t.Errorf("asked %+v", run.Asked)
		}
	})
	// Nobody answers, and the playbook says abort: red, not passed.
	synctest.Test(t, func(t *testing.T) {
		o := newOwn(t)
		o.world.People = &step.People{Here: true}
		run := o.want(strings.ReplaceAll(ask, "hold", "abort"), drill.Failed, "", "")
		if run.Finished.Verdict != drill.NotRecovered {
			t.Errorf("verdict %s", run.Finished.Verdict)
		}
	})
	// Nobody is there: held at once, with the command that goes on.
	o := newOwn(t)
	run, err := o.run(ask)
	if errext.StatusOf(err) != errext.Paused || run.Held == nil || run.Held.Next != "drkit drill resume R1 --ack call --by NAME" || run.Held.Step != "call" {
		t.Errorf("%v, held %+v", err, run.Held)
	}
	// An acknowledgement that was given before it is reached counts once, by name only.
	o = newOwn(t)
	o.world.People = &step.People{}
	o.world.People.Give("call", step.Ack{By: "carol", Via: "command line"})
	o.want(ask, drill.Passed, "human:call", drill.Passed, "carol said so")
	if _, err = o.run(ask); errext.StatusOf(err) != errext.Paused {
		t.Errorf("given once, counted twice: %v", err)
	}
	o.world.People.Give("call", step.Ack{Via: "command line"})
	if run, err = o.run(ask); err != nil || run.Steps[0].Result != drill.Failed {
		t.Errorf("an acknowledgement of nobody: %v, %+v", err, run.Steps[0])
	}
}

func TestNotify(t *testing.T) {
	var mu sync.Mutex
	var got []string
	answer := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+readBody(r))
		w.WriteHeader(answer)
		_, _ = w.Write([]byte("no_service at " + r.URL.Path))
	}))
	defer s.Close()
	fresh := func(mode string) *own {
		o := newOwn(t)
		o.world.Web, o.world.Mode = s.Client(), mode
		o.env["HOOK"] = s.URL + "/services/T0/B0/verysecretpart"
		return o
	}
	const tell = `id: tell, kind: notify, with: {url_env: HOOK, message: "{{service}} moves from {{ source }} to {{target}}"`

	o := fresh(playbooks.Emergency)
	run := o.want(tell+"}, who: '#incidents'", drill.Passed, "notify:tell", drill.Passed, "the webhook took it")
	if want := `POST /services/T0/B0/verysecretpart application/json {"text":"[drkit emergency R1] support-chat moves from us to eu"}`; got[0] != want {
		t.Errorf("got  %s\nwant %s", got[0], want)
	}
	if len(run.Notified) != 1 || run.Notified[0].To != "#incidents" || !run.Notified[0].Delivered || run.Notified[0].Text != "[drkit emergency R1] support-chat moves from us to eu" {
		t.Errorf("notified %+v", run.Notified)
	}
	if strings.Contains(o.everything(), "verysecretpart") {
		t.Error("the webhook's URL is in the journal")
	}

	o = fresh("")
	o.want(tell+", format: json}", drill.Passed, "notify:tell", drill.Passed)
	if want := `{"mode":"rehearsal","run":"R1","service":"support-chat","source":"us","step":"tell","target":"eu","text":"[drkit rehearsal R1] support-chat moves from us to eu"}`; !strings.HasSuffix(got[1], want) {
		t.Errorf("got %s", got[1])
	}

	// Not delivered: red when it is required, else a note that says so.
	answer = http.StatusNotFound
	o = fresh("")
	o.want(tell+"}", drill.Failed, "notify:tell", drill.Failed, "the webhook answered 404", "no_service")
	if strings.Contains(o.everything(), "verysecretpart") {
		t.Error("the webhook's URL is in the journal: it was echoed")
	}
	o = fresh("")
	run = o.want(tell+", required: false}", drill.Passed, "", "")
	if len(run.Gates) > 0 || len(run.Notified) != 1 || run.Notified[0].Delivered || run.Notified[0].Why == "" ||
		!slices.ContainsFunc(run.Notes, func(n string) bool { return strings.Contains(n, "$HOOK was not notified by step tell") }) {
		t.Errorf("notes %q, notified %+v", run.Notes, run.Notified)
	}

	// Without the variable: refused when required, else told.
	o = fresh("")
	delete(o.env, "HOOK")
	if run, _ = o.run(tell + "}"); run.Finished.Verdict != drill.Refused {
		t.Errorf("verdict %s", run.Finished.Verdict)
	}
	run = o.want(tell+", required: false}", drill.Passed, "", "")
	if len(run.Notified) != 1 || run.Notified[0].Delivered || !strings.Contains(run.Notified[0].Why, "HOOK is not set") {
		t.Errorf("notified %+v", run.Notified)
	}
	o.env["HOOK"] = "http://127.0.0.1:1/verysecretpart"
	o.want(tell+"}", drill.Failed, "notify:tell", drill.Failed, "connection refused")
	if strings.Contains(o.everything(), "verysecretpart") {
		t.Error("the webhook's URL is in the journal: it is in an error")
	}
}

// TestHostsAreShown: the journal's undo of a router names its host; a step that takes
// the same address from a variable must not blank it.
func TestHostsAreShown(t *testing.T) {
	o := newOwn(t)
	o.env["ROUTER"] = "http://127.0.0.1:1"
	o.want(`id: x, kind: http, with: {url_env: ROUTER}`, drill.Failed, "http:x", drill.Failed, "connection refused")
	if got := o.world.Redact.String("http://127.0.0.1:1/workers"); got != "http://127.0.0.1:1/workers" {
		t.Errorf("a host became a secret: %s", got)
	}
}

// TestHangingNotify: a webhook that hangs costs ten seconds, not the step's time.
func TestHangingNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwn(t)
		var net pipenet.Network
		defer net.Close()
		if _, err := net.Serve("hooks:80", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _ = readBody(r); <-r.Context().Done() })); err != nil {
			t.Fatal(err)
		}
		o.world.Web, o.env["HOOK"] = net.Client(), "http://hooks/services/x"
		began := time.Now()
		o.want(`id: tell, kind: notify, with: {url_env: HOOK, message: Hello}`, drill.Failed, "notify:tell", drill.Failed, "no answer within 10s")
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// TestOwnOptions: what is wrong with a step by itself is told at load, with its line.
func TestOwnOptions(t *testing.T) {
	for _, c := range []struct{ step, want string }{
		{`kind: run, with: {}`, "with.command: is missing"},
		{`kind: run, with: {command: []}`, "with.command: is empty"},
		{`kind: run, with: {command: [""]}`, "does not say which program"},
		{`kind: run, with: {command: [sh], exit: 256}`, "with.exit: is 256"},
		{`kind: run, with: {command: [sh], env: ["A B"]}`, `"A B" is not the name of an environment variable`},
		{`kind: run, with: {command: [sh], env: [DRKIT_RUN]}`, "DRKIT_RUN is set by drkit"},
		{`kind: run, with: {command: [sh], env: [A], set: {A: x}}`, "A is taken from the environment as well"},
		{`kind: run, with: {command: [curl, -H, "Authorization: Bearer abcdef123456"]}`, "with.command: holds what looks like a secret"},
		{`kind: run, with: {command: [sh], undo: [sh, "--password=hunter2hunter2"]}`, "with.undo: holds what looks like a secret"},
		{`kind: run, with: {command: [sh], set: {API_KEY: abcdef123456}}`, "with.set: holds what looks like a secret"},
		{`kind: run, with: {command: [sh], shell: true}`, "with.shell: unknown key"},
		{`kind: http, with: {}`, "with.url: is missing"},
		{`kind: http, with: {url: "http://h/", url_env: U}`, "says a second URL"},
		{`kind: http, with: {url: "h/ready"}`, "is not an http or https URL"},
		{`kind: http, with: {url: "http://joe:secret1@h/"}`, "holds a user or password"},
		{`kind: http, with: {url: "http://h/", method: BREW}`, `"BREW" is not one of`},
		{`kind: http, with: {url: "http://h/", status: [99]}`, "is 99"},
		{`kind: http, with: {url: "http://h/", headers: {authorization: x}}`, "authorization is a secret"},
		{`kind: http, with: {url: "http://h/", headers: {"A B": x}}`, `"A B" is not the name of a header`},
		{`kind: http, with: {url: "http://h/", headers: {A: x}, headers_env: {A: X}}`, "A is among the headers as well"},
		{`kind: http, with: {url: "http://h/", method: HEAD, contains: x}`, "HEAD has no body"},
		{`kind: http, with: {url: "http://h/", json: {a: [1]}}`, "a is compared with a list"},
		{`kind: wait, with: {}`, "does not say one thing to wait for"},
		{`kind: wait, with: {for: 1s, http: {url: "http://h/"}}`, "does not say one thing to wait for"},
		{`kind: wait, with: {for: 2m}`, "does not end before the step's timeout"},
		{`kind: wait, with: {for: 30s, every: 1s}`, "is not tried"},
		{`kind: wait, with: {http: {url: "h"}}`, "with.http.url: is not an http or https URL"},
		{`kind: wait, with: {run: {command: [""]}}`, "with.run.command: does not say which program"},
		{`kind: wait, with: {http: {url: "http://h/"}, within: 3s}`, "with.within: is of a command"},
		{`kind: human`, "who: is missing"},
		{`kind: human, who: me, with: {a: 1}`, "with.a: unknown key"},
		{`kind: notify, with: {message: x}`, "with.url_env: is missing"},
		{`kind: notify, with: {url_env: HOOK}`, "with.message: is missing"},
		{`kind: notify, with: {url_env: "https://hooks.example/x", message: x}`, "is not the name of an environment variable"},
		{`kind: notify, with: {url_env: HOOK, message: "{{region}} is lost"}`, `"{{region}}" is not a placeholder`},
	} {
		o := newOwn(t)
		_, err := o.load("id: x, " + c.step)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "own.yaml: line 5: steps[0].") && !strings.Contains(err.Error(), "errors\n  line 5: steps[0].") || errext.StatusOf(err) != errext.Usage {
			t.Errorf("%s: got %v, want %q", c.step, err, c.want)
		}
	}
}

// TestRecheckOfOwnSteps: what another process asks of them before it goes on.
func TestRecheckOfOwnSteps(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/up" || r.Method == http.MethodPost {
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	for _, c := range []struct{ step, want string }{ // want: in the error; "" holds
		{`kind: run, with: {command: [sh]}`, "has no check"},
		{`kind: run, with: {command: [sh], check: [sh, -c, "exit 0"], exit: 3}`, ""},
		{`kind: run, with: {command: [sh], check: [sh, -c, "echo gone; exit 1"]}`, "exit status 1"},
		{`kind: http, with: {url: "U/up"}`, ""},
		{`kind: http, with: {url: "U/down"}`, "status 404"},
		{`kind: http, with: {url: "U/up", method: POST, status: [404]}`, "cannot be asked"},
		{`kind: wait, with: {for: 30s}`, ""},
		{`kind: wait, with: {http: {url: "U/up"}}`, ""},
		{`kind: wait, with: {http: {url: "U/down"}}`, "status 404"},
		{`kind: wait, with: {run: {command: [sh, -c, "exit 0"]}}`, ""},
		{`kind: wait, with: {run: {command: [sh, -c, "exit 1"]}}`, "exit status 1"},
		{`kind: human, who: me`, ""},
		{`kind: notify, with: {url_env: HOOK, message: x}`, ""},
	} {
		o := newOwn(t)
		o.world.Web = s.Client()
		p, err := o.load("id: x, " + strings.ReplaceAll(c.step, "U/", s.URL+"/"))
		if err != nil {
			t.Fatal(err)
		}
		h, ok := step.Kinds(o.world)[p.Steps[0].Kind].(interface {
			Recheck(context.Context, playbooks.Step, drill.Scope) error
		})
		if !ok {
			t.Fatalf("%s cannot be rechecked", c.step)
		}
		err = h.Recheck(t.Context(), p.Steps[0], nowhere{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.step, err, c.want)
		}
	}
}

// nowhere is a scope whose run keeps nothing.
type nowhere struct{ drill.Scope }

func (nowhere) RunID() string { return "R1" }

// TestOwnStepsAreResumed: a run that is held at a person goes on in another process.
// What the command did is asked by its check; only what does not hold is run again.
func TestOwnStepsAreResumed(t *testing.T) {
	var told atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { told.Add(1) }))
	defer s.Close()
	steps := []string{
		`id: on, kind: run, with: {command: [sh, -c, "echo . >> ran; touch on"], check: [test, -e, "on"], undo: [sh, -c, "echo . >> undone; rm -f on"]}`,
		`id: tell, kind: notify, with: {url_env: HOOK, message: It begins.}`,
		`id: decide, kind: human, who: the boss, on_timeout: hold`,
		`id: last, kind: http, with: {url_env: HOOK}`,
	}
	count := func(o *own, name string) int {
		data, _ := os.ReadFile(filepath.Join(o.world.Dir, name))
		return strings.Count(string(data), ".")
	}
	for _, c := range []struct {
		name              string
		between           func(o *own)
		ran, undone, told int
	}{
		// Undone at the end of the run; the webhook got the message and the last request.
		{"it holds", func(*own) {}, 1, 1, 2},
		// Taken back before it is run again, and the message sent again after it.
		{"it does not hold", func(o *own) { _ = os.Remove(filepath.Join(o.world.Dir, "on")) }, 2, 2, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			told.Store(0)
			o := newOwn(t)
			o.world.Web, o.env["HOOK"] = s.Client(), s.URL+"/hooks/long-enough"
			if _, err := o.run(steps...); errext.StatusOf(err) != errext.Paused {
				t.Fatalf("not held: %v", err)
			}
			c.between(o)
			p, err := o.load(steps...)
			if err != nil {
				t.Fatal(err)
			}
			o.world.People = &step.People{}
			o.world.People.Give("decide", step.Ack{By: "ada", Via: "command line"})
			r := drill.Runner{Playbook: p, Handlers: []drill.Handler{o.journal}, Steps: step.Kinds(o.world), Undo: o.undos()}
			run, err := r.Resume(t.Context(), "R1", drill.RunStarted{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range run.Steps {
				if s.Result != drill.Passed {
					t.Errorf("step %s is %s: %s", s.ID, s.Result, s.Error)
				}
			}
			if ran, undone, got := count(o, "ran"), count(o, "undone"), int(told.Load()); ran != c.ran || undone != c.undone || got != c.told {
				t.Errorf("ran %d, undone %d, told %d times; want %d, %d, %d", ran, undone, got, c.ran, c.undone, c.told)
			}
			if len(run.Asked) != 1 || run.Asked[0].By != "ada" || run.Asked[0].Waited().Clock != drill.ClockWall {
				t.Errorf("asked %+v", run.Asked)
			}
		})
	}
}

// FuzzOwnSteps: no playbook, however written, makes the checks of its steps panic.
func FuzzOwnSteps(f *testing.F) {
	for _, name := range playbooks.Names() {
		data, err := playbooks.Source(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`apiVersion: drkit/v1
kind: Playbook
metadata: {name: x}
steps:
  - {id: a, kind: run, text: x, timeout: 1m, with: {command: [sh], env: [A], secrets: [B], set: {C: x}, undo: [sh], check: [sh], exit: 3, stdout: x}}
  - {id: b, kind: http, text: x, timeout: 1m, with: {url: "http://h/", headers: {A: x}, headers_env: {B: X}, status: [200], json: {a.0: 1, b: null}, within: 1s}}
  - {id: c, kind: wait, text: x, timeout: 1m, with: {run: {command: [sh]}, every: 1s}}
  - {id: d, kind: human, text: x, timeout: 1m, who: me}
  - {id: e, kind: notify, text: x, timeout: 1m, with: {url_env: A, message: "{{run}}", required: false}}
`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = playbooks.LoadChecked(data, "p.yaml", step.CheckStep, step.KindNames()...)
	})
}
