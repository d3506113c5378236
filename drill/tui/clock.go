package tui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"drkit/drill"
	"drkit/drill/forecast"
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

// forecast looks ahead from the present moment. Nothing is projected once the
// person has asked to abort, or no more events come.
func (m *model) forecast() forecast.Forecast {
	switch {
	case m.broken != nil:
		return forecast.Forecast{Why: "the screen stopped"}
	case m.drained:
		return forecast.Forecast{Why: "the journal ends here"}
	case m.aborted:
		return forecast.Forecast{Why: "the run is being taken back"}
	}
	return forecast.Of(m.run, m.mono(), m.opts.Earlier)
}

// clock writes a time as a clock does: 4:05, 1:04:05.
func clock(d time.Duration) string { return forecast.Clock(d) }

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
