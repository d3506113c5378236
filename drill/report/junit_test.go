package report

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"drkit/drill"
	"drkit/internal/report"
)

// TestJUnit: the golden files were held against the xunit2 schema; DRKIT_REPORTS
// names a folder for them, where other judges read them again.
func TestJUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, j := range journals(t) {
			r, err := drill.Replay(j.Events())
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := report.JUnit(&b, TestCases(r)); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".xml", b.Bytes())
			if dir := os.Getenv("DRKIT_REPORTS"); dir != "" {
				if err := os.WriteFile(filepath.Join(dir, "drill-"+name+".xml"), b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestCasesOfResults: only a passed step or gate passes.
func TestCasesOfResults(t *testing.T) {
	for _, c := range []struct {
		result  string
		status  int
		passes  bool
		skipped bool
		trouble bool
		group   string
	}{
		{drill.Passed, 0, true, false, false, ""},
		{drill.Failed, 0, false, false, false, "gate"},
		{drill.Failed, 4, false, false, false, "gate"},
		{drill.Failed, 5, false, false, false, "objective"},
		{drill.Failed, 1, false, false, true, "failed"},
		{drill.Failed, 8, false, false, true, "unclean"},
		{drill.Unmeasured, 0, false, false, true, "unmeasured"},
		{drill.Skipped, 0, false, true, false, ""},
		{drill.NotReached, 0, false, true, false, ""},
		{"", 0, false, true, false, ""},
	} {
		var row report.Row
		judge(&row, c.result, c.status)
		if got := row.Level == report.Pass && row.Skipped == ""; got != c.passes || (row.Skipped != "") != c.skipped || row.Trouble != c.trouble || row.Group != c.group || row.Message == "" {
			t.Errorf("%q with status %d: %+v", c.result, c.status, row)
		}
	}
}
