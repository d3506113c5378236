package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/report"
)

var update = flag.Bool("update", false, "write the golden files anew")

// small is a result with one row of each kind.
func small() report.Result {
	return report.Result{
		Tool: "drkit", Version: "v1.2.3", Title: "drkit manifest check of support", Category: "drkit/manifest-check/support", Verdict: "fails", Status: errext.Gate,
		Rules: []report.Rule{
			{ID: "C-1", Title: "config.json is missing", Text: "A repository holds config.json.", Doc: "docs/rules.md#c-1", Level: report.Error},
			{ID: "T-1", Title: "the tokenizer is missing", Text: "A repository holds a tokenizer.", Doc: "docs/rules.md#t-1", Level: report.Error},
			{ID: "D-1", Title: "an image is not pinned", Text: "Images are pinned.", Doc: "docs/rules.md#d-1", Level: report.Error},
		},
		Groups: []report.Group{{Name: "block", Text: "The engine does not boot."}, {Name: "degraded", Text: "Slower."}},
		Rows: []report.Row{
			{ID: "D-1", Group: "degraded", Suite: "findings", Level: report.Warning, Title: "an image is not pinned", Message: "image app:1 is not pinned", Hint: "pin it",
				Subject: "deploy/base/d.yaml", Field: "image", Path: "deploy/base/d.yaml", Line: 12},
			{ID: "T-1", Group: "block", Suite: "findings", Level: report.Error, Title: "the tokenizer is missing", Message: "tokenizer.json is missing", Seen: "OSError: no tokenizer",
				Hint: "copy it", Subject: "model/base/tokenizer.json", Path: "drkit.yaml"},
			{ID: "drkit.yaml", Group: "info", Suite: "findings", Level: report.Note, Message: "edge is not used", Subject: "drkit.yaml", Path: "drkit.yaml", Line: 3},
			{ID: "T-1", Group: "block", Suite: "findings", Level: report.Error, Message: "vocab.json is missing", Subject: "model/base/vocab.json", Waived: "ops until 2026-12-31: no need"},
			{ID: "C-1", Suite: "rules", Subject: "rules", Level: report.Pass, Title: "A repository holds config.json.", Message: "no finding"},
			{ID: "gate x", Suite: "steps", Subject: "boot", Level: report.Error, Skipped: "not-reached", Group: "gate", Message: "not-reached"},
			{ID: "gate y", Suite: "steps", Subject: "boot", Level: report.Error, Trouble: true, Group: "failed", Message: "the engine's log could not be read"},
		},
		Properties: []report.Property{{Name: "release", Value: "0123abcd"}},
	}
}

var forms = map[string]func(io.Writer, report.Result) error{
	"sarif": report.SARIF, "xml": report.JUnit, "github": report.GitHub,
	"md": func(w io.Writer, r report.Result) error { return report.Markdown(w, r, report.MaxSummary) },
}

func write(t *testing.T, form string, r report.Result) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := forms[form](&b, r); err != nil {
		t.Fatalf("%s: %v", form, err)
	}
	return b.Bytes()
}

func TestGolden(t *testing.T) {
	for form := range forms {
		got := write(t, form, small())
		if again := write(t, form, small()); !bytes.Equal(got, again) {
			t.Errorf("%s: two runs differ", form)
		}
		path := filepath.Join("testdata", "small."+form)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n%s", form, err, got)
		}
	}
}

// hostile texts: each is taken for something else by one of the forms or by a
// terminal.
var hostile = []string{
	"esc \x1b[31mred\x1b[0m bell\a null\x00 del\x7f c1\u0085\u009b", "100% %0A::error::x %25", "two\nlines\r\nand\rthree", "]]> <![CDATA[ &amp; </failure></testsuites>",
	"<script>alert(1)</script><img src=x onerror=y>", "| pipe \\| `code` **bold** [link](http://evil.example) ![](http://evil.example/x.png) @everyone", "emoji 👩‍🚀 and ümlaut, 名前",
	"bytes \xff\xfe\xc3 end", "rtl \u202egpj.exe\u2066x", "\ufffe\uffff\u2028\u2029", "::stop-commands::x", "##[error]x", "\n::add-mask::a\n::endgroup::", "a:b,c=d;e", strings.Repeat("long ", 2000), "", " ", "..//\\..\\",
	`password="s3cr3t-value"`,
}

func hostileResult(n int) report.Result {
	r := report.Result{Tool: "drkit", Version: "v\x1b", Title: "check of " + hostile[0], Category: "x/" + hostile[3], Verdict: hostile[2], Status: errext.Gate, Properties: []report.Property{{Name: hostile[1], Value: hostile[4]}}}
	for i := range n {
		h := func(k int) string { return hostile[(i+k)%len(hostile)] }
		level := []report.Level{report.Error, report.Warning, report.Note}[i%3]
		row := report.Row{ID: fmt.Sprintf("R-%d%s", i%7, []string{"", hostile[0]}[i%2]), Group: []string{"block", "degraded", h(5)}[i%3], Suite: []string{"findings", h(2)}[i%2], Level: level,
			Title: h(1), Message: h(0), Seen: h(2), Hint: h(3), Subject: h(4), Field: h(6), Path: h(7), Line: i%5 - 1}
		if i%11 == 0 {
			row.Waived = "ops: " + h(8)
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

// TestHostile: whatever stands in a row, each form stays well formed and on its
// own. DRKIT_REPORTS names a folder for the files, where other judges read them.
func TestHostile(t *testing.T) {
	counts := []int{len(hostile) * 7}
	if os.Getenv("DRKIT_REPORTS") != "" {
		counts = append(counts, 10_000)
	}
	for _, n := range counts {
		r := hostileResult(n)
		for form := range forms {
			data := write(t, form, r)
			for _, c := range string(data) {
				if c < ' ' && c != '\n' || c >= 0x7f && c < 0xa0 || c == 0x202e || c == 0xfffe || c == 0xfffd {
					t.Errorf("%s, %d rows: holds %U", form, n, c)
					break
				}
			}
			if dir := os.Getenv("DRKIT_REPORTS"); dir != "" {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("hostile-%d.%s", n, form)), data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// log is what of SARIF the tests look at.
type log struct {
	Runs []struct {
		Tool struct {
			Driver struct{ Rules []struct{ ID string } }
		}
		Invocations []struct {
			ExecutionSuccessful        bool
			ExitCode                   int
			ToolExecutionNotifications []struct{ Message struct{ Text string } }
		}
		Results []result
	}
}

type result struct {
	RuleID              string
	RuleIndex           int
	Level               string
	Message             struct{ Text string }
	PartialFingerprints map[string]string
	Suppressions        []struct{ Kind, Justification string }
	Locations           []struct {
		PhysicalLocation *struct {
			ArtifactLocation struct{ URI string }
			Region           *struct{ StartLine int }
		}
		LogicalLocations []struct{ FullyQualifiedName string }
	}
}

func sarif(t *testing.T, r report.Result) log {
	t.Helper()
	var l log
	if err := json.Unmarshal(write(t, "sarif", r), &l); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSARIF(t *testing.T) {
	run := sarif(t, small()).Runs[0]
	if len(run.Results) != 6 { // not the passing one
		t.Fatalf("%d results", len(run.Results))
	}
	for _, res := range run.Results {
		if rule := run.Tool.Driver.Rules[res.RuleIndex].ID; rule != res.RuleID {
			t.Errorf("index of %s leads to %s", res.RuleID, rule)
		}
		if res.Suppressions == nil {
			t.Errorf("%s: suppressions must be there in all results", res.RuleID)
		}
	}
	first, last := run.Results[0], run.Results[5]
	if p := first.Locations[0].PhysicalLocation; first.RuleID != "T-1" || p.ArtifactLocation.URI != "drkit.yaml" || p.Region != nil || first.PartialFingerprints["primaryLocationLineHash"] == "" {
		t.Errorf("first %+v", first)
	}
	if len(last.Suppressions) != 1 || last.Suppressions[0].Justification != "ops until 2026-12-31: no need" || last.Locations[0].PhysicalLocation != nil {
		t.Errorf("the waived one comes last: %+v", last)
	}
}

func TestSARIFPaths(t *testing.T) {
	for path, want := range map[string]string{
		"a/b.yaml": "a/b.yaml", "a b/100%.yaml": "a%20b/100%25.yaml", "é#?.txt": "%C3%A9%23%3F.txt", "c:d.txt": "./c:d.txt",
	} {
		r := report.Result{Rows: []report.Row{{ID: "x", Level: report.Error, Path: path, Line: 2}}, Status: errext.Gate}
		p := sarif(t, r).Runs[0].Results[0].Locations[0].PhysicalLocation
		if p.ArtifactLocation.URI != want || p.Region.StartLine != 2 {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

// TestFingerprints: the same finding keeps its identity when lines, messages and
// the other findings change; different findings never share one.
func TestFingerprints(t *testing.T) {
	prints := func(r report.Result) map[string]string {
		all := map[string]string{}
		for _, res := range sarif(t, r).Runs[0].Results {
			id := res.PartialFingerprints["drkitFinding/v1"]
			if all[id] != "" || id == "" {
				t.Errorf("fingerprint %q twice", id)
			}
			all[id] = res.RuleID + res.Locations[0].LogicalLocations[0].FullyQualifiedName
		}
		return all
	}
	before := small()
	after := small()
	after.Rows[0].Line, after.Rows[0].Message = 99, "another figure"
	after.Rows = append(after.Rows, report.Row{ID: "T-1", Level: report.Error, Subject: "model/base/tokenizer.json", Path: "drkit.yaml", Message: "a second one of the same place"})
	a, b := prints(before), prints(after)
	for id, what := range a {
		if b[id] != what {
			t.Errorf("%s lost its fingerprint", what)
		}
	}
	if len(b) != len(a)+1 {
		t.Errorf("%d fingerprints after, %d before", len(b), len(a))
	}
}

func TestSARIFLimit(t *testing.T) {
	r := small()
	for i := range report.MaxResults + 7 {
		r.Rows = append(r.Rows, report.Row{ID: "I", Level: report.Note, Subject: fmt.Sprint(i)})
	}
	run := sarif(t, r).Runs[0]
	if len(run.Results) != 5000 || run.Results[0].Level != "error" || run.Results[4999].Level != "note" {
		t.Errorf("%d results, first %s", len(run.Results), run.Results[0].Level)
	}
	if n := run.Invocations[0].ToolExecutionNotifications; len(n) != 1 || !strings.HasPrefix(n[0].Message.Text, "13 results of 5013 left out") {
		t.Errorf("notifications %v", n)
	}
}

// suites is what of JUnit the tests look at.
type suites struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Errors   int `xml:"errors,attr"`
	Suites   []struct {
		Name    string `xml:"name,attr"`
		Tests   int    `xml:"tests,attr"`
		Skipped int    `xml:"skipped,attr"`
		Cases   []struct {
			Name    string    `xml:"name,attr"`
			Class   string    `xml:"classname,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func junit(t *testing.T, r report.Result) (s suites) {
	t.Helper()
	if err := xml.Unmarshal(write(t, "xml", r), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestJUnitOutcomes(t *testing.T) {
	s := junit(t, small())
	if s.Tests != 8 || s.Failures != 2 || s.Errors != 1 { // T-1 and the verdict; gate y
		t.Errorf("%d tests, %d failures, %d errors", s.Tests, s.Failures, s.Errors)
	}
	got := map[string]string{}
	for _, suite := range s.Suites {
		for _, c := range suite.Cases {
			is := "passed"
			for name, p := range map[string]*struct{}{"failure": c.Failure, "error": c.Error, "skipped": c.Skipped} {
				if p != nil {
					is = name
				}
			}
			got[c.Class+" "+c.Name[:3]] = is
		}
	}
	want := map[string]string{"deploy/base/d.yaml D-1": "passed", "model/base/tokenizer.json T-1": "failure", "drkit.yaml drk": "passed", "model/base/vocab.json T-1": "skipped",
		"rules C-1": "passed", "boot gat": "error", "verdict ver": "failure"}
	for name, is := range want {
		if got[name] != is {
			t.Errorf("%s is %q, want %s", name, got[name], is)
		}
	}
}

// TestNeverGreenByAccident: a result that does not hold is red in every form even
// when no row says so.
func TestNeverGreenByAccident(t *testing.T) {
	for _, status := range []errext.Status{errext.Gate, errext.Failed, errext.ObjectiveMissed, errext.Unclean, errext.Interrupted, errext.Refused} {
		for _, rows := range [][]report.Row{nil, {{ID: "a", Level: report.Pass}}, {{ID: "a", Level: report.Error, Waived: "me"}}, {{ID: "a", Level: report.Pass, Skipped: "not reached"}}} {
			r := report.Result{Title: "t", Verdict: "nothing was compared", Status: status, Rows: rows}
			if s := junit(t, r); s.Failures+s.Errors != 1 {
				t.Errorf("status %d: JUnit has %d failures, %d errors", status, s.Failures, s.Errors)
			}
			if res := sarif(t, r).Runs[0].Results[0]; res.Level != "error" || len(res.Suppressions) > 0 {
				t.Errorf("status %d: SARIF %+v", status, res)
			}
			if out := write(t, "github", r); !bytes.HasPrefix(out, []byte("::error ")) {
				t.Errorf("status %d: %s", status, out)
			}
			if out := write(t, "md", r); !bytes.Contains(out, []byte("❌")) || !bytes.Contains(out, []byte("verdict")) {
				t.Errorf("status %d: %s", status, out)
			}
		}
	}
	green := report.Result{Title: "t", Verdict: "holds", Rows: []report.Row{{ID: "a", Level: report.Pass}}}
	if s := junit(t, green); s.Failures+s.Errors != 0 || s.Tests != 2 || len(sarif(t, green).Runs[0].Results) != 0 || len(write(t, "github", green)) != 0 {
		t.Errorf("a result that holds is not green: %+v", s)
	}
}

func TestGitHubLimits(t *testing.T) {
	r := hostileResult(1000)
	lines := strings.Split(strings.TrimSuffix(string(write(t, "github", r)), "\n"), "\n")
	words := map[string]int{}
	for _, l := range lines {
		word, rest, _ := strings.Cut(strings.TrimPrefix(l, "::"), " ")
		words[word]++
		if !strings.HasPrefix(l, "::") || strings.Count(rest, "::") < 1 || len(l) > 16_000 {
			t.Errorf("line %.100q", l)
		}
	}
	if words["error"] != 10 || words["warning"] != 10 || words["notice"] != 10 || len(lines) != 30 {
		t.Errorf("%v", words)
	}
	if !strings.HasPrefix(lines[0], "::error ") || !strings.Contains(lines[9], "more errors not shown") || !strings.HasPrefix(lines[29], "::notice ") {
		t.Errorf("order: %.60q … %.60q", lines[0], lines[29])
	}
}

// TestGitHubEscapes undoes the escapes in the order in which a runner does.
func TestGitHubEscapes(t *testing.T) {
	r := report.Result{Status: errext.Gate, Rows: []report.Row{{ID: "a:b,c", Level: report.Error, Message: "100%0A\nnext ::x", Path: "d,e:f%.yaml", Line: 4}}}
	want := "::error file=d%2Ce%3Af%25.yaml,line=4,title=a%3Ab%2Cc::100%250A%0Anext ::x\n"
	if got := string(write(t, "github", r)); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestMarkdownLimit(t *testing.T) {
	for _, limit := range []int{2_000, 50_000, report.MaxSummary} {
		var b bytes.Buffer
		if err := report.Markdown(&b, hostileResult(2000), limit); err != nil {
			t.Fatal(err)
		}
		if b.Len() > limit || !strings.Contains(b.String(), " of 2000 left out") {
			t.Errorf("limit %d: %d bytes", limit, b.Len())
		}
	}
}

// TestMarkdownIsInert: no text becomes a link, an image, markup or a mention, and
// every row keeps its four cells.
func TestMarkdownIsInert(t *testing.T) {
	text := string(write(t, "md", hostileResult(len(hostile)*7)))
	for _, bad := range []string{"<script", "<img", "://", "@everyone", "**bold**"} {
		if strings.Contains(text, bad) {
			t.Errorf("holds %q", bad)
		}
	}
	if m := regexp.MustCompile(`[^\\]\]\(|[^\\]!\[`).FindString(text); m != "" {
		t.Errorf("holds %q", m)
	}
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, "| ") && strings.Count(l, "|") != 5 && strings.Count(l, "|") != 3 {
			t.Errorf("cells: %q", l)
		}
	}
}

// TestRedacted: a secret goes before a form can hide it in an escape.
func TestRedacted(t *testing.T) {
	secret := "a\"b<c>&%d\x1be|f"
	r := report.Result{Title: secret, Verdict: secret, Category: secret, Status: errext.Gate, Properties: []report.Property{{Name: "p", Value: secret}},
		Rows: []report.Row{{ID: secret, Suite: secret, Title: secret, Message: secret, Seen: secret, Hint: secret, Subject: secret, Field: secret, Path: secret, Waived: secret, Skipped: secret, Group: "g", Level: report.Error}}}
	clean := r.Redacted(func(s string) string { return strings.ReplaceAll(s, secret, "[redacted]") })
	for form := range forms {
		plain := write(t, form, report.Result{Title: "[redacted]", Verdict: "[redacted]", Category: "[redacted]", Status: errext.Gate, Properties: []report.Property{{Name: "p", Value: "[redacted]"}},
			Rows: clean.Rows})
		if got := write(t, form, clean); !bytes.Equal(got, plain) || bytes.Contains(got, []byte("b<c")) || bytes.Contains(got, []byte("b&lt;c")) {
			t.Errorf("%s: %s", form, got)
		}
	}
	for _, field := range []string{clean.Rows[0].ID, clean.Rows[0].Message, clean.Rows[0].Skipped, clean.Rows[0].Waived, clean.Rows[0].Path} {
		if field != "[redacted]" {
			t.Errorf("%q", field)
		}
	}
	if r.Rows[0].Message != secret {
		t.Error("the original was changed")
	}
}
