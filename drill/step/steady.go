package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"drkit/drill"
	"drkit/drill/traffic"
	"drkit/playbooks"
)

// steady waits for enough windows in a row that hold the objectives, for every
// class, each with enough requests. A window with fewer is not measured and
// breaks the row.
type steady struct{ w *World }

func (steady) Check(context.Context, playbooks.Step) []error { return nil }

func (s steady) Do(ctx context.Context, _ playbooks.Step, sc drill.Scope) error {
	if s.w.cutover == nil {
		return missing("steady", "cutover")
	}
	s.w.traffic.SetPhase("steady")
	want := s.w.Objectives.Steady.Windows
	var row row
	err := wait(ctx, pollEvery, fmt.Sprintf("%d steady windows", want), func(context.Context) (bool, error) {
		row = s.row(s.w.traffic.windows(s.w.cutover.acknowledged))
		return row.length >= want, nil
	})
	if cached := s.cacheAware(ctx, sc); cached != nil {
		return cached
	}
	if err != nil && row.length < want {
		return errors.Join(s.red(sc, row), err)
	}
	return errors.Join(
		sc.Emit(drill.TypeInstant, drill.Instant{Name: drill.InstantSteady, At: sc.Mono(row.end)}),
		gate(sc, drill.Gate{ID: "steady", Title: "the objectives hold on the target", Expected: s.expected(),
			Observed: fmt.Sprintf("%d windows in a row; %s", row.length, row.last), Result: drill.Passed, Evidence: "the drill's own requests through the router"}))
}

// row is the newest unbroken row of good windows.
type row struct {
	length int
	end    time.Time // of its last window
	last   string    // what the newest window showed
	short  bool      // the newest window had too few requests to be judged
}

// row counts from the oldest window on. The windows of one stretch of time hold
// together: all classes must be good.
func (s steady) row(windows []traffic.Window) row {
	var r row
	for _, group := range byTime(windows) {
		if len(group) < len(s.w.Classes) {
			continue // not all classes have closed it yet
		}
		bad, short, text := s.judge(group)
		r.last, r.short = text, short
		if bad || short {
			r.length = 0
			continue
		}
		r.length++
		r.end = group[0].To
		if r.length == s.w.Objectives.Steady.Windows {
			return r
		}
	}
	return r
}

func byTime(windows []traffic.Window) [][]traffic.Window {
	var groups [][]traffic.Window
	for _, w := range windows {
		i := slices.IndexFunc(groups, func(g []traffic.Window) bool { return g[0].To.Equal(w.To) })
		if i < 0 {
			groups = append(groups, []traffic.Window{w})
			continue
		}
		groups[i] = append(groups[i], w)
	}
	return groups
}

// judge says whether a stretch is bad, too short of requests, and what it showed.
func (s steady) judge(group []traffic.Window) (bad, short bool, text string) {
	for _, w := range group {
		rate := 0.0
		if w.Sent > 0 {
			rate = float64(w.Failed) / float64(w.Sent)
		}
		bad = bad || rate > s.w.Objectives.ErrorRate || w.Cut > 0 || s.w.Objectives.TTFTP99 > 0 && w.TTFTP99 > s.w.Objectives.TTFTP99
		short = short || w.Sent < s.w.Objectives.Steady.MinRequests || float64(w.Sent) < s.leastLoad(w)
		text += fmt.Sprintf("%s: %d requests, %d failed, %d cut, TTFT p99 %v; ", w.Class, w.Sent, w.Failed, w.Cut, w.TTFTP99.Round(time.Millisecond))
	}
	return bad, short, text
}

// leastLoad is how many requests of a class a window needs to bear the promised
// share of the baseline's rate.
func (s steady) leastLoad(w traffic.Window) float64 {
	total, share := 0.0, 0.0
	for _, c := range s.w.Classes {
		total += c.Share
		if c.Name == w.Class {
			share = c.Share
		}
	}
	return s.w.Objectives.Steady.Load * s.w.traffic.rate * share / total * w.To.Sub(w.From).Seconds()
}

func (s steady) expected() string {
	o := s.w.Objectives
	text := fmt.Sprintf("%d windows of %v in a row, each class with at least %d requests, error rate at most %g, no stream cut", o.Steady.Windows, o.Steady.Window, o.Steady.MinRequests, o.ErrorRate)
	if o.TTFTP99 > 0 {
		text += fmt.Sprintf(", TTFT p99 at most %v", o.TTFTP99)
	}
	return text
}

func (s steady) red(sc drill.Scope, r row) error {
	g := drill.Gate{ID: "steady", Title: "the objectives hold on the target", Expected: s.expected(), Observed: fmt.Sprintf("at most %d windows in a row; the last: %s", r.length, r.last),
		Result: drill.Failed, Evidence: "the drill's own requests through the router", Hint: "the traffic table of the report shows each window"}
	if r.short || r.last == "" {
		g.Result, g.Hint = drill.Unmeasured, "raise the traffic's rate in the playbook, or lower objectives.steady.min_requests"
	}
	return gate(sc, g)
}

// cacheAware says whether the router's cache policy could see this traffic and
// found known prefixes. Routing by load alone proves nothing about it.
func (s steady) cacheAware(ctx context.Context, sc drill.Scope) error {
	p := drill.Proof{Name: drill.ProofCacheAware}
	info, now, was := s.w.router.info, s.w.decisions(context.WithoutCancel(ctx)), s.w.cutover.decisions
	hits, blind := now.hits-was.hits, now.blind-was.blind
	switch {
	case !now.known || !was.known:
		p.Why = fmt.Sprintf("not proven: %s (policy %s) does not say what its decisions rest on", info.Kind, info.Policy)
	case blind > 0:
		p.Why = fmt.Sprintf("not proven: the policy of %s could not see the prompt of %d requests (text: %s, token ids: %s); they went by load", info.Kind, blind, word(info.SeesText), word(info.SeesTokens))
	case hits == 0:
		p.Why = fmt.Sprintf("not proven: %s found no known prefix", info.Kind)
	default:
		p.Proven, p.Why = true, fmt.Sprintf("%s found a known prefix for %d requests and saw every prompt", info.Kind, hits)
	}
	return sc.Emit(drill.TypeProof, p)
}

func word(t drill.Tri) string {
	switch t {
	case drill.Yes:
		return "seen"
	case drill.No:
		return "not seen"
	}
	return "not known"
}
