package step

import (
	"context"
	"fmt"
	"slices"
	"time"

	"drkit/drill"
	"drkit/drill/traffic"
	"drkit/manifest/region"
)

// results are the requests of the move's classes that began at or after a moment.
func (m *move) results(since time.Time) []traffic.Result {
	return slices.DeleteFunc(m.w.traffic.Results(since), func(r traffic.Result) bool { return !slices.Contains(m.classes, r.Class) })
}

// touched are the requests that the change could harm: those that ended at or after
// its beginning, whenever they began. In an emergency the ones before it were lost
// with the source, and only those count that began after the list showed the change.
func (m *move) touched() []traffic.Result {
	if m.w.Mode == drill.ModeEmergency {
		return m.results(m.acknowledged)
	}
	return slices.DeleteFunc(m.results(time.Time{}), func(r traffic.Result) bool { return r.Ended.Before(m.began) })
}

// hanging are the requests without an end, of those that the change could harm.
func (m *move) hanging() int {
	if m.w.Mode == drill.ModeEmergency {
		return m.w.traffic.HangingSince(m.acknowledged)
	}
	return m.w.traffic.Hanging()
}

// unharmed judges what clients saw from the beginning of the change on.
func (m *move) unharmed(sc drill.Scope) error {
	sum := traffic.Summarize(m.touched())
	if hanging := m.hanging(); hanging > 0 {
		sum.Sent, sum.Failed = sum.Sent+hanging, sum.Failed+hanging
		sum.Problems = append(sum.Problems, fmt.Sprintf("%d requests get no end", hanging))
	}
	limit := m.w.Objectives.ErrorRate
	observed := fmt.Sprintf("%d requests, %d failed (%.3g), %d streams cut", sum.Sent, sum.Failed, errorRate(sum), sum.Cut)
	if len(sum.Problems) > 0 {
		observed += ": " + first(sum.Problems, 2)
	}
	return m.gate(sc, drill.Gate{ID: m.id + "-errors", Title: "clients are not harmed by the switch", Expected: fmt.Sprintf("error rate at most %g, no stream cut", limit),
		Observed: observed, Result: result(sum.Sent > 0 && errorRate(sum) <= limit && sum.Cut == 0), Evidence: "the drill's own requests through the router"})
}

// errorRate is the share of requests that failed; 0 for none, which proves nothing.
func errorRate(w traffic.Window) float64 {
	if w.Sent == 0 {
		return 0
	}
	return float64(w.Failed) / float64(w.Sent)
}

// inside judges the border: where the answers name their region, by each answer,
// otherwise by the regions that the router could choose from.
func (m *move) inside(sc drill.Scope) error {
	homes := map[string]region.Residency{m.w.Source.Name: m.w.Source.Residency, m.w.Target.Name: m.w.Target.Residency}
	classes := map[string]traffic.Class{}
	var outside []string
	for _, c := range m.w.sent() {
		if !slices.Contains(m.classes, c.Name) {
			continue
		}
		classes[c.Name] = c
		for name, home := range homes {
			if !region.Allows(c.Residency, home) {
				outside = append(outside, fmt.Sprintf("class %s could be sent to region %s (%s)", c.Name, name, home))
			}
		}
	}
	named := 0
	for _, r := range m.touched() {
		if r.Region == "" {
			continue
		}
		named++
		if !region.Allows(classes[r.Class].Residency, homes[r.Region]) {
			outside = append(outside, fmt.Sprintf("request %s of class %s was answered in %s", r.ID, r.Class, r.Region))
		}
	}
	observed, evidence := fmt.Sprintf("%d answers name their region, all inside", named), "the answers' own headers"
	if named == 0 {
		observed, evidence = "every region that the router could choose lies inside", "the residencies of the router's workers"
	}
	if len(outside) > 0 {
		observed = first(outside, 3)
	}
	return m.gate(sc, drill.Gate{ID: m.id + "-residency", Title: "no request leaves its border", Expected: "each class is answered only where its residency allows", Observed: observed, Result: result(len(outside) == 0), Evidence: evidence})
}

// decisions are the counts of a router's cache policy.
type decisions struct {
	hits, misses, blind uint64
	known               bool
}

// since is what was decided after an earlier reading; not known when either is
// not, or when the router began to count anew.
func (d decisions) since(was decisions) decisions {
	if !d.known || !was.known || d.hits < was.hits || d.misses < was.misses || d.blind < was.blind {
		return decisions{}
	}
	return decisions{d.hits - was.hits, d.misses - was.misses, d.blind - was.blind, true}
}

// decisions adds up what the routers of some moves decided; not known when one of
// them does not say.
func (w *World) decisions(ctx context.Context, moves []*move) decisions {
	sum := decisions{known: len(moves) > 0}
	for _, m := range moves {
		d := decisionsOf(ctx, m.router)
		sum = decisions{sum.hits + d.hits, sum.misses + d.misses, sum.blind + d.blind, sum.known && d.known}
	}
	return sum
}

func decisionsOf(ctx context.Context, r drill.Router) decisions {
	if in, ok := r.(*rehearsalRouter); ok {
		r = in.Router
	}
	p, ok := r.(drill.CachePolicy)
	if !ok {
		return decisions{}
	}
	ctx, cancel := question(ctx)
	defer cancel()
	hits, misses, blind, err := p.CacheDecisions(ctx)
	return decisions{hits, misses, blind, err == nil}
}
