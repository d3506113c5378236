package report_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"drkit/internal/errext"
	ireport "drkit/internal/report"
	"drkit/internal/store"
	"drkit/verify"
	"drkit/verify/report"
)

// full has everything that a result can say.
func full() verify.Result {
	r := red
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r.Gaps = append([]verify.Gap{}, red.Gaps...)
	r.Gaps[0].Seen = verify.Identity{ETag: "e", Size: 3, ModTime: at}
	r.Gaps[0].Proven = at
	r.Errors = []verify.ObjectError{{Subject: "deploy/x", Key: "support/id/deploy/x", Err: errext.WithStatus(errext.WithHint(errors.New("access denied"), "ask for s3:GetObject"), errext.Gate)}}
	r.Failed, r.Subjects, r.Total = []string{"deploy/x"}, 4, 9
	r.Shard = verify.Shard{Index: 1, Count: 3}
	r.Sample = &verify.Sampled{Sample: verify.Sample{Count: 2, Seed: 7}, Objects: 9, Draws: 2, Read: 2}
	r.Resumed = verify.Resumed{Objects: 1, Since: at}
	hours := 7200.0
	n := 2
	r.Age = &verify.Age{Source: &verify.Publication{Release: red.Release, Generation: 3}, Releases: &n, Seconds: &hours, Since: at, Basis: "the times", Why: []string{"eu publishes no release"}}
	r.Expected, r.Listing, r.Began, r.Ended, r.Notes = "aa", "bb", at, at.Add(time.Minute), []string{"a note"}
	return r
}

// TestDecodeReadsWhatWasWritten: a result comes back as it was.
func TestDecodeReadsWhatWasWritten(t *testing.T) {
	want := full()
	var b bytes.Buffer
	if err := report.JSON(&b, want); err != nil {
		t.Fatal(err)
	}
	all, err := report.Decode(b.Bytes())
	if err != nil || len(all) != 1 {
		t.Fatal(err)
	}
	got := all[0]
	e := got.Errors[0]
	if e.Error() != "access denied" || errext.Hint(e.Err) != "ask for s3:GetObject" || errext.StatusOf(e.Err) != errext.Gate || e.Subject != "deploy/x" {
		t.Errorf("error %+v", e)
	}
	got.Errors, want.Errors = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
}

// TestDecodeRefusesWhatWasEdited: no result is made better by hand.
func TestDecodeRefusesWhatWasEdited(t *testing.T) {
	var b bytes.Buffer
	if err := report.JSON(&b, full()); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for name, pair := range map[string][2]string{
		"another schema":       {"drkit.verify/1.0", "drkit.verify/2.0"},
		"a verdict":            {`"verdict": "diverged"`, `"verdict": "match"`},
		"an unknown verdict":   {`"verdict": "diverged"`, `"verdict": "fine"`},
		"an unknown evidence":  {`"evidence": "content"`, `"evidence": "sure"`},
		"a weak match":         {`"evidence": "content"`, `"evidence": "size"`},
		"a level":              {`"level": "checksum"`, `"level": "deep"`},
		"holds":                {`"holds": false`, `"holds": true`},
		"a count":              {`"compared": 3`, `"compared": 2`},
		"a shard made a whole": {`"partial": "shard"`, `"partial": ""`},
		"a subject twice":      {`"subject": "model/base/tokenizer.json"`, `"subject": "engine/vllm.yaml"`},
		"a huge sample":        {`"draws": 2`, `"draws": 9000000000000000000`},
		"a shard beyond all":   {`"count": 3`, `"count": 1`},
		"an error emptied":     {`"error": "access denied"`, `"error": ""`},
		"nothing":              {text, ""},
		"no JSON":              {text, "hello"},
		"no result":            {text, `{"schema": "drkit.verify/1.0", "copies": []}`},
	} {
		changed := strings.Replace(text, pair[0], pair[1], 1)
		if _, err := report.Decode([]byte(changed)); changed == text || errext.StatusOf(err) != errext.Usage || errext.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAShardNeverHolds: whatever reads its JSON.
func TestAShardNeverHolds(t *testing.T) {
	r := verify.Result{Level: verify.Checksum, Require: store.Claimed, Gaps: []verify.Gap{gap("x", verify.Match, store.Content, "")}, Compared: 1, Subjects: 1, Total: 2}
	if d := report.NewDocument(r); !d.Copies[0].Holds || d.Copies[0].Partial != "" {
		t.Errorf("the whole: %+v", d.Copies[0])
	}
	r.Shard = verify.Shard{Index: 0, Count: 2}
	if d := report.NewDocument(r); d.Copies[0].Holds || d.Copies[0].Partial != "shard" || d.Status != 0 {
		t.Errorf("the shard: %+v", d.Copies[0])
	}
}

func TestFactsSayEveryLimit(t *testing.T) {
	text := strings.Join(report.Facts(full()), "\n")
	for _, want := range []string{"at level checksum", "needs evidence claimed", "shard 1/3, 4 of 9", "2 of 9 objects were read in full (seed 7)", "of the other 7 objects it says nothing",
		"taken over from an interrupted verification: 1, the first compared at 2026-03-01T12:00:00Z", "behind for 2 h 0 min, since 2026-03-01T12:00:00Z", "releases behind: 2", "(basis: the times)", "eu publishes no release", "a note"} {
		if !strings.Contains(text, want) {
			t.Errorf("no fact says %q:\n%s", want, text)
		}
	}
	zero := 0.0
	for want, age := range map[string]*verify.Age{"it is not behind": {Seconds: &zero, Basis: "b"}, "is not known": {Why: []string{"no route"}}} {
		if text := strings.Join(report.Facts(verify.Result{Age: age}), "\n"); !strings.Contains(text, want) {
			t.Errorf("%q is not said: %s", want, text)
		}
	}
}

func TestDuration(t *testing.T) {
	for s, want := range map[float64]string{0.5: "0 s", 59: "59 s", 61: "1 min 1 s", 3660: "1 h 1 min", 90000: "1 d 1 h"} {
		if got := report.Duration(s); got != want {
			t.Errorf("%v s: %s, want %s", s, got, want)
		}
	}
}

// TestRaise: a gap says how to know more surely, where there is more to know.
func TestRaise(t *testing.T) {
	for want, g := range map[string]verify.Gap{
		"": gap("x", verify.Diverged, store.Content, ""),
		"raise its evidence with --level content":                                                         gap("x", verify.Diverged, store.Claimed, ""),
		"raise its evidence with --level content, or with --resolve read or batch for such objects alone": {Verdict: verify.NotComparable, Evidence: store.Size, Resolve: []string{"read", "batch"}},
	} {
		if got := report.Raise(g); got != want {
			t.Errorf("%+v: %q, want %q", g, got, want)
		}
	}
}

// TestRowsOfTheForms: every open gap has its evidence and how to raise it in each
// form, and an accepted one is shown as waived, never as a pass.
func TestRowsOfTheForms(t *testing.T) {
	r := verify.Result{Region: "b", Source: "a", Level: verify.Checksum, Require: store.Claimed, Compared: 2, Gaps: []verify.Gap{
		{Subject: "m/one", Verdict: verify.NotComparable, Evidence: store.Size, Why: "no checksum in common", Resolve: []string{"read"}},
		{Subject: "m/two", Verdict: verify.NotComparable, Evidence: store.Size, Why: "no checksum in common", Accepted: true},
	}}
	res := ireport.Result{Title: "verify", Verdict: "red", Status: errext.Gate, Rules: report.Rules(), Groups: report.Groups(), Rows: report.Rows(r), Properties: report.Properties(r)}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"junit": func(b *bytes.Buffer) error { return ireport.JUnit(b, res) }, "sarif": func(b *bytes.Buffer) error { return ireport.SARIF(b, res) },
		"markdown": func(b *bytes.Buffer) error { return ireport.Markdown(b, res, 1<<20) }, "html": func(b *bytes.Buffer) error { return ireport.HTML(b, res) },
		"github": func(b *bytes.Buffer) error { return ireport.GitHub(b, res) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"m/one", "evidence: size", "--level content", "read for such objects", "accepted on the command line"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s does not say %q:\n%s", name, want, b.String())
			}
		}
	}
}

// TestTextOfManyGaps: they are counted, and not all printed.
func TestTextOfManyGaps(t *testing.T) {
	r := verify.Result{Level: verify.Checksum, Require: store.Claimed, Compared: 5000}
	for range 5000 {
		r.Gaps = append(r.Gaps, gap("x", verify.Missing, store.None, "it is not there"))
	}
	var b strings.Builder
	if err := report.Text(&b, r); err != nil || strings.Count(b.String(), "\n") > 1010 || !strings.Contains(b.String(), "… and 4000 more: --output json lists all") {
		t.Errorf("%v %.300s", err, b.String())
	}
}

// FuzzDecode: whatever is read is refused or comes back as a result that Merge can
// take.
func FuzzDecode(f *testing.F) {
	var b bytes.Buffer
	if err := report.JSON(&b, full()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"schema": "drkit.verify/1.0", "copies": [{"level": "checksum", "require": "claimed"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := report.Decode(data)
		if err != nil {
			return
		}
		_, _ = verify.Merge(all)
		for _, r := range all {
			report.Facts(r)
		}
	})
}
