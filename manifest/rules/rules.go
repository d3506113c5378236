// Package rules is the completeness gate: it says from a manifest alone, without
// booting anything and without the files, whether an engine would start on the
// release, answer every request and answer it rightly.
//
//	findings := rules.Apply(rules.Check(m), waivers, time.Now())
//
// The verdicts are those that were measured on a real engine; testdata/boot-truth
// holds the cases. A rule raises one finding a cause: a shard that is a Git LFS
// pointer is that, and not also a broken header and missing tensors.
package rules

import (
	"cmp"
	"slices"

	"drkit/manifest"
)

// Rule is one check of the gate.
type Rule struct {
	ID       string
	Severity manifest.Severity // the gravest that it raises
	Title    string
	Sentence string // what must hold
	check    func(*view) []manifest.Finding
}

// Doc is where the rule is explained.
func (r Rule) Doc() string { return "docs/rules.md#" + anchor(r.ID) }

// All returns every rule, by family.
func All() []Rule {
	return slices.Concat(configRules, codeRules, referenceRules, ropeRules, sentenceRules, tokenizerRules, templateRules, processorRules, weightRules,
		quantizationRules, adapterRules, draftRules, engineRules, servingRules, probeRules, deployRules, podRules, lockRules, regionRules, fileRules, sourceRules)
}

// Settings is what is said of drkit.yaml itself, beside the rules of a manifest: whoever
// read the file raises it.
var Settings = Rule{ID: "drkit.yaml", Severity: manifest.Degraded, Title: "drkit.yaml names what is not there or not used",
	Sentence: "What drkit.yaml names is there, and this version of drkit uses it."}

// Told are all rules that a user can meet: those of a manifest, and Settings.
func Told() []Rule { return append(All(), Settings) }

// Check applies every rule to a manifest. The findings come gravest first.
func Check(m *manifest.Manifest) []manifest.Finding {
	v := newView(m)
	var all []manifest.Finding
	for _, r := range All() {
		for _, f := range r.check(v) {
			f.Rule, f.Severity = r.ID, cmp.Or(f.Severity, r.Severity)
			f.Part = cmp.Or(f.Part, string(manifest.Model))
			all = append(all, f)
		}
	}
	sortFindings(all)
	return all
}

func sortFindings(all []manifest.Finding) {
	slices.SortStableFunc(all, func(a, b manifest.Finding) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(a.Part, b.Part),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
}

// rank orders severities, gravest first.
func rank(s manifest.Severity) int {
	return slices.Index([]manifest.Severity{manifest.Block, manifest.Request, manifest.Silent, manifest.Degraded, manifest.Info}, s)
}
