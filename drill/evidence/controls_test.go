package evidence

import (
	"strings"
	"testing"

	"drkit/drill"
)

// What a control says of a run has the way of the traffic, however its playbook was
// written: before there was the mode failback, a way back was a planned run with a step
// of that kind and no cutover.
func TestExercisedTellsTheWay(t *testing.T) {
	for _, c := range []struct {
		mode, kind, want string
	}{
		{drill.ModePlanned, "cutover", "a planned of chat from us to eu, "},
		{drill.ModeEmergency, "cutover", "an emergency of chat from us to eu, "},
		{drill.ModeFailback, "failback", "a failback of chat from eu to us, "},
		{drill.ModePlanned, "failback", "a failback of chat from eu to us, "},
	} {
		e := &Evidence{Kind: KindReal, Mode: c.mode, Service: "chat", Environment: Environment{SourceRegion: "us", TargetRegion: "eu"},
			Steps: []Step{{Kind: "declare"}, {Kind: c.kind}}, Outcome: &Outcome{Verdict: drill.Recovered}}
		if got := e.exercised(); len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s with %s: %q, want %q", c.mode, c.kind, got, c.want)
		}
	}
}
