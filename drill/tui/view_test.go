package tui

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drkit/drill"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
)

var update = flag.Bool("update", false, "write the golden frames anew")

// shown is a model that has folded a tape, `after` its last event.
func shown(tp *tape, after time.Duration, width, height int) *model {
	m := newModel(Options{NoColor: true, Abort: func() {}, Output: io.Discard}, true)
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var batch eventsMsg
	for _, e := range tp.events {
		batch = append(batch, arrival{event: e, at: start.Add(e.Mono), rate: 1})
	}
	m.Update(batch)
	if n := len(tp.events); n > 0 {
		m.Update(tickMsg(start.Add(tp.events[n-1].Mono + after)))
	}
	return m
}

func press(m *model, keys ...string) {
	for _, k := range keys {
		msg := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(k)}
		if k == "ctrl+c" {
			msg = tea.KeyMsg{Type: tea.KeyCtrlC}
		}
		m.Update(msg)
	}
}

// scenes are the states that frames are kept of.
var scenes = []struct {
	name  string
	tape  func(*testing.T) *tape
	after time.Duration
	keys  []string
}{
	{"waiting", func(t *testing.T) *tape { return &tape{t: t} }, 0, nil},
	{"before-clock", beforeClock, 2500 * time.Millisecond, nil},
	{"boot", declared, 0, nil},
	{"over-budget", declared, 8 * time.Minute, []string{"l"}},
	{"red-gate", red, time.Second, nil},
	{"abort-prompt", behaves, 0, []string{"a"}},
	{"aborting", behaves, 0, []string{"ctrl+c", "y"}},
	{"after-steady", steadied, time.Minute, nil},
	{"failed", failed, time.Hour, nil},
	{"demo-end", demoEnd, time.Hour, []string{"l"}},
}

var sizes = []struct{ width, height int }{{80, 24}, {60, 20}, {120, 40}}

func TestFrames(t *testing.T) {
	for _, s := range scenes {
		for _, size := range sizes {
			name := fmt.Sprintf("%s-%dx%d", s.name, size.width, size.height)
			t.Run(name, func(t *testing.T) {
				m := shown(s.tape(t), s.after, size.width, size.height)
				press(m, s.keys...)
				golden(t, name, m.View()+"\n")
			})
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the frame differs from %s (-update writes it anew)\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// TestEverySize: no frame is larger than its terminal or than lines read well,
// and the timer and the keys are always there.
func TestEverySize(t *testing.T) {
	for _, s := range scenes {
		tp := s.tape(t)
		for _, width := range []int{1, 3, 20, 51, 60, 76, 100, 200} {
			for _, height := range []int{1, 2, 6, 14, 16, 24, 34, 60} {
				m := shown(tp, s.after, width, height)
				press(m, s.keys...)
				lines := strings.Split(m.View(), "\n")
				if len(lines) > height {
					t.Fatalf("%s at %dx%d has %d rows", s.name, width, height, len(lines))
				}
				for _, line := range lines {
					if w := lipgloss.Width(line); w > min(width, maxWidth) {
						t.Fatalf("%s at %dx%d has a row of %d columns: %q", s.name, width, height, w, line)
					}
				}
			}
		}
	}
}

// TestNothingImportantIsCrowdedOut: at the sizes that are promised, what decides
// is in the frame.
func TestNothingImportantIsCrowdedOut(t *testing.T) {
	wants := map[string][]string{
		"before-clock": {"clock not started", "▸ source", "a abort"},
		"boot":         {"objective 10:00 · 6:30 left", "projection from budgets: 8:30", "▸ boot", "reference router", "48 sent · 0 failed · 0 cut", "a abort"},
		"over-budget":  {"objective 10:00 · over by 1:30", "over", "a abort"},
		"red-gate":     {"✗ failed behaviour", "token ids 12 88 301 7", "difference at position 2", "behaviour failed 12.0s"},
		"abort-prompt": {"abort and undo? y/n"},
		"aborting":     {"aborting · 0 of 1 changes undone", "l log"},
		"after-steady": {"steady: clock stopped at 6:30", "objective 10:00 · 3:30 to spare", "1 failed", "▸ failback"},
		"failed":       {"✗ NOT RECOVERED · exit status 4", "difference at position 2", "next: compare the adapter's files", "q leave"},
		"demo-end":     {"✓ RECOVERED (demonstration)", "DEMONSTRATION", "stand-in engine", "q leave"},
	}
	for _, s := range scenes {
		for _, size := range sizes {
			m := shown(s.tape(t), s.after, size.width, size.height)
			press(m, s.keys...)
			frame := strings.Join(strings.Fields(m.View()), " ")
			for _, want := range wants[s.name] {
				if !strings.Contains(frame, want) {
					t.Errorf("%s at %dx%d lacks %q:\n%s", s.name, size.width, size.height, want, m.View())
				}
			}
		}
	}
}

// TestProjection by hand: at 5:30 the clock has run for 3:30; boot has used 30 s
// of its 90 s, so 1:00 is left; behaviour 2:00, cutover 1:00, steady 1:00.
func TestProjection(t *testing.T) {
	for _, c := range []struct {
		name  string
		tape  *tape
		after time.Duration
		want  time.Duration
		known bool
	}{
		{"before the clock: the budgets from declare to steady", beforeClock(t), 0, (180 + 90 + 120 + 60 + 60) * time.Second, true},
		{"inside a step's budget", declared(t), 0, 8*time.Minute + 30*time.Second, true},
		{"time passes inside the budget: the same end", declared(t), 20 * time.Second, 8*time.Minute + 30*time.Second, true},
		{"90 s later the budget is overrun by 30 s", declared(t), 90 * time.Second, 9 * time.Minute, true},
		{"a step has failed", red(t), 0, 0, false},
		{"steady is reached", steadied(t), 0, 0, false},
		{"the run has ended", failed(t), 0, 0, false},
		{"nothing has begun", &tape{t: t}, 0, 0, false},
	} {
		got, known := shown(c.tape, c.after, 80, 24).projection()
		if got != c.want || known != c.known {
			t.Errorf("%s: %v %v, want %v %v", c.name, got, known, c.want, c.known)
		}
	}
}

func TestForeignTextIsHarmless(t *testing.T) {
	p := newPen(Options{NoColor: true})
	for in, want := range map[string]string{
		"\x1b[31mred\x1b[0m text":        "red text",
		"a\tb\r\n":                       "a b",
		"\x1b]0;title\x07x":              "]0;title x",
		"cut \x1b[":                      "cut",
		"\x1b[?25l\x1b[2Jhidden":         "hidden",
		"left\u202eright":                "left right",
		"bad \xff byte":                  "bad   byte",
		"key hf_abcdefghijklmnopqrstuvw": "key [redacted]",
		"日本語":                            "日本語",
	} {
		if got := p.clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
	if got := p.fit("日本語の長い行", 7); lipgloss.Width(got) > 7 || got != "日本語…" {
		t.Errorf("fit cut wide text to %q", got)
	}
}

func TestClockTexts(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{clock(0), "0:00"}, {clock(59*time.Second + 999*time.Millisecond), "0:59"}, {clock(605 * time.Second), "10:05"},
		{clock(3661 * time.Second), "1:01:01"}, {clock(-61 * time.Second), "-1:01"},
		{brief(3400 * time.Millisecond), "3.4s"}, {brief(59990 * time.Millisecond), "59.9s"}, {brief(time.Minute), "1:00"},
		{limit(4 * time.Minute), "4m"}, {limit(90 * time.Second), "1m30s"}, {limit(time.Hour), "1h"}, {limit(90 * time.Minute), "1h30m"},
		{limit(10 * time.Second), "10s"}, {milli(1340400 * time.Microsecond), "1.34s"}, {milli(250 * time.Microsecond), "250µs"},
		{quantity(999, "bytes"), "999 bytes"}, {quantity(999_960, "bytes"), "1.0 MB"}, {quantity(1_234_000_000, "bytes"), "1.2 GB"}, {quantity(12, "files"), "12 files"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// TestColourIsOnlyAdded: with colours the frame says the same.
func TestColourIsOnlyAdded(t *testing.T) {
	plain := shown(red(t), 0, 80, 24)
	coloured := shown(red(t), 0, 80, 24)
	paint := func(s string) string { return "\x1b[1;31m" + s + "\x1b[0m" }
	coloured.pen = &pen{bold: paint, faint: paint, good: paint, bad: paint, warn: paint}
	if got := stripEscapes(coloured.View()); got != plain.View() {
		t.Errorf("coloured:\n%s\nplain:\n%s", got, plain.View())
	}
}

func TestSummaries(t *testing.T) {
	killed := behaves(t)
	for name, tp := range map[string]*tape{"summary-failed": failed(t), "summary-demo": demoEnd(t), "summary-killed": killed} {
		golden(t, name, Summary(tp.fold(), 80))
		for _, line := range strings.Split(Summary(tp.fold(), 60), "\n") {
			if lipgloss.Width(line) > 60 {
				t.Errorf("%s: a line of %d columns: %q", name, lipgloss.Width(line), line)
			}
		}
	}
	refused := failed(t).fold()
	refused.Plan.Release = ""
	if got := Summary(refused, 80); !strings.Contains(got, "release not known,") {
		t.Errorf("a run that never learnt its release: %q", got)
	}
	if got := Summary(&drill.Run{}, 80); got != "the run did not begin: nothing was changed\n" {
		t.Errorf("an empty run: %q", got)
	}
}
