package tui

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drkit/drill"
	"drkit/drill/forecast"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
)

var update = flag.Bool("update", false, "write the golden frames anew")

// shown is a model that has folded a tape, `after` its last event.
func shown(tp *tape, after time.Duration, width, height int) *model {
	m := newModel(Options{NoColor: true, Abort: func() {}, Leave: func() {}, Pause: func() {}, Ack: func(string) {}, Approve: func(string) {}, CloseAfter: 5 * time.Minute, Output: io.Discard}, true)
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
		pressed(m, k)
	}
}

// pressed presses a key and returns the command that came of it.
func pressed(m *model, k string) tea.Cmd {
	named := map[string]tea.KeyType{"ctrl+c": tea.KeyCtrlC, "ctrl+z": tea.KeyCtrlZ, "esc": tea.KeyEsc, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown}
	msg := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(k)}
	if typ, ok := named[k]; ok {
		msg = tea.KeyMsg{Type: typ}
	}
	_, cmd := m.Update(msg)
	return cmd
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
	{"traffic", busy, 3 * time.Second, nil},
	{"at-risk", slowCopy, 0, nil},
	{"missed", late, time.Minute, nil},
	{"human", human, 30 * time.Second, nil},
	{"held", held, time.Hour, nil},
	{"side-by-side", sideBySide, 0, nil},
	{"recovered", recovered, time.Minute, nil},
	{"details", red, time.Second, []string{"d"}},
	{"help", behaves, 0, []string{"?"}},
}

var sizes = []struct{ width, height int }{{80, 24}, {60, 20}, {120, 40}, {200, 50}}

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

// sealed is the end of a recovery whose evidence has this to say; nil: nothing yet.
func sealed(t *testing.T, final *drill.RunFinished) *model {
	m := newModel(Options{NoColor: true, Seals: true, Abort: func() {}}, true)
	q := newQueue()
	for _, e := range recovered(t).events {
		q.push(arrival{event: e, at: began, rate: 1})
	}
	if final != nil {
		q.push(arrival{final: final, at: began, rate: 1})
	}
	m.Update(eventsMsg(q.take()))
	return m
}

// TestTheLedgerCouldNotBeClosed: no screen says RECOVERED before the ledger is closed,
// nor when that failed; a recovery that is sealed is shown as one.
func TestTheLedgerCouldNotBeClosed(t *testing.T) {
	good := *recovered(t).fold().Finished
	lost := drill.EvidenceLost(good, errors.New("writing to the ledger s3://audit: no answer"))
	for name, c := range map[string]struct {
		final *drill.RunFinished
		want  []string
		not   string
	}{
		"sealing":    {nil, []string{"the run has ended (recovered)", "evidence is being written"}, "RECOVERED"},
		"not-sealed": {&lost, []string{"✗ INCOMPLETE", "exit status 6", "writing to the ledger s3://audit"}, "RECOVERED"},
		"sealed":     {&good, []string{"✓ RECOVERED", "exit status 0"}, "is being written"},
	} {
		view := sealed(t, c.final).View()
		golden(t, "evidence-"+name+"-80x24", view+"\n")
		for _, text := range c.want {
			if !strings.Contains(view, text) {
				t.Errorf("%s: %q is not shown:\n%s", name, text, view)
			}
		}
		if strings.Contains(view, c.not) {
			t.Errorf("%s: %q is shown:\n%s", name, c.not, view)
		}
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
		"boot":         {"ON TRACK", "objective 10:00 · 6:30 left", "projected 8:30 by budgets", "▸ boot", "reference router", "48 sent · 0 failed · 0 cut", "a abort"},
		"over-budget":  {"MISSED", "objective 10:00 · over by 1:30", "over 7:00", "a abort"},
		"red-gate":     {"✗ failed behaviour", "token ids 12 88 301 7", "difference at position 2", "behaviour failed 12.0s", "AT RISK"},
		"abort-prompt": {"abort and undo? y/n"},
		"aborting":     {"ABORTING", "aborting · 0 of 1 changes undone", "ctrl+c leave without undo"},
		"after-steady": {"IN TIME", "steady: clock stopped at 6:30", "objective 10:00 · 3:30 to spare", "1 failed", "▸ failback"},
		"failed":       {"✗ NOT RECOVERED · exit status 4", "difference at position 2", "next: compare the adapter's files", "q leave"},
		"demo-end":     {"✓ RECOVERED (demonstration)", "DEMONSTRATION", "stand-in engine", "q leave"},
		"traffic":      {"50 sent · 1 failed · 0 cut", "hit rate 62 %", "▸ steady"},
		"at-risk":      {"AT RISK", "1 %, 2:45:00 left"},
		"missed":       {"MISSED", "objective 10:00 · over by 1:00", "over 6:30", "at least 15:00"},
		"human":        {"confirm-dns waits for network on call", "g go ahead", "g: it is done"},
		"held":         {"PAUSED", "next: drkit drill resume 01JXDEMO7", "q leave"},
		"side-by-side": {"▸ verify", "▸ boot", "projected 8:00"},
		"recovered":    {"✓ RECOVERED", "IN TIME", "to spare", "q leave"},
		"details":      {"details", "expected token ids 12 88 301 7", "esc back"},
		"help":         {"help", "go ahead: approve the plan", "esc back"},
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

// TestOutlook: what the third line says. At 5:30 the clock has run for 3:30; boot has
// used 30 s of its 90 s, so 1:00 is left; behaviour 2:00, cutover 1:00, steady 1:00.
func TestOutlook(t *testing.T) {
	for _, c := range []struct {
		name    string
		tape    *tape
		after   time.Duration
		earlier forecast.Earlier
		keys    []string
		want    string
	}{
		// 3:00 + 1:30 + 2:00 + 1:00 + 1:00
		{"before the clock: the budgets from declare to steady", beforeClock(t), 0, nil, nil, "projected 8:30 by budgets"},
		{"inside a step's budget", declared(t), 0, nil, nil, "projected 8:30 by budgets"},
		{"time passes inside the budget: the same end", declared(t), 20 * time.Second, nil, nil, "projected 8:30 by budgets"},
		{"90 s later the budget is overrun by 30 s", declared(t), 90 * time.Second, nil, nil, "at least 9:00: boot takes longer than is known of it"},
		// 3:30 + 4:30 of boot left + 2:00 + 1:00 + 1:00
		{"an earlier run took longer", declared(t), 0, forecast.Earlier{"boot": {Took: 5 * time.Minute, Runs: 1}}, nil, "projected 12:00 by earlier runs, budgets"},
		{"a step has failed", red(t), 0, nil, nil, "behaviour failed · 0 of 1 changes undone"},
		{"the person aborts", declared(t), 0, nil, []string{"a", "y"}, "aborting · 0 of 1 changes undone"},
		{"steady is reached", steadied(t), 0, nil, nil, "now: failback"},
		{"the run has ended", failed(t), 0, nil, nil, ""},
	} {
		m := shown(c.tape, c.after, 80, 24)
		m.opts.Earlier = c.earlier
		press(m, c.keys...)
		if got := m.outlook(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
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
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// marked is a pen that writes its styles as words.
func marked() *pen {
	style := func(name string) func(string) string {
		return func(s string) string {
			if s == "" {
				return ""
			}
			return "<" + name + ">" + s + "</>"
		}
	}
	return &pen{bold: style("bold"), faint: style("faint"), good: style("good"), bad: style("bad"), warn: style("warn")}
}

// TestColours: which line has which colour, beside its words.
func TestColours(t *testing.T) {
	for _, c := range []struct {
		tape  *tape
		after time.Duration
		want  []string
	}{
		{declared(t), 0, []string{"<good>ON TRACK · clock runs since declared</>", "<good>✓ verify", "<bold>▸ boot", "<faint>• cutover", "<warn>drkit's own reference router"}},
		{declared(t), 100 * time.Second, []string{"<warn>AT RISK · clock runs since declared</>", "<warn>▸ boot      2:10 of 1m30s over 40.0s"}},
		{late(t), time.Minute, []string{"<bad>MISSED · clock runs since declared</>"}},
		{red(t), 0, []string{"<warn>AT RISK", "<bad>✗ failed behaviour", "<warn>? unmeasured long-context"}},
		{recovered(t), 0, []string{"<good>IN TIME", "<good>✓ RECOVERED"}},
		{failed(t), 0, []string{"<bad>✗ NOT RECOVERED"}},
		{human(t), 0, []string{"<warn>▸ confirm-dns waits for network on call</>"}},
	} {
		m := shown(c.tape, c.after, 200, 50)
		m.pen = marked()
		frame := m.View()
		for _, want := range c.want {
			if !strings.Contains(frame, want) {
				t.Errorf("the frame lacks %q:\n%s", want, frame)
			}
		}
	}
}

// TestColourIsOnlyAdded: with colours every frame says the same.
func TestColourIsOnlyAdded(t *testing.T) {
	paint := func(s string) string { return "\x1b[1;31m" + s + "\x1b[0m" }
	for _, s := range scenes {
		for _, size := range sizes {
			plain, coloured := shown(s.tape(t), s.after, size.width, size.height), shown(s.tape(t), s.after, size.width, size.height)
			coloured.pen = &pen{bold: paint, faint: paint, good: paint, bad: paint, warn: paint}
			press(plain, s.keys...)
			press(coloured, s.keys...)
			if got := trimmed(stripEscapes(coloured.View())); got != plain.View() {
				t.Errorf("%s at %dx%d coloured:\n%s\nplain:\n%s", s.name, size.width, size.height, got, plain.View())
			}
		}
	}
}

// trimmed drops the spaces at the ends of lines.
func trimmed(frame string) string {
	lines := strings.Split(frame, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

// TestMarksOfTraffic: the signs of a strip, by hand.
func TestMarksOfTraffic(t *testing.T) {
	strip := strings.Join(shown(busy(t), 0, 80, 24).strip("us-chat", 40), "\n")
	// the baseline's window has no hit rate; 0 % is the lowest bar, 25, 62 and 90 % are
	// the second, fifth and seventh of seven; a TTFT at the objective is the fourth.
	want := "errors   ··#·31\nTTFT     ▁▁▇?▄▃\nhit rate ?▇▁?▂▅\nsent     ▇▇▆▁▇▇\nphase    bccsss"
	if strip != want {
		t.Errorf("the strip is\n%s\nwant\n%s", strip, want)
	}
	if got := shown(busy(t), 0, 80, 24).strip("us-chat", stripLabel+2)[0]; got != "errors   31" {
		t.Errorf("a narrow strip shows %q, want the newest two windows", got)
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

// TestSummaryNamesApprovers: who approved a live run, in which record and for which change,
// and what counted nothing.
func TestSummaryNamesApprovers(t *testing.T) {
	r := &drill.Run{ID: "R1", Approvals: []drill.Approval{
		{Approver: "mei", Method: "ssh-ed25519", ChangeRef: "CHG-7", Record: 3},
		{Approver: "kim", Method: drill.MethodTyped, Self: true},
		{Approver: "eve", Method: "ssh-ed25519", Record: 4, Why: "drkit.yaml does not know its key"},
	}}
	got := strings.Join(strings.Fields(Summary(r, 200)), " ")
	for _, want := range []string{"✓ approved by mei, change CHG-7, record 3 of the ledger", "✓ approved by kim, the operator's own: typed by the operator, not authenticated", "✗ the approval by eve in record 4 of the ledger counts nothing: drkit.yaml does not know its key"} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q: %s", want, got)
		}
	}
}

// TestWaitsForApprovals: while the step waits, the screen says what is missing.
func TestWaitsForApprovals(t *testing.T) {
	m := newModel(Options{NoColor: true}, false)
	s := &drill.StepState{StepPlan: drill.StepPlan{ID: "approve", Kind: kindApprove, Who: "two people"}, Waits: "1 of 2 approvals (mei)"}
	if got := strings.Join(m.asks(s, 80), "\n"); !strings.Contains(got, "1 of 2 approvals (mei)") {
		t.Errorf("%q", got)
	}
}
