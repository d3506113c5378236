package step_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"drkit/drill"
	"drkit/drill/step"
	"drkit/internal/openai"
)

// produced is what a place of production says, changed by each case.
func produced(l *lab) step.Running {
	return step.Running{Where: "endpoint http://vllm-0:8000 (us-east-1)", Base: "support", Adapters: []string{"billing"}, MaxModelLen: recordedLength(l), Version: "0.32.0"}
}

// recordedLength is what the recorded probes say; support-tiny's config.json gives it.
func recordedLength(l *lab) int {
	l.t.Helper()
	var config struct {
		Max int `json:"max_position_embeddings"`
	}
	if err := json.Unmarshal([]byte(l.us.Content()[key(l.release, "model/base/config.json")]), &config); err != nil || config.Max == 0 {
		l.t.Fatal("no max_position_embeddings", err)
	}
	return config.Max
}

// fixed answers with what it holds.
type fixed struct {
	all []step.Running
	err error
}

func (f fixed) Running(context.Context) ([]step.Running, error) { return f.all, f.err }

func TestProductionThatDiffers(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*step.Running)
		words  []string
	}{
		"another model":         {func(r *step.Running) { r.Base = "support-v2" }, []string{"the served model is support-v2", "support"}},
		"an adapter is missing": {func(r *step.Running) { r.Adapters = []string{} }, []string{"the list of adapters is none", "billing"}},
		"an adapter too many":   {func(r *step.Running) { r.Adapters = []string{"sales", "billing"} }, []string{"the list of adapters is billing, sales"}},
		"another length":        {func(r *step.Running) { r.MaxModelLen = 17 }, []string{"max_model_len is 17"}},
		"another engine":        {func(r *step.Running) { r.Version = "0.28.1" }, []string{"the engine's version is 0.28.1", "0.32.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			drilled(t, func(l *lab) {
				r := produced(l)
				tc.change(&r)
				l.world.Serving = fixed{all: []step.Running{produced(l), r}}
			}, func(l *lab, run *drill.Run) {
				l.wantEnd(run, drill.Refused, 3)
				wantReason(t, run, append(tc.words, "production is not the release: endpoint http://vllm-0:8000 (us-east-1)")...)
			})
		})
	}
}

func TestProductionThatIsOnlyReported(t *testing.T) {
	drilled(t, func(l *lab) {
		r := produced(l)
		r.Base = "support-v2"
		l.world.Serving = fixed{all: []step.Running{r}}
		l.step("preflight").With = node(t, "{production: report}")
	}, func(l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		wantNote(t, run, "the served model is support-v2", "compared at ")
		wantNoGate(t, run, "production")
	})
}

// TestProductionThatAgrees: the comparison is a gate with its age; a build's suffix is
// no other version.
func TestProductionThatAgrees(t *testing.T) {
	drilled(t, func(l *lab) {
		r := produced(l)
		r.Version = "v0.32.0+cpu"
		l.world.Serving = fixed{all: []step.Running{r}}
	}, func(l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		wantGate(t, run, "production", drill.Passed, "endpoint http://vllm-0:8000")
		for _, g := range run.Gates {
			if g.ID == "production" && !containsAll(g.Evidence, []string{"compared at 2000-01-01T00:00:00Z, 0s before"}) {
				t.Error(g.Evidence)
			}
		}
	})
}

// TestProductionThatIsNotKnown is a note, and never green.
func TestProductionThatIsNotKnown(t *testing.T) {
	for name, tc := range map[string]struct {
		p     step.Serving
		words []string
	}{
		"nothing is named":   {nil, []string{"what production runs is not known", "names no endpoints"}},
		"it does not answer": {fixed{all: []step.Running{{Where: "endpoint http://gone:1", Err: errors.New("connection refused")}}}, []string{"endpoint http://gone:1: connection refused"}},
		"nobody may look":    {fixed{err: errors.New("forbidden")}, []string{"forbidden"}},
	} {
		t.Run(name, func(t *testing.T) {
			drilled(t, func(l *lab) { l.world.Serving = tc.p }, func(l *lab, run *drill.Run) {
				l.wantEnd(run, drill.Recovered, 0)
				wantNote(t, run, tc.words...)
				wantNoGate(t, run, "production")
			})
		})
	}
}

// TestProductionOverHTTP asks engines, in vLLM's form.
func TestProductionOverHTTP(t *testing.T) {
	drilled(t, func(l *lab) {
		length, parent := recordedLength(l), "support"
		serve := func(host string, models ...openai.Model) {
			h := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Path == "/version" {
					_ = json.NewEncoder(w).Encode(map[string]string{"version": "0.32.0"})
					return
				}
				_ = json.NewEncoder(w).Encode(openai.ModelList{Data: models})
			})
			if _, err := l.net.Serve(host, h); err != nil {
				t.Fatal(err)
			}
		}
		base, lora := openai.Model{ID: "support", OwnedBy: "vllm", MaxModelLen: &length}, openai.Model{ID: "billing", OwnedBy: "vllm", Parent: &parent}
		serve("vllm-0:8000", base, lora)
		serve("vllm-1:8000", base)
		l.world.Serving = step.Endpoints{HTTP: func(url string) *openai.Client { return &openai.Client{BaseURL: url, HTTP: l.net.Client()} },
			All: []step.Endpoint{{Region: "us-east-1", URL: "http://vllm-0:8000"}, {Region: "us-east-1", URL: "http://vllm-1:8000"}, {Region: "eu-west-1", URL: "http://vllm-9:8000"}}}
	}, func(l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Refused, 3)
		wantReason(t, run, "endpoint http://vllm-1:8000 (us-east-1): the list of adapters is none, the release's billing")
		if n := len(run.Finished.Reasons); n != 1 {
			t.Errorf("%d reasons: %s", n, reasons(run))
		}
	})
}

func wantNoGate(t *testing.T, run *drill.Run, id string) {
	t.Helper()
	for _, g := range run.Gates {
		if g.ID == id {
			t.Errorf("%+v", g)
		}
	}
}
