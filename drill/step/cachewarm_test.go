package step

import "testing"

// TestWindowsWithTheDrillsOwnQuestionsAreLeftOut: the window that is open when the drill
// asks, those that close meanwhile, and the one in which it ends say nothing of users.
func TestWindowsWithTheDrillsOwnQuestionsAreLeftOut(t *testing.T) {
	r := &warming{}
	window := func(rate float64) { r.add(warmth{rate: rate}) }
	window(0.1)
	r.aside(func() { window(0.9) })
	window(0.8)
	window(0.2)
	if got := r.all(); len(got) != 2 || got[0].rate != 0.1 || got[1].rate != 0.2 {
		t.Errorf("kept %+v, want 0.1 and 0.2", got)
	}
	asked := false
	(*warming)(nil).aside(func() { asked = true })
	if !asked {
		t.Error("nothing was asked where nothing reads the cache")
	}
}
