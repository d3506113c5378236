package report

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"drkit/drill"
	"drkit/internal/report"
)

// TestClasses: each class of traffic stands in every report with its own verdict; only
// a recovery passes as a test case.
func TestClasses(t *testing.T) {
	r := &drill.Run{ID: "R1", Finished: &drill.RunFinished{Verdict: drill.Refused, Status: 3}, Problems: []drill.ProblemState{{Problem: drill.Problem{What: "the lock is held"}}},
		Classes: []drill.Class{{Name: "chat", Residency: []string{"us", "eu"}, Share: 0.8, Router: "chat"},
			{Name: "us-phi", Refused: "it may be answered in [us] alone"}, {Name: "eu", Aside: "the source may not answer it"}}}
	for name, write := range map[string]func(io.Writer, *drill.Run) error{"markdown": Markdown, "html": HTML, "json": JSON} {
		var b bytes.Buffer
		if err := write(&b, r); err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"us-phi", "it may be answered in [us] alone", "not-affected", "the lock is held"} {
			if !strings.Contains(b.String(), word) {
				t.Errorf("%s does not say %q", name, word)
			}
		}
	}
	got := map[string]report.Row{}
	for _, row := range TestCases(r).Rows {
		got[row.Subject] = row
	}
	if row := got["us-phi"]; row.Level != report.Error || row.Group != drill.Refused || row.Skipped != "" {
		t.Errorf("us-phi: %+v", row)
	}
	if row := got["chat"]; row.Level != report.Error || row.Group != drill.Refused {
		t.Errorf("chat: %+v", row)
	}
	if row := got["eu"]; row.Skipped == "" {
		t.Errorf("eu: %+v", row)
	}
	if row := classCase(Class{Name: "c", Verdict: ptr(drill.Recovered)}); row.Level != report.Pass {
		t.Errorf("a recovery: %+v", row)
	}
}

func ptr(s string) *string { return &s }
