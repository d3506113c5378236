package main

import (
	"fmt"
	"slices"
	"time"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/manifest/rules"
)

// earlierStart is how long the target's canary took to start in the latest run of
// the same release whose engine served; false where there was none. What the
// stand-in engine took says nothing of a real one. Journals that cannot be read say
// nothing here: drill verify-evidence is for them.
func (d *drillPlan) earlierStart(release string) (rules.Start, bool) {
	runs, err := ledger.List(d.svc.Run.Dir.Path)
	if err != nil {
		return rules.Start{}, false
	}
	slices.Sort(runs)
	for _, id := range slices.Backward(runs) {
		run, err := ledger.LoadFile(ledger.Path(d.svc.Run.Dir.Path, id))
		if err != nil || run.Plan.Service != d.svc.Metadata.Name || run.Plan.Target != d.target.region.Name || run.Plan.Release != release {
			continue
		}
		if took := startOf(run); took > 0 {
			return rules.Start{Took: took, From: fmt.Sprintf("measured by the drill %s", id)}, true
		}
	}
	return rules.Start{}, false
}

// startOf is the end of the last phase of the target's canary, from its launch; 0
// where it never served.
func startOf(run *drill.Run) (took time.Duration) {
	_, served := run.Instant(drill.InstantEngineReady)
	if !served || slices.ContainsFunc(run.Components, func(c drill.Component) bool { return c.Role == drill.RoleEngine && c.Substitute }) {
		return 0
	}
	for _, p := range run.Phases {
		if p.Replica == targetCanary {
			took = max(took, p.Start+p.Length)
		}
	}
	return took
}

// targetCanary is what the drill's steps call the target's canary.
const targetCanary = "target-canary"
