package tui

import (
	"drkit/drill"
)

// Kinds of steps that wait for a person.
const (
	kindApprove = "approve"
	kindHuman   = "human"
)

// waiting is the first step under way that waits for a person, nil when none does
// or the person has let it go ahead.
func (m *model) waiting() *drill.StepState {
	if m.over() {
		return nil
	}
	for _, s := range m.run.RunningSteps() {
		if (s.Kind == kindApprove || s.Kind == kindHuman) && s.ID != m.ahead {
			return s
		}
	}
	return nil
}

// canGoAhead says that this screen can let the waiting step go ahead.
func (m *model) canGoAhead() bool {
	s := m.waiting()
	if s == nil || !m.live || m.aborted || m.run.Aborting != nil {
		return false
	}
	if s.Kind == kindApprove {
		return m.opts.Approve != nil
	}
	return m.opts.Ack != nil
}

// people says what waits for a person: a step, a run that is held, a pause.
func (m *model) people(width int) section {
	var lines []string
	if h := m.run.Held; h != nil {
		lines = append(lines, each(m.pen.wrap("‖ PAUSED: ", h.Why, width, 4), m.pen.warn)...)
		if h.For != "" {
			lines = append(lines, m.pen.wrap("  who: ", h.For, width, 2)...)
		}
		lines = append(lines, m.pen.wrap("  next: ", h.Next, width, 3)...)
	}
	if m.paused && m.run.Held == nil && !m.over() {
		lines = append(lines, m.pen.warn(m.pen.fit("‖ pause asked for: the run stops before its next step", width)))
	}
	for _, s := range m.run.RunningSteps() {
		switch {
		case m.over() || s.Kind != kindApprove && s.Kind != kindHuman:
		case s.ID == m.ahead:
			lines = append(lines, m.pen.fit("▸ "+s.ID+": you let it go ahead", width))
		default:
			lines = append(lines, m.asks(s, width)...)
		}
	}
	return section{"people", len(lines), min(len(lines), 5), m.pen.first(lines)}
}

// asks is what a step wants of whom.
func (m *model) asks(s *drill.StepState, width int) []string {
	who := s.Who
	if who == "" {
		who = "a person"
	}
	lines := each(m.pen.wrap("▸ "+m.pen.clean(s.ID)+" waits for ", who, width, 2), m.pen.warn)
	lines = append(lines, m.pen.wrap("  ", s.Text, width, 3)...)
	if s.Waits != "" {
		lines = append(lines, m.pen.wrap("  so far: ", s.Waits, width, 2)...)
	}
	switch {
	case m.canGoAhead() && s.Kind == kindApprove:
		lines = append(lines, m.pen.fit("  g: approve plan "+short(m.run.Plan.PlanHash), width))
	case m.canGoAhead():
		lines = append(lines, m.pen.fit("  g: it is done", width))
	case s.Kind == kindApprove:
		lines = append(lines, m.pen.wrap("  next: ", "drkit drill approve "+m.run.ID, width, 2)...)
	}
	return lines
}
