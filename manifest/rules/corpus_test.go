package rules_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"drkit/manifest"
	"drkit/manifest/internal/boottruth"
	"drkit/manifest/rules"
)

const corpus = "../../testdata/boot-truth"

// bootCase is one repository with what a real engine did with it.
type bootCase struct{ boottruth.Case }

// tree is a source of files in memory.
type tree = boottruth.Tree

func readCases(t *testing.T) (out []bootCase) {
	t.Helper()
	cases, err := boottruth.Read(corpus)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		out = append(out, bootCase{c})
	}
	return out
}

// input lays the case out and describes it as drkit.yaml would.
func (c bootCase) input(t *testing.T) manifest.Input {
	t.Helper()
	in, err := c.Input()
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// asking adds recorded probes that ask for the name under which every base was
// served, bound to the release as the case has it.
func asking(t *testing.T, in manifest.Input, m *manifest.Manifest) manifest.Input {
	t.Helper()
	text := `{"schema":"drkit.probes/1.0","engine":"vllm 0.32.0","hardware_class":"cpu","tolerance":0.1,"subject":"` + manifest.SubjectOf(m).String() + `","probes":[
{"id":"a","kind":"completion","model":"tiny","request":{},"want":{"token_ids":[1],"logprobs":[-0.5],"top":[{"1":-0.5}]}}]}`
	w := &tree{Files: map[string][]byte{"probes.json": []byte(text)}}
	in.EngineFiles = append(in.EngineFiles, manifest.PartFile{Path: "probes.json", Role: manifest.Probes, Source: w, Key: "probes.json"})
	return in
}

// gate is what the gate says of a case: findings that fail it, or the error of
// a build that found nothing to read.
func (c bootCase) gate(t *testing.T) (failing, others []manifest.Finding, err error) {
	t.Helper()
	in := c.input(t)
	m, _, err := manifest.Build(t.Context(), in)
	if err != nil {
		return nil, nil, err
	}
	if !slices.Contains(c.Args, "tiny") { // else the probes ask for what is served
		if m, _, err = manifest.Build(t.Context(), asking(t, in, m)); err != nil {
			return nil, nil, err
		}
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

// unseen are cases with other answers that one manifest cannot show: only the
// digests of another copy, or recorded probes, can.
var unseen = map[string]string{
	"shard-zeroed-tail": "same names, shapes and size", "shard-other-values": "same names, shapes and size",
	"lora-alpha-changed": "a number that nothing else states", "lora-other-values": "same names, shapes and size",
	"linear-max-len": "a scaling that the model may well have", "eps-changed": "a number that nothing else states",
	"sliding-window-added": "a window that the model may well have", "tokenizer-fewer-merges": "a vocabulary may hold pieces that no merge makes",
	"llava-image-mean-changed": "a number that nothing else states", "dtype-f16-engine": "one region's engine alone; E-10 compares two",
}

// elsewhere is where a case's damage shows when that is another file than the
// one that was changed.
var elsewhere = map[string]string{
	"index-forgets-shard-2": "base/model-00002-of-00003.safetensors",
	"index-extra-file":      "base/model-00004-of-00004.safetensors",
	"hf-cache-no-ref":       "base/refs/main",
	"st-no-pooling":         "base/1_Pooling/config.json",
	"bert-modules-other":    "base/2_Pooling/config.json",            // which modules.json now names
	"tc-template-empty":     "base/chat_template.jinja",              // one of the two places of a template
	"q-asym":                "base/model-00001-of-00003.safetensors", // it lacks the zero points that config.json now asks for
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
// the cases: nothing harmless may be refused; what did not boot or failed a
// request must be refused, for the file that is broken (where a CPU's kernels
// decided, it must be noted); and other answers must be refused as silent, but
// for what one manifest cannot show. The table is in testdata/corpus.txt.
func TestCorpus(t *testing.T) {
	var table strings.Builder
	count := map[string][2]int{} // by outcome: cases, and those that the gate refuses
	for _, c := range readCases(t) {
		failing, others, err := c.gate(t)
		refused := len(failing) > 0 || err != nil
		good := c.Harmless || c.Control || c.Outcome == "boots-same-output"
		switch {
		case good && refused && tolerated[c.ID] == "":
			t.Errorf("false alarm on %s (%s): %v %v", c.ID, c.Mutation, err, show(failing))
		case good:
		case len(failing) > 0 && !slices.ContainsFunc(failing, c.rightFile):
			t.Errorf("%s (%s): no finding names the right file: %s", c.ID, c.Mutation, show(failing))
		case c.CPU && !refused && !slices.ContainsFunc(others, c.rightFile):
			t.Errorf("%s (%s): not even noted", c.ID, c.Mutation)
		case c.CPU || refused && (err != nil || c.Outcome != "boots-wrong-output"):
		case c.Outcome == "boots-wrong-output" && unseen[c.ID] != "":
			if refused {
				t.Errorf("%s is refused, and stands among those that cannot be seen: %s", c.ID, show(failing))
			}
		case !refused:
			t.Errorf("%s (%s, %s) is missed", c.ID, c.Mutation, c.Outcome)
		case !slices.ContainsFunc(failing, func(f manifest.Finding) bool { return f.Severity == manifest.Silent }):
			t.Errorf("%s boots and answers otherwise, no finding is silent: %s", c.ID, show(failing))
		}
		n := count[c.Outcome]
		n[0]++
		if refused {
			n[1]++
		}
		count[c.Outcome] = n
		fmt.Fprintf(&table, "%-38s %-22s %s\n", c.ID, c.Outcome, verdict(failing, err))
	}
	for _, outcome := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(&table, "# %-22s %3d cases, %3d refused\n", outcome, count[outcome][0], count[outcome][1])
	}
	t.Log("\n" + table.String())
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
