package rules

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

//go:embed vllm-0.32.0.txt
var knownText string

// knownVersion is the engine version whose names knownText lists.
const knownVersion = "0.32."

// known reads the lists of names that vLLM 0.32.0 and its transformers have, by
// the title of each.
var known = sync.OnceValue(func() map[string]map[string]bool {
	out := map[string]map[string]bool{}
	title := ""
	for line := range strings.Lines(knownText) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#") || line == "":
		case strings.HasPrefix(line, "["):
			title = strings.Trim(line, "[]")
			out[title] = map[string]bool{}
		default:
			for name := range strings.FieldsSeq(line) {
				out[title][name] = true
			}
		}
	}
	return out
})

func isKnown(list, name string) bool { return known()[list][name] }

// judgedVersion reports whether some engine of the release is vLLM in the
// version whose names are known: the lists differ by version.
func (v *view) judgedVersion() bool {
	return slices.ContainsFunc(v.m.Annotations.Engine, func(e engineFacts) bool {
		return e.Kind == "vllm" && strings.HasPrefix(strings.TrimPrefix(e.Version, "v"), knownVersion)
	})
}
