package step

import (
	"context"
	"errors"
	"fmt"

	"drkit/drill"
	"drkit/drill/probe"
	"drkit/manifest/probes"
	"drkit/playbooks"
)

// behaviour compares the target canary's answers with the recorded probes.
type behaviour struct{ w *World }

func (behaviour) Check(context.Context, playbooks.Step) []error { return nil }

func (b behaviour) Do(ctx context.Context, _ playbooks.Step, sc drill.Scope) error {
	r := b.w.replicaOf(b.w.takesOver())
	if r == nil {
		return missing("behaviour", "boot (region target)")
	}
	if err := b.w.answers(ctx, sc, r, "behaviour"); err != nil {
		return err
	}
	return sc.Emit(drill.TypeInstant, drill.Instant{Name: drill.InstantCanaryVerified})
}

// answers puts all probes to a canary and judges them as one gate a kind, so
// that a lost template and damaged weights are told apart.
func (w *World) answers(ctx context.Context, sc drill.Scope, r *replica, id string) error {
	res, err := probe.Compare(ctx, w.client(r.Endpoint()), w.probes)
	if err != nil {
		return err
	}
	observed := fmt.Sprintf("%d probes asked, %d completions compared, all as recorded", res.Asked, res.Completions)
	if !res.Equal() {
		observed = first(redAnswers(res), 3)
	}
	if r.region == w.takesOver() && id == "behaviour" {
		if err := sc.Emit(drill.TypeProof, drill.Proof{Name: drill.ProofBehaviour, Proven: res.Equal(), Why: observed}); err != nil {
			return err
		}
	}
	return gate(sc, drill.Gate{
		ID: id, Title: r.name + " answers as recorded", Expected: fmt.Sprintf("%d probes answered as %s did, log probabilities within %g", len(w.probes.Probes), w.probes.Engine, w.probes.Tolerance),
		Observed: observed, Result: result(res.Equal()), Evidence: "token ids and log probabilities of " + fmt.Sprint(countCompletions(w.probes)) + " completions, token ids of texts and rendered chats",
		Hint: "compare the restored files with the release: drkit verify --level content; the canary's command may also serve another model or adapter",
	})
}

func redAnswers(res probe.Result) []string {
	var texts []string
	for _, d := range res.Differences {
		texts = append(texts, d.String())
	}
	texts = append(texts, res.Errors...)
	if len(texts) == 0 {
		texts = append(texts, "no completion could be compared")
	}
	return texts
}

func countCompletions(set probes.ProbeSet) int {
	n := 0
	for _, p := range set.Probes {
		if probes.Greedy(p.Kind) {
			n++
		}
	}
	return n
}

// declare starts the recovery clock.
type declare struct{ w *World }

func (declare) Check(context.Context, playbooks.Step) []error { return nil }

func (d declare) Do(_ context.Context, _ playbooks.Step, sc drill.Scope) error {
	text := "the loss of the source region is rehearsed: it is declared, not caused"
	switch d.w.Mode {
	case drill.ModeEmergency:
		text = "the source region was declared lost: this run moves production"
	case drill.ModeTabletop:
		text = "the loss of the source region is talked through: nothing was tried"
	case drill.ModePlanned:
		text = "no region was lost: this run moves production while both regions live"
	case drill.ModeFailback:
		text = "the source region is back: this run returns production to it"
	}
	return errors.Join(
		sc.Emit(drill.TypeNote, drill.Note{Text: text}),
		sc.Emit(drill.TypeInstant, drill.Instant{Name: drill.InstantDeclared}))
}
