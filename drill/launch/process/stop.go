//go:build unix

package process

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"drkit/internal/errext"
)

const (
	defaultTermAgain = 5 * time.Second
	defaultKillAfter = 15 * time.Second
	killProof        = 10 * time.Second // how long after SIGKILL a process may still be seen
	cutShort         = 2 * time.Second  // the same when the caller's context has ended
)

// proc is one entry of the process table.
type proc struct {
	pid, ppid, session  int
	start               string // with pid: one process of one boot
	zombie              bool
	run, name, endpoint string // its labels
}

type key struct {
	pid   int
	start string
}

func (p proc) key() key { return key{p.pid, p.start} }

// members of a replica. Those unclear are in its session, but nothing else shows
// that they are its own: they are never signalled and never taken for gone.
type members struct{ live, unclear []proc }

// members reads the process table. A process is the replica's when it carries
// its labels; or when it is in its session and the leader still lives, or writes
// to the replica's log. known are processes that were seen to be the replica's
// before, which stays true when their leader is gone.
func (rec record) members(known map[key]bool) (members, error) {
	all, err := processes()
	if err != nil {
		return members{}, fmt.Errorf("reading the process table: %w", err)
	}
	leader := rec.PID != 0 && alive(all, key{rec.PID, rec.Start})
	var m members
	for _, p := range all {
		if p.pid == os.Getpid() || p.zombie {
			reap(p, rec)
			continue
		}
		inSession := rec.PID != 0 && p.session == rec.PID
		switch {
		case p.run == rec.Run && p.name == rec.Name, known[p.key()], inSession && (leader || writesTo(p.pid, rec.Log)):
			m.live = append(m.live, p)
		case inSession:
			m.unclear = append(m.unclear, p)
		}
	}
	return m, nil
}

func alive(all []proc, k key) bool {
	for _, p := range all {
		if p.key() == k && !p.zombie {
			return true
		}
	}
	return false
}

// reap collects a dead grandchild that became our child because its parent died
// and we are process 1 of a container. Our own child is left to its waiter.
func reap(p proc, rec record) {
	if p.zombie && p.ppid == os.Getpid() && rec.PID != 0 && p.session == rec.PID && p.pid != rec.PID {
		_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
	}
}

// stop signals a replica's processes until none is left, seen twice: a child
// that was forked while the table was read is in the next reading.
func (l *Launcher) stop(ctx context.Context, rec record) error {
	known, termed, empty := map[key]bool{}, 0, 0
	begin := time.Now()
	giveUp := begin.Add(l.killAfter() + killProof)
	for {
		m, err := rec.members(known)
		if err != nil {
			return err
		}
		if empty = countEmpty(m, empty); empty == 2 {
			return nil
		}
		if time.Now().After(giveUp) {
			return leftOver(m)
		}
		for _, p := range m.live {
			known[p.key()] = true
		}
		after := time.Since(begin)
		switch {
		case ctx.Err() != nil:
			giveUp = earlier(giveUp, time.Now().Add(cutShort))
			signalAll(m.live, syscall.SIGKILL)
		case after >= l.killAfter():
			signalAll(m.live, syscall.SIGKILL)
		case termed == 0 || termed == 1 && after >= l.termAgain():
			signalAll(m.live, syscall.SIGTERM)
			termed++
		}
		pauseBriefly(ctx)
	}
}

func countEmpty(m members, before int) int {
	if len(m.live)+len(m.unclear) > 0 {
		return 0
	}
	return before + 1
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// pauseBriefly waits between two readings; it is cut short once, when ctx ends.
func pauseBriefly(ctx context.Context) {
	if ctx.Err() != nil {
		time.Sleep(pollEvery)
		return
	}
	t := time.NewTimer(pollEvery)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func signalAll(all []proc, sig syscall.Signal) {
	for _, p := range all {
		send(p, sig)
	}
}

// send reaches p and nobody else. The handle is taken first (on Linux it is a
// pidfd) and then seen to be p by its start time, so a process that got the same
// pid in between is never hit. Whether it worked shows in the next reading.
func send(p proc, sig syscall.Signal) {
	h, err := os.FindProcess(p.pid)
	if err != nil {
		return
	}
	defer func() { _ = h.Release() }()
	if startOf(p.pid) == p.start {
		_ = h.Signal(sig)
	}
}

func leftOver(m members) error {
	if len(m.live) > 0 {
		return errext.WithHint(fmt.Errorf("still running after SIGKILL: %s", pids(m.live)),
			"a process that waits for a device cannot be killed before the device answers: look at its state with ps")
	}
	return errext.WithHint(
		fmt.Errorf("%s in the replica's session, but neither its label nor its log shows that it belongs to the replica: left alone", pids(m.unclear)),
		"look at it with ps -f, and end it by its pid if it is the engine's")
}

func pids(all []proc) string {
	var b strings.Builder
	for i, p := range all {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("pid " + strconv.Itoa(p.pid))
	}
	return b.String()
}

func orDefault(d, def time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return def
}

func (l *Launcher) termAgain() time.Duration { return orDefault(l.TermAgain, defaultTermAgain) }
func (l *Launcher) killAfter() time.Duration { return orDefault(l.KillAfter, defaultKillAfter) }
