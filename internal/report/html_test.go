package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"drkit/internal/errext"
)

func htmlOf(t *testing.T, r Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestHTMLNeedsNothingElse: no address, script or other file; and its elements are
// closed as they should be.
func TestHTMLNeedsNothingElse(t *testing.T) {
	page := htmlOf(t, Result{Title: "verify", Verdict: "red", Status: errext.Gate, Tool: "drkit", Properties: []Property{{"eu", "compared"}},
		Rows: []Row{{ID: "parity/missing", Group: "missing", Level: Error, Subject: "model/x", Message: "it is not there", Hint: "copy it", Path: "drkit.yaml"}, {ID: "parity", Level: Pass, Subject: "us"}}})
	for _, bad := range []string{"http:", "https:", "<script", "src=", "href=", "url(", "@import", "<link"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	for _, want := range []string{"default-src 'none'", "@media print", "model/x", "it is not there", "copy it", "(exit status 4)", "✘", "What holds (1)", "<h2>missing (1)</h2>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if text := regexp.MustCompile(`<(meta|br)[^>]*>`).ReplaceAllString(page, ""); wellFormed(text) != nil {
		t.Errorf("%v", wellFormed(text))
	}
}

// wellFormed reads text as XML, which checks that elements nest.
func wellFormed(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict, d.Entity = true, xml.HTMLEntity
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// TestHTMLOfHostileText: what files are called or say is no markup.
func TestHTMLOfHostileText(t *testing.T) {
	hostile := "</code><img src=x onerror=alert(1)>\x1b[31m\u202e"
	page := htmlOf(t, Result{Title: hostile, Verdict: hostile, Status: errext.Gate, Properties: []Property{{hostile, hostile}}, Groups: []Group{{hostile, hostile}},
		Rows: []Row{{ID: hostile, Group: hostile, Level: Error, Subject: hostile, Message: hostile, Field: hostile, Seen: hostile, Hint: hostile, Path: hostile, Line: 3}}})
	if strings.Contains(page, "<img") || strings.ContainsAny(page, "\x1b\u202e") || strings.Count(page, "&lt;img") < 10 {
		t.Errorf("%s", page)
	}
}

// TestHTMLIsNeverGreenByItself: a result without rows that does not hold says so.
func TestHTMLIsNeverGreenByItself(t *testing.T) {
	if page := htmlOf(t, Result{Title: "x", Verdict: "nothing was compared", Status: errext.Gate}); strings.Contains(page, "✔") || strings.Contains(page, "No findings") || !strings.Contains(page, `level error`) {
		t.Errorf("%s", page)
	}
	if page := htmlOf(t, Result{Title: "x", Verdict: "fine", Status: errext.Holds}); !strings.Contains(page, "✔") || !strings.Contains(page, "No findings") {
		t.Errorf("%s", page)
	}
}

// TestHTMLOfManyRows: a page that a browser can show, and that says what it leaves out.
func TestHTMLOfManyRows(t *testing.T) {
	r := Result{Status: errext.Gate}
	for i := range 200_000 {
		r.Rows = append(r.Rows, Row{ID: "a", Group: "missing", Level: Error, Subject: fmt.Sprint(i)})
	}
	if page := htmlOf(t, r); len(page) > 4<<20 || !strings.Contains(page, "195000 more are not shown") || !strings.Contains(page, "missing (200000)") {
		t.Errorf("%d bytes", len(page))
	}
	r = Result{}
	for i := range 6000 {
		r.Rows = append(r.Rows, Row{ID: "a", Level: Pass, Subject: fmt.Sprint(i)})
	}
	if page := htmlOf(t, r); !strings.Contains(page, "What holds (6000)") || !strings.Contains(page, "1000 more are not shown") {
		t.Error("rows that hold are left out, and the page does not say so")
	}
}
