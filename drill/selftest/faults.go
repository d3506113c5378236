package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"drkit/drill"
	"drkit/drill/step"
	"drkit/internal/store"
	"drkit/manifest/region"
)

// fault is a case on the built-in model. It is found only when the run ends with the
// verdict, and the gate, the step or the problem that is named is what is not green.
type fault struct {
	id, title string
	want      string // Red, or Green for the control
	verdict   string
	gate      string // a gate that must be red, or not measured
	step      string // a step that must have failed; "" where the gate says it
	says      string // words of the gate, the step's error, or the problem
	bare      bool   // start from the release without its chat template
	arrange   func(*bench) error
}

// short is how long steps may wait that can only end by their time.
const short = 4 * time.Second

var faults = []fault{
	{id: "sound", title: "nothing is wrong", want: Green, verdict: drill.Recovered, arrange: func(*bench) error { return nil }},

	{id: "tokenizer-missing", title: "the target's copy has no tokenizer", verdict: drill.NotRecovered, gate: "copy", says: baseDir + "/" + tokenizer + " missing",
		arrange: func(b *bench) error {
			return b.target.Remove(context.Background(), b.key(baseDir+"/"+tokenizer), store.Cond{})
		}},
	{id: "block-overwritten", title: "a block of a shard in the target's copy has other bytes, the size is the same", verdict: drill.NotRecovered, gate: "copy", says: ".safetensors diverged",
		arrange: func(b *bench) error { return b.overwriteShard() }},
	{id: "release-broken", title: "both copies are equal and lack the chat template", verdict: drill.NotRecovered, gate: "release", says: "T-6", bare: true,
		arrange: func(*bench) error { return nil }},

	{id: "shard-damaged", title: "a block of a shard is overwritten after the restore hashed it", verdict: drill.NotRecovered, gate: "behaviour", arrange: damaged(damageShard)},
	{id: "matrix-missing", title: "one matrix of the weights is missing in what the engine loads", verdict: drill.NotRecovered, gate: "behaviour", says: "NaN", arrange: damaged(dropMatrix)},
	{id: "adapter-stale", title: "the engine loads an older state of the adapter", verdict: drill.NotRecovered, gate: "behaviour", says: "-" + adapter, arrange: damaged(staleAdapter)},
	{id: "template-wrong", title: "the engine loads another chat template", verdict: drill.NotRecovered, gate: "behaviour", says: "-render", arrange: damaged(otherTemplate)},

	{id: "canary-ends", title: "the canary's process ends while it boots", verdict: drill.NotRecovered, gate: "boot-" + targetName, says: "exit status 1",
		arrange: func(b *bench) error { b.launcher.engine.exits = true; return nil }},
	{id: "canary-hangs", title: "the canary takes connections and never answers", verdict: drill.NotRecovered, gate: "boot-" + targetName, says: "ran out of its time",
		arrange: stuck(hang)},
	{id: "canary-dies", title: "the canary's process ends after it was verified", verdict: drill.NotRecovered, gate: "steady", says: "the engine ended",
		arrange: func(b *bench) error {
			b.promise(func(o *drill.Objectives) { o.Steady.Windows = 1000 }) // it cannot be steady already
			b.onStep["steady"] = func() { b.launcher.kill(targetCanary) }
			return nil
		}},
	{id: "health-only", title: "the canary answers /health and nothing else", verdict: drill.NotRecovered, gate: "boot-" + targetName, says: "ran out of its time",
		arrange: stuck(only("/health"))},
	{id: "models-only", title: "the canary answers /health and /v1/models and computes nothing", verdict: drill.NotRecovered, gate: "behaviour", says: "HTTP 500",
		arrange: serving(only("/health", "/version", "/v1/models", "/metrics"))},

	{id: "wrong-once-serving", title: "the canary answers right until it serves, and wrongly from then on", verdict: drill.NotRecovered, gate: "served-behaviour",
		arrange: func(b *bench) error {
			var turned atomic.Bool
			b.onStep["steady"] = func() { turned.Store(true) }
			return serving(otherPrompt(&turned))(b)
		}},

	{id: "source-reachable", title: "the source can be reached from inside the canary", verdict: drill.NotRecovered, gate: "isolation", says: "it takes connections",
		arrange: func(b *bench) error {
			_, err := b.net.Serve(sourceBucket+":80", http.NotFoundHandler())
			return err
		}},
	{id: "source-named", title: "the target's command names the source's bucket", verdict: drill.NotRecovered, gate: "independent", says: "canary.command[2]",
		arrange: func(b *bench) error {
			b.world.Target.Command = append(slices.Clone(b.world.Target.Command), "s3://"+sourceBucket+"/llm")
			return nil
		}},
	{id: "production-differs", title: "production runs another model than the release", verdict: drill.Refused, says: "production is not the release",
		arrange: func(b *bench) error { b.world.Serving = otherProduction{}; return nil }},

	{id: "router-acknowledges", title: "the router answers every change with success and does nothing", verdict: drill.NotRecovered, step: "cutover", says: "list",
		arrange: func(b *bench) error { b.launcher.router = acknowledge; return nil }},
	{id: "router-lies", title: "the router lists the change and goes on sending to the source", verdict: drill.NotRecovered, gate: "cutover-attribution", says: "the engine that took over counted 0",
		arrange: func(b *bench) error { b.launcher.router = (&liar{}).around; return nil }},

	{id: "border-refused", title: "a class of traffic may not be answered in the target", verdict: drill.Refused, says: "traffic class chat may be answered in",
		arrange: func(b *bench) error { b.world.Classes[0].Residency = []region.Residency{"us"}; return nil }},
	{id: "border-crossed", title: "requests are answered outside of their border", verdict: drill.NotRecovered, gate: "cutover-residency", says: "was answered in elsewhere",
		arrange: func(b *bench) error { b.launcher.answer = fromElsewhere; return nil }},

	{id: "steady-late", title: "traffic is steady later than promised", verdict: drill.ObjectiveMissed, says: "promised were 1ms",
		arrange: func(b *bench) error { b.promise(func(o *drill.Objectives) { o.RTO = time.Millisecond }); return nil }},
	{id: "too-few-requests", title: "too few requests to say that traffic is steady", verdict: drill.Incomplete, gate: "steady", says: "requests",
		arrange: func(b *bench) error {
			b.promise(func(o *drill.Objectives) { o.Steady.MinRequests = 10000 })
			b.step("steady").Timeout = short
			return nil
		}},
}

func init() {
	for i := range faults {
		if faults[i].want == "" {
			faults[i].want = Red
		}
	}
}

// otherProduction runs something else.
type otherProduction struct{}

func (otherProduction) Running(context.Context) ([]step.Running, error) {
	return []step.Running{{Where: "endpoint of the self-test", Base: "another-model"}}, nil
}

func damaged(how func(dir string) error) func(*bench) error {
	return func(b *bench) error { b.launcher.engine.damage = how; return nil }
}

// serving puts a handler in place of the target canary's own.
func serving(how func(http.Handler) http.Handler) func(*bench) error {
	return func(b *bench) error { b.launcher.engine.serves = how; return nil }
}

// stuck is serving where the boot comes to nothing, and gives it no more time than it
// takes to see that.
func stuck(how func(http.Handler) http.Handler) func(*bench) error {
	return func(b *bench) error {
		b.step("boot").Timeout = short
		return serving(how)(b)
	}
}

func hang(http.Handler) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
}

// only lets the engine answer some paths; the others are its own failure.
func only(paths ...string) func(http.Handler) http.Handler {
	return func(inner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if slices.Contains(paths, q.URL.Path) {
				inner.ServeHTTP(w, q)
				return
			}
			http.Error(w, "EngineCore encountered an issue.", http.StatusInternalServerError)
		})
	}
}

// otherPrompt lets an engine answer another question than it is asked, with success,
// once it has turned. Streams, which are the drill's traffic, are as before.
func otherPrompt(turned *atomic.Bool) func(http.Handler) http.Handler {
	return func(inner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			data, err := io.ReadAll(q.Body)
			var body map[string]any
			if err == nil && turned.Load() && json.Unmarshal(data, &body) == nil && body["stream"] != true && body["prompt"] != nil {
				body["prompt"] = "Another question altogether."
				if other, err := json.Marshal(body); err == nil {
					data = other
				}
			}
			q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
			inner.ServeHTTP(w, q)
		})
	}
}

func (b *bench) overwriteShard() error {
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(b.target.Content()))) {
		if strings.HasPrefix(key, b.key(baseDir)+"/") && filepath.Ext(key) == ".safetensors" {
			b.target.Damage(key, overwritten([]byte(b.target.Content()[key])))
			return nil
		}
	}
	return fmt.Errorf("the release has no shard")
}

// run rehearses with the fault and judges whether it was found.
func (f fault) run(ctx context.Context, in Input, r *releases) (Case, error) {
	began := time.Now()
	p := r.sound
	if f.bare {
		p = r.bare
	}
	b, err := newBench(p, filepath.Join(in.WorkDir, f.id))
	if err != nil {
		return Case{}, err
	}
	if err := f.arrange(b); err != nil {
		return Case{}, fmt.Errorf("building the fault in: %w", err)
	}
	run, err := b.run(ctx)
	if err != nil {
		return Case{}, err
	}
	c := f.judge(run)
	c.Seconds = time.Since(began).Round(10 * time.Millisecond).Seconds()
	return c, nil
}

// judge compares how the run ended with how it had to.
func (f fault) judge(run *drill.Run) Case {
	c := Case{ID: f.id, Title: f.title, Subject: builtIn, Want: f.want, Wants: f.wants(), Verdict: run.Finished.Verdict, Status: run.Finished.Status}
	seen, found := f.found(run)
	c.Seen = seen
	switch {
	case run.Finished.Verdict == drill.Recovered && run.Finished.Status == 0:
		c.Outcome = Green
	case f.want == Red && found && run.Finished.Verdict == f.verdict && run.Finished.Status != 0:
		c.Outcome = Red
	default:
		c.Outcome = Other
	}
	if c.Outcome == Green {
		c.Seen = fmt.Sprintf("%d gates passed", len(run.Gates))
	} else if c.Outcome == Other {
		c.Seen = reasons(run)
	}
	return c
}

func (f fault) wants() string {
	what := "verdict " + f.verdict
	if f.gate != "" {
		what += ", by gate " + f.gate
	}
	if f.step != "" {
		what += ", by step " + f.step
	}
	return what
}

// found looks for the fault's own sign in a run, and quotes it.
func (f fault) found(run *drill.Run) (seen string, found bool) {
	if f.gate != "" {
		for _, g := range run.Gates {
			if g.ID == f.gate && g.Result != drill.Passed && strings.Contains(g.Observed, f.says) {
				return g.Observed, true
			}
		}
		return "", false
	}
	for _, r := range run.Finished.Reasons {
		if strings.Contains(r.What, f.says) && (f.step == "" || strings.HasPrefix(r.What, "step "+f.step+": ")) {
			return r.What, true
		}
	}
	return "", false
}

func reasons(run *drill.Run) string {
	var all []string
	for _, r := range run.Finished.Reasons {
		all = append(all, r.What)
	}
	return strings.Join(all, "; ")
}
