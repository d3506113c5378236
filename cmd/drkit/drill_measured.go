package main

import (
	"fmt"
	"slices"

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
		run, err := ledger.Load(d.svc.Run.Dir.Path, id)
		if err != nil || run.Plan.Service != d.svc.Metadata.Name || run.Plan.Target != d.target.region.Name || run.Plan.Release != release {
			continue
		}
		if start, served := startOf(run); served {
			start.From = fmt.Sprintf("measured by the drill %s", id)
			return start, true
		}
	}
	return rules.Start{}, false
}

// startOf is the start of the target's canary: up to the end of its boot's last phase,
// from its launch, or from where its images were there. False where it never served.
func startOf(run *drill.Run) (start rules.Start, served bool) {
	ready, served := run.Instant(drill.InstantEngineReady)
	if !served || slices.ContainsFunc(run.Components, func(c drill.Component) bool { return c.Role == drill.RoleEngine && c.Substitute }) {
		return start, false
	}
	for _, p := range run.Phases {
		if p.Replica == targetCanary {
			start.Took = max(start.Took, p.Start+p.Length)
		}
	}
	image, pulled := run.Instant(drill.InstantImage)
	if pulled && image.At.Proc == ready.At.Proc && image.At.Mono <= ready.At.Mono {
		start.Took = ready.At.Mono - image.At.Mono
		place, placed := run.Instant(drill.InstantCapacity)
		if placed && !image.Cached && place.At.Proc == image.At.Proc && place.At.Mono <= image.At.Mono {
			start.Pull = image.At.Mono - place.At.Mono
		}
	}
	return start, start.Took > 0
}

// targetCanary is what the drill's steps call the target's canary.
const targetCanary = "target-canary"
