package step_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"drkit/drill"
	"drkit/playbooks"
)

// askServing puts the step behind steady that asks what took over.
func (l *lab) askServing() {
	l.after("behaviour")
	for i := range l.playbook.Steps {
		if s := &l.playbook.Steps[i]; s.Kind == "behaviour" && i > 0 && l.playbook.Steps[i-1].ID == "steady" {
			s.ID, s.With = "served-behaviour", node(l.t, "{engines: serving}")
		}
	}
}

// after puts steps behind steady.
func (l *lab) after(kinds ...string) {
	var all []playbooks.Step
	for _, s := range l.playbook.Steps {
		all = append(all, s)
		if s.ID != "steady" {
			continue
		}
		for _, kind := range kinds {
			all = append(all, playbooks.Step{ID: kind, Kind: kind, Text: kind, Timeout: 10 * time.Minute, OnTimeout: playbooks.Abort, When: playbooks.Passed})
		}
	}
	l.playbook.Steps = all
}

// TestSoak: steady is at 95 s (TestRecovery); the soak of a minute ends with the
// window that closes at 155 s, and moves no figure.
func TestSoak(t *testing.T) {
	soak := func(more func(*lab)) func(*lab) {
		return func(l *lab) {
			l.promise(func(o *drill.Objectives) { o.Soak = time.Minute })
			l.after("soak")
			more(l)
		}
	}
	drilled(t, soak(func(*lab) {}), func(l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		wantGate(t, run, "soak", drill.Passed, "they held for 1m0s")
		wantGate(t, run, "soak-attribution", drill.Passed)
		if rto, _, _ := run.RTO(); rto != 79750*time.Millisecond {
			t.Errorf("the soak moved the judged figure: %v", rto)
		}
		if s := stepOf(run, "soak"); s.Ended.Mono < 155*time.Second || s.Ended.Mono > 156*time.Second {
			t.Errorf("it ended at %v", s.Ended.Mono)
		}
	})
}

func TestSoakIsRed(t *testing.T) {
	for _, tc := range []red{
		{"an engine that breaks after half a minute", func(l *lab) {
			l.onStep["soak"] = func() {
				time.AfterFunc(30*time.Second, func() {
					e := l.launcher.engines["target-canary"]
					e.mu.Lock()
					defer e.mu.Unlock()
					e.broken = true
				})
			}
		}, drill.NotRecovered, 4, []string{"soak"}, []string{"gate soak", "failed"}},
		{"an engine that dies", func(l *lab) { l.launcher.engines["target-canary"].dies = 70 * time.Second },
			drill.NotRecovered, 4, []string{"soak"}, []string{"gate soak"}},
		{"the router goes back", func(l *lab) {
			l.onStep["soak"] = func() {
				time.AfterFunc(10*time.Second, func() { l.router.mu.Lock(); l.router.sticky = true; l.router.mu.Unlock() })
			}
		}, drill.NotRecovered, 4, []string{"soak-attribution"}, []string{"us-east-1's engine answered"}},
		{"steady that was not measured", func(l *lab) { l.promise(func(o *drill.Objectives) { o.Steady.MinRequests = 90 }); l.rate(6) },
			drill.Incomplete, 4, nil, []string{"gate soak is unmeasured", "it was not seen steady"}},
		{"without steady before it", func(l *lab) { l.without("steady") }, drill.Incomplete, 2, nil, []string{"soak: an earlier step of the playbook did not run"}},
	} {
		inner := tc.arrange
		tc.arrange = func(l *lab) {
			l.promise(func(o *drill.Objectives) { o.Soak = time.Minute })
			l.after("soak")
			inner(l)
		}
		tc.run(t)
	}
}

// TestSoakWithTooFewRequests is not measured: the traffic is slower than was promised.
func TestSoakNotPromised(t *testing.T) {
	drilled(t, func(l *lab) { l.after("soak", "cache-warm") }, func(l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		notes := strings.Join(run.Notes, "\n")
		if !strings.Contains(notes, "objectives.soak is not set") || !strings.Contains(notes, "objectives.cache_warm is not set") {
			t.Errorf("notes: %s", notes)
		}
		for _, g := range run.Gates {
			if g.Step == "soak" || g.Step == "cache-warm" {
				t.Errorf("judged without a promise: %+v", g)
			}
		}
	})
}

// caches makes engines count 100 looked-up tokens a request, of which they find so
// many: at the source always 90; at the target what cold says of its first requests.
func caches(l *lab, target func(done int) (hits int)) {
	count := func(e *engine, hits func(int) int) {
		e.mute = func(page string) string {
			e.mu.Lock()
			defer e.mu.Unlock()
			return page + fmt.Sprintf("vllm:prefix_cache_queries_total %d\nvllm:prefix_cache_hits_total %d\n", 100*e.done, hits(e.done))
		}
	}
	count(l.launcher.engines["source-canary"], func(done int) int { return 90 * done })
	count(l.launcher.engines["target-canary"], target)
}

// TestCacheWarm by hand: the baseline is 0.9, promised is half of it: 0.45. From the
// change at 55.25 s on a window of 10 s is read; 6 requests end in a second. Probes
// before the change take some of the first requests: the cache is cold up to request
// 150, and warm from then on.
func TestCacheWarm(t *testing.T) {
	drilled(t, func(l *lab) {
		l.promise(func(o *drill.Objectives) { o.CacheWarm = 0.5 })
		l.after("cache-warm")
		caches(l, func(done int) int { return 90 * max(0, done-150) })
	}, func(l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		wantGate(t, run, "cache-warm", drill.Passed)
		in, ok := run.Instant(drill.InstantCacheWarm)
		if !ok || in.At.Mono < 75*time.Second || in.At.Mono > 96*time.Second {
			t.Errorf("cache-warm at %v", in.At.Mono)
		}
		if rto, _, _ := run.RTO(); rto != 79750*time.Millisecond {
			t.Errorf("it moved the judged figure: %v", rto)
		}
	})
}

func TestCacheWarmIsNot(t *testing.T) {
	for _, tc := range []struct {
		name             string
		arrange          func(*lab)
		verdict          string
		status           int
		result, observed string
	}{
		{"the cache stays cold", func(l *lab) { caches(l, func(int) int { return 0 }) }, drill.ObjectiveMissed, 5, drill.Failed, "it did not come back"},
		{"no counters", func(*lab) {}, drill.Incomplete, 4, drill.Unmeasured, "does not count its prefix cache's hits"},
		{"more hits than lookups", func(l *lab) { caches(l, func(done int) int { return 300 * done }) }, drill.Incomplete, 4, drill.Unmeasured, "target-canary counts more hits than lookups"},
		{"endless hits", func(l *lab) {
			caches(l, func(int) int { return 0 })
			l.launcher.engines["target-canary"].mute = func(page string) string {
				return page + "vllm:prefix_cache_queries_total 100\nvllm:prefix_cache_hits_total +Inf\n"
			}
		}, drill.Incomplete, 4, drill.Unmeasured, "target-canary does not count"},
		{"the target's are missing", func(l *lab) { caches(l, func(int) int { return 0 }); l.launcher.engines["target-canary"].mute = nil }, drill.Incomplete, 4, drill.Unmeasured, "target-canary does not count"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			drilled(t, func(l *lab) {
				l.promise(func(o *drill.Objectives) { o.CacheWarm = 0.5 })
				l.after("cache-warm")
				tc.arrange(l)
			}, func(l *lab, run *drill.Run) {
				l.wantEnd(run, tc.verdict, tc.status)
				wantGate(t, run, "cache-warm", tc.result, tc.observed)
				if _, ok := run.Instant(drill.InstantCacheWarm); ok {
					t.Error("the instant was stamped")
				}
			})
		})
	}
}
