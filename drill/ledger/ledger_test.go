package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/internal/redact"
	"drkit/playbooks"
)

func id(t *testing.T, second int) string {
	t.Helper()
	return NewID(time.Date(2026, 3, 4, 5, 6, second, 0, time.UTC))
}

func event(t *testing.T, run string, seq int, typ string, data any) drill.Event {
	t.Helper()
	raw, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return drill.Event{Run: run, Seq: uint64(seq), Proc: 1, Mono: time.Duration(seq) * time.Second,
		Wall: time.Date(2026, 3, 4, 5, 6, seq, 0, time.UTC), Type: typ, Data: raw}
}

// killed writes a journal with one change intended and gives its lock back, as a
// kill does.
func killed(t *testing.T, dir, run string) {
	t.Helper()
	j, err := Create(dir, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for i, e := range []struct {
		typ  string
		data any
	}{
		{drill.TypeRunStarted, drill.RunStarted{Service: "s", Steps: []drill.StepPlan{{ID: "boot"}}}},
		{drill.TypeIntent, drill.Intent{ID: "change-1", What: "launch", Undo: drill.Undo{Kind: "stop", Args: []byte(`"p"`)}}},
	} {
		if err := j.Event(event(t, run, i+1, e.typ, e.data), nil); err != nil {
			t.Fatal(err)
		}
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestHalfLineIsCutOff(t *testing.T) {
	dir, run := t.TempDir(), id(t, 1)
	killed(t, dir, run)
	whole, err := os.ReadFile(Path(dir, run))
	if err != nil {
		t.Fatal(err)
	}
	half := `{"run":"` + run + `","seq":3,"ty`
	appendTo(t, Path(dir, run), half)

	r, err := LoadFile(Path(dir, run)) // reading leaves the file alone
	if err != nil || r.Seq != 2 {
		t.Fatalf("%v, %d events", err, r.Seq)
	}
	j, err := Open(dir, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if j.Cut() != len(half) {
		t.Errorf("cut %d bytes, want %d", j.Cut(), len(half))
	}
	if now, _ := os.ReadFile(Path(dir, run)); !bytes.Equal(now, whole) {
		t.Errorf("whole lines were changed:\n%s", now)
	}
	undone := 0
	r, err = drill.Abort(t.Context(), j, "kim", map[string]drill.UndoFunc{"stop": func(_ context.Context, args []byte) error {
		if string(args) != `"p"` {
			t.Errorf("undo got %s", args)
		}
		undone++
		return nil
	}})
	if err != nil || undone != 1 || r.Finished.Verdict != drill.Aborted || r.Last.Proc != 2 {
		t.Fatalf("%v, undone %d, %+v", err, undone, r.Finished)
	}
	if r, err = LoadFile(Path(dir, run)); err != nil || r.Finished.Status != 130 {
		t.Errorf("%v %+v", err, r.Finished)
	}
}

func TestDamagedLineIsNamed(t *testing.T) {
	dir, run := t.TempDir(), id(t, 1)
	killed(t, dir, run)
	appendTo(t, Path(dir, run), "{}x\n")
	_, err := LoadFile(Path(dir, run))
	if err == nil || !strings.Contains(err.Error(), FileName+":3: not an event") || errext.StatusOf(err) != errext.Evidence {
		t.Errorf("got %v", err)
	}
}

func TestContradictionIsRefused(t *testing.T) {
	dir, run := t.TempDir(), id(t, 1)
	killed(t, dir, run)
	e := event(t, run, 3, drill.TypeRunFinished, drill.RunFinished{Verdict: drill.Recovered})
	whole, err := os.ReadFile(Path(dir, run))
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.SplitAfter(whole, []byte("\n"))[1]
	e.Prev = fmt.Sprintf("%x", sha256.Sum256(before))
	line, _ := json.Marshal(e)
	appendTo(t, Path(dir, run), string(line)+"\n")
	r, err := LoadFile(Path(dir, run))
	if err == nil || !strings.Contains(err.Error(), "contradicts itself") || errext.StatusOf(err) != errext.Evidence || r.Finished == nil {
		t.Errorf("got %v", err)
	}
}

func TestLiveRunIsLeftAlone(t *testing.T) {
	dir, run := t.TempDir(), id(t, 1)
	j, err := Create(dir, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, run, nil); !errors.Is(err, ErrLive) || errext.StatusOf(err) != errext.Refused {
		t.Errorf("opened a live journal: %v", err)
	}
	// A child that outlives the process must not keep the lock.
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if _, err := Create(dir, run, nil); !errors.Is(err, os.ErrExist) {
		t.Errorf("a journal was begun twice: %v", err)
	}
}

func TestRedaction(t *testing.T) {
	dir, run := t.TempDir(), id(t, 1)
	secret := `pass<word>"1` // looks otherwise in JSON
	j, err := Create(dir, run, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(secret), []byte("[redacted]")) })
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	start := drill.RunStarted{Service: "s " + secret, Objectives: drill.Objectives{RTO: 1<<53 + 1, MustProve: []string{"copy", secret}}}
	if err := j.Event(event(t, run, 1, drill.TypeRunStarted, start), nil); err != nil {
		t.Fatal(err)
	}
	r, err := drill.Replay(j.Events())
	if err != nil {
		t.Fatal(err)
	}
	want := drill.RunStarted{Service: "s [redacted]", Objectives: drill.Objectives{RTO: 1<<53 + 1, MustProve: []string{"copy", "[redacted]"}}}
	if !reflect.DeepEqual(r.Plan, want) {
		t.Errorf("%+v", r.Plan)
	}
	if raw, _ := os.ReadFile(j.Path()); bytes.Contains(raw, []byte("word")) {
		t.Errorf("%s", raw)
	}
}

// TestFailedWriteStays: after a torn line nothing more is written.
func TestFailedWriteStays(t *testing.T) {
	dir, run := t.TempDir(), id(t, 1)
	j, err := Create(dir, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	j.file.Close()
	for range 2 {
		if err := j.Event(event(t, run, 1, drill.TypeNote, drill.Note{}), nil); errext.StatusOf(err) != errext.Evidence {
			t.Errorf("got %v", err)
		}
	}
}

func TestListAndLatest(t *testing.T) {
	dir := t.TempDir()
	if _, err := Latest(dir); !errors.Is(err, ErrNoRun) {
		t.Errorf("got %v", err)
	}
	want := []string{id(t, 1), id(t, 2), id(t, 3)}
	for _, i := range []int{2, 0, 1} {
		killed(t, dir, want[i])
	}
	for _, other := range []string{"notes", id(t, 9)} { // no run, and a run that has no journal
		if err := os.MkdirAll(filepath.Join(dir, "runs", other), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := List(dir); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
	if got, err := Latest(dir); err != nil || got != want[2] {
		t.Errorf("%v %v", got, err)
	}
}

func TestRunIDsDoNotLeaveTheFolder(t *testing.T) {
	dir := t.TempDir()
	for _, bad := range []string{"", "..", "../../etc", "latest", strings.Repeat("0", 25)} {
		_, err := Open(dir, bad, nil)
		_, err2 := Create(dir, bad, nil)
		for _, err := range []error{err, err2} {
			if errext.StatusOf(err) != errext.Usage {
				t.Errorf("%q: %v", bad, err)
			}
		}
	}
	if _, err := LoadFile(Path(dir, id(t, 1))); !errors.Is(err, ErrNoRun) || errext.StatusOf(err) != errext.Failed {
		t.Errorf("%v", err)
	}
	if _, err := Open(dir, id(t, 1), nil); !errors.Is(err, ErrNoRun) {
		t.Errorf("%v", err)
	}
}

type step func(context.Context, drill.Scope) error

func (step) Check(context.Context, playbooks.Step) []error { return nil }
func (s step) Do(ctx context.Context, _ playbooks.Step, sc drill.Scope) error {
	return s(ctx, sc)
}

// TestKillNine runs a drill in another process, kills it in the middle of a
// change, and aborts it from here.
func TestKillNine(t *testing.T) {
	if dir := os.Getenv("DRKIT_TEST_KILLED_RUN"); dir != "" {
		killMe(dir, os.Getenv("DRKIT_TEST_RUN_ID"))
		return
	}
	dir, run := t.TempDir(), id(t, 1)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillNine$")
	cmd.Env = append(os.Environ(), "DRKIT_TEST_KILLED_RUN="+dir, "DRKIT_TEST_RUN_ID="+run)
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("the child was to be killed: %s", out)
	}
	marker := filepath.Join(dir, "marker")
	if _, err := os.Stat(marker); err != nil {
		t.Fatalf("the child did not get to its change: %v", err)
	}
	j, err := Open(dir, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	r, err := drill.Abort(t.Context(), j, "kim", map[string]drill.UndoFunc{"file": removeFile})
	if err != nil || r.Finished.Status != 130 || len(r.Changes) != 1 || r.Changes[0].Done {
		t.Fatalf("%v %+v", err, r)
	}
	if _, err := os.Stat(marker); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the change was not taken back: %v", err)
	}
}

func removeFile(_ context.Context, args []byte) error {
	var path string
	if err := json.Unmarshal(args, &path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func killMe(dir, run string) {
	j, err := Create(dir, run, nil)
	if err != nil {
		panic(err)
	}
	marker := filepath.Join(dir, "marker")
	args, _ := json.Marshal(marker)
	rn := &drill.Runner{
		Playbook: playbooks.Playbook{Name: "p", Steps: []playbooks.Step{{ID: "a", Kind: "a"}}},
		Handlers: []drill.Handler{j},
		Undo:     map[string]drill.UndoFunc{"file": removeFile},
		Steps: map[string]drill.StepHandler{"a": step(func(ctx context.Context, sc drill.Scope) error {
			return sc.Change(ctx, "write the marker", drill.Undo{Kind: "file", Args: args}, func(context.Context) error {
				if err := os.WriteFile(marker, nil, 0o600); err != nil {
					return err
				}
				self, err := os.FindProcess(os.Getpid())
				if err != nil {
					return err
				}
				if err := self.Kill(); err != nil {
					return err
				}
				select {} // the kill arrives
			})
		})},
	}
	_, _ = rn.Run(context.Background(), run, drill.RunStarted{Objectives: drill.Objectives{RTO: time.Minute}})
}

// TestKeeps: arguments of an undo that the journal would change are refused by their
// place, and never quoted.
func TestKeeps(t *testing.T) {
	const secret = "s3cr3t-of-the-lab"
	j, err := Create(t.TempDir(), id(t, 9), redact.New(secret).Bytes)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for args, want := range map[string]string{
		`{"admin":"http://router:8000","n":9007199254740993}`: "",
		``: "",
		`{"set":{"KEY":"x s3cr3t-of-the-lab"},"add":[{"url":"http://a:b@host"}]}`: "a secret is in its add[0].url, set.KEY",
		`"s3cr3t-of-the-lab"`: "a secret is in its text",
		`{`:                   "bad data: unexpected EOF",
	} {
		got := ""
		if err := j.Keeps([]byte(args)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}
