package report_test

import (
	"strings"
	"testing"

	"drkit/internal/store"
	"drkit/verify"
	"drkit/verify/report"
)

// TestNobodyIsToldToEmptyAGoodCopy: a mistyped first place holds nothing, so all
// of the second is extra. That is no reason to remove it.
func TestNobodyIsToldToEmptyAGoodCopy(t *testing.T) {
	extra, same := gap("config.json", verify.Extra, store.None, ""), gap("tokenizer.json", verify.Match, store.Content, "")
	for name, c := range map[string]struct {
		result verify.Result
		want   string
	}{
		"nothing in the first place": {verify.Result{Gaps: []verify.Gap{extra}}, "next: nothing was found in the first place: check its name"},
		"one file more":              {verify.Result{Gaps: []verify.Gap{extra, same}, Compared: 1}, "next: look at what is extra"},
		"a release's copy":           {verify.Result{Release: "00", Gaps: []verify.Gap{extra, same}, Compared: 1}, "next: remove what is extra, or build a release that lists it"},
	} {
		var b strings.Builder
		if err := report.Text(&b, c.result); err != nil || !strings.Contains(b.String(), c.want) {
			t.Errorf("%s: %v, want %q:\n%s", name, err, c.want, b.String())
		}
	}
}

// TestASampleOfADirectory: a directory is read whole whatever the sample, so
// more is known of the other objects than the sample says.
func TestASampleOfADirectory(t *testing.T) {
	r := verify.Result{Sample: &verify.Sampled{Objects: 2, Read: 1, Draws: 1}, Compared: 2,
		Gaps: []verify.Gap{gap("a", verify.Match, store.Content, ""), gap("b", verify.Match, store.Content, "")}}
	says := func() string { return strings.Join(report.Facts(r), "\n") }
	const all = "every object whose name and size agree was read in full, the sample saves nothing"
	if got := says(); !strings.Contains(got, all) || strings.Contains(got, "it says nothing") {
		t.Errorf("all was read: %s", got)
	}
	r.Gaps = append(r.Gaps, gap("c", verify.Missing, store.None, ""), gap("d", verify.Extra, store.None, ""), gap("e", verify.Diverged, store.Size, ""), gap("f", verify.Diverged, store.Content, ""))
	if got := says(); !strings.Contains(got, all) || strings.Contains(got, "it says nothing") {
		t.Errorf("all that is there was read: %s", got)
	}
	r.Gaps[1].Evidence = store.Claimed
	if got := says(); !strings.Contains(got, "of the other 1 objects it says nothing") || strings.Contains(got, all) {
		t.Errorf("one was not: %s", got)
	}
}
