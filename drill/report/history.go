package report

import (
	"cmp"
	"slices"
	"time"

	"drkit/drill"
)

// HistorySchema names the version of the JSON history.
const HistorySchema = "drkit.drill-history/1.0"

// Kind tells runs that may be compared from those that may not.
type Kind struct {
	Service string `json:"service"`
	Source  string `json:"source"` // as drkit.yaml calls the regions, whichever way the traffic goes
	Target  string `json:"target"`
	Mode    string `json:"mode"` // a way back is of mode failback
	Demo    bool   `json:"demo"`
}

func kindOf(r *drill.Run) Kind {
	p := r.Plan
	return Kind{Service: p.Service, Source: p.Source, Target: p.Target, Mode: p.Way(), Demo: p.Demo}
}

// String names the kind for people.
func (k Kind) String() string {
	from, to := k.Source, k.Target
	if k.Mode == drill.ModeFailback {
		from, to = to, from
	}
	return k.Service + ": " + from + " → " + to + ", " + k.Mode + yes(k.Demo, " (demo)", "")
}

// Counts says that a run of the kind can be a success at all: a demonstration shows
// nothing of production, and a tabletop moves nothing.
func (k Kind) Counts() bool { return !k.Demo && k.Mode != "tabletop" }

// History is all runs by kind, each kind's oldest first.
type History struct {
	Schema string        `json:"schema"`
	Kinds  []KindHistory `json:"kinds"`
}

// KindHistory is the runs of one kind.
type KindHistory struct {
	Kind
	Runs []PastRun `json:"runs"`
}

// PastRun is a run as the history shows it.
type PastRun struct {
	Run         string       `json:"run"`
	Began       time.Time    `json:"began"`
	Release     string       `json:"release"`
	Verdict     *string      `json:"verdict"` // null: not ended
	Status      *int         `json:"status"`
	RTO         *float64     `json:"rto_seconds"`
	Promised    float64      `json:"rto_promised_seconds"`
	Why         string       `json:"why,omitempty"` // why there is no recovery time
	Segments    []Segment    `json:"segments"`
	Regressions []Regression `json:"regressions"`
	Trouble     string       `json:"trouble,omitempty"`    // its evidence does not hold
	TakenBack   []TakenBack  `json:"taken_back,omitempty"` // after the end; the verdict is not touched by it
	run         *drill.Run
}

// Good says that the run is one that refreshes "last success".
func (p PastRun) Good() bool {
	return p.Verdict != nil && *p.Verdict == drill.Recovered && *p.Status == 0 && p.Trouble == "" && kindOf(p.run).Counts()
}

// Regression is a stretch of the clock that took longer than it used to.
type Regression struct {
	From    string  `json:"from"`
	To      string  `json:"to"`
	Elapsed float64 `json:"elapsed_seconds"`
	Median  float64 `json:"median_seconds"` // of the earlier runs
	Runs    int     `json:"earlier_runs"`
}

// When a stretch counts as slower: beside three earlier runs at least, by a fifth
// and by a second at least. Less is within what a run differs from the next.
const (
	regressionRuns   = 3
	regressionFactor = 1.2
	regressionLeast  = 1.0 // seconds
)

// NewHistory sorts runs by kind and time and compares each with those before it. Runs of
// one ledger stand in its order: a clock that was set back does not make a red run an
// old one.
// trouble says of a run's id why its evidence does not hold, "" when it does.
func NewHistory(runs []*drill.Run, trouble func(run string) string) History {
	h := History{Schema: HistorySchema, Kinds: []KindHistory{}}
	for _, r := range inOrder(runs) {
		i := slices.IndexFunc(h.Kinds, func(k KindHistory) bool { return k.Kind == kindOf(r) })
		if i < 0 {
			i, h.Kinds = len(h.Kinds), append(h.Kinds, KindHistory{Kind: kindOf(r)})
		}
		p := past(r, trouble(r.ID))
		p.Regressions = regressions(p, h.Kinds[i].Runs)
		h.Kinds[i].Runs = append(h.Kinds[i].Runs, p)
	}
	return h
}

// inOrder sorts runs by the time at which they began, and among the places that the runs
// of one ledger have by the records that announced them.
func inOrder(runs []*drill.Run) []*drill.Run {
	sorted := slices.SortedFunc(slices.Values(runs), func(a, b *drill.Run) int { return a.Begun.Wall.Compare(b.Begun.Wall) })
	places := map[string][]int{}
	for i, r := range sorted {
		if l := r.Plan.Ledger; l != nil {
			places[l.Location] = append(places[l.Location], i)
		}
	}
	for _, at := range places {
		var all []*drill.Run
		for _, i := range at {
			all = append(all, sorted[i])
		}
		slices.SortStableFunc(all, func(a, b *drill.Run) int { return cmp.Compare(a.Plan.Ledger.Record, b.Plan.Ledger.Record) })
		for n, i := range at {
			sorted[i] = all[n]
		}
	}
	return sorted
}

func past(r *drill.Run, trouble string) PastRun {
	d, ok, why := r.RTO()
	p := PastRun{Run: r.ID, Began: r.Begun.Wall, Release: r.Plan.Release, RTO: SecondsIf(d, ok), Promised: seconds(r.Plan.Objectives.RTO),
		Segments: segments(r), Regressions: []Regression{}, Trouble: trouble, TakenBack: TakenBacks(r), run: r}
	if !ok {
		p.Why = why
	}
	if f := r.Finished; f != nil {
		p.Verdict, p.Status = &f.Verdict, &f.Status
	}
	return p
}

// stretches are the segments and the judged figure, which is one too.
func (p PastRun) stretches() []Segment {
	return append(slices.Clone(p.Segments), Segment{From: drill.InstantDeclared, To: drill.InstantSteady, Elapsed: p.RTO})
}

func regressions(p PastRun, before []PastRun) []Regression {
	all := []Regression{}
	for _, s := range p.stretches() {
		if s.Elapsed == nil {
			continue
		}
		earlier := earlierTimes(s, before)
		if len(earlier) < regressionRuns {
			continue
		}
		if m := median(earlier); *s.Elapsed > m*regressionFactor && *s.Elapsed >= m+regressionLeast {
			all = append(all, Regression{From: s.From, To: s.To, Elapsed: *s.Elapsed, Median: m, Runs: len(earlier)})
		}
	}
	return all
}

// earlierTimes are those of the same stretch in runs that recovered, cached ones
// apart from the others.
func earlierTimes(s Segment, before []PastRun) []float64 {
	var all []float64
	for _, p := range before {
		if p.Verdict == nil || *p.Verdict != drill.Recovered && *p.Verdict != drill.ObjectiveMissed || p.Trouble != "" {
			continue
		}
		for _, o := range p.stretches() {
			if o.From == s.From && o.To == s.To && o.Cached == s.Cached && o.Elapsed != nil {
				all = append(all, *o.Elapsed)
			}
		}
	}
	return all
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	if n%2 == 1 {
		return all[n/2]
	}
	return (all[n/2-1] + all[n/2]) / 2
}
