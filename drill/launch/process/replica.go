//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
)

// Replica is a launched or found process with all its children.
type Replica struct {
	launcher *Launcher
	rec      record
	own      *exec.Cmd // nil: started by another process
	exited   chan struct{}
	watch    sync.Once // of a process that is not our child

	mu       sync.Mutex // guards state
	state    string
	stopping sync.Mutex // one Stop at a time
}

var _ drill.Replica = (*Replica)(nil)

func newReplica(l *Launcher, rec record) *Replica {
	return &Replica{launcher: l, rec: rec, exited: make(chan struct{})}
}

// ID is the replica's name, unique in its run.
func (r *Replica) ID() string { return r.rec.Name }

// Endpoint is where the replica was told to listen.
func (r *Replica) Endpoint() string { return r.rec.Endpoint }

// MetricsEndpoint is the address of the metrics page when the command has a
// port of its own for it ({{metrics_port}}), else "".
func (r *Replica) MetricsEndpoint() string { return r.rec.Metrics }

// Exited is closed when the process that was launched has ended; children of it
// may outlive it until Stop.
func (r *Replica) Exited() <-chan struct{} {
	if r.own == nil {
		r.watch.Do(func() { go r.poll() })
	}
	return r.exited
}

// ExitState says how the replica ended, "" while it runs.
func (r *Replica) ExitState() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// wait reaps our own child.
func (r *Replica) wait() {
	_ = r.own.Wait() // the state says all that the error does
	r.end(r.own.ProcessState.String())
}

// watchEvery is how often the process table is read for a replica that is not our
// child; nothing tells us of its end.
const watchEvery = 250 * time.Millisecond

// poll watches a replica that another process launched: its exit status goes to
// that process, or to nobody.
func (r *Replica) poll() {
	for {
		m, err := r.rec.members(nil)
		if err == nil && len(m.live)+len(m.unclear) == 0 {
			r.end("ended; launched by another process, so its status is not known")
			return
		}
		time.Sleep(watchEvery)
	}
}

func (r *Replica) end(state string) {
	r.mu.Lock()
	r.state = state
	r.mu.Unlock()
	close(r.exited)
}

// Stop ends the replica with all its children and returns nil once none of them
// is left: SIGTERM, SIGTERM again, SIGKILL. When ctx ends first, SIGKILL follows
// at once. A second Stop finds nothing and succeeds.
func (r *Replica) Stop(ctx context.Context) error {
	r.stopping.Lock()
	defer r.stopping.Unlock()
	if err := r.launcher.stop(ctx, r.rec); err != nil {
		return errext.WithStatus(fmt.Errorf("stopping %s: %w", r.rec.Name, err), errext.Unclean)
	}
	if r.own != nil {
		<-r.exited // nothing is left, so the wait for our child has ended or is about to
	}
	r.launcher.forget(r.rec.Run, r.rec.Name)
	return nil
}

// ExitError says why a replica that ended by itself did, with the last line of
// its log and a hint; nil while it runs.
func (r *Replica) ExitError() error {
	state := r.ExitState()
	if state == "" {
		return nil
	}
	last := r.Tail(40)
	err := fmt.Errorf("%s ended: %s", r.rec.Name, state)
	if line := lastWords(last); line != "" {
		err = fmt.Errorf("%w; last in its log: %s", err, line)
	}
	if addressInUse(last) {
		_, port, _ := strings.Cut(strings.TrimPrefix(r.rec.Endpoint, "http://"), ":")
		n, _ := strconv.Atoi(port)
		return errext.WithHint(errors.Join(err, fmt.Errorf("port %s was taken after it had been found free", port)), errext.Hint(inUse(n)))
	}
	if state == "signal: killed" {
		return errext.WithHint(err, "something else killed it, most often the system for want of memory: see the kernel's log, then "+r.rec.Log)
	}
	return errext.WithHint(err, "read "+r.rec.Log)
}

func lastWords(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		if s := strings.TrimSpace(lines[i]); s != "" {
			return s
		}
	}
	return ""
}

func addressInUse(lines []string) bool {
	for _, l := range lines {
		if strings.Contains(strings.ToLower(l), "address already in use") {
			return true
		}
	}
	return false
}
