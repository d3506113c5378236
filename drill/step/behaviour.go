package step

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"drkit/drill"
	"drkit/drill/probe"
	"drkit/manifest/probes"
	"drkit/playbooks"
)

// behaviour compares answers with the recorded probes: those of the canary before the
// traffic is moved, or those of every engine that has taken over.
type behaviour struct{ w *World }

type behaviourOptions struct {
	Engines string `yaml:"engines" strict:"enum=canary|serving"`
}

const (
	serving = "serving" // the option's value for what has taken over
	served  = "served-" // begins the names of its gates
)

func (behaviour) Check(context.Context, playbooks.Step) []error { return nil }

func (b behaviour) Do(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	var o behaviourOptions
	if err := s.Decode(&o); err != nil {
		return err
	}
	if o.Engines == serving {
		return b.w.stillAnswers(ctx, sc)
	}
	r := b.w.replicaOf(b.w.takesOver())
	if r == nil {
		return missing("behaviour", "boot (region target)")
	}
	if err := b.w.answers(ctx, sc, r, "behaviour"); err != nil {
		return err
	}
	return sc.Emit(drill.TypeInstant, drill.Instant{Name: drill.InstantCanaryVerified})
}

// stillAnswers puts all probes to each engine that the traffic was moved to, while it
// serves. All are asked before a red one ends the step. The recovery clock has ended: no
// instant is stamped. It can only take from the proof of the behaviour, which is made
// before users are moved.
func (w *World) stillAnswers(ctx context.Context, sc drill.Scope) error {
	if w.cutover == nil {
		return missing("behaviour (engines serving)", "cutover")
	}
	w.traffic.SetPhase("answers")
	to := w.cutover.to
	var red []error
	w.cutover.warming.aside(func() {
		for i, e := range to.all {
			id := served + "behaviour"
			if i > 0 {
				id = fmt.Sprintf("%s-%d", id, i+1)
			}
			red = append(red, w.answers(ctx, sc, e, id))
			if left := len(to.all) - i - 1; ctx.Err() != nil && left > 0 {
				red = append(red, fmt.Errorf("%d of the engines that serve were not asked: %w", left, context.Cause(ctx)))
				return
			}
		}
	})
	err := errors.Join(red...)
	if ctx.Err() != nil || err == nil {
		return err
	}
	return errors.Join(sc.Emit(drill.TypeProof, drill.Proof{Name: drill.ProofBehaviour, Why: err.Error()}), err)
}

// answers puts all probes to a canary and judges them as one gate a kind, so
// that a lost template and damaged weights are told apart.
func (w *World) answers(ctx context.Context, sc drill.Scope, r *replica, id string) error {
	res, err := probe.Compare(ctx, w.client(r.Endpoint()), w.probes)
	if err != nil {
		return err
	}
	hint := "compare the restored files with the release: drkit verify --level content; the canary's command may also serve another model or adapter"
	if strings.HasPrefix(id, served) {
		hint = "users are given such answers now; where the cutover stays, drkit drill abort " + sc.RunID() + " --undo-cutover takes it back. Compare what the engine loaded, and what was loaded into it since (adapters), with the release"
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
		Hint: hint,
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
