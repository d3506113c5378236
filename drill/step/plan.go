package step

import (
	"fmt"
	"path/filepath"
	"strings"

	"drkit/drill"
	"drkit/playbooks"
)

// What each kind of step would change, for people who read a plan before it is
// run. Nothing here reaches anything.

var (
	_ drill.Planner = preflight{}
	_ drill.Planner = restoreStep{}
	_ drill.Planner = boot{}
	_ drill.Planner = trafficStep{}
	_ drill.Planner = cutover{}
	_ drill.Planner = failback{}
	_ drill.Planner = cleanup{}
	_ drill.Planner = verifyStep{}
	_ drill.Planner = behaviour{}
	_ drill.Planner = steady{}
	_ drill.Planner = declare{}
	_ drill.Planner = approve{}
)

func (p preflight) Plan(playbooks.Step) []drill.PlannedChange {
	return []drill.PlannedChange{{What: "lock of " + p.w.Service + " in region " + p.w.Target.Name, Undo: "give it back",
		How: "write " + LockKey(p.w.Target.Name, p.w.Service) + " into " + p.w.Target.StateLocation + ", on the condition that it is not there"}}
}

func (r restoreStep) Plan(s playbooks.Step) []drill.PlannedChange {
	side, err := r.w.regionOf(s)
	if err != nil {
		return nil // Check says so
	}
	if side.Deployed != nil {
		return nil // its canary gets its weights as deployed
	}
	how := "copy the release from " + side.Location + " into " + r.w.restored(side)
	if m := r.w.manifest; m != nil {
		size := int64(0)
		for _, f := range m.Contents.Files {
			size += f.Size
		}
		how += fmt.Sprintf(" (%d files, %d bytes)", len(m.Contents.Files), size)
	}
	return []drill.PlannedChange{{What: "files restored from region " + side.Name, How: how, Undo: "remove them, and prove by listing that they are gone"}}
}

func (b boot) Plan(s playbooks.Step) []drill.PlannedChange {
	_, side, err := b.options(s)
	if err != nil {
		return nil
	}
	how := "start: " + strings.Join(side.Command, " ")
	if side.Deployed != nil {
		how = "create bare Pods from the region's own deploy files"
	}
	return []drill.PlannedChange{{What: "canary " + b.w.replicaName(side), How: how, Undo: "stop it, and prove by listing that it is gone"}}
}

func (t trafficStep) Plan(s playbooks.Step) []drill.PlannedChange {
	if o, err := t.options(s); err == nil && o.live() {
		return []drill.PlannedChange{{What: "traffic of the drill's own", How: fmt.Sprintf("%.3g requests a second of %s through every replica of production's routers, until the run ends", o.Rate, classNames(t.w)), Undo: "it ends with the run"}}
	}
	return []drill.PlannedChange{
		{What: "rehearsal router", How: "start: " + strings.Join(t.w.Router.Command, " "), Undo: "stop it"},
		{What: "traffic of the drill's own", How: "requests of " + classNames(t.w) + " through the rehearsal router, until the run ends", Undo: "it ends with the run"},
	}
}

func classNames(w *World) string {
	var names []string
	for _, c := range w.sent() {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

func (c cutover) Plan(s playbooks.Step) []drill.PlannedChange {
	if live, err := c.w.live(s); live && err == nil {
		return c.w.plannedLive(&c.w.Source, &c.w.Target)
	}
	return []drill.PlannedChange{c.w.plannedMove(&c.w.Source, &c.w.Target)}
}

func (f failback) Plan(s playbooks.Step) []drill.PlannedChange {
	if live, err := f.w.live(s); live && err == nil {
		return f.w.plannedLive(&f.w.Target, &f.w.Source)
	}
	return []drill.PlannedChange{f.w.plannedMove(&f.w.Target, &f.w.Source)}
}

// plannedLive is what a live move would do to every replica of every router, and to
// the edge.
func (w *World) plannedLive(from, to *Region) []drill.PlannedChange {
	when := ", when the run fails or is cut short"
	if w.keepMoved() == drill.KeepHeld {
		when = ", only by drkit drill abort RUN --undo-cutover"
	}
	in := strings.Join(w.home(to).urls(), ", ")
	if in == "" {
		in = "the canary of " + to.Name
	}
	var all []drill.PlannedChange
	for _, r := range w.Production.Routers {
		moved, _ := w.split(r.Serves)
		if len(moved) == 0 {
			continue
		}
		var at []string
		for _, x := range r.Replicas {
			at = append(at, x.Admin)
		}
		all = append(all, drill.PlannedChange{What: fmt.Sprintf("router %s of production (%d replicas): %s in, %s out", r.Name, len(r.Replicas), to.Name, from.Name), Undo: "put each replica's workers back as they were" + when,
			How: fmt.Sprintf("at %s: add %s, then remove %s", strings.Join(at, ", "), in, strings.Join(w.home(from).urls(), ", "))})
	}
	if e := w.Production.Edge; e != nil {
		all = append(all, drill.PlannedChange{What: fmt.Sprintf("edge: users of %s from %s to %s", classNames(w), from.Name, to.Name), Undo: "send the users back to where they were" + when,
			How: strings.Join(e.Apply, " ") + ", then " + strings.Join(e.Observe, " ") + " until it shows it"})
	}
	return all
}

func (w *World) plannedMove(from, to *Region) drill.PlannedChange {
	return drill.PlannedChange{What: fmt.Sprintf("router: %s in, %s out", to.Name, from.Name), Undo: "put the router's workers back as they were",
		How: "add the canary of " + to.Name + " to the rehearsal router, drain and remove that of " + from.Name}
}

func (c cleanup) Plan(playbooks.Step) []drill.PlannedChange {
	return []drill.PlannedChange{{What: "all of the above", How: "taken back, newest first; each absence is proven by listing", Undo: "none"}}
}

func (verifyStep) Plan(playbooks.Step) []drill.PlannedChange { return nil }
func (behaviour) Plan(playbooks.Step) []drill.PlannedChange  { return nil }
func (steady) Plan(playbooks.Step) []drill.PlannedChange     { return nil }
func (declare) Plan(playbooks.Step) []drill.PlannedChange    { return nil }
func (approve) Plan(playbooks.Step) []drill.PlannedChange    { return nil }

// PlanDir is where a run that is only planned would keep its files.
func PlanDir(runDir string) string { return filepath.Join(runDir, "runs", "RUN") }
