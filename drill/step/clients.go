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

// touched are the requests that ended at or after a moment: those in flight at a
// change belong to it, whenever they began.
func (w *World) touched(since time.Time) []traffic.Result {
	return slices.DeleteFunc(w.traffic.Results(time.Time{}), func(r traffic.Result) bool { return r.Ended.Before(since) })
}

// unharmed judges what clients saw from the beginning of the change on.
func (m *move) unharmed(sc drill.Scope) error {
	sum := traffic.Summarize(m.w.touched(m.began))
	if hanging := m.w.traffic.Hanging(); hanging > 0 {
		sum.Sent, sum.Failed = sum.Sent+hanging, sum.Failed+hanging
		sum.Problems = append(sum.Problems, fmt.Sprintf("%d requests get no end", hanging))
	}
	limit := m.w.Objectives.ErrorRate
	observed := fmt.Sprintf("%d requests, %d failed (%.3g), %d streams cut", sum.Sent, sum.Failed, errorRate(sum), sum.Cut)
	if len(sum.Problems) > 0 {
		observed += ": " + first(sum.Problems, 2)
	}
	return gate(sc, drill.Gate{ID: m.id + "-errors", Title: "clients are not harmed by the switch", Expected: fmt.Sprintf("error rate at most %g, no stream cut", limit),
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
		classes[c.Name] = c
		for name, home := range homes {
			if !region.Allows(c.Residency, home) {
				outside = append(outside, fmt.Sprintf("class %s could be sent to region %s (%s)", c.Name, name, home))
			}
		}
	}
	named := 0
	for _, r := range m.w.touched(m.began) {
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
	return gate(sc, drill.Gate{ID: m.id + "-residency", Title: "no request leaves its border", Expected: "each class is answered only where its residency allows", Observed: observed, Result: result(len(outside) == 0), Evidence: evidence})
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

func (w *World) decisions(ctx context.Context) decisions {
	p, ok := w.router.Router.(drill.CachePolicy)
	if !ok {
		return decisions{}
	}
	ctx, cancel := question(ctx)
	defer cancel()
	hits, misses, blind, err := p.CacheDecisions(ctx)
	return decisions{hits, misses, blind, err == nil}
}
