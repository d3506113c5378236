package step

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"drkit/drill"
	"drkit/drill/traffic"
	"drkit/internal/errext"
	"drkit/playbooks"
)

// soak waits on after steady: the objectives hold in every window for as long as was
// promised. It is outside of the judged figure, and yet a bad window is red.
type soak struct{ w *World }

func (s soak) Check(ctx context.Context, p playbooks.Step) []error { return s.w.checkRouted(ctx, p) }

func (s soak) Plan(playbooks.Step) []drill.PlannedChange { return nil }

func (s soak) Do(ctx context.Context, _ playbooks.Step, sc drill.Scope) error {
	if s.w.cutover == nil || !s.w.cutover.looked {
		return missing("soak", "steady")
	}
	promised := s.w.Objectives.Soak
	if promised <= 0 {
		return sc.Emit(drill.TypeNote, drill.Note{Text: "objectives.soak is not set: how long the objectives hold after steady was not looked at"})
	}
	if s.w.cutover.steady.IsZero() {
		return gate(sc, drill.Gate{ID: "soak", Title: soakTitle, Expected: soakExpected(promised), Observed: "it was not seen steady before: there is no moment from which on they could hold",
			Result: drill.Unmeasured, Evidence: "the step before it", Hint: "see the gate steady"})
	}
	s.w.traffic.SetPhase("soak")
	from := s.w.cutover.steady
	var end soaked
	err := wait(ctx, pollEvery, fmt.Sprintf("a soak of %v", promised), func(context.Context) (bool, error) {
		end = s.judge(s.w.traffic.windows(from), from)
		if how, ended := s.w.cutover.to.ended(); ended {
			return false, fmt.Errorf("%w: %s", errExited, how)
		}
		return end.bad || end.short || end.held >= promised, nil
	})
	if err != nil && interrupted(ctx) {
		return err
	}
	if hanging := s.w.hangingNow(); err == nil && hanging > 0 {
		end.bad, end.last = true, fmt.Sprintf("%d requests get no end; %s", hanging, end.last)
	}
	g := drill.Gate{ID: "soak", Title: soakTitle, Expected: soakExpected(promised), Result: drill.Passed,
		Observed: fmt.Sprintf("they held for %v; the last: %s", end.held, end.last), Evidence: "the drill's own requests through the router", Hint: "the traffic table of the report shows each window"}
	switch {
	case err != nil:
		g.Result, g.Observed = drill.Failed, fmt.Sprintf("%v; %s", err, g.Observed)
	case end.bad:
		g.Result = drill.Failed
	case end.short:
		g.Result, g.Hint = drill.Unmeasured, "raise the traffic's rate in the playbook, or lower objectives.steady.min_requests"
	}
	if err := gate(sc, g); err != nil {
		return err
	}
	return s.stays(ctx, sc)
}

const soakTitle = "the objectives hold on"

func soakExpected(promised time.Duration) string {
	return fmt.Sprintf("%v after steady, each window as for steady", promised)
}

// soaked is how far a soak has come.
type soaked struct {
	held       time.Duration // of good windows without a gap
	bad, short bool          // the newest window is not good, or could not be judged
	last       string        // what the newest window showed
}

func (s soak) judge(windows []traffic.Window, from time.Time) soaked {
	var end soaked
	for _, group := range byTime(windows) {
		if len(group) < len(s.w.sent()) {
			continue // not all classes have closed it yet
		}
		end.bad, end.short, end.last = steady(s).judge(group)
		if end.bad || end.short {
			return end
		}
		end.held = group[0].To.Sub(from)
	}
	return end
}

// stays proves that what answered all the time was still the region that took over.
func (s soak) stays(ctx context.Context, sc drill.Scope) error {
	g := steady(s).stayed(ctx)
	g.ID = "soak-attribution"
	return gate(sc, g)
}

// cacheWarm waits until the engines' prefix cache serves as large a share of the
// prompts as was promised of the baseline's.
type cacheWarm struct{ w *World }

func (c cacheWarm) Check(ctx context.Context, p playbooks.Step) []error {
	return c.w.checkRouted(ctx, p)
}

func (c cacheWarm) Plan(playbooks.Step) []drill.PlannedChange { return nil }

func (c cacheWarm) Do(ctx context.Context, _ playbooks.Step, sc drill.Scope) error {
	if c.w.cutover == nil || c.w.cutover.warming == nil {
		return missing("cache-warm", "cutover")
	}
	share, base := c.w.Objectives.CacheWarm, c.w.cutover.baseline
	switch {
	case share <= 0:
		return sc.Emit(drill.TypeNote, drill.Note{Text: "objectives.cache_warm is not set: when the cache's hit rate was back was not looked at"})
	case base.why != "" && c.w.Mode == drill.ModeEmergency:
		return sc.Emit(drill.TypeNote, drill.Note{Text: "cache-warm is not measured: " + base.why})
	}
	g := drill.Gate{ID: "cache-warm", Title: "the prefix cache is warm again", Expected: fmt.Sprintf("a hit rate of at least %g of the baseline's", share),
		Evidence: "the engines' vllm:prefix_cache_hits_total and _queries_total", Status: int(errext.ObjectiveMissed), Hint: "one miss for each prefix and engine is the price of a move; a rate that stays low is routing that does not see prefixes"}
	if base.why != "" {
		g.Result, g.Observed = drill.Unmeasured, base.why
		return gate(sc, g)
	}
	g.Expected += fmt.Sprintf(": %.3g of %.3g", share*base.rate, base.rate)
	var seen []warmth
	var warm *warmth
	err := wait(ctx, pollEvery, "the cache to be warm", func(context.Context) (bool, error) {
		seen = c.w.cutover.warming.all()
		for i := range seen {
			if seen[i].why == "" && seen[i].rate >= share*base.rate {
				warm = &seen[i]
				return true, nil
			}
		}
		return unknownFor(seen) >= unknownPatience, nil
	})
	if err != nil && interrupted(ctx) {
		return err
	}
	if warm != nil {
		g.Result, g.Observed = drill.Passed, fmt.Sprintf("%.3g in the window up to it", warm.rate)
		return errors.Join(sc.Emit(drill.TypeInstant, drill.Instant{Name: drill.InstantCacheWarm, At: sc.Mono(warm.to)}), gate(sc, g))
	}
	g.Result, g.Observed = drill.Failed, "it did not come back: "+texts(seen)
	if unknownFor(seen) > 0 && err == nil {
		g.Result, g.Observed = drill.Unmeasured, texts(seen)
	}
	return gate(sc, g)
}

// unknownPatience is how many windows in a row may tell nothing of the cache before
// it counts as not measured.
const unknownPatience = 3

// unknownFor is for how many of the newest windows the rate is not known.
func unknownFor(seen []warmth) (n int) {
	for i := len(seen) - 1; i >= 0 && seen[i].why != ""; i-- {
		n++
	}
	return n
}

// texts shows the newest rates.
func texts(seen []warmth) string {
	var all []string
	for _, w := range seen[max(0, len(seen)-3):] {
		if w.why != "" {
			all = append(all, w.why)
			continue
		}
		all = append(all, fmt.Sprintf("%.3g", w.rate))
	}
	if len(all) == 0 {
		return "no window has ended since the cutover"
	}
	return "the newest windows: " + strings.Join(all, ", ")
}
