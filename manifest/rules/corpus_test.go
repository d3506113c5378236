package rules_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drkit/manifest"
	"drkit/manifest/rules"
)

const corpus = "../../testdata/boot-truth"

// bootCase is one repository with what a real engine did with it.
type bootCase struct {
	ID, Base, Mutation, Model, Outcome string
	Args                               []string `json:"engine_args"`
	Env                                map[string]string
	Rules                              []string
	Harmless, Control                  bool
	Ops                                []op
}

func readCases(t *testing.T) []bootCase {
	t.Helper()
	f, err := os.Open(filepath.Join(corpus, "cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []bootCase
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var c bootCase
		if err := json.Unmarshal(s.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if c.ID != "hf-cache-no-ref" { // the model is a hub id: nothing of the repository is wrong
			out = append(out, c)
		}
	}
	if s.Err() != nil || len(out) == 0 {
		t.Fatalf("%d cases, %v", len(out), s.Err())
	}
	return out
}

// input lays the case out and describes it as drkit.yaml would.
func (c bootCase) input(t *testing.T) manifest.Input {
	t.Helper()
	w := &tree{files: map[string][]byte{}, links: map[string]bool{}, bases: filepath.Join(corpus, "bases")}
	if err := w.addBase(c.Base, "model"); err != nil {
		t.Fatal(err)
	}
	for _, o := range c.Ops {
		if err := w.apply(o); err != nil {
			t.Fatalf("%s: %v", o.Op, err)
		}
	}
	in := manifest.Input{Service: "tiny", Model: manifest.Tree{Source: w, Prefix: "model/"},
		Engine: manifest.EngineInput{Kind: "vllm", Version: "0.32.0", Args: c.Args, Env: c.Env}}
	if slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "ad={W}/adapter") }) {
		in.Adapters = []manifest.Tree{{Name: "ad", Source: w, Prefix: "adapter/"}}
	}
	if strings.Contains(strings.Join(c.Args, " "), `"{W}/draft"`) {
		in.Drafts = []manifest.Tree{{Name: "draft", Source: w, Prefix: "draft/"}}
	}
	if slices.Contains(c.Args, "--config") {
		in.EngineFiles = []manifest.PartFile{{Path: "engine.yaml", Source: w, Key: "engine.yaml"}}
	}
	return in
}

// gate is what the gate says of a case: findings that fail it, or the error of
// a build that found nothing to read.
func (c bootCase) gate(t *testing.T) (failing, others []manifest.Finding, err error) {
	t.Helper()
	m, _, err := manifest.Build(t.Context(), c.input(t))
	if err != nil {
		return nil, nil, err
	}
	text, err := manifest.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	// The gate must judge a manifest that was read back as it judges a fresh one.
	back, err := manifest.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range rules.Check(back) {
		if f.Severity.FailsGate(false) {
			failing = append(failing, f)
		} else {
			others = append(others, f)
		}
	}
	return failing, others, nil
}

// tolerated are cases that a real engine answered rightly and that the gate
// refuses all the same, each with the reason.
var tolerated = map[string]string{
	"yaml-equals-missing": "the file that is never read does not exist here; whoever wrote --config=FILE meant its options to count",
}

// caughtAtLeast is the number of broken cases that the gate refuses: it may rise
// and not fall. What it lets through stands in testdata/corpus.txt.
const caughtAtLeast = 109

// elsewhere is where a case's damage shows when that is another file than the
// one that was changed.
var elsewhere = map[string]string{
	"index-forgets-shard-2": "base/model-00002-of-00003.safetensors",
	"index-extra-file":      "base/model-00004-of-00004.safetensors",
	"st-no-pooling":         "base/1_Pooling/config.json",
	// code that config.json names and that nobody ever wrote
	"auto-map-missing-py-trust":            "base/configuration_tiny.py",
	"auto-map-custom-trust-missing-import": "base/helpers_tiny.py",
}

// rightFile reports whether a finding names a file that the case changed, or the
// one where that shows.
func (c bootCase) rightFile(f manifest.Finding) bool {
	if len(c.Ops) == 0 || f.Part == string(manifest.Engine) || elsewhere[c.ID] == f.Path {
		return true
	}
	for _, o := range c.Ops {
		for _, file := range []string{o.File, o.To, "model/" + o.BlobOf} {
			file = strings.Replace(strings.Replace(file, "model/", "base/", 1), "adapter/", "adapters/ad/", 1)
			if file == f.Path || o.Anywhere && strings.HasSuffix(f.Path, ".safetensors") {
				return true
			}
		}
	}
	return false
}

// TestCorpus holds the gate against what a real vLLM 0.32.0 did with each of
// the cases: nothing harmless may be refused, and what is refused must be for
// the file that is broken.
func TestCorpus(t *testing.T) {
	var table strings.Builder
	caught, broken := 0, 0
	for _, c := range readCases(t) {
		failing, _, err := c.gate(t)
		good := c.Harmless || c.Control || c.Outcome == "boots-same-output"
		if good && (len(failing) > 0 || err != nil) && tolerated[c.ID] == "" {
			t.Errorf("false alarm on %s (%s): %v %v", c.ID, c.Mutation, err, show(failing))
		}
		if !good {
			broken++
			if len(failing) > 0 || err != nil {
				caught++
			}
			if len(failing) > 0 && !slices.ContainsFunc(failing, c.rightFile) {
				t.Errorf("%s (%s): no finding names the right file: %s", c.ID, c.Mutation, show(failing))
			}
		}
		fmt.Fprintf(&table, "%-38s %-22s %s\n", c.ID, c.Outcome, verdict(failing, err))
	}
	t.Logf("%d of %d broken cases caught", caught, broken)
	if caught < caughtAtLeast {
		t.Errorf("the gate catches %d broken cases, it caught %d before", caught, caughtAtLeast)
	}
	golden(t, "testdata/corpus.txt", table.String())
}

func verdict(failing []manifest.Finding, err error) string {
	if err != nil {
		return "build fails"
	}
	if len(failing) == 0 {
		return "passes"
	}
	var out []string
	for _, f := range failing {
		out = append(out, fmt.Sprintf("%s %s %s/%s", f.Rule, f.Severity, f.Part, f.Path))
	}
	return strings.Join(out, "; ")
}

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run the test with -update and look at the difference", file)
	}
}

func show(findings []manifest.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "\n    %s %s %s/%s:%d %s: %s", f.Rule, f.Severity, f.Part, f.Path, f.Line, f.Field, f.Message)
	}
	return b.String()
}
