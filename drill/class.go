package drill

import (
	"errors"
	"fmt"
	"slices"
)

// NotAffected is the verdict on a traffic class that the source may not answer:
// the loss of the source takes nothing from it, and nothing was moved.
const NotAffected = "not-affected"

// Class is what the plan makes of a class of traffic. One that the target may not
// answer is refused: it is never sent there, and no run passes for it.
type Class struct {
	Name      string   `json:"name"`
	Residency []string `json:"residency"` // where it may be answered
	Share     float64  `json:"share"`     // of all requests
	Router    string   `json:"router,omitempty"`
	Refused   string   `json:"refused,omitempty"`      // why it has no lawful target
	Aside     string   `json:"not_affected,omitempty"` // why the loss of the source takes nothing from it
}

func checkClass(_ *Run, _ Event, c Class) error {
	if c.Name == "" {
		return errors.New("the class has no name")
	}
	return nil
}

// foldClass keeps the first word on whether a class is refused: no later one may
// make it lawful.
func foldClass(r *Run, _ Event, c Class) {
	for i, old := range r.Classes {
		if old.Name != c.Name {
			continue
		}
		if old.Refused != "" {
			c.Refused = old.Refused
		}
		r.Classes[i] = c
		return
	}
	r.Classes = append(r.Classes, c)
}

// ClassVerdict is the verdict on one class of traffic.
type ClassVerdict struct {
	Class
	Verdict string // as of the run, or Refused, NotAffected; "": the run has not ended
	Why     string
}

// ClassVerdicts judges each class of traffic: by all gates that do not speak of
// other classes alone. It is never better than what the run shows of the whole.
func ClassVerdicts(r *Run) []ClassVerdict {
	var all []ClassVerdict
	for _, c := range r.Classes {
		v := ClassVerdict{Class: c}
		switch {
		case c.Refused != "":
			v.Verdict, v.Why = Refused, c.Refused
		case c.Aside != "":
			v.Verdict, v.Why = NotAffected, c.Aside
		case r.Finished != nil:
			end := Judge(r.of(c.Name))
			v.Verdict = end.Verdict
			if len(end.Reasons) > 0 {
				v.Why = end.Reasons[0].What
			}
		}
		all = append(all, v)
	}
	return all
}

// of is the run without what speaks of other classes alone.
func (r *Run) of(class string) *Run {
	alone := *r
	others := func(g GateState) bool { return len(g.Classes) > 0 && !slices.Contains(g.Classes, class) }
	alone.Classes = nil
	alone.Gates = slices.DeleteFunc(slices.Clone(r.Gates), others)
	alone.Proofs = slices.Clone(r.Proofs)
	for i := range alone.Proofs {
		p := &alone.Proofs[i]
		p.Gates = slices.DeleteFunc(slices.Clone(p.Gates), func(id string) bool {
			return slices.ContainsFunc(r.Gates, func(g GateState) bool { return g.ID == id && others(g) })
		})
		if len(p.Gates) == 0 {
			p.Gates = r.Proofs[i].Gates // nothing of this class: it is not proven for it
		}
	}
	alone.Steps = slices.Clone(r.Steps)
	for i := range alone.Steps {
		s := &alone.Steps[i]
		if (s.Result == Failed && gateSaysIt(r, *s) || s.Result == Unmeasured) && onlyOf(r, s.ID, others) {
			s.Result, s.Error, s.Hint, s.Status = Passed, "", "", 0
		}
	}
	return &alone
}

// onlyOf says that a step has gates that did not pass, and that all of them match.
func onlyOf(r *Run, step string, match func(GateState) bool) bool {
	found := false
	for _, g := range r.Gates {
		if g.Step != step || g.Result == Passed {
			continue
		}
		if !match(g) {
			return false
		}
		found = true
	}
	return found
}

// refusedClasses says for which classes the run does not pass.
func refusedClasses(r *Run) []string {
	var all []string
	for _, c := range r.Classes {
		if c.Refused != "" {
			all = append(all, fmt.Sprintf("traffic class %s is refused: %s", c.Name, c.Refused))
		}
	}
	return all
}
