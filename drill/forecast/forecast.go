// Package forecast says when a run will be steady, as far as that is known. It is
// pure: it reads a folded run, a moment of it, and what earlier runs took.
//
//	f := forecast.Of(run, now, earlier)
//	fmt.Println(f)                                // projected 8:30 by earlier runs, budgets
//	word := forecast.Judge(run, now, f).State     // on track, at risk, missed, …
//
// A projection is never better than what is known: of several estimates of a step the
// longest counts, and where something is not known it is a lower bound and says so.
package forecast

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"drkit/drill"
)

// Kinds of steps that the recovery clock begins and ends with, and the one that moves
// the traffic.
const (
	kindDeclare = "declare"
	kindCutover = "cutover"
	kindSteady  = "steady"
)

// Earlier is what earlier runs of the same kind took for a step, by its id.
type Earlier map[string]Past

// Past is the median of a step's time in so many runs in which it passed.
type Past struct {
	Took time.Duration
	Runs int
}

// Sources of an estimate, in the order in which a forecast names them.
const (
	FromRate    = "this run's rate"
	FromEarlier = "earlier runs"
	FromBudget  = "budgets"
	FromWindows = "the steady windows" // that the objectives ask for at least
)

var sources = []string{FromRate, FromEarlier, FromBudget, FromWindows}

// Forecast is when the recovery clock is going to stop.
type Forecast struct {
	Known  bool          // false: Finish means nothing, and Why says the reason
	Finish time.Duration // from declared to steady
	Least  bool          // it will be this at least: Why says what is not known
	Why    string
	Over   string   // the step under way that has taken longer than all that is known of it; "": none
	From   []string // what the estimates rest on
}

// Of looks ahead at a moment of the run's own process. It knows nothing when the
// clock has stopped, a step has failed, or the run is being taken back.
func Of(r *drill.Run, now time.Duration, earlier Earlier) Forecast {
	if why := pointless(r); why != "" {
		return Forecast{Why: why}
	}
	ahead, why := ahead(r)
	if why != "" {
		return Forecast{Why: why}
	}
	f := Forecast{}
	f.Finish, _ = r.Elapsed(now)
	from := map[string]bool{}
	var unknown []string
	begin, moved := time.Duration(0), false // of the windows that steady asks for: after the cutover
	if cut := r.Segment(drill.InstantDeclared, drill.InstantCutover); cut.Measured {
		begin, moved = cut.Elapsed, true
	}
	for _, group := range sideBySide(ahead) {
		if kind := group[0].Kind; !moved && (kind == kindCutover || kind == kindSteady) {
			begin, moved = f.Finish, true
		}
		var longest time.Duration
		for _, s := range group {
			e := estimate(r, s, now, earlier)
			if !e.known {
				unknown = append(unknown, s.ID)
			}
			if e.over && f.Over == "" {
				f.Over = s.ID
			}
			if e.known && !e.over {
				from[e.from] = true
			}
			longest = max(longest, e.left)
		}
		f.Finish += longest
	}
	steady := r.Plan.Objectives.Steady
	if least := begin + steady.Window*time.Duration(steady.Windows); moved && f.Finish < least {
		f.Finish, from[FromWindows] = least, true
	}
	for _, s := range sources {
		if from[s] {
			f.From = append(f.From, s)
		}
	}
	f.Known = len(unknown) < len(ahead)
	switch {
	case !f.Known:
		f.Why = "there is no rate, no earlier run and no budget of " + strings.Join(unknown, ", ")
	case len(unknown) > 0:
		f.Least, f.Why = true, "nothing is known of "+strings.Join(unknown, ", ")
	case f.Over != "":
		f.Least, f.Why = true, f.Over+" takes longer than is known of it"
	}
	return f
}

// pointless says why there is nothing to look ahead to, "" if there is.
func pointless(r *drill.Run) string {
	switch _, steady := r.Instant(drill.InstantSteady); {
	case r.ID == "":
		return "the run has not begun"
	case r.Finished != nil:
		return "the run has ended"
	case steady:
		return "steady is reached"
	case r.Aborting != nil:
		return "the run is being taken back"
	case r.Held != nil:
		return "the run waits for a person"
	case len(r.Problems) > 0:
		return "the run is refused"
	}
	for _, s := range r.Steps {
		if s.Result == drill.Failed {
			return s.ID + " failed"
		}
	}
	return ""
}

// ahead lists the steps that the clock still has to go through, up to steady; why
// says that this is not known.
func ahead(r *drill.Run) (steps []drill.StepState, why string) {
	from, to := indexKind(r.Steps, kindDeclare), indexKind(r.Steps, kindSteady)
	_, declared := r.Instant(drill.InstantDeclared)
	_, running := r.Elapsed(r.Last.Mono)
	switch {
	case to < 0:
		return nil, "the playbook has no step of kind steady, which stops the clock"
	case declared && !running:
		return nil, "the clock could not be measured"
	case !declared && from < 0:
		return nil, "the playbook has no step of kind declare, which starts the clock"
	}
	for i, s := range r.Steps[:to+1] {
		if s.Result == "" && s.Kind != kindDeclare && (declared || i > from) {
			steps = append(steps, s)
		}
	}
	return steps, ""
}

// sideBySide gathers steps that run at the same time.
func sideBySide(steps []drill.StepState) [][]drill.StepState {
	var all [][]drill.StepState
	for _, s := range steps {
		if n := len(all); n > 0 && s.Group != "" && all[n-1][0].Group == s.Group {
			all[n-1] = append(all[n-1], s)
			continue
		}
		all = append(all, []drill.StepState{s})
	}
	return all
}

func indexKind(steps []drill.StepState, kind string) int {
	return slices.IndexFunc(steps, func(s drill.StepState) bool { return s.Kind == kind })
}

// estimated is what is known of a step's rest.
type estimated struct {
	left  time.Duration
	known bool
	over  bool   // it runs longer than all that is known
	from  string // the source of left
}

// estimate takes the longest of what a step's rate and earlier runs say. Its
// budget is a promise, and stands in only where neither is known.
func estimate(r *drill.Run, s drill.StepState, now time.Duration, earlier Earlier) estimated {
	took := elapsed(r, s, now)
	var e estimated
	take := func(left time.Duration, from string) {
		if !e.known || left > e.left {
			e.left, e.from = left, from
		}
		e.known = true
	}
	if left, ok := byRate(r, s, now); ok {
		take(left, FromRate)
	}
	if p, ok := earlier[s.ID]; ok && p.Runs > 0 {
		take(max(p.Took-took, 0), FromEarlier)
	}
	if !e.known && s.Budget > 0 {
		take(max(s.Budget-took, 0), FromBudget)
	}
	e.over = e.known && e.left == 0 && s.Running()
	return e
}

// byRate is what the tasks of a running step still need, one after the other or side
// by side: the longest of them is the least that it can be.
func byRate(r *drill.Run, s drill.StepState, now time.Duration) (left time.Duration, known bool) {
	if !s.Running() {
		return 0, false
	}
	for _, p := range r.Progress {
		if p.Step != s.ID || p.Attempt != s.Attempts || p.At.Proc != r.Last.Proc {
			continue
		}
		if rest, ok := p.Left(); ok {
			left, known = max(left, rest-(now-p.At.Mono)), true
		}
	}
	return left, known
}

// elapsed is how long a running step has taken, 0 for one that waits.
func elapsed(r *drill.Run, s drill.StepState, now time.Duration) time.Duration {
	if !s.Running() {
		return 0
	}
	return drill.Between(s.Started, drill.Stamp{Proc: r.Last.Proc, Mono: now, Wall: r.Last.Wall.Add(now - r.Last.Mono)}).Elapsed
}

// String is the projection in words: "projected 8:30 by earlier runs, budgets".
func (f Forecast) String() string {
	switch {
	case !f.Known:
		return "no projection: " + f.Why
	case f.Least:
		return fmt.Sprintf("at least %s: %s", Clock(f.Finish), f.Why)
	}
	return fmt.Sprintf("projected %s by %s", Clock(f.Finish), strings.Join(f.From, ", "))
}

// Clock writes a time as a clock does: 4:05, 1:04:05. Parts of seconds are cut off,
// as a running clock has not reached them.
func Clock(d time.Duration) string {
	if d < 0 {
		return "-" + Clock(-d)
	}
	s := int64(d / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
