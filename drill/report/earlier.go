package report

import (
	"time"

	"drkit/drill"
	"drkit/drill/forecast"
)

// EarlierSteps is what the steps of a run that is to start took in earlier runs of
// its kind and playbook: the medians of those that recovered, in time or not. A time
// by the wall clock is left out: it may hold a pause.
func EarlierSteps(runs []*drill.Run, start drill.RunStarted) forecast.Earlier {
	times := map[string][]float64{}
	for _, r := range runs {
		if r.Finished == nil || r.Finished.Verdict != drill.Recovered && r.Finished.Verdict != drill.ObjectiveMissed {
			continue
		}
		if kindOf(r) != kindOf(&drill.Run{Plan: start}) || r.Plan.Playbook != start.Playbook {
			continue
		}
		for _, s := range r.Steps {
			if took := s.Elapsed(); s.Result == drill.Passed && took.Measured && took.Clock == drill.ClockMonotonic {
				times[s.ID] = append(times[s.ID], took.Elapsed.Seconds())
			}
		}
	}
	all := forecast.Earlier{}
	for id, took := range times {
		all[id] = forecast.Past{Took: time.Duration(median(took) * float64(time.Second)), Runs: len(took)}
	}
	return all
}
