//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
)

func testLauncher(t *testing.T) *Launcher {
	return &Launcher{Dir: t.TempDir(), TermAgain: 300 * time.Millisecond, KillAfter: time.Second}
}

func testRun(t *testing.T) string {
	return fmt.Sprintf("run-%d-%d", os.Getpid(), time.Now().UnixNano())
}

func fakeSpec(t *testing.T, mode string) drill.Spec {
	return drill.Spec{Run: testRun(t), Name: "target", Command: []string{os.Args[0]},
		Env: map[string]string{fakeVar: mode}, LogPath: filepath.Join(t.TempDir(), "engine.log")}
}

func launch(t *testing.T, l *Launcher, s drill.Spec) *Replica {
	t.Helper()
	got, err := l.Launch(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	r := got.(*Replica)
	t.Cleanup(func() { _ = r.Stop(context.Background()) })
	return r
}

// waitLine follows the log until a line has the prefix, and returns the rest of it.
func waitLine(t *testing.T, r drill.Replica, prefix string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for line, err := range r.Log(ctx) {
		if err != nil {
			t.Fatalf("waiting for %q: %v", prefix, err)
		}
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
	t.Fatalf("the log ended without %q", prefix)
	return ""
}

func waitPID(t *testing.T, r drill.Replica) int {
	t.Helper()
	pid, err := strconv.Atoi(waitLine(t, r, "child"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

// runs asks the kernel, not the code under test.
func runs(t *testing.T, pid int) bool {
	t.Helper()
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

func mustStop(t *testing.T, r drill.Replica) {
	t.Helper()
	if err := r.Stop(t.Context()); err != nil {
		t.Fatalf("stop: %v", err)
	}
}

func TestExitAtOnce(t *testing.T) {
	t.Parallel()
	r := launch(t, testLauncher(t), fakeSpec(t, "exit"))
	<-r.Exited()
	if got := r.ExitState(); got != "exit status 3" {
		t.Errorf("ExitState = %q", got)
	}
	if got := r.Tail(5); !slices.Equal(got, []string{"loading weights", "ValueError: no such shard"}) {
		t.Errorf("Tail = %q", got)
	}
	err := r.ExitError()
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no such shard") || errext.Hint(err) == "" {
		t.Errorf("ExitError = %v (hint %q)", err, errext.Hint(err))
	}
	mustStop(t, r)
}

func TestPortLostAfterCheckIsNamed(t *testing.T) {
	t.Parallel()
	r := launch(t, testLauncher(t), fakeSpec(t, "taken"))
	<-r.Exited()
	err := r.ExitError()
	if err == nil || !strings.Contains(err.Error(), "was taken after it had been found free") || !strings.Contains(errext.Hint(err), "lsof") {
		t.Errorf("ExitError = %v (hint %q)", err, errext.Hint(err))
	}
}

func TestLogLines(t *testing.T) {
	t.Parallel()
	r := launch(t, testLauncher(t), fakeSpec(t, "lines"))
	var got []string
	for line, err := range r.Log(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	want := []string{"one", "two", "", "10%", "20%", "three", "last"}
	if !slices.Equal(got, want) {
		t.Errorf("log = %q, want %q", got, want)
	}
}

func TestLogEndsWithContext(t *testing.T) {
	t.Parallel()
	r := launch(t, testLauncher(t), fakeSpec(t, "hang"))
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for _, err := range r.Log(ctx) {
		cancel(cause)
		last = err
	}
	if !errors.Is(last, cause) {
		t.Errorf("log ended with %v", last)
	}
}
