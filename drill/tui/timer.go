package tui

import (
	"fmt"
	"strings"
	"time"

	"drkit/drill"
	"drkit/drill/forecast"
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

// timerWords are three lines: how the run stands and the clock's state, the
// objective, the projection.
func (m *model) timerWords() []string {
	words := m.clockWords()
	if badge := m.badge(); badge != "" {
		words[0] = badge + " · " + words[0]
	}
	return words
}

// badge is how the run stands, in capitals; "" before it begins and after an end
// that needs other words.
func (m *model) badge() string {
	s := m.standing()
	switch {
	case m.run.ID == "" || s.State == forecast.NotKnown && (m.run.Finished != nil || m.drained):
		return ""
	case s.State != forecast.Missed && (m.aborted || m.run.Aborting != nil):
		return "ABORTING"
	case m.run.Held != nil && s.State != forecast.Missed:
		return "PAUSED"
	}
	return strings.ToUpper(string(s.State))
}

func (m *model) standing() forecast.Standing {
	return forecast.Judge(m.run, m.mono(), m.forecast())
}

// standingStyle is the colour of the badge's line.
func (m *model) standingStyle() func(string) string {
	switch m.standing().State {
	case forecast.OnTrack, forecast.InTime:
		return m.pen.good
	case forecast.AtRisk:
		return m.pen.warn
	case forecast.Missed:
		return m.pen.bad
	}
	if m.aborted || m.run.Held != nil {
		return m.pen.warn
	}
	return same
}

func (m *model) clockWords() []string {
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
	case m.run.Held != nil:
		return "the clock goes on, held for a person"
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

// outlook is the projection while there is something to look ahead to, else what
// goes on.
func (m *model) outlook() string {
	r := m.run
	_, steady := r.Instant(drill.InstantSteady)
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
	if steady {
		return m.nowRunning()
	}
	return m.forecast().String()
}

// nowRunning names the steps under way.
func (m *model) nowRunning() string {
	var names []string
	for _, s := range m.run.RunningSteps() {
		names = append(names, m.pen.clean(s.ID))
	}
	if len(names) == 0 {
		return ""
	}
	return "now: " + strings.Join(names, ", ")
}

// takenBack says how far the undo is, where there is something to undo.
func (m *model) takenBack() string {
	all := len(m.run.Changes)
	if all == 0 {
		return ""
	}
	return fmt.Sprintf(" · %d of %d changes undone", all-len(m.run.Left()), all)
}
