package step

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"drkit/drill"
	"drkit/drill/traffic"
	"drkit/playbooks"
)

// steady waits for enough windows in a row that hold the objectives, for every
// class, each with enough requests. A window with fewer is not measured and
// breaks the row.
type steady struct{ w *World }

func (s steady) Check(ctx context.Context, p playbooks.Step) []error { return s.w.checkRouted(ctx, p) }

func (s steady) Do(ctx context.Context, _ playbooks.Step, sc drill.Scope) error {
	if s.w.cutover == nil {
		return missing("steady", "cutover")
	}
	row, err := s.watch(ctx)
	if err != nil && interrupted(ctx) {
		return err
	}
	if cached := s.cacheAware(ctx, sc); cached != nil {
		return cached
	}
	if err != nil {
		return s.red(sc, row, err)
	}
	if err := gate(sc, s.stayed(ctx)); err != nil {
		return err
	}
	s.w.cutover.steady = row.end
	return errors.Join(
		sc.Emit(drill.TypeInstant, drill.Instant{Name: drill.InstantSteady, At: sc.Mono(row.end)}),
		gate(sc, drill.Gate{ID: "steady", Title: "the objectives hold in " + s.w.cutover.to.region.Name, Expected: s.expected(),
			Observed: fmt.Sprintf("%d windows in a row; %s", row.length, row.last), Result: drill.Passed, Evidence: "the drill's own requests through the router"}))
}

// watch waits for as many windows in a row as were promised.
func (s steady) watch(ctx context.Context) (row, error) {
	target := s.w.cutover.to
	s.w.cutover.looked = true
	s.w.traffic.SetPhase("steady")
	want := s.w.Objectives.Steady.Windows
	var row row
	err := wait(ctx, pollEvery, fmt.Sprintf("%d steady windows", want), func(context.Context) (bool, error) {
		row = s.row(s.w.traffic.windows(s.w.cutover.drained))
		if how, ended := target.ended(); ended && row.length < want {
			return false, fmt.Errorf("%w: %s", errExited, how)
		}
		if n := s.w.hangingNow(); n > 0 && row.length >= want {
			row.length, row.last = 0, fmt.Sprintf("%d requests get no end; %s", n, row.last)
		}
		return row.length >= want, nil
	})
	return row, err
}

// held looks again at a steady state that an earlier process saw. What holds is an
// instant and gates of its own, and leaves the first look as it was: that is when the
// recovery was reached, and its evidence stands. Anything less is an error, and steady is
// then judged anew: a red or unmeasured gate here would outlive a second look that is good.
func (s steady) held(ctx context.Context, sc drill.Scope) error {
	if s.w.cutover == nil {
		return missing("steady", "cutover")
	}
	row, err := s.watch(ctx)
	if err != nil {
		return fmt.Errorf("it is not seen to hold: %w; the last: %s", err, row.last)
	}
	stayed := s.stayed(ctx)
	if stayed.Result != drill.Passed {
		return fmt.Errorf("it is not seen to hold: %s", stayed.Observed)
	}
	stayed.ID = "steady-again-attribution"
	s.w.cutover.steady = row.end
	return errors.Join(
		sc.Emit(drill.TypeInstant, drill.Instant{Name: drill.InstantSteadyAgain, At: sc.Mono(row.end)}),
		gate(sc, stayed),
		gate(sc, drill.Gate{ID: "steady-again", Title: "the objectives still hold in " + s.w.cutover.to.region.Name, Expected: s.expected(),
			Observed: fmt.Sprintf("%d windows in a row; %s", row.length, row.last), Result: drill.Passed, Evidence: "the drill's own requests through the router, after another process went on; nobody watched between"}))
}

// stayed proves that the target answered all the time: a router may list and count
// one engine and send to another, and a playbook may have moved the traffic back.
func (s steady) stayed(ctx context.Context) drill.Gate {
	to, from := s.w.cutover.to.region.Name, s.w.cutover.from.region.Name
	g := drill.Gate{ID: "steady-attribution", Title: "the requests stay in " + to, Expected: from + "'s engine answers nothing from the drain on",
		Observed: from + "'s engine answered nothing", Result: drill.Passed, Evidence: from + "'s vllm:request_success_total"}
	switch more := rise(s.w.cutover.left, s.w.answered(ctx, s.w.cutover.from)); {
	case more == nil && s.w.cutover.gone && s.w.gone(ctx, s.w.cutover.from):
		g.Observed, g.Evidence = from+"'s engines cannot be reached from here, and the router does not list them", "requests to the engines; the router's list at the cutover"
	case more == nil:
		g.Result, g.Observed = drill.Unmeasured, from+"'s engine does not say how many requests it answered"
	case *more != 0 && len(s.w.staying()) > 0 && drill.Live(s.w.Mode):
		g.Result, g.Observed = drill.Unmeasured, fmt.Sprintf("%s's engines answered %.0f requests: they may be those of %s, which stay there", from, *more, strings.Join(s.w.staying(), ", "))
	case *more != 0:
		g.Result, g.Observed = drill.Failed, fmt.Sprintf("%s's engine answered %.0f requests", from, *more)
		g.Hint = "the router sends to a region that it does not list, or the playbook moved the traffic before it was steady"
	}
	return g
}

// row is the newest unbroken row of good windows.
type row struct {
	length int
	end    time.Time // of its last window
	last   string    // what the newest window showed
	short  bool      // the newest window had too few requests to be judged, and shows nothing bad
}

// row counts from the oldest window on. The windows of one stretch of time hold
// together: all classes must be good.
func (s steady) row(windows []traffic.Window) row {
	var r row
	for _, group := range byTime(windows) {
		if len(group) < len(s.w.sent()) {
			continue // not all classes have closed it yet
		}
		bad, short, text := s.judge(group)
		r.last, r.short = text, short && !bad
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
	o := s.w.Objectives
	var texts []string
	for _, w := range group {
		bad = bad || errorRate(w) > o.ErrorRate || w.Cut > 0 || o.TTFTP99 > 0 && w.TTFTP99 > o.TTFTP99
		short = short || o.TTFTP99 > 0 && w.OK > 0 && w.TTFTP99 == 0 // no first token was seen: not measured
		short = short || w.Sent < o.Steady.MinRequests || float64(w.Sent) < s.leastLoad(w)
		seen := fmt.Sprintf("%s: %d requests, %d failed, %d cut, TTFT p99 %v", w.Class, w.Sent, w.Failed, w.Cut, w.TTFTP99.Round(time.Millisecond))
		for _, name := range slices.Sorted(maps.Keys(w.ByRegion)) {
			if name != s.w.cutover.to.region.Name {
				bad = true
				seen += fmt.Sprintf(", %d answered in %s", w.ByRegion[name], name)
			}
		}
		if len(w.Problems) > 0 {
			seen += ": " + first(w.Problems, 1)
		}
		texts = append(texts, seen)
	}
	return bad, short, strings.Join(texts, "; ")
}

// leastLoad is how many requests of a class a window needs to bear the promised
// share of the baseline's rate.
func (s steady) leastLoad(w traffic.Window) float64 {
	total, share := 0.0, 0.0
	for _, c := range s.w.sent() {
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

// red ends the step without a row that is long enough. An engine that ended or a
// bad window is red; too few requests to judge are not measured, and no error:
// the gate says so, and the run is incomplete.
func (s steady) red(sc drill.Scope, r row, cause error) error {
	g := drill.Gate{ID: "steady", Title: "the objectives hold in " + s.w.cutover.to.region.Name, Expected: s.expected(), Observed: fmt.Sprintf("%v: %d windows in a row", cause, r.length),
		Result: drill.Failed, Evidence: "the drill's own requests through the router", Hint: "the traffic table of the report shows each window"}
	if r.last != "" {
		g.Observed += "; the last: " + r.last
	}
	if !errors.Is(cause, errExited) && (r.short || r.last == "") {
		g.Result, g.Hint = drill.Unmeasured, "raise the traffic's rate in the playbook, or lower objectives.steady.min_requests"
	}
	return gate(sc, g)
}

// cacheAware says whether the router's cache policy could see this traffic and
// found known prefixes. Routing by load alone proves nothing about it.
func (s steady) cacheAware(ctx context.Context, sc drill.Scope) error {
	p := drill.Proof{Name: drill.ProofCacheAware}
	info, d := s.w.routerInfo(ctx), s.w.decisions(context.WithoutCancel(ctx), s.w.routed).since(s.w.cutover.decisions)
	switch {
	case !d.known:
		p.Why = fmt.Sprintf("not proven: %s (policy %s) does not say what its decisions rest on", info.Kind, info.Policy)
	case d.blind > 0:
		p.Why = fmt.Sprintf("not proven: the policy of %s could not see the prompt of %d requests (text: %s, token ids: %s); they went by load", info.Kind, d.blind, word(info.SeesText), word(info.SeesTokens))
	case d.hits == 0:
		p.Why = fmt.Sprintf("not proven: %s found no known prefix", info.Kind)
	default:
		p.Proven, p.Why = true, fmt.Sprintf("%s found a known prefix for %d requests and saw every prompt", info.Kind, d.hits)
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

// hangingNow counts the requests without an end. In an emergency those that began
// before the traffic was moved were lost with the source.
func (w *World) hangingNow() int {
	if w.Mode == drill.ModeEmergency {
		return w.traffic.HangingSince(w.cutover.drained)
	}
	return w.traffic.Hanging()
}
