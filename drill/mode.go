package drill

// The modes of a run, as its playbook names them.
const (
	ModeRehearsal = "rehearsal" // production's routers are not touched
	ModePlanned   = "planned"   // production is moved while the source still lives
	ModeEmergency = "emergency" // production is moved because the source is gone
	ModeTabletop  = "tabletop"  // people talk it through: nothing technical runs
)

// Live says that a mode moves production.
func Live(mode string) bool { return mode == ModePlanned || mode == ModeEmergency }

// tabletopWhy is why a tabletop is never more than incomplete.
const tabletopWhy = "a tabletop exercises people: nothing ran, and it proves nothing of the region"
