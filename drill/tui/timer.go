package tui

import (
	"fmt"
	"time"

	"drkit/drill"
)

// face is what the timer shows.
type face struct {
	text string
	over bool // later than promised
}

func (m *model) face() face {
	elapsed, ok := m.run.Elapsed(m.mono())
	if !ok {
		return face{text: "--:--"}
	}
	promised := m.run.Plan.Objectives.RTO
	text := clock(elapsed)
	if len(text) < len("00:00") {
		text = "0" + text
	}
	return face{text: text, over: promised > 0 && elapsed > promised}
}

// timerWords are three lines: the clock's state, the objective, the projection.
func (m *model) timerWords() []string {
	r := m.run
	elapsed, ok := r.Elapsed(m.mono())
	_, declared := r.Instant(drill.InstantDeclared)
	_, steady := r.Instant(drill.InstantSteady)
	switch {
	case r.ID == "":
		return []string{"clock not started", "", ""}
	case declared && !ok:
		_, _, why := r.RTO()
		return []string{"clock not measured", m.pen.clean(why), m.outlook()}
	case !declared:
		return []string{m.notStarted(), "objective " + m.promise(), m.outlook()}
	case steady:
		return m.steadyWords()
	}
	return []string{m.running(), m.distance(elapsed), m.outlook()}
}

func (m *model) notStarted() string {
	if m.run.Finished != nil {
		return "clock never started"
	}
	return "clock not started"
}

// running says that the clock runs, or why it stands still without steady.
func (m *model) running() string {
	switch {
	case m.run.Finished != nil:
		return "clock stopped: steady not reached"
	case m.drained:
		return "the journal ends without an end"
	case m.broken != nil:
		return "the screen stopped here"
	}
	return "clock runs since declared"
}

func (m *model) promise() string {
	if rto := m.run.Plan.Objectives.RTO; rto > 0 {
		return clock(rto)
	}
	return "none"
}

// distance is what remains of the objective, or by how much it is missed.
func (m *model) distance(elapsed time.Duration) string {
	rto := m.run.Plan.Objectives.RTO
	switch {
	case rto <= 0:
		return "objective none"
	case elapsed > rto:
		return fmt.Sprintf("objective %s · over by %s", clock(rto), clock(elapsed-rto))
	case m.run.Finished != nil:
		return "objective " + clock(rto)
	}
	return fmt.Sprintf("objective %s · %s left", clock(rto), clock(rto-elapsed))
}

// steadyWords give the judged figure, or why there is none.
func (m *model) steadyWords() []string {
	rto, ok, why := m.run.RTO()
	if !ok {
		return []string{"steady, but the time was not measured", m.pen.clean(why), m.outlook()}
	}
	promised := m.run.Plan.Objectives.RTO
	words := []string{"steady: clock stopped at " + brief(rto), "objective " + m.promise(), m.outlook()}
	switch {
	case promised > 0 && rto > promised:
		words[1] += " · missed by " + brief(rto-promised)
	case promised > 0:
		words[1] += " · " + brief(promised-rto) + " to spare"
	}
	if why != "" {
		words[0] += ", " + why
	}
	return words
}

// outlook is the projected finish while there is one, else what goes on.
func (m *model) outlook() string {
	if total, ok := m.projection(); ok {
		return "projection from budgets: " + clock(total)
	}
	r := m.run
	switch {
	case r.Finished != nil:
		return ""
	case r.Aborting != nil || m.aborted:
		return "aborting" + m.takenBack()
	}
	for _, s := range r.Steps {
		if s.Result == drill.Failed {
			return m.pen.clean(s.ID) + " failed" + m.takenBack()
		}
	}
	if now := r.Current(); now != nil {
		return "now: " + m.pen.clean(now.ID)
	}
	return ""
}

// takenBack says how far the undo is, where there is something to undo.
func (m *model) takenBack() string {
	all := len(m.run.Changes)
	if all == 0 {
		return ""
	}
	return fmt.Sprintf(" · %d of %d changes undone", all-len(m.run.Left()), all)
}
