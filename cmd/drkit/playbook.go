package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"drkit/drill/step"
	"drkit/playbooks"
)

func newPlaybook(s *streams) *cobra.Command {
	c := &cobra.Command{Use: "playbook", Short: "List, show and check playbooks"}
	c.AddCommand(
		&cobra.Command{Use: "list", Short: "List the built-in playbooks", RunE: func(*cobra.Command, []string) error { return listPlaybooks(s) }},
		&cobra.Command{Use: "show NAME|FILE", Short: "Show a playbook as a page for people", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
			p, err := loadPlaybook(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(s.Out, playbooks.Markdown(p))
			return err
		}},
		&cobra.Command{Use: "check FILE", Short: "Check a playbook: everything that is wrong at once", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
			p, err := loadPlaybook(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.Out, "%s: %d steps, budget %s\n", p.Name, len(p.Steps), p.Budget())
			return err
		}},
	)
	return c
}

func listPlaybooks(s *streams) error {
	for _, name := range playbooks.Names() {
		p, err := loadPlaybook(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "%-12s %s\n", name, p.Title)
	}
	return nil
}

// loadPlaybook takes a built-in playbook's name or a file, checks the options of
// every step too, and knows the kinds that this drkit can run.
func loadPlaybook(name string) (playbooks.Playbook, error) {
	if p, err := playbooks.Builtin(name); err == nil {
		return p, nil
	}
	data, err := readFile(name)
	if err != nil {
		return playbooks.Playbook{}, usage(fmt.Errorf("reading the playbook: %w", err), "give a file, or one of the built-in playbooks: drkit playbook list")
	}
	p, err := playbooks.Load(data, name, step.KindNames()...)
	if err != nil {
		return p, err
	}
	return p, errors.Join(step.CheckOptions(p)...)
}
