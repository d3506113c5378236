//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// result is what drkit drill run --output json says, as far as it is looked at here.
type result struct {
	Run, Verdict string
	Status       int
	Demo         bool
	Proves       map[string]struct {
		Proven bool
		Why    string
	}
	Segments []struct {
		From, To string
		Elapsed  *float64 `json:"elapsed_seconds"`
	}
	Steps   []struct{ ID, Result, Why string }
	Gates   []gate
	Boot    json.RawMessage
	Classes []struct{ Name, Verdict string }
	Changes []struct {
		What, Undo   string
		Done, Undone bool
	}
	Reasons json.RawMessage
	Notes   []string
	text    string // all of it
}

type gate struct{ Step, ID, Result, Observed string }

// gate is the one with an id, the zero value where the run has none.
func (r result) gate(id string) gate {
	for _, g := range r.Gates {
		if g.ID == id {
			return g
		}
	}
	return gate{}
}

// drill is a run of drkit drill run in the background.
type drill struct {
	cmd       *exec.Cmd
	out, errs bytes.Buffer
}

func (w *world) drill(t *testing.T, args ...string) *drill {
	t.Helper()
	d := &drill{cmd: exec.Command(drkit(t), append([]string{"drill", "run", "--output", "json", "--progress", "plain"}, args...)...)}
	d.cmd.Dir, d.cmd.Stdout, d.cmd.Stderr = w.dir, &d.out, &d.errs
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	return d
}

// end waits for the run's end and requires its status.
func (d *drill) end(t *testing.T, status int) result {
	t.Helper()
	_ = d.cmd.Wait()
	var r result
	if err := json.Unmarshal(d.out.Bytes(), &r); err != nil {
		t.Fatalf("the result is no JSON: %v\n%s\n%s", err, d.out.String(), d.errs.String())
	}
	r.text = d.out.String()
	if got := d.cmd.ProcessState.ExitCode(); got != status || r.Status != status {
		t.Errorf("exit %d, status %d in the result, want %d; %s, reasons %s, steps %+v\n%s", got, r.Status, status, r.Verdict, r.Reasons, r.Steps, d.errs.String())
	}
	return r
}

// undone requires that every change that was made was taken back.
func (r result) undone(t *testing.T) {
	t.Helper()
	if len(r.Changes) == 0 {
		t.Error("the run changed nothing")
	}
	for _, c := range r.Changes {
		if !c.Undone {
			t.Errorf("not undone: %+v", c)
		}
	}
}

// failed is the step that ended the run.
func (r result) failed() string {
	for _, s := range r.Steps {
		if s.Result == "failed" {
			return s.ID
		}
	}
	return ""
}

// bootOnly writes a playbook that ends with the behaviour of the target's canary: there is nothing to fail over in it.
func (w *world) bootOnly(t *testing.T) string {
	t.Helper()
	text := "apiVersion: drkit/v1\nkind: Playbook\nmetadata: {name: boot-only, title: boot only}\nmode: rehearsal\nsteps:\n"
	for _, kind := range []string{"preflight", "declare", "verify", "restore", "boot", "behaviour", "cleanup"} {
		text += "  - {id: " + kind + ", kind: " + kind + ", timeout: 5m, text: for a test}\n"
	}
	path := filepath.Join(w.dir, "boot-only.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (r result) says(t *testing.T, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if !strings.Contains(r.text, want) {
			t.Errorf("the result does not say %q:\n%s", want, r.text)
		}
	}
}
