//go:build unix

package process

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestFindAndStopAfterKill(t *testing.T) {
	t.Parallel()
	dir, run := t.TempDir(), testRun(t)
	drkit := exec.Command(os.Args[0])
	drkit.Env = append(os.Environ(), fakeVar+"=launcher", "FAKE_DIR="+dir, "FAKE_RUN="+run)
	out, err := drkit.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := drkit.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "launched\n" {
		t.Fatalf("launcher said %q, %v", line, err)
	}
	if err := drkit.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = drkit.Wait()

	l := &Launcher{Dir: dir}
	found, err := l.Find(t.Context(), run)
	if err != nil || len(found) != 1 {
		t.Fatalf("Find = %v, %v", found, err)
	}
	r := found[0]
	if !strings.HasPrefix(r.Endpoint(), "http://127.0.0.1:") {
		t.Errorf("Endpoint = %q", r.Endpoint())
	}
	pid := waitPID(t, r)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the child ignores SIGTERM
	defer cancel()
	for range 2 {
		if err := r.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if runs(t, pid) {
		t.Errorf("grandchild %d outlived Stop", pid)
	}
	<-r.Exited()
	if r.ExitState() == "" {
		t.Error("no ExitState for a found replica that was stopped")
	}
	if left, err := l.Find(t.Context(), run); err != nil || len(left) != 0 {
		t.Errorf("Find = %v, %v", left, err)
	}
}

func TestFindWithoutARecord(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("labels are read in /proc only")
	}
	l, s := testLauncher(t), fakeSpec(t, "hang")
	r := launch(t, l, s)
	waitLine(t, r, "ready")
	found, err := (&Launcher{Dir: t.TempDir()}).Find(t.Context(), s.Run)
	if err != nil || len(found) != 1 || found[0].ID() != "target" || found[0].Endpoint() != r.Endpoint() {
		t.Fatalf("Find = %v, %v", found, err)
	}
	for _, err := range found[0].Log(t.Context()) {
		if err == nil || !strings.Contains(err.Error(), "not known") {
			t.Errorf("Log without a record: %v", err)
		}
	}
	mustStop(t, found[0])
	<-r.Exited()
	if got := r.ExitState(); got != "signal: terminated" {
		t.Errorf("ExitState = %q", got)
	}
}

func TestSameNameTwiceIsRefused(t *testing.T) {
	t.Parallel()
	l, s := testLauncher(t), fakeSpec(t, "hang")
	r := launch(t, l, s)
	waitLine(t, r, "ready")
	if _, err := l.Launch(t.Context(), s); err == nil || !strings.Contains(err.Error(), "already runs") {
		t.Errorf("second launch: %v", err)
	}
	mustStop(t, r)
	again := launch(t, l, s) // a later attempt appends to the log and reads its own part
	waitLine(t, again, "ready")
	mustStop(t, again)
	if got := again.Tail(10); len(got) != 1 {
		t.Errorf("the second attempt's log = %q, want its own line only", got)
	}
}
