//go:build unix

package process

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"drkit/internal/errext"
)

func TestStopWaysOfDying(t *testing.T) {
	t.Parallel()
	tests := []struct{ mode, state string }{
		{"hang", "signal: terminated"},
		{"ignore", "signal: killed"},
		{"ignore-first", "exit status 130"},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			l := testLauncher(t)
			s := fakeSpec(t, tt.mode)
			r := launch(t, l, s)
			waitLine(t, r, "ready")
			if got := r.ExitState(); got != "" {
				t.Errorf("ExitState of a running replica = %q", got)
			}
			mustStop(t, r)
			mustStop(t, r) // idempotent
			if got := r.ExitState(); got != tt.state {
				t.Errorf("ExitState = %q, want %q", got, tt.state)
			}
			select {
			case <-r.Exited():
			default:
				t.Error("Exited is open after Stop")
			}
			if left, err := l.Find(t.Context(), s.Run); err != nil || len(left) != 0 {
				t.Errorf("Find after Stop = %v, %v", left, err)
			}
			if files, _ := os.ReadDir(l.Dir); len(files) != 0 {
				t.Errorf("the launcher left %v in its folder", files)
			}
		})
	}
}

func TestStopEndsGrandchildren(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"fork", "escape"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			if mode == "escape" && runtime.GOOS != "linux" {
				t.Skip("a child that leaves the session is found by its label, in /proc only")
			}
			r := launch(t, testLauncher(t), fakeSpec(t, mode))
			pid := waitPID(t, r)
			mustStop(t, r)
			if runs(t, pid) {
				t.Errorf("grandchild %d outlived Stop", pid)
			}
		})
	}
}

func TestOrphanWithoutLabelIsKnownByItsLog(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	l, s := testLauncher(t), fakeSpec(t, "orphan")
	r := launch(t, l, s)
	pid := waitPID(t, r)
	<-r.Exited()
	if found, err := l.Find(t.Context(), s.Run); err != nil || len(found) != 1 {
		t.Errorf("Find = %v, %v, want the replica whose child is left", found, err)
	}
	mustStop(t, r)
	if runs(t, pid) {
		t.Errorf("orphan %d outlived Stop", pid)
	}
}

func TestUnidentifiedIsNeitherKilledNorCalledGone(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	l, s := testLauncher(t), fakeSpec(t, "mute-orphan")
	r := launch(t, l, s)
	pid := waitPID(t, r)
	<-r.Exited()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // cut short: the proof is what is tested
	err := r.Stop(ctx)
	if err == nil || errext.StatusOf(err) != errext.Unclean || !strings.Contains(err.Error(), strconv.Itoa(pid)) {
		t.Errorf("Stop = %v (status %v), want one that names pid %d", err, errext.StatusOf(err), pid)
	}
	if !runs(t, pid) {
		t.Error("a process that could not be identified was killed")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	mustStop(t, r)
}

func TestRecordOfAnotherProcessHarmsNobody(t *testing.T) {
	t.Parallel()
	stranger := exec.Command(os.Args[0])
	stranger.Env = append(os.Environ(), fakeVar+"=hang")
	stranger.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stranger.Process.Kill(); _ = stranger.Wait() })
	l := testLauncher(t)
	// The pid of the record was reused: the start time is another one.
	if err := l.write(record{Run: "old", Name: "target", PID: stranger.Process.Pid, Start: "1", Boot: bootID(), Log: "/nowhere"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newReplica(l, l.recordOf("old", "target")).Stop(ctx); err == nil {
		t.Error("Stop claims absence although the session of the record is in use")
	}
	if !runs(t, stranger.Process.Pid) {
		t.Fatal("a stranger was killed")
	}
	// A record from before a restart of the machine says nothing.
	if err := l.write(record{Run: "old", Name: "target", PID: stranger.Process.Pid, Start: startOf(stranger.Process.Pid), Boot: "another"}); err != nil {
		t.Fatal(err)
	}
	if err := newReplica(l, l.recordOf("old", "target")).Stop(t.Context()); err != nil {
		t.Errorf("Stop after a restart: %v", err)
	}
	if !runs(t, stranger.Process.Pid) {
		t.Fatal("a stranger was killed")
	}
}
