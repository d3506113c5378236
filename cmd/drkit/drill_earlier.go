package main

import (
	"drkit/drill"
	"drkit/drill/forecast"
	"drkit/drill/ledger"
	drillreport "drkit/drill/report"
)

// earlierSteps is what the steps took in earlier runs of a folder that are of the same
// kind, for the projection. Journals that cannot be read or contradict themselves say
// nothing here: drill verify-evidence is for them.
func earlierSteps(dir string, start drill.RunStarted) forecast.Earlier {
	ids, err := ledger.List(dir)
	if err != nil {
		return nil // there is no earlier run
	}
	var runs []*drill.Run
	for _, id := range ids {
		if r, err := ledger.Load(dir, id); err == nil && drill.Verify(r) == nil {
			runs = append(runs, r)
		}
	}
	return drillreport.EarlierSteps(runs, start)
}
