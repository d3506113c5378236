package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"drkit/drill"
	"drkit/drill/step"
)

// ackOption is a person's word that the step that waits for them is done.
type ackOption struct{ Step, By string }

func (o *ackOption) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.Step, "ack", "", "say that this step, which waits for a person, is done")
	c.Flags().StringVar(&o.By, "by", "", "with --ack: whose word that is, for the journal")
}

func (o ackOption) check() error {
	switch {
	case o.Step != "" && strings.TrimSpace(o.By) == "":
		return usage(errors.New("--ack does not say whose word it is"), "add --by NAME")
	case o.Step == "" && o.By != "":
		return usage(errors.New("--by says whose word it is, but not on what"), "add --ack STEP")
	}
	return nil
}

// people hands the word to the step. One that nothing waits for is refused: it would
// be forgotten, or stand for a question that nobody has read.
func (o ackOption) people(was *drill.Run) (*step.People, error) {
	p := &step.People{}
	if o.Step == "" {
		return p, nil
	}
	var waiting []string
	for _, a := range was.Asked {
		if a.Given.IsZero() {
			waiting = append(waiting, a.Step)
		}
	}
	if !slices.Contains(waiting, o.Step) {
		hint := "no step of it does"
		if len(waiting) > 0 {
			hint = "these do: " + strings.Join(waiting, ", ")
		}
		return nil, usage(fmt.Errorf("no step %q of run %s waits for a person", o.Step, was.ID), hint)
	}
	p.Give(o.Step, step.Ack{By: strings.TrimSpace(o.By), Via: "command line"})
	return p, nil
}
