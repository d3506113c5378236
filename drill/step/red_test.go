package step_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
	"drkit/internal/openai"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/manifest"
	"drkit/playbooks"
)

// red is a drill that must not recover. Without gates no gate is red.
type red struct {
	name    string
	arrange func(*lab)
	verdict string
	status  int
	gates   []string // red
	reason  []string // words of one reason
}

func (tc red) run(t *testing.T, further ...func(*lab, *drill.Run)) {
	t.Run(tc.name, func(t *testing.T) {
		drilled(t, tc.arrange, func(l *lab, run *drill.Run) {
			l.wantEnd(run, tc.verdict, tc.status)
			if got := redGates(run); !slices.Equal(got, tc.gates) {
				t.Errorf("red gates %v, want %v", got, tc.gates)
			}
			wantReason(t, run, tc.reason...)
			for _, f := range further {
				f(l, run)
			}
		})
	})
}

func (l *lab) remove(subject string) {
	if err := l.eu.Remove(l.ctx, key(l.release, subject), store.Cond{}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) damageStored(subject string) {
	k := key(l.release, subject)
	l.eu.Damage(k, overwritten([]byte(l.eu.Content()[k])))
}

func TestDamagedCopy(t *testing.T) {
	for _, tc := range []red{
		{"tokenizer missing", func(l *lab) { l.remove("model/base/tokenizer.json") },
			drill.NotRecovered, 4, []string{"copy"}, []string{"gate copy", "model/base/tokenizer.json missing"}},
		{"shard overwritten", func(l *lab) { l.damageStored(shard) },
			drill.NotRecovered, 4, []string{"copy"}, []string{"gate copy", shard + " diverged"}},
		{"a file too many", func(l *lab) { l.eu.Fill(map[string]string{key(l.release, "model/base/extra.jinja"): "{{ x }}"}) },
			drill.NotRecovered, 4, []string{"copy"}, []string{"gate copy", "model/base/extra.jinja extra"}},
	} {
		tc.run(t, func(_ *lab, run *drill.Run) {
			if ok, _ := run.Proof(drill.ProofCopy); ok {
				t.Error("the copy is proven")
			}
		})
	}
}

// TestRestoreRefusesWithoutVerify: a playbook that leaves verify out does not let
// a damaged file through, and no file gets its final name with wrong bytes.
func TestRestoreRefusesWithoutVerify(t *testing.T) {
	for _, tc := range []red{
		{"tokenizer missing", func(l *lab) { l.remove("model/base/tokenizer.json") },
			drill.NotRecovered, 4, nil, []string{"step restore", "restoring model/base/tokenizer.json from support-chat/"}},
		{"shard overwritten", func(l *lab) { l.damageStored(shard) },
			drill.NotRecovered, 4, nil, []string{"step restore", "restoring " + shard + " from support-chat/"}},
	} {
		inner := tc.arrange
		var there []string
		tc.arrange = func(l *lab) {
			inner(l)
			l.without("verify")
			l.world.OpenDir = func(path string) store.ReadWriter { return dir.Plain(path) } // the real thing
			l.onStep["cleanup"] = func() { there = l.restored() }
		}
		tc.run(t, func(*lab, *drill.Run) {
			broken := map[string]string{"tokenizer missing": "model/base/tokenizer.json", "shard overwritten": shard}[tc.name]
			if len(there) == 0 || slices.Contains(there, filepath.Join("restored/eu-west-1/release", broken)) {
				t.Errorf("in the run's folder before clean-up: %v", there)
			}
			if !slices.Contains(there, filepath.Join("restored/us-east-1/release", broken)) {
				t.Error("the source's file was not there: this test sees nothing")
			}
		})
	}
}

// TestOtherModels: an engine that answers /health and lists other models than the
// release has is given 30 seconds, not the 20 minutes of the step.
func TestOtherModels(t *testing.T) {
	red{"another name", target(func(e *engine) { e.named = "other" }),
		drill.NotRecovered, 4, []string{"boot-eu-west-1"}, []string{"healthy and serves other models than the release has", "{{served}}", "/v1/models lists [other"},
	}.run(t, func(l *lab, run *drill.Run) {
		if took, want := stepTook(t, run, "boot"), l.launcher.engines["target-canary"].boot+30*time.Second; took < want || took > want+3*time.Second {
			t.Errorf("the boot was given up after %v, want %v", took, want)
		}
	})
}

// TestModelsComeLate: what is listed within these 30 seconds is no fault.
func TestModelsComeLate(t *testing.T) {
	drilled(t, target(func(e *engine) { e.late = 28 * time.Second }), func(l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
	})
}

func stepTook(t *testing.T, run *drill.Run, id string) time.Duration {
	t.Helper()
	for _, s := range run.Steps {
		if s.ID == id {
			return s.Elapsed().Elapsed
		}
	}
	t.Fatalf("no step %s", id)
	return 0
}

// target changes the target's engine.
func target(change func(*engine)) func(*lab) {
	return func(l *lab) { change(l.launcher.engines["target-canary"]) }
}

func enginelog(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("../../testdata/enginelogs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestBootFails(t *testing.T) {
	for _, tc := range []red{
		{"without a tokenizer", target(func(e *engine) { e.exits = enginelog(t, "tokenizer-missing.log") }),
			drill.NotRecovered, 4, []string{"boot-eu-west-1"}, []string{"exit status 1", "TokenizerMissing", "ValueError: Couldn't instantiate the backend tokenizer"}},
		{"a shard cut short", target(func(e *engine) { e.exits = enginelog(t, "shard-truncated.log") }),
			drill.NotRecovered, 4, []string{"boot-eu-west-1"}, []string{"exit status 1", "ShardDamaged", "incomplete metadata, file not fully covered"}},
		{"port in use", target(func(e *engine) { e.exits = enginelog(t, "port-in-use.log") }),
			drill.NotRecovered, 4, []string{"boot-eu-west-1"}, []string{"exit status 1", "PortInUse", "ddress already in use"}},
		{"hangs", target(func(e *engine) { e.hangs = true }),
			drill.NotRecovered, 4, []string{"boot-eu-west-1"}, []string{"waiting for the engine to serve", "ran out of its time of 20m0s", "last answer"}},
		{"never listens", target(func(e *engine) { e.boot = time.Hour }),
			drill.NotRecovered, 4, []string{"boot-eu-west-1"}, []string{"ran out of its time of 20m0s", "connection refused"}},
		{"the source's canary", func(l *lab) { l.launcher.engines["source-canary"].exits = enginelog(t, "tokenizer-missing.log") },
			drill.NotRecovered, 4, []string{"boot-us-east-1"}, []string{"exit status 1", "TokenizerMissing"}},
	} {
		tc.run(t, func(_ *lab, run *drill.Run) {
			if ok, _ := run.Proof(drill.ProofBoot); ok {
				t.Error("the boot is proven")
			}
			if _, ok := run.Instant(drill.InstantEngineReady); ok {
				t.Error("engine-ready was stamped")
			}
		})
	}
}

// zeroed overwrites all tensors of a safetensors file with zeros.
func zeroed(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	start := 8 + binary.LittleEndian.Uint64(data)
	copy(data[start:], make([]byte, len(data)))
	return os.WriteFile(path, data, 0o644)
}

// TestWrongAnswers: a canary that boots from a right copy and answers wrongly.
func TestWrongAnswers(t *testing.T) {
	for _, tc := range []red{
		{"its command damages a shard", target(func(e *engine) { e.before = func(d string) error { return damage(filepath.Join(d, shard)) } }),
			drill.NotRecovered, 4, []string{"behaviour"}, []string{"gate behaviour", "q1-base"}},
		{"its command zeroes the adapter", target(func(e *engine) { e.before = func(d string) error { return zeroed(filepath.Join(d, adapter)) } }),
			drill.NotRecovered, 4, []string{"behaviour"}, []string{"gate behaviour", "q1-billing"}},
		{"500 on the first completion", target(func(e *engine) {
			e.fail = func(int, openai.CompletionRequest) (int, string) { return 500, "EngineCore encountered an issue." }
		}), drill.NotRecovered, 4, []string{"behaviour"}, []string{"gate behaviour", "500", "EngineCore encountered an issue."}},
		{"NaN", target(func(e *engine) {
			e.fail = func(_ int, r openai.CompletionRequest) (int, string) {
				if r.Logprobs == nil {
					return 0, ""
				}
				return 400, "Out of range float values are not JSON compliant"
			}
		}), drill.NotRecovered, 4, []string{"behaviour"}, []string{"gate behaviour", "log probabilities are NaN"}},
	} {
		tc.run(t, func(l *lab, run *drill.Run) {
			if ok, _ := run.Proof(drill.ProofBehaviour); ok {
				t.Error("the behaviour is proven")
			}
			if _, ok := run.Instant(drill.InstantCanaryVerified); ok || l.router.was != sourceURL {
				t.Errorf("canary-verified %v; the router was changed to %s", ok, l.router.was)
			}
		})
	}
}

// TestWrongAnswersWhileItServes: right until the cutover, and wrongly, with success and
// as fast as before, once users are there. By hand: the clock ended with the third
// window, at 79.75 s (see TestRecovery), whatever the answers are worth.
func TestWrongAnswersWhileItServes(t *testing.T) {
	red{"another prompt's answers", func(l *lab) { l.onStep["steady"] = l.launcher.engines["target-canary"].turn },
		drill.NotRecovered, 4, []string{"served-behaviour"}, []string{"gate served-behaviour", "q1-base"}}.run(t, func(l *lab, run *drill.Run) {
		wantGate(t, run, "behaviour", drill.Passed)
		wantGate(t, run, "steady", drill.Passed)
		if ok, _ := run.Proof(drill.ProofBehaviour); ok {
			t.Error("the behaviour is proven")
		}
		if rto, _, _ := run.RTO(); rto != 79750*time.Millisecond {
			t.Errorf("declared → steady %v", rto)
		}
		if s := stepOf(run, "failback"); s.Result != drill.NotReached {
			t.Errorf("failback: %s", s.Result)
		}
		l.wantGone(run)
	})
}

// TestInertAdapterIsNamed: differing answers alone would not say what happened.
func TestInertAdapterIsNamed(t *testing.T) {
	red{"zeroed", target(func(e *engine) { e.before = func(d string) error { return zeroed(filepath.Join(d, adapter)) } }),
		drill.NotRecovered, 4, []string{"behaviour"}, []string{"adapter billing answers as its base does"}}.run(t)
}

func silent(string) string { return "" }

func without(name string) func(string) string {
	return func(page string) string {
		var kept []string
		for line := range strings.Lines(page) {
			if !strings.HasPrefix(line, name) {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	}
}

func TestRouter(t *testing.T) {
	for _, tc := range []red{
		{"ends at once", func(l *lab) { l.router.exits = true },
			drill.NotRecovered, 4, nil, []string{"step traffic: the rehearsal router does not serve", "it ended: exit status 2"}},
		{"is another one", func(l *lab) { l.router.other = true },
			drill.NotRecovered, 4, nil, []string{"step traffic: the rehearsal router does not serve", "ran out of its time of 5m0s", "it is sglang-router"}},
		{"does nothing", func(l *lab) { l.router.lies = true },
			drill.NotRecovered, 4, []string{"cutover-attribution"}, []string{"gate cutover-attribution", "the router lists [" + sourceURL + "]", "the engine that took over counted 0 of"}},
		{"does not take the change", func(l *lab) { l.router.refuses = true },
			drill.NotRecovered, 4, nil, []string{"step cutover: router: eu-west-1 in, us-east-1 out", "its list does not show the worker"}},
		{"goes on as before", func(l *lab) { l.router.sticky = true },
			drill.NotRecovered, 4, []string{"cutover-attribution"}, []string{"the engine that took over counted 0 of", "the engine that was left still answered", "the router still sent"}},
		{"names another region", func(l *lab) { l.router.sticky, l.router.names = true, true },
			drill.NotRecovered, 4, []string{"cutover-attribution"}, []string{"answers name region us-east-1"}},
		{"cuts streams", func(l *lab) { l.router.cuts = true },
			drill.NotRecovered, 4, []string{"cutover-errors"}, []string{"gate cutover-errors", "streams cut"}},
		{"loses requests", func(l *lab) { l.router.dark = func(n int) bool { return n > 300 && n%10 == 0 } },
			drill.NotRecovered, 4, []string{"cutover-errors"}, []string{"gate cutover-errors", "502"}},
		{"stops answering", func(l *lab) { l.router.stalls = func(n int) bool { return n > 302 } },
			drill.NotRecovered, 4, []string{"cutover-attribution", "cutover-errors"}, []string{"no request was answered after the switch"}},
		{"does not serve in the beginning", func(l *lab) { l.router.dark = func(int) bool { return true } },
			drill.NotRecovered, 4, []string{"baseline"}, []string{"gate baseline", "502"}},
		{"has no counters", func(l *lab) { l.router.mute = true },
			drill.Incomplete, 4, nil, []string{"gate cutover-attribution is unmeasured", "the router's own count is not known"}},
		{"sends each request twice", func(l *lab) { l.router.twice = true },
			drill.Incomplete, 4, nil, []string{"gate cutover-attribution is unmeasured", "sent more than once"}},
	} {
		tc.run(t, func(_ *lab, run *drill.Run) {
			if ok, why := run.Proof(drill.ProofRouter); ok {
				t.Errorf("the router is proven: %s", why)
			}
		})
	}
}

// TestMuteEngines: what an engine does not export is unmeasured, never passed.
func TestMuteEngines(t *testing.T) {
	for _, tc := range []red{
		{"target without metrics", target(func(e *engine) { e.mute = silent }),
			drill.Incomplete, 4, nil, []string{"gate cutover-attribution is unmeasured", "target-canary exports no count"}},
		{"source without metrics", func(l *lab) { l.launcher.engines["source-canary"].mute = silent },
			drill.Incomplete, 4, nil, []string{"gate cutover-attribution is unmeasured", "source-canary exports no count", "source-canary does not say when it is idle"}},
		{"source without the number of its open requests", func(l *lab) { l.launcher.engines["source-canary"].mute = without("vllm:num_requests_running") },
			drill.Incomplete, 4, nil, []string{"gate cutover-attribution is unmeasured", "source-canary does not say when it is idle"}},
		{"target that counts NaN", target(func(e *engine) {
			e.mute = func(string) string {
				return "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:request_success_total NaN\n"
			}
		}), drill.Incomplete, 4, nil, []string{"gate cutover-attribution is unmeasured", "target-canary exports no count"}},
	} {
		tc.run(t, func(_ *lab, run *drill.Run) {
			if ok, why := run.Proof(drill.ProofRouter); ok {
				t.Errorf("the router is proven: %s", why)
			}
		})
	}
}

func TestNotSteady(t *testing.T) {
	for _, tc := range []red{
		{"too few requests", func(l *lab) { l.promise(func(o *drill.Objectives) { o.Steady.MinRequests = 90 }); l.rate(6) },
			drill.Incomplete, 4, nil, []string{"gate steady is unmeasured", "us-chat: 60 requests"}},
		{"too little load", func(l *lab) { l.promise(func(o *drill.Objectives) { o.Steady.Load = 1.5 }) },
			drill.Incomplete, 4, nil, []string{"gate steady is unmeasured", "us-chat: 60 requests"}},
		{"too many errors", target(func(e *engine) { e.fail = every(20, 500) }),
			drill.NotRecovered, 4, []string{"steady"}, []string{"gate steady", "3 failed"}},
		{"too slow", target(func(e *engine) { e.slow = 1100 * time.Millisecond }),
			drill.NotRecovered, 4, []string{"steady"}, []string{"gate steady", "TTFT p99 1.1s"}},
		{"the engine dies", target(func(e *engine) { e.dies = 30 * time.Second }),
			drill.NotRecovered, 4, []string{"steady"}, []string{"gate steady", "the engine ended: signal: killed"}},
	} {
		tc.run(t, func(_ *lab, run *drill.Run) {
			if d, ok, _ := run.RTO(); ok {
				t.Errorf("RTO %v", d)
			}
		})
	}
}

// rate sets the traffic's requests a second.
func (l *lab) rate(r float64) {
	l.step("traffic").With = node(l.t, fmt.Sprintf("{rate: %g}", r))
}

// every lets each nth stream fail, after those that prove the cutover.
func every(n, status int) func(int, openai.CompletionRequest) (int, string) {
	streams := 0
	return func(_ int, r openai.CompletionRequest) (int, string) {
		if r.Stream {
			streams++
		}
		if r.Stream && streams > 40 && streams%n == 0 {
			return status, "out of luck"
		}
		return 0, ""
	}
}

func TestFailbackIsJudged(t *testing.T) {
	red{"the source has changed meanwhile", func(l *lab) {
		source := l.launcher.engines["source-canary"]
		l.onStep["failback"] = func() {
			source.mu.Lock()
			defer source.mu.Unlock()
			source.broken = true
		}
	}, drill.NotRecovered, 4, []string{"failback-behaviour"}, []string{"gate failback-behaviour", "500"}}.run(t)
}

func TestUndoThatFails(t *testing.T) {
	p := mustRelease(t)
	inBubble(t, func(t *testing.T) {
		l := newLab(t, p)
		l.launcher.broken = "target-canary"
		run := l.run()
		if run.Finished.Status != 8 || run.Finished.Verdict == drill.Recovered {
			t.Errorf("got %s (%d)", run.Finished.Verdict, run.Finished.Status)
		}
		wantReason(t, run, "canary target-canary", "is not proven to be taken back", "process 4242 is still there")
		l.launcher.broken = ""
		again, err := drill.Abort(context.Background(), l.journal, "kim", l.undos())
		if err != nil || again.Finished.Verdict != run.Finished.Verdict || again.Finished.Status != 8 {
			t.Errorf("abort: %+v, %v: a closed verdict stands", again.Finished, err)
		}
		l.wantGone(again)
	})
}

// TestBrokenRelease: equal copies of a broken release are still broken.
func TestBrokenRelease(t *testing.T) {
	model := t.TempDir()
	if err := os.CopyFS(model, os.DirFS(models+"support-tiny")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(model, "chat_template.jinja")); err != nil {
		t.Fatal(err)
	}
	p, err := newRelease(t, model)
	if err != nil {
		t.Fatal(err)
	}
	waiver := manifest.Waiver{Rule: "T-6", Owner: "ada", Reason: "completions only", Expires: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)}
	inBubble(t, func(t *testing.T) { // a bubble's clock begins in the year 2000
		l := newLab(t, p)
		run := l.run()
		l.wantEnd(run, drill.NotRecovered, 4)
		wantGate(t, run, "release", drill.Failed, "T-6")
		l.wantGone(run)
	})
	for name, tc := range map[string]struct {
		expires time.Time
		verdict string
		words   []string
	}{
		"waived":  {waiver.Expires, drill.Recovered, []string{"none that is not waived: T-6", "waived by ada until 2001-01-01: completions only"}},
		"expired": {time.Date(1999, 12, 1, 0, 0, 0, 0, time.UTC), drill.NotRecovered, []string{"T-6"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, p)
			w := waiver
			w.Expires = tc.expires
			l.world.Waivers = []manifest.Waiver{w}
			run := l.run()
			if run.Finished.Verdict != tc.verdict {
				t.Errorf("%s: got %s: %s", name, run.Finished.Verdict, reasons(run))
			}
			for _, g := range run.Gates {
				if g.ID == "release" && !containsAll(g.Observed, tc.words) {
					t.Errorf("%s: %q", name, g.Observed)
				}
			}
			l.wantGone(run)
		})
	}
}

// TestSteadyElsewhere: windows that hold count only while the target answers. Here
// the playbook has moved the traffic back before it waits for them.
func TestSteadyElsewhere(t *testing.T) {
	red{"failback before steady", func(l *lab) {
		at := slices.IndexFunc(l.playbook.Steps, func(s playbooks.Step) bool { return s.ID == "steady" })
		back := slices.IndexFunc(l.playbook.Steps, func(s playbooks.Step) bool { return s.ID == "failback" })
		l.playbook.Steps[at], l.playbook.Steps[back] = l.playbook.Steps[back], l.playbook.Steps[at]
	}, drill.NotRecovered, 4, []string{"steady-attribution"}, []string{"gate steady-attribution", "engine answered"}}.run(t)
}
