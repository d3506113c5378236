package main

import (
	"strings"
	"testing"
	"time"

	"drkit/drill/evidence"
	"drkit/drill/ledger"
	drillreport "drkit/drill/report"
	"drkit/internal/errext"
)

func TestStatusOfAState(t *testing.T) {
	good := drillreport.KindStatus{Problems: []string{}}
	bad := drillreport.KindStatus{Problems: []string{"it was never run"}}
	fault := []ledger.Fault{{What: "it is missing"}}
	for _, c := range []struct {
		name   string
		kinds  []drillreport.KindStatus
		faults []ledger.Fault
		want   errext.Status
	}{
		{"good", []drillreport.KindStatus{good}, nil, errext.Holds},
		{"one is not", []drillreport.KindStatus{good, bad}, nil, errext.Gate},
		{"nothing was run", nil, nil, errext.Gate},
		{"evidence that does not hold", []drillreport.KindStatus{good}, fault, errext.Evidence},
		{"both", []drillreport.KindStatus{bad}, fault, errext.Evidence},
	} {
		if got := statusOfState(drillreport.Status{Kinds: c.kinds}, &evidence.Audit{Faults: c.faults}); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestSlowed(t *testing.T) {
	slow, fast := drillreport.PastRun{Regressions: []drillreport.Regression{{From: "a", To: "b"}}}, drillreport.PastRun{}
	for _, c := range []struct {
		runs []drillreport.PastRun
		want bool
	}{{nil, false}, {[]drillreport.PastRun{fast}, false}, {[]drillreport.PastRun{fast, slow}, true}, {[]drillreport.PastRun{slow, fast}, false}} {
		if got := slowed(drillreport.KindHistory{Runs: c.runs}); got != c.want {
			t.Errorf("%d runs: %v, want %v", len(c.runs), got, c.want)
		}
	}
}

// TestHistoryHasHeadings: columns of segments are named by their runs, and times are those
// of the result.
func TestHistoryHasHeadings(t *testing.T) {
	at := func(run string, day int, rto float64) drillreport.PastRun {
		return drillreport.PastRun{Run: run, Began: time.Date(2026, 11, day, 9, 30, 0, 0, time.UTC), RTO: &rto, Promised: 1800,
			Segments: []drillreport.Segment{{From: "declared", To: "weights", Elapsed: &rto}}}
	}
	var b strings.Builder
	if err := printHistory(&b, drillreport.History{Kinds: []drillreport.KindHistory{{Runs: []drillreport.PastRun{at("R1", 28, 4.123), at("R2", 29, 194.5)}}}}); err != nil {
		t.Fatal(err)
	}
	want := `  segment, by run                     11-28 09:30    11-29 09:30
  declared → weights                       4.123s        3m14.5s
`
	if !strings.HasSuffix(b.String(), want) {
		t.Errorf("%s\nwant at its end:\n%s", b.String(), want)
	}
	if !strings.Contains(b.String(), "declared → steady 4.123s    of 30m\n") {
		t.Error(b.String())
	}
}

func TestLonger(t *testing.T) {
	for x, want := range map[drillreport.Regression]string{{Elapsed: 15, Median: 10}: " (+50 %)", {Elapsed: 2}: ""} {
		if got := longer(x); got != want {
			t.Errorf("%v: %q, want %q", x, got, want)
		}
	}
}

func TestParseAge(t *testing.T) {
	for text, want := range map[string]time.Duration{"100d": 2400 * time.Hour, "1d": 24 * time.Hour, "36h": 36 * time.Hour, "": 0, "0d": 0, "-1d": 0, "1dx": 0, "01d": 0, "x": 0, "-3h": 0} {
		got, err := parseAge(text)
		if got != want || (err == nil) != (want > 0) || err != nil && (errext.StatusOf(err) != errext.Usage || errext.Hint(err) == "") {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
	}
}
