// Package playbooks holds the schema of a drill's playbook: ordered steps with
// budgets, time-outs and the text that a person reads. The built-in playbooks
// are embedded; Load reads any other, strictly, and says everything that is
// wrong with it at once.
//
//	p, err := playbooks.Load(data, "dr/monthly.yaml", kinds...)
//	err = p.Steps[0].Decode(&options) // by the step's own kind
//
// The package knows no kind of step: the caller hands the kinds in.
package playbooks

import (
	"time"

	"gopkg.in/yaml.v3"

	"drkit/internal/strictyaml"
)

// Playbook is a drill as data.
type Playbook struct {
	Name  string
	Title string
	Mode  string // rehearsal
	Steps []Step
}

// Rehearsal is the mode that leaves production's routers untouched.
const Rehearsal = "rehearsal"

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
	file, path := s.file, s.path
	if file == "" { // a step made in code
		file, path = "playbook", s.ID+".with"
	}
	with := s.With
	if with.Kind == 0 {
		with.Line = s.Line
	}
	return strictyaml.DecodeNode(&with, file, path, out)
}

// Budget is the sum of the steps' budgets.
func (p Playbook) Budget() (sum time.Duration) {
	for _, s := range p.Steps {
		sum += s.Budget
	}
	return sum
}
