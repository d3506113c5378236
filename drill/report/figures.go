package report

import (
	"slices"
	"time"

	"drkit/drill"
)

// provable lists what a run can prove, in the order in which reports show it.
var provable = []string{drill.ProofCopy, drill.ProofBoot, drill.ProofBehaviour, drill.ProofRouter, drill.ProofCacheAware, drill.ProofEdge, drill.ProofFullCapacity}

// proofNames are all that is provable, promised or spoken of.
func proofNames(r *drill.Run) []string {
	names := slices.Clone(provable)
	for _, n := range r.Plan.Objectives.MustProve {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	for _, p := range r.Proofs {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

func proves(r *drill.Run) map[string]Proof {
	all := map[string]Proof{}
	for _, name := range proofNames(r) {
		proven, why := r.Proof(name)
		all[name] = Proof{Proven: proven, Why: why, Required: slices.Contains(r.Plan.Objectives.MustProve, name)}
	}
	return all
}

// figureNames is the order in which Markdown shows the honest figures.
var figureNames = []string{"rto", "declared_to_engine_ready", "declared_to_canary_verified", "declared_to_cutover", "declared_to_steady_again", "declared_to_cache_warm", "steady_ttft_p99", "steady_error_rate", "rpo"}

// figures are those of them that the result has.
func (r Result) figures() []string {
	return slices.DeleteFunc(slices.Clone(figureNames), func(name string) bool {
		_, has := r.Measured[name]
		return !has
	})
}

func measured(r *drill.Run) map[string]Figure {
	all := map[string]Figure{
		"rto":                         rto(r),
		"declared_to_engine_ready":    sinceDeclared(r, drill.InstantEngineReady),
		"declared_to_canary_verified": sinceDeclared(r, drill.InstantCanaryVerified),
		"declared_to_cutover":         sinceDeclared(r, drill.InstantCutover),
		"rpo":                         {Unit: "seconds", Why: "the drill moves no data of users: nothing to measure"},
	}
	all["steady_ttft_p99"], all["steady_error_rate"] = steady(r)
	if _, again := r.Instant(drill.InstantSteadyAgain); again {
		all["declared_to_steady_again"] = sinceDeclared(r, drill.InstantSteadyAgain)
	}
	if slices.ContainsFunc(r.Steps, func(s drill.StepState) bool { return s.Kind == "cache-warm" }) {
		all["declared_to_cache_warm"] = sinceDeclared(r, drill.InstantCacheWarm)
	}
	return all
}

func rto(r *drill.Run) Figure {
	d, ok, why := r.RTO()
	f := sinceDeclared(r, drill.InstantSteady)
	if f.Value, f.Why = SecondsIf(d, ok), why; !ok {
		f.Clock = ""
	}
	return f
}

func sinceDeclared(r *drill.Run, to string) Figure {
	s := r.Segment(drill.InstantDeclared, to)
	return Figure{Value: SecondsIf(s.Elapsed, s.Measured), Unit: "seconds", Why: s.Why, Clock: s.Clock}
}

// phaseSteady is the phase of the windows that the objectives are judged on.
const phaseSteady = "steady"

// steady is the worst window's TTFT and the error rate of all steady windows.
func steady(r *drill.Run) (ttft, failures Figure) {
	var worst time.Duration
	var sent, bad int
	for _, w := range r.Traffic {
		if w.Phase == phaseSteady {
			worst, sent, bad = max(worst, w.TTFTP99), sent+w.Sent, bad+w.Failed+w.Cut
		}
	}
	ttft, failures = Figure{Unit: "seconds"}, Figure{Unit: "share"}
	if ttft.Value = SecondsIf(worst, worst > 0); ttft.Value == nil {
		ttft.Why = "no answer came in a steady window"
	}
	if sent == 0 {
		failures.Why = "no request was sent in a steady window"
		return ttft, failures
	}
	rate := float64(bad) / float64(sent)
	failures.Value = &rate
	return ttft, failures
}

func segments(r *drill.Run) []Segment {
	all := []Segment{}
	for _, s := range r.Segments() {
		slack, ok := s.Slack()
		all = append(all, Segment{From: s.From, To: s.To, Elapsed: SecondsIf(s.Elapsed, s.Measured), Budget: SecondsIf(s.Budget, s.Budget > 0),
			Slack: SecondsIf(slack, ok), Cached: s.Cached, Clock: s.Clock, Why: s.Why})
	}
	return all
}

func steps(r *drill.Run) []Step {
	all := []Step{}
	for _, s := range r.Steps {
		e := s.Elapsed()
		all = append(all, Step{ID: s.ID, Kind: s.Kind, Result: s.Result, Attempts: s.Attempts, Elapsed: SecondsIf(e.Elapsed, e.Measured),
			Budget: SecondsIf(s.Budget, s.Budget > 0), Error: s.Error, Hint: s.Hint})
	}
	return all
}

func gates(r *drill.Run) []Gate {
	all := []Gate{}
	for _, g := range r.Gates {
		all = append(all, Gate{Step: g.Step, ID: g.ID, Title: g.Title, Result: g.Result, Expected: g.Expected, Observed: g.Observed, Evidence: g.Evidence, Hint: g.Hint})
	}
	return all
}

func boot(r *drill.Run) []Phase {
	all := []Phase{}
	for _, p := range r.Phases {
		all = append(all, Phase{Replica: p.Replica, Name: p.Name, Start: seconds(p.Start), Length: seconds(p.Length), Gap: p.Gap, Line: p.Line})
	}
	return all
}

func changes(r *drill.Run) []Change {
	all := []Change{}
	for _, c := range r.Changes {
		all = append(all, Change{ID: c.ID, Step: c.Step, What: c.What, Undo: c.Undo.Kind, Done: c.Done, Error: c.Error, Undone: c.Undone, Why: c.UndoError, Kept: c.Kept, Later: LaterOf(c)})
	}
	return all
}

// Classes are the verdicts on the classes of traffic, in the order of the journal.
func Classes(r *drill.Run) []Class {
	all := []Class{}
	for _, v := range drill.ClassVerdicts(r) {
		c := Class{Name: v.Name, Residency: list(v.Residency), Share: v.Share, Router: v.Router, Lawful: v.Refused == "", Why: v.Why}
		if v.Verdict != "" {
			c.Verdict = &v.Verdict
		} else {
			c.Why = "the run has not ended"
		}
		all = append(all, c)
	}
	return all
}

// Traffic sums the windows of one class in one phase of the run.
type Traffic struct {
	Class    string         `json:"class"`
	Phase    string         `json:"phase"`
	Windows  int            `json:"windows"`
	Sent     int            `json:"sent"`
	OK       int            `json:"ok"`
	Failed   int            `json:"failed"`
	Cut      int            `json:"cut"`
	TTFTP50  *float64       `json:"ttft_p50_seconds"` // of the worst window; null: no answer
	TTFTP99  *float64       `json:"ttft_p99_seconds"`
	CacheMin *float64       `json:"cache_hit_min"` // share of prompt tokens, lowest and highest window; null: not said
	CacheMax *float64       `json:"cache_hit_max"`
	ByRegion map[string]int `json:"by_region"`
}

func traffic(r *drill.Run) []Traffic {
	all := []Traffic{}
	for _, w := range r.Traffic {
		i := slices.IndexFunc(all, func(t Traffic) bool { return t.Class == w.Class && t.Phase == w.Phase })
		if i < 0 {
			i, all = len(all), append(all, Traffic{Class: w.Class, Phase: w.Phase, ByRegion: map[string]int{}})
		}
		all[i].add(w)
	}
	return all
}

func (t *Traffic) add(w drill.TrafficWindow) {
	t.Windows++
	t.Sent, t.OK, t.Failed, t.Cut = t.Sent+w.Sent, t.OK+w.OK, t.Failed+w.Failed, t.Cut+w.Cut
	t.TTFTP50, t.TTFTP99 = worse(t.TTFTP50, w.TTFTP50), worse(t.TTFTP99, w.TTFTP99)
	for region, n := range w.ByRegion {
		t.ByRegion[region] += n
	}
	if w.CacheHit != nil {
		hit := *w.CacheHit
		if t.CacheMin == nil || hit < *t.CacheMin {
			t.CacheMin = &hit
		}
		if t.CacheMax == nil || hit > *t.CacheMax {
			t.CacheMax = &hit
		}
	}
}

func worse(old *float64, d time.Duration) *float64 {
	now := SecondsIf(d, d > 0)
	if now == nil || old != nil && *old >= *now {
		return old
	}
	return now
}
