package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
)

// TestHTML: DRKIT_REPORTS names a folder for the pages, where a browser opens them.
func TestHTML(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, j := range journals(t) {
			text := htmlOf(t, j.events)
			if dir := os.Getenv("DRKIT_REPORTS"); dir != "" {
				if err := os.WriteFile(filepath.Join(dir, "drill-"+name+".html"), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, outside := range []string{"http://", "https://", "<script", "<link", "@import", "src=", "ZgotmplZ", "<no value>", "%!"} {
				if strings.Contains(text, outside) {
					t.Errorf("%s: the page holds %q", name, outside)
				}
			}
			balanced(t, name, text)
			want := map[string][]string{
				"recovered":   {`<span class="verdict good">recovered</span> exit status 0`, "3m14.5s", "4m", "cached: served from", "eu-west-1 199", "✓ proven"},
				"red":         {`verdict bad">not-recovered`, "&#34;a &lt;b&gt; | c&#34;", "not measured", "verify the copy", "✗ failed"},
				"killed":      {"not ended", "still lives, or its process was killed"},
				"unclean":     {"exit status 8", "✗ not proven", "process 4711 is still there"},
				"interrupted": {"aborted", "exit status 130"},
			}[name]
			for _, w := range want {
				if !strings.Contains(text, w) {
					t.Errorf("%s does not say %q", name, w)
				}
			}
		}
	})
}

func htmlOf(t *testing.T, events []drill.Event) string {
	t.Helper()
	r := &drill.Run{}
	for _, e := range events {
		if err := r.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var void = regexp.MustCompile(`<(meta)([^>]*)>`)

// balanced reads the page as XML, which is stricter than a browser: every element
// is closed, every attribute quoted.
func balanced(t *testing.T, name, text string) {
	t.Helper()
	text = void.ReplaceAllString(strings.TrimPrefix(text, "<!DOCTYPE html>"), "<$1$2/>")
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
	}
}

// TestTimeline: the bars of the recovered run stand where hand calculation puts
// them: restore takes 62.5 of 194.5 s on a drawing of 740 units.
func TestTimeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := drill.Replay(journals(t)["recovered"].Events())
		if err != nil {
			t.Fatal(err)
		}
		tl := newTimeline(r)
		width, err := strconv.ParseFloat(tl.Bars[1].Width, 64)
		if want := 62.5 / 194.5 * 740; err != nil || width < want-0.1 || width > want+0.1 || tl.Bars[1].Class != "good" {
			t.Errorf("%+v, want %.1f", tl.Bars[1], want)
		}
		if tl.Axis[4].Label != "3m14.5s" || tl.Axis[4].X != "890.0" {
			t.Errorf("%+v", tl.Axis)
		}
		r.Plan.Objectives.RTO = 97250 * time.Millisecond // half of the whole, and declared at its beginning
		tl = newTimeline(r)
		if m := tl.Marks[len(tl.Marks)-1]; m.Label != "promised 1m37.25s" || m.X != "520.0" || m.Class != "promise" {
			t.Errorf("%+v", m)
		}
		a := attributions(r)
		if len(a) != 1 || len(a[0].Windows) != 4 || !strings.Contains(a[0].Windows[0].Title, "cutover: 60 sent") {
			t.Fatalf("%+v", a)
		}
		// 20 of 60 requests by us-east-1 and 38 by eu-west-1 and 2 failed, on 80 units
		for _, p := range a[0].Windows[0].Parts {
			h, _ := strconv.ParseFloat(p.Height, 64)
			want := map[string]float64{fills[0]: 38.0 / 60 * 80, fills[1]: 20.0 / 60 * 80, fillFailed: 2.0 / 60 * 80}[p.Fill]
			if h < want-0.1 || h > want+0.1 {
				t.Errorf("%+v, want %.1f", p, want)
			}
		}
	})
}

// TestHostileAndHugeTexts: what an engine writes is shown as text, and not whole.
func TestHostileAndHugeTexts(t *testing.T) {
	evil := `</pre><script>alert(1)</script>"'<svg onload=x>` + strings.Repeat("A", 1<<20)
	r := &drill.Run{ID: "R", Logs: []drill.Log{{From: evil, Line: evil}}, Notes: []string{evil}, Steps: []drill.StepState{{StepPlan: drill.StepPlan{ID: evil}, Error: evil, Hint: evil, Result: drill.Failed}},
		Gates:   []drill.GateState{{Gate: drill.Gate{ID: "g", Title: "t", Expected: evil, Observed: evil, Evidence: evil, Hint: evil, Result: drill.Failed}}},
		Traffic: []drill.TrafficWindow{{Class: "c", ByRegion: map[string]int{evil[:60]: 3}, OK: 3, Sent: 3}}, Phases: []drill.Phase{{Line: evil}}}
	r.Plan.Service = "s"
	var page, md, plain bytes.Buffer
	if err := errors.Join(HTML(&page, r), Markdown(&md, r)); err != nil {
		t.Fatal(err)
	}
	balanced(t, "hostile", page.String())
	if strings.Contains(page.String(), "<script") || strings.Contains(page.String(), "<svg onload") {
		t.Error("an engine's text became part of the page")
	}
	line := drill.Event{Type: drill.TypeNote, Data: []byte(`{"text":"` + strings.Repeat("A", 1<<20) + `"}`)}
	if err := NewPlain(&plain).Event(line, r); err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]int{"html": page.Len(), "markdown": md.Len()} {
		if n > 100<<10 {
			t.Errorf("%s has %d bytes", name, n)
		}
	}
	if plain.Len() > 1200 || !strings.Contains(plain.String(), "bytes more)") {
		t.Errorf("a line of %d bytes", plain.Len())
	}
	for _, row := range TestCases(r).Rows {
		if len(row.Message) > 5000 || len(row.Hint) > 5000 {
			t.Errorf("a test case of %d bytes", len(row.Message))
		}
	}
}
