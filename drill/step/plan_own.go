package step

import (
	"fmt"
	"strings"

	"drkit/drill"
	"drkit/playbooks"
)

// What a playbook's own steps would change. Nobody but the playbook's author knows
// what a command or a request does: what is shown is the call itself.

var (
	_ drill.Planner = run{}
	_ drill.Planner = httpStep{}
	_ drill.Planner = waitStep{}
	_ drill.Planner = human{}
	_ drill.Planner = notify{}
)

func (r run) Plan(s playbooks.Step) []drill.PlannedChange {
	o, err := r.options(s)
	if err != nil {
		return nil // Check says so
	}
	back := "none: what the command changes stays"
	if len(o.Undo) > 0 {
		back = "run: " + strings.Join(o.Undo, " ")
	}
	return []drill.PlannedChange{{What: "what the command of step " + s.ID + " does", How: "run: " + strings.Join(o.Command, " "), Undo: back}}
}

func (h httpStep) Plan(s playbooks.Step) []drill.PlannedChange {
	o, err := h.options(s)
	if err != nil || o.asks() {
		return nil
	}
	return []drill.PlannedChange{{What: "what the request of step " + s.ID + " does", How: "send: " + o.name(), Undo: "none: what the request changes stays"}}
}

func (w waitStep) Plan(s playbooks.Step) []drill.PlannedChange {
	o, err := w.options(s)
	switch {
	case err != nil:
		return nil
	case o.Run != nil:
		return []drill.PlannedChange{{What: "what the command of step " + s.ID + " does", How: fmt.Sprintf("run every %v: %s", o.Every, strings.Join(o.Run.Command, " ")), Undo: "none"}}
	case o.HTTP != nil && !o.HTTP.asks():
		return []drill.PlannedChange{{What: "what the request of step " + s.ID + " does", How: fmt.Sprintf("send every %v: %s", o.Every, o.HTTP.name()), Undo: "none"}}
	}
	return nil
}

func (human) Plan(playbooks.Step) []drill.PlannedChange { return nil }

func (n notify) Plan(s playbooks.Step) []drill.PlannedChange {
	o, err := n.options(s)
	if err != nil {
		return nil
	}
	return []drill.PlannedChange{{What: o.to(s) + " is notified", How: "send to the webhook in $" + o.URLEnv + ": " + o.Message, Undo: "none"}}
}
