package drill

import "testing"

// TestWay: which way the traffic goes, whatever drkit.yaml calls the regions.
func TestWay(t *testing.T) {
	steps := func(kinds ...string) (all []StepPlan) {
		for _, k := range kinds {
			all = append(all, StepPlan{ID: k, Kind: k})
		}
		return all
	}
	for name, tc := range map[string]struct {
		mode     string
		steps    []StepPlan
		way      string
		from, to string
	}{
		"rehearsal, there and back":         {ModeRehearsal, steps("cutover", "failback"), ModeRehearsal, "us", "eu"},
		"planned":                           {ModePlanned, steps("cutover", "steady"), ModePlanned, "us", "eu"},
		"emergency":                         {ModeEmergency, steps("cutover", "steady"), ModeEmergency, "us", "eu"},
		"failback":                          {ModeFailback, steps("failback", "steady"), ModeFailback, "eu", "us"},
		"failback before it had a mode":     {ModePlanned, steps("failback", "steady"), ModeFailback, "eu", "us"},
		"planned, there and back in one go": {ModePlanned, steps("cutover", "failback"), ModePlanned, "us", "eu"},
		"tabletop":                          {ModeTabletop, steps("human"), ModeTabletop, "us", "eu"},
	} {
		p := RunStarted{Mode: tc.mode, Steps: tc.steps, Source: "us", Target: "eu"}
		if p.Way() != tc.way || p.From() != tc.from || p.To() != tc.to {
			t.Errorf("%s: %s from %s to %s, want %s from %s to %s", name, p.Way(), p.From(), p.To(), tc.way, tc.from, tc.to)
		}
	}
}
