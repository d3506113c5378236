package drill

import "slices"

// The modes of a run, as its playbook names them.
const (
	ModeRehearsal = "rehearsal" // production's routers are not touched
	ModePlanned   = "planned"   // production is moved while the source still lives
	ModeEmergency = "emergency" // production is moved because the source is gone
	ModeFailback  = "failback"  // production returns to the source
	ModeTabletop  = "tabletop"  // people talk it through: nothing technical runs
)

// Live says that a mode moves production.
func Live(mode string) bool {
	return mode == ModePlanned || mode == ModeEmergency || mode == ModeFailback
}

// Back says that the run takes production back to the source. A run of mode planned that
// has no cutover and a failback does so too: before there was a mode of its own, the way
// back was written like that.
func (s RunStarted) Back() bool {
	has := func(kind string) bool {
		return slices.ContainsFunc(s.Steps, func(p StepPlan) bool { return p.Kind == kind })
	}
	return s.Mode == ModeFailback || s.Mode == ModePlanned && has("failback") && !has("cutover")
}

// Way is the mode as people compare runs by it: what goes back is a failback, however its
// playbook was written.
func (s RunStarted) Way() string {
	if s.Back() {
		return ModeFailback
	}
	return s.Mode
}

// From is the region that the traffic leaves, and To the one that takes over. Source and
// Target are what drkit.yaml calls them, whichever way a run goes.
func (s RunStarted) From() string {
	if s.Back() {
		return s.Target
	}
	return s.Source
}

// To is the region that takes over: see From.
func (s RunStarted) To() string {
	if s.Back() {
		return s.Source
	}
	return s.Target
}

// tabletopWhy is why a tabletop is never more than incomplete.
const tabletopWhy = "a tabletop exercises people: nothing ran, and it proves nothing of the region"
