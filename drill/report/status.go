package report

import (
	"fmt"
	"slices"
	"time"

	"drkit/drill"
)

// StatusSchema names the version of the JSON status.
const StatusSchema = "drkit.drill-status/1.0"

// Today is what a status compares the past with; a zero value is not compared.
type Today struct {
	Now          time.Time
	MaxAge       time.Duration     // of the last success
	Expect       []Kind            // kinds that there must be runs of
	Releases     map[string]string // what each target publishes
	RTO          time.Duration     // promised now
	PlaybookHash map[string]string // by mode
}

// Status says of each kind when it was last shown to work, and what speaks against
// relying on that today.
type Status struct {
	Schema string       `json:"schema"`
	Now    time.Time    `json:"now"`
	Kinds  []KindStatus `json:"kinds"`
}

// KindStatus is the state of one kind of run.
type KindStatus struct {
	Kind
	Runs     int      `json:"runs"`
	Last     *PastRun `json:"last"`                     // null: none
	LastGood *PastRun `json:"last_success"`             // null: never
	Age      *float64 `json:"last_success_age_seconds"` // null: never, or it is dated ahead
	Problems []string `json:"problems"`                 // empty: nothing speaks against it
}

// NewStatus judges a history as of today. Demonstrations and tabletops are listed,
// and are never a success.
func NewStatus(h History, t Today) Status {
	s := Status{Schema: StatusSchema, Now: t.Now.UTC(), Kinds: []KindStatus{}}
	for _, k := range h.Kinds {
		s.Kinds = append(s.Kinds, kindStatus(k, t))
	}
	for _, k := range t.Expect {
		if !slices.ContainsFunc(h.Kinds, func(x KindHistory) bool { return x.Kind == k }) {
			s.Kinds = append(s.Kinds, kindStatus(KindHistory{Kind: k}, t))
		}
	}
	return s
}

func kindStatus(k KindHistory, t Today) KindStatus {
	s := KindStatus{Kind: k.Kind, Runs: len(k.Runs), Problems: []string{}}
	for i := range k.Runs {
		s.Last = &k.Runs[i]
		if s.Last.Good() {
			s.LastGood = s.Last
		}
	}
	if !k.Counts() {
		return s
	}
	s.judgeAge(t)
	s.judgeLast()
	s.judgeChange(t)
	return s
}

func (s *KindStatus) problem(format string, args ...any) {
	s.Problems = append(s.Problems, fmt.Sprintf(format, args...))
}

// clockLag is how far the clocks of two machines may lie apart.
const clockLag = 5 * time.Minute

func (s *KindStatus) judgeAge(t Today) {
	switch {
	case s.Runs == 0:
		s.problem("it was never run")
	case s.LastGood == nil:
		s.problem("it has never recovered; runs so far: %d", s.Runs)
	case s.LastGood.Began.After(t.Now.Add(clockLag)):
		s.problem("the last success is dated %s, which is not yet: a clock is wrong or was set back, and nobody knows how old it is", s.LastGood.Began.UTC().Format(time.RFC3339))
	default:
		age := t.Now.Sub(s.LastGood.Began)
		s.Age = SecondsIf(age, true)
		if t.MaxAge > 0 && age > t.MaxAge {
			s.problem("the last success is %s old, allowed are %s", days(age), days(t.MaxAge))
		}
	}
}

// days writes a long time as people say it.
func days(d time.Duration) string {
	if d < 48*time.Hour {
		return duration(d.Round(time.Minute))
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

func (s *KindStatus) judgeLast() {
	p := s.Last
	switch {
	case p == nil || p.Good():
		return
	case p.Trouble != "":
		s.problem("the evidence of the newest run, %s, does not hold: %s", p.Run, p.Trouble)
	case p.Verdict == nil:
		s.problem("the newest run, %s, has not ended", p.Run)
	default:
		s.problem("the newest run, %s, ended as %s%s", p.Run, *p.Verdict, firstOf(p.run.Finished.Reasons))
	}
}

func firstOf(all []drill.Reason) string {
	if len(all) == 0 {
		return ""
	}
	return ": " + drill.Clip(all[0].What, shortText)
}

// judgeChange says what is another today than in the last success.
func (s *KindStatus) judgeChange(t Today) {
	if s.LastGood == nil {
		return
	}
	p := s.LastGood
	switch now, ok := t.Releases[s.Target]; {
	case ok && now == "":
		s.problem("%s publishes no release now, and %.12s was drilled", s.Target, p.Release)
	case ok && now != p.Release:
		s.problem("%s publishes release %.12s now, and %.12s was drilled", s.Target, now, p.Release)
	}
	if p.RTO != nil && t.RTO > 0 && *p.RTO > t.RTO.Seconds() {
		s.problem("%s are promised now, and the last success took %s", duration(t.RTO), span(p.RTO))
	}
	if now, then := t.PlaybookHash[s.Mode], p.run.Plan.PlaybookHash; now != "" && then != "" && now != then {
		s.problem("the playbook was changed since the last success")
	}
	for _, r := range p.Regressions {
		s.problem("%s → %s took %s in the last success, the median of %d runs before is %s", r.From, r.To, span(&r.Elapsed), r.Runs, span(&r.Median))
	}
}
