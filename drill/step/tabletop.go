package step

import (
	"context"
	"fmt"
	"slices"

	"drkit/drill"
	"drkit/playbooks"
)

// talked are the kinds of steps that a tabletop has: people, and what they look at.
var talked = []string{"declare", "approve", "human", "wait", "notify", "http"}

// tabletop gives every other kind a handler that refuses: people who talk a loss
// through must not start an engine by it.
func tabletop(w *World) map[string]drill.StepHandler {
	all := kinds(w)
	for kind := range all {
		if !slices.Contains(talked, kind) {
			all[kind] = notTalked(kind)
		}
	}
	return all
}

// notTalked is a kind of step that no tabletop runs.
type notTalked string

func (n notTalked) Check(context.Context, playbooks.Step) []error {
	return []error{refuse(n.err(), "leave the step out, or run it in a rehearsal")}
}

func (n notTalked) Do(context.Context, playbooks.Step, drill.Scope) error { return n.err() }

func (notTalked) Plan(playbooks.Step) []drill.PlannedChange { return nil }

func (n notTalked) err() error {
	return fmt.Errorf("a tabletop runs nothing: not a step of kind %s", string(n))
}
