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

// TestEveryGapSaysWhatToDo: the reports have a column for it, and the text's last line
// says it of the first gap alone.
func TestEveryGapSaysWhatToDo(t *testing.T) {
	same := gap("z", verify.Match, store.Content, "")
	for name, c := range map[string]struct {
		release string
		gaps    []verify.Gap
		want    string
	}{
		"missing of a release":      {"00", []verify.Gap{gap("a", verify.Missing, store.None, "")}, "drkit replicate copies what is missing or diverged, and verifies again"},
		"diverged of a release":     {"00", []verify.Gap{gap("a", verify.Diverged, store.Content, "")}, "drkit replicate copies what is missing or diverged, and verifies again"},
		"extra of a release":        {"00", []verify.Gap{gap("a", verify.Extra, store.None, ""), same}, "look at it: drkit replicate --delete-extra removes it, or build a release that lists it"},
		"missing of two places":     {"", []verify.Gap{gap("a", verify.Missing, store.None, "")}, "copy it from the first place, and verify again"},
		"diverged by its checksum":  {"", []verify.Gap{gap("a", verify.Diverged, store.Claimed, "")}, "copy it from the first place, and verify again; raise its evidence with --level content"},
		"extra of two places":       {"", []verify.Gap{gap("a", verify.Extra, store.None, ""), same}, "look at it: the first place does not hold it"},
		"nothing in the first":      {"", []verify.Gap{gap("a", verify.Extra, store.None, "")}, "nothing was found in the first place: check its name, and remove nothing before"},
		"what verify itself has to": {"00", []verify.Gap{{Subject: "a", Verdict: verify.Diverged, Evidence: store.Content, Hint: "look at it"}}, "look at it"},
	} {
		rows := report.Rows(verify.Result{Release: c.release, Gaps: c.gaps, Compared: len(c.gaps)})
		if rows[0].Hint != c.want {
			t.Errorf("%s: %q, want %q", name, rows[0].Hint, c.want)
		}
	}
}

// TestTheNextCommandNamesThePlaces: without them it would look for a drkit.yaml.
func TestTheNextCommandNamesThePlaces(t *testing.T) {
	present := []verify.Gap{gap("x", verify.Present, store.Size, "")}
	for name, c := range map[string]struct {
		result verify.Result
		want   string
	}{
		"a release":       {verify.Result{Release: "00", Region: "eu"}, "next: drkit verify --level content reads the bytes"},
		"two places":      {verify.Result{Source: "models/a", Region: "s3://b/c"}, "next: drkit verify models/a s3://b/c --level content reads the bytes"},
		"what shells act": {verify.Result{Source: "a b", Region: "s3://b?endpoint=http://h:1&region=it's"}, `next: drkit verify 'a b' 's3://b?endpoint=http://h:1&region=it'\''s' --level content reads the bytes`},
	} {
		var b strings.Builder
		c.result.Gaps, c.result.Compared = present, 1
		if err := report.Text(&b, c.result); err != nil || !strings.Contains(b.String(), c.want) {
			t.Errorf("%s: %v, want %q:\n%s", name, err, c.want, b.String())
		}
	}
}
