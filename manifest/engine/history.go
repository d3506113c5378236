package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// past is when each option of vLLM existed, over more releases than have a
// catalogue, and what took its place.
type past struct {
	Releases []string            `json:"seen_releases"`
	Options  map[string][]string `json:"seen"`     // first release, and the last one if it is gone; always there: left out
	Env      map[string][]string `json:"env_seen"` // the same for variables
	Replaced map[string]struct {
		Use   string
		Basis string // "source": a message of vLLM says so; "inferred": it does the same
	}
}

var history = sync.OnceValue(func() past {
	var p past
	if err := json.Unmarshal(unpacked("vllm-history"), &p); err != nil {
		panic(fmt.Sprintf("reading the embedded history of options: %v", err))
	}
	return p
})

// after is the recorded release that follows version, or "".
func (p past) after(version string) string {
	i := slices.Index(p.Releases, version)
	if i < 0 || i+1 >= len(p.Releases) {
		return ""
	}
	return p.Releases[i+1]
}

// shortLived came and went between two releases that have a catalogue: a switch.
const shortLived = "use-gpu-for-pooling-score"

// between makes the catalogue of a release that is known by the names of its
// options only: those of the nearest older release, without what had gone, and
// with what had come, as the next catalogue describes it. nil: not recorded.
func between(engine, older, version string) *table {
	p := history()
	known := released()[VLLM]
	at := slices.Index(known, older)
	if engine != VLLM || !slices.Contains(p.Releases, version) || at < 0 || at+1 >= len(known) {
		return nil
	}
	base, next := catalogueOf(VLLM, older), catalogueOf(VLLM, known[at+1])
	t := *base
	t.options, t.flags, t.byFlag, t.byDest = nil, nil, map[string]*option{}, map[string]*option{}
	t.version, t.order = version, numbers(version)
	for _, o := range base.options {
		if p.had(o.Name, version) {
			t.register(o)
		}
	}
	for _, o := range next.options {
		if base.byFlag["--"+o.Name] == nil && !o.Positional && p.had(o.Name, version) {
			t.register(o)
		}
	}
	if p.had(shortLived, version) {
		t.register(&option{Name: shortLived, Type: "bool", Negatable: true, Default: false})
	}
	return &t
}

// had reports whether a release had an option.
func (p past) had(name, version string) bool {
	span := p.Options[name]
	at := numbers(version)
	if len(span) > 0 && slices.Compare(at, numbers(span[0])) < 0 {
		return false
	}
	return len(span) < 2 || slices.Compare(at, numbers(span[1])) <= 0
}

// fate says what is known of an option that a release lacks: when it went and
// what took its place, or when it came. use is what to write instead.
func (t *table) fate(flag string) (what, use string) {
	name := strings.TrimPrefix(strings.TrimPrefix(flag, "--"), "no-")
	if t.engine != VLLM {
		return t.elsewhere("--" + name), ""
	}
	p := history()
	span, seen := p.Options[name]
	replaced, instead := p.Replaced[name]
	switch {
	case !seen:
	case slices.Compare(t.order, numbers(span[0])) < 0:
		return "vLLM has it from " + span[0] + " on", ""
	case len(span) > 1:
		what = "vLLM has it no more from " + p.after(span[1]) + " on"
	}
	if instead {
		use = "--" + replaced.Use
		if replaced.Basis == "inferred" {
			what = join(what, "probably replaced by "+use)
		} else {
			what = join(what, "replaced by "+use)
		}
	}
	return what, use
}

// elsewhere says in which releases with a catalogue an option exists.
func (t *table) elsewhere(flag string) string {
	var with []string
	for _, v := range released()[t.engine] {
		if catalogueOf(t.engine, v).byFlag[flag] != nil {
			with = append(with, v)
		}
	}
	if len(with) == 0 {
		return ""
	}
	return "releases that have it: " + strings.Join(with, ", ")
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}

// Unread lists the variables of an environment that earlier or later releases of
// the engine read, and this one does not: nobody notices that they do nothing.
func Unread(engine, version string, env map[string]string) (names []string) {
	t, _ := tableOf(engine, version)
	others := map[string]bool{}
	for _, v := range released()[engine] {
		for _, name := range catalogueOf(engine, v).env {
			others[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		_, here := slices.BinarySearch(t.env, name)
		if others[name] && !here {
			names = append(names, name)
		}
	}
	return names
}
