package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drkit/internal/demo"
	"drkit/internal/errext"
	"drkit/internal/redact"
	"drkit/internal/report"
)

// reportRun is one run of the program with an environment and known secrets.
type reportRun struct {
	env     map[string]string
	secrets []string
	out     bytes.Buffer
	err     bytes.Buffer
}

func (r *reportRun) run(t *testing.T, args ...string) errext.Status {
	t.Helper()
	r.out.Reset()
	r.err.Reset()
	red := redact.New(r.secrets...)
	s := &streams{In: strings.NewReader(""), Out: red.Writer(&r.out), Err: red.Writer(&r.err), Redactor: red, Getenv: func(k string) string { return r.env[k] }, RawOut: os.Stdout}
	return run(t.Context(), append(args, "--progress", "quiet"), s)
}

// reportService lays the demonstration's service out in a new folder of a
// repository and makes it the working directory.
func reportService(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "services", "support")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := demo.Write(dir, demo.StandIn("/no/drkit")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	return root
}

// sarifFile is what the tests look at.
type sarifFile struct {
	Runs []struct {
		Results []struct {
			RuleID, Level string
			Message       struct{ Text string }
			Suppressions  []struct{ Justification string }
			Locations     []struct {
				PhysicalLocation struct {
					ArtifactLocation struct{ URI string }
					Region           struct{ StartLine int }
				}
				LogicalLocations []struct{ FullyQualifiedName string }
			}
		}
	}
}

func readSARIF(t *testing.T, path string) (f sarifFile) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// places are "rule uri:line subject suppressed" of every result.
func (f sarifFile) places() (all []string) {
	for _, r := range f.Runs[0].Results {
		l := r.Locations[0]
		all = append(all, fmt.Sprintf("%s %s:%d %s %d", r.RuleID, l.PhysicalLocation.ArtifactLocation.URI, l.PhysicalLocation.Region.StartLine, l.LogicalLocations[0].FullyQualifiedName, len(r.Suppressions)))
	}
	return all
}

// junitCounts are failures and errors of a report.
func junitCounts(t *testing.T, path string) (failures, errors, cases int) {
	t.Helper()
	var s struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = xml.Unmarshal(data, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.Failures, s.Errors, s.Tests
}

func mustReplace(t *testing.T, path string, pairs ...string) {
	t.Helper()
	if err := replaceIn(path, pairs...); err != nil {
		t.Fatal(err)
	}
}

// lineOf is the number of the first line of a file that holds a text.
func lineOf(t *testing.T, path, text string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, _, ok := strings.Cut(string(data), text)
	if !ok {
		t.Fatalf("%s does not hold %q", path, text)
	}
	return strings.Count(before, "\n") + 1
}

// brokenService forgets the tokenizer and has an image that is not pinned.
func brokenService(t *testing.T) (root string, imageLine int) {
	root = reportService(t)
	if err := os.Remove("models/support-tiny/tokenizer.json"); err != nil {
		t.Fatal(err)
	}
	deployment := "deploy/base/deployment.yaml"
	data, err := os.ReadFile(deployment)
	if err != nil {
		t.Fatal(err)
	}
	_, image, _ := strings.Cut(string(data), "image: ")
	image, _, _ = strings.Cut(image, "\n")
	mustReplace(t, deployment, image, "registry.example/llm:latest")
	return root, lineOf(t, deployment, "registry.example/llm:latest")
}

// TestCheckReports: a missing file has the place of drkit.yaml, one that is there
// its own line; paths start at the repository when there is one.
func TestCheckReports(t *testing.T) {
	root, line := brokenService(t)
	var r reportRun
	args := []string{"manifest", "check", "--report", "sarif=o.sarif", "--report", "junit=o.xml", "--report", "markdown=o.md"}
	if status := r.run(t, args...); status != errext.Gate {
		t.Fatalf("status %d: %s", status, r.err.String())
	}
	got := readSARIF(t, "o.sarif").places()
	for _, want := range []string{"T-1 drkit.yaml:0 model/base/tokenizer.json 0", fmt.Sprintf("I-1 deploy/base/deployment.yaml:%d deploy/deploy/base/deployment.yaml 0", line)} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among %q", want, got)
		}
	}
	if failures, errs, cases := junitCounts(t, "o.xml"); failures != strings.Count(r.out.String(), "\nblock ")+strings.Count(r.out.String(), "\nrequest ")+strings.Count(r.out.String(), "\nsilent ")+1 || errs != 0 || cases < 40 {
		t.Errorf("%d failures, %d errors, %d cases for\n%s", failures, errs, cases, r.out.String())
	}
	page, err := os.ReadFile("o.md")
	if err != nil || !strings.Contains(string(page), "❌") || !strings.Contains(string(page), "### block") || !strings.Contains(string(page), "tokenizer.json") {
		t.Errorf("%v\n%s", err, page)
	}

	if err := os.Mkdir(filepath.Join(root, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.run(t, args...)
	if got := readSARIF(t, "o.sarif").places(); !slices.Contains(got, "T-1 services/support/drkit.yaml:0 model/base/tokenizer.json 0") {
		t.Errorf("in a repository: %q", got)
	}
}

func TestCheckReportsOfWhatHolds(t *testing.T) {
	reportService(t)
	var r reportRun
	args := []string{"manifest", "check", "--report", "sarif=o.sarif", "--report", "junit=o.xml", "--report", "github"}
	if status := r.run(t, args...); status != errext.Holds {
		t.Fatalf("status %d: %s%s", status, r.out.String(), r.err.String())
	}
	if failures, errs, _ := junitCounts(t, "o.xml"); failures+errs != 0 {
		t.Errorf("%d failures, %d errors", failures, errs)
	}
	if strings.Contains(r.err.String(), "::error") {
		t.Errorf("annotations: %s", r.err.String())
	}
}

// TestCheckReportsOfWaivers: accepted findings are suppressed, skipped, and no error.
func TestCheckReportsOfWaivers(t *testing.T) {
	brokenService(t)
	f, err := os.OpenFile("drkit.yaml", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(f, "\nwaivers:\n  - {path: \"**\", reason: a test, owner: me, expires: 2999-12-31}\n  - {path: \"*/*/*\", reason: a test, owner: me, expires: 2999-12-31}\n  - {path: \"*/*/*/*\", reason: a test, owner: me, expires: 2999-12-31}\n")
	f.Close()
	var r reportRun
	if status := r.run(t, "manifest", "check", "--report", "sarif=o.sarif", "--report", "junit=o.xml", "--report", "github"); status != errext.Holds || !strings.Contains(r.out.String(), "holds with waivers") {
		t.Fatalf("status %d: %s%s", status, r.out.String(), r.err.String())
	}
	for _, res := range readSARIF(t, "o.sarif").Runs[0].Results {
		if res.Level == "error" && (len(res.Suppressions) != 1 || !strings.Contains(res.Suppressions[0].Justification, "me until 2999-12-31: a test")) {
			t.Errorf("not suppressed: %+v", res)
		}
	}
	if failures, errs, _ := junitCounts(t, "o.xml"); failures+errs != 0 {
		t.Errorf("%d failures, %d errors", failures, errs)
	}
	if strings.Contains(r.err.String(), "::error") || !strings.Contains(r.err.String(), "(waived)") {
		t.Errorf("annotations: %s", r.err.String())
	}
}

// TestGitHubReport: annotations never mix with JSON on stdout, and the summary is
// appended to, within GitHub's limit.
func TestGitHubReport(t *testing.T) {
	brokenService(t)
	if err := os.WriteFile("summary.md", []byte("before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := reportRun{env: map[string]string{"GITHUB_STEP_SUMMARY": "summary.md"}}
	args := []string{"manifest", "check", "--output", "json", "--report", "github"}
	if status := r.run(t, args...); status != errext.Gate {
		t.Fatalf("status %d", status)
	}
	if !json.Valid(r.out.Bytes()) || !strings.Contains(r.err.String(), "::error file=drkit.yaml,title=T-1") {
		t.Errorf("stdout %s\nstderr %s", r.out.String(), r.err.String())
	}
	page, _ := os.ReadFile("summary.md")
	if !bytes.HasPrefix(page, []byte("before\n\n## ")) || !bytes.Contains(page, []byte("tokenizer.json")) {
		t.Errorf("%s", page)
	}
	for _, size := range []int{report.MaxSummary - 1500, report.MaxSummary - 10, report.MaxSummary + 10} {
		if err := os.WriteFile("summary.md", make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
		status := r.run(t, args...)
		info, err := os.Stat("summary.md")
		if err != nil {
			t.Fatal(err)
		}
		fits := size == report.MaxSummary-1500
		if grew := info.Size() > int64(size); grew != fits || info.Size() > max(report.MaxSummary, int64(size)) || (status == errext.Evidence) == fits {
			t.Errorf("%d bytes before, %d after, status %d: %s", size, info.Size(), status, r.err.String())
		}
	}
}

// TestReportIsCheckedFirst: before drkit.yaml is looked for.
func TestReportIsCheckedFirst(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("dir", 0o755); err != nil {
		t.Fatal(err)
	}
	var r reportRun
	for _, command := range [][]string{{"manifest", "check"}, {"verify"}} {
		for _, c := range []struct {
			reports []string
			errors  int
		}{
			{[]string{"pdf=x"}, 1}, {[]string{"sarif"}, 1}, {[]string{"junit="}, 1}, {[]string{"github=x"}, 1}, {[]string{""}, 1}, {[]string{"markdown=no/such/x.md"}, 1}, {[]string{"sarif=dir"}, 1},
			{[]string{"sarif=x", "junit=./x"}, 1}, {[]string{"github", "github"}, 1}, {[]string{"pdf=x", "docx=y"}, 2},
		} {
			args := slices.Clone(command)
			for _, spec := range c.reports {
				args = append(args, "--report", spec)
			}
			status := r.run(t, args...)
			if hints := strings.Count(r.err.String(), "\n  hint: "); status != errext.Usage || hints != c.errors || !strings.Contains(r.err.String(), "--report") || r.out.Len() > 0 {
				t.Errorf("%v: status %d, %s", args, status, r.err.String())
			}
		}
	}
}

// TestALostReportIsNotGreen: a report that could not be written is lost evidence,
// and the result is printed all the same.
func TestALostReportIsNotGreen(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("the system has no /dev/full")
	}
	reportService(t)
	var r reportRun
	if status := r.run(t, "manifest", "check", "--report", "sarif=/dev/full", "--report", "junit=o.xml"); status != errext.Evidence || !strings.Contains(r.out.String(), "holds") || !strings.Contains(r.err.String(), "  hint: ") {
		t.Errorf("status %d: %s%s", status, r.out.String(), r.err.String())
	}
	if _, _, cases := junitCounts(t, "o.xml"); cases == 0 {
		t.Error("the other report was not written")
	}
	if status := r.run(t, "verify", "models", "models", "--report", "sarif=/dev/full"); status == errext.Holds {
		t.Errorf("status %d", status)
	}
}

// TestReportsHoldNoSecrets: neither as they are nor inside an escape.
func TestReportsHoldNoSecrets(t *testing.T) {
	reportService(t)
	secret := `qZ7<v"L9&x\w%25`
	mustReplace(t, "engine/vllm.yaml", "served-model-name", "served-model-nameQ: 'x'\n"+`"no-such-`+strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(secret)+`": 1`+"\nserved-model-name")
	r := reportRun{secrets: []string{secret}, env: map[string]string{"GITHUB_STEP_SUMMARY": "o.summary"}}
	r.run(t, "manifest", "check", "--report", "sarif=o.sarif", "--report", "junit=o.xml", "--report", "markdown=o.md", "--report", "github")
	seen := 0
	for name, data := range map[string]func() []byte{"stderr": r.err.Bytes, "sarif": fileBytes("o.sarif"), "junit": fileBytes("o.xml"), "markdown": fileBytes("o.md"), "summary": fileBytes("o.summary")} {
		text := string(data())
		if strings.Contains(text, "qZ7") || strings.Contains(text, "v\"L9") || strings.Contains(text, "x\\w") {
			t.Errorf("%s holds the secret", name)
		}
		if strings.Contains(text, "redacted") {
			seen++
		}
	}
	if seen != 5 {
		t.Errorf("the secret's place is shown in %d of 5 reports: does a finding quote it?\n%s", seen, r.out.String())
	}
}

func fileBytes(path string) func() []byte {
	return func() []byte {
		data, _ := os.ReadFile(path)
		return data
	}
}

// TestVerifyReports: gaps, errors, what holds, and two places without drkit.yaml.
func TestVerifyReports(t *testing.T) {
	reportService(t)
	var r reportRun
	if status := r.run(t, "replicate", "--yes"); status != errext.Holds {
		t.Fatalf("replicate: %d %s", status, r.err.String())
	}
	args := []string{"verify", "--images", "skip", "--report", "sarif=o.sarif", "--report", "junit=o.xml"}
	if status := r.run(t, args...); status != errext.Holds || len(readSARIF(t, "o.sarif").Runs[0].Results) != 0 {
		t.Errorf("status %d", status)
	}
	if failures, errs, cases := junitCounts(t, "o.xml"); failures+errs != 0 || cases != 2 {
		t.Errorf("%d failures, %d errors, %d cases", failures, errs, cases)
	}
	lost, err := filepath.Glob("regions/eu-west-1/support/*/model/base/tokenizer.json")
	if err != nil || len(lost) != 1 {
		t.Fatalf("%q %v", lost, err)
	}
	if err := os.Remove(lost[0]); err != nil {
		t.Fatal(err)
	}
	if status := r.run(t, args...); status != errext.Gate {
		t.Errorf("status %d", status)
	}
	if got := readSARIF(t, "o.sarif").places(); len(got) != 1 || got[0] != "parity/missing drkit.yaml:0 eu-west-1: model/base/tokenizer.json 0" {
		t.Errorf("%q", got)
	}
	if failures, errs, _ := junitCounts(t, "o.xml"); failures != 2 || errs != 0 {
		t.Errorf("%d failures, %d errors", failures, errs)
	}

	for dir, file := range map[string]string{"a": "one", "b": "two"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(file), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if status := r.run(t, "verify", "a", "b", "--report", "sarif=o.sarif", "--report", "github"); status != errext.Gate {
		t.Errorf("status %d", status)
	}
	if got := readSARIF(t, "o.sarif").places(); len(got) != 2 || !strings.HasPrefix(got[0], "parity/") || strings.Count(r.err.String(), "::error title=parity/") != 2 {
		t.Errorf("%q %s", got, r.err.String())
	}
}
