// Package playbooks holds the schema of a drill's playbook: ordered steps with
// budgets, time-outs and the text that a person reads. The built-in playbooks
// are embedded; Load reads any other, strictly, and says everything that is
// wrong with it at once.
//
//	p, err := playbooks.Load(data, "dr/monthly.yaml", kinds...)
//	err = p.Steps[0].Decode(&options) // by the step's own kind
//
// The package knows no kind of step but the two that the judged clock lies between: the
// caller hands the kinds in.
package playbooks

import (
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"drkit/internal/errext"
	"drkit/internal/strictyaml"
)

// Playbook is a drill as data.
type Playbook struct {
	Name  string
	Title string
	Mode  string // one of Modes
	Steps []Step
}

// The modes of a playbook.
const (
	Rehearsal = "rehearsal" // production's routers are left untouched
	Planned   = "planned"   // production moves while both regions live
	Emergency = "emergency" // production moves because the source region is lost
	Failback  = "failback"  // production returns to the source
	Tabletop  = "tabletop"  // people talk it through; nothing technical is proven
)

// Modes lists the modes that a playbook can have.
var Modes = []string{Rehearsal, Planned, Emergency, Failback, Tabletop}

// What happens when a step's timeout passes.
const (
	Abort = "abort" // undo what the run did, and end
	Hold  = "hold"  // change nothing more and wait for a person
)

// When a step is run.
const (
	Passed = "passed" // when every step before it passed
	Always = "always" // after a failure too
)

// Step is one entry. With is decoded strictly by the kind's handler at load:
// see Decode.
type Step struct {
	ID, Kind        string
	OnTimeout, When string        // Abort or Hold; Passed or Always
	Text            string        // Markdown for a person: what it proves, what to do when it is red
	Budget          time.Duration // how long it should take; 0: not budgeted
	Timeout         time.Duration // when it is given up
	Retries         int           // attempts after the first
	Group           string        // steps in a row of one group run side by side; "": alone
	Modes           []string      // the run's modes that the step belongs to; empty: every mode
	Who             string        // of a step that waits for people: who has to act
	With            yaml.Node     // the zero node when the step has none
	Line            int

	file, path string // where With stands, for Decode's errors
}

// Decode reads the step's options (with) strictly into out, a pointer to a
// struct. Errors carry the playbook's lines; a step without options decodes as
// one with none written, so what out held before are its defaults.
func (s Step) Decode(out any) error {
	file, path := s.place()
	with := s.With
	if with.Kind == 0 {
		with.Line = s.Line
	}
	return strictyaml.DecodeNode(&with, file, path, out)
}

// place is the file and the path of the step's options.
func (s Step) place() (file, path string) {
	if s.file == "" { // a step made in code
		return "playbook", s.ID + ".with"
	}
	return s.file, s.path
}

// Fault is an error of the step that its kind finds, in the form of Decode's. Key
// is a key of the step, such as "who" or "with.url"; "" is the step itself.
func (s Step) Fault(key, what, hint string) error {
	file, path := s.place()
	path, line := strings.TrimSuffix(path, ".with"), s.Line
	if key != "" {
		path += "." + key
	}
	if name, inside := strings.CutPrefix(key, "with."); inside {
		line = lineOf(&s.With, name, line)
	}
	all := &strictyaml.Errors{File: file, List: []strictyaml.Error{{Line: line, Path: path, What: what, Hint: hint}}}
	return errext.WithStatus(all, errext.Usage)
}

// lineOf is the line of a key of a mapping, else the line of the mapping, else otherwise.
func lineOf(n *yaml.Node, name string, otherwise int) int {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		return otherwise
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i].Line
		}
	}
	return otherwise
}

// In says whether the step is part of a mode.
func (s Step) In(mode string) bool { return len(s.Modes) == 0 || slices.Contains(s.Modes, mode) }

// The kinds of steps that the judged clock lies between.
const (
	KindDeclare = "declare" // begins it
	KindSteady  = "steady"  // ends it
)

// Budget is the sum of the budgets inside the judged clock: of the steps, of the
// playbook's own mode, after the one that declares, up to the one that is steady. That
// is the sum to hold against a promised recovery time. A playbook that times no recovery
// (judged is false) has the sum of all its steps.
func (p Playbook) Budget() (sum time.Duration, judged bool) {
	steps := slices.DeleteFunc(slices.Clone(p.Steps), func(s Step) bool { return !s.In(p.Mode) })
	kind := func(kind string) int { return slices.IndexFunc(steps, func(s Step) bool { return s.Kind == kind }) }
	if from, to := kind(KindDeclare), kind(KindSteady); from >= 0 && to > from {
		steps, judged = steps[from+1:to+1], true
	}
	return SumBudgets(steps, func(s Step) (string, time.Duration) { return s.Group, s.Budget }), judged
}

// SumBudgets adds up the budgets of steps in a row: of those that run side by side, one
// group, the largest counts once. of says a step's group, "" for alone, and its budget.
func SumBudgets[T any](steps []T, of func(T) (group string, budget time.Duration)) (sum time.Duration) {
	var before string
	var side time.Duration // the largest of the group so far
	for i, s := range steps {
		group, budget := of(s)
		if i == 0 || group == "" || group != before {
			sum, side = sum+side, 0
		}
		before, side = group, max(side, budget)
	}
	return sum + side
}
