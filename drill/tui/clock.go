package tui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"drkit/drill"
)

// Kinds of steps that the recovery clock begins and ends with; the projection
// counts the budgets between them.
const (
	kindDeclare = "declare"
	kindSteady  = "steady"
)

// mono is the present moment on the run's scale: counted on from the newest
// event, and standing still when nothing more comes.
func (m *model) mono() time.Duration {
	since := m.now.Sub(m.anchor.at)
	if since <= 0 || m.over() || m.broken != nil {
		return m.run.Last.Mono
	}
	return m.run.Last.Mono + time.Duration(m.anchor.rate*float64(since))
}

// stamp is the present moment as the run would stamp it.
func (m *model) stamp() drill.Stamp {
	now := m.mono()
	return drill.Stamp{Proc: m.run.Last.Proc, Mono: now, Wall: m.run.Last.Wall.Add(now - m.run.Last.Mono)}
}

// stepElapsed is how long a step has taken or is taking.
func (m *model) stepElapsed(s drill.StepState) drill.Span {
	if s.Running() {
		return drill.Between(s.Started, m.stamp())
	}
	return s.Elapsed()
}

// projection adds to the elapsed time what the budgets leave for the steps up to
// steady. It is not known before the plan says where the clock begins, and means
// nothing any more once a step has failed, the run is being taken back, or no
// more events come.
func (m *model) projection() (time.Duration, bool) {
	r := m.run
	if r.ID == "" || m.over() || m.broken != nil || r.Aborting != nil || m.aborted {
		return 0, false
	}
	if _, done := r.Instant(drill.InstantSteady); done {
		return 0, false
	}
	total, running := r.Elapsed(m.mono())
	from := 0
	if !running {
		if _, declared := r.Instant(drill.InstantDeclared); declared {
			return 0, false // the clock could not be measured
		}
		if from = indexKind(r.Steps, kindDeclare); from < 0 {
			return 0, false
		}
	}
	to := indexKind(r.Steps, kindSteady)
	if to < 0 {
		to = len(r.Steps) - 1
	}
	for i := range r.Steps {
		s := r.Steps[i]
		if s.Result == drill.Failed {
			return 0, false
		}
		if i >= from && i <= to && s.Result == "" {
			total += max(s.Budget-m.stepElapsed(s).Elapsed, 0)
		}
	}
	return total, true
}

func indexKind(steps []drill.StepState, kind string) int {
	for i, s := range steps {
		if s.Kind == kind {
			return i
		}
	}
	return -1
}

// clock writes a time as a clock does: 4:05, 1:04:05. Parts of seconds are cut
// off, as a running clock has not reached them.
func clock(d time.Duration) string {
	if d < 0 {
		return "-" + clock(-d)
	}
	s := int64(d / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// brief writes a measured time: tenths below a minute, a clock above.
func brief(d time.Duration) string {
	if d >= 0 && d < time.Minute {
		return fmt.Sprintf("%.1fs", math.Floor(d.Seconds()*10)/10)
	}
	return clock(d)
}

// limit writes a promised time as people write them: 4m, 1m30s, 250ms.
func limit(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// milli writes a latency.
func milli(d time.Duration) string {
	if d < time.Millisecond {
		return d.Round(time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
