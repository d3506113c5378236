package step

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"drkit/drill"
	"drkit/drill/bootlog"
)

// logWatch follows a canary's log: each line becomes a log event, and stays for
// phases and classes.
type logWatch struct {
	replica string
	mu      sync.Mutex
	lines   []bootlog.Line
	settled bool
	end     time.Duration
	ready   time.Duration // when the engine served, while lines are still on their way; 0: not yet
	ended   chan struct{}
	start   time.Time
}

// lineWindow bounds what is kept of a boot's log.
const lineWindow = 5000

func watchLog(ctx context.Context, r *replica, launched time.Time, sc drill.Scope) *logWatch {
	watch := &logWatch{replica: r.name, ended: make(chan struct{}), start: launched}
	go func() {
		defer close(watch.ended)
		for line, err := range r.Log(context.WithoutCancel(ctx)) {
			if err != nil || !watch.add(line) {
				return
			}
			// A log line may be dropped; an error here is the journal's and is met
			// again by the step itself.
			_ = sc.Emit(drill.TypeLog, drill.Log{From: r.name, Line: line})
		}
	}()
	return watch
}

// add keeps a line; false once the boot is over, so that serving lines are not
// taken for boot phases.
func (l *logWatch) add(line string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled {
		return false
	}
	if len(l.lines) < lineWindow {
		at := time.Since(l.start)
		if l.ready > 0 { // it was written before
			at = min(at, l.ready)
		}
		l.lines = append(l.lines, bootlog.Line{At: at, Text: line})
	}
	return true
}

// settle ends the reading. After a failure the rest of the log is awaited for a
// moment: the line that explains it may still be on its way.
func (l *logWatch) settle(ok bool) {
	if !ok {
		select {
		case <-l.ended:
		case <-time.After(2 * time.Second):
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled, l.end = true, time.Since(l.start)
	if l.ready > 0 {
		l.end = l.ready
	}
}

// lag is how long lines and a platform's word of an engine that serves may be on their way.
const lag = 2 * time.Second

// catchUp waits for the lines of an engine that serves since a moment ago: a log that
// comes over the network is behind the engine's own answers.
func (l *logWatch) catchUp(ctx context.Context, ready time.Time) {
	l.mu.Lock()
	l.ready = ready.Sub(l.start)
	l.mu.Unlock()
	briefly(ctx, lag, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.ContainsFunc(bootlog.Phases(l.replica, l.lines, l.ready), func(p drill.Phase) bool { return p.Name == bootlog.PhaseServing })
	})
}

// briefly waits until something holds, for so long at most.
func briefly(ctx context.Context, patience time.Duration, holds func() bool) {
	for end := time.Now().Add(patience); !holds() && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(pollEvery / 5)
	}
}

// length is how long the boot took, or lasted until it failed.
func (l *logWatch) length() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

func (l *logWatch) texts() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var texts []string
	for _, line := range l.lines {
		texts = append(texts, line.Text)
	}
	return texts
}

func (l *logWatch) report(sc drill.Scope) error {
	l.mu.Lock()
	lines, end := slices.Clone(l.lines), l.end
	l.mu.Unlock()
	var errs []error
	for _, p := range bootlog.Phases(l.replica, lines, end) {
		errs = append(errs, sc.Emit(drill.TypePhase, p))
	}
	return errors.Join(errs...)
}

// endOf is when a phase of the boot ended; false when no line of the log shows it.
func (l *logWatch) endOf(phase string) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range bootlog.Phases(l.replica, l.lines, l.end) {
		if p.Name == phase {
			return l.start.Add(p.Start + p.Length), true
		}
	}
	return time.Time{}, false
}
