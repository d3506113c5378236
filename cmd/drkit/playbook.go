package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"drkit/drill/step"
	"drkit/internal/errext"
	"drkit/playbooks"
)

// playbookOptions are those of playbook list, show and check.
type playbookOptions struct {
	outputOption
	Name    string // built-in or file
	Runbook string
}

func newPlaybook(s *streams) *cobra.Command {
	c := &cobra.Command{Use: "playbook", Short: "List, show and check playbooks"}
	c.AddCommand(newPlaybookList(s, runPlaybookList), newPlaybookShow(s, runPlaybookShow), newPlaybookCheck(s, runPlaybookCheck))
	return c
}

func newPlaybookList(s *streams, run func(*streams, playbookOptions) error) *cobra.Command {
	var o playbookOptions
	c := &cobra.Command{Use: "list", Short: "List the built-in playbooks",
		RunE: func(*cobra.Command, []string) error { return run(s, o) }}
	o.outputOption.addFlags(c)
	return c
}

func newPlaybookShow(s *streams, run func(*streams, playbookOptions) error) *cobra.Command {
	var o playbookOptions
	c := &cobra.Command{
		Use: "show NAME|FILE", Short: "Show a playbook as a page for people",
		Long: `Prints a playbook as Markdown: an overview, then for each step what it proves, what
to do when it is red, and how it is run. The page carries the marks that
drkit playbook check --runbook looks for, so that it can be kept beside the
playbook, and read when nothing else works.`,
		Example: "  drkit playbook show emergency > docs/emergency.md",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { o.Name = args[0]; return run(s, o) },
	}
	o.outputOption.addFlags(c)
	return c
}

func newPlaybookCheck(s *streams, run func(*streams, playbookOptions) error) *cobra.Command {
	var o playbookOptions
	c := &cobra.Command{
		Use: "check NAME|FILE", Short: "Check a playbook: everything that is wrong at once",
		Long: `Reads a playbook strictly: keys, kinds of steps, their options, groups and modes.
With --runbook it also compares the team's own Markdown page with it: a step that is
missing there, too many, in another order or told in other words is a failed check.`,
		Example: "  drkit playbook check dr/monthly.yaml\n  drkit playbook check dr/monthly.yaml --runbook docs/region-loss.md",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { o.Name = args[0]; return run(s, o) },
	}
	o.outputOption.addFlags(c)
	c.Flags().StringVar(&o.Runbook, "runbook", "", "also compare this Markdown page, which marks its steps, with the playbook")
	return c
}

// shownPlaybook is a playbook as --output json has it; times are in seconds.
type shownPlaybook struct {
	Name   string      `json:"name"`
	Title  string      `json:"title"`
	Mode   string      `json:"mode"`
	Hash   string      `json:"sha256"`
	Budget float64     `json:"budget_seconds"`
	Judged bool        `json:"budget_is_judged"` // it is that of declared → steady; false: of all steps, as no recovery is timed
	Steps  []shownStep `json:"steps"`
}

type shownStep struct {
	ID        string   `json:"id"`
	Kind      string   `json:"kind"`
	Text      string   `json:"text"`
	Budget    *float64 `json:"budget_seconds"` // null: not budgeted
	Timeout   float64  `json:"timeout_seconds"`
	OnTimeout string   `json:"on_timeout"`
	Retries   int      `json:"retries"`
	When      string   `json:"when"`
	Group     string   `json:"group,omitempty"`
	Modes     []string `json:"modes,omitempty"`
	Who       string   `json:"who,omitempty"`
}

func shown(p playbooks.Playbook) shownPlaybook {
	out := shownPlaybook{Name: p.Name, Title: p.Title, Mode: p.Mode, Hash: p.Hash()}
	sum, judged := p.Budget()
	out.Budget, out.Judged = sum.Seconds(), judged
	for _, s := range p.Steps {
		one := shownStep{ID: s.ID, Kind: s.Kind, Text: s.Text, Timeout: s.Timeout.Seconds(), OnTimeout: s.OnTimeout,
			Retries: s.Retries, When: s.When, Group: s.Group, Modes: s.Modes, Who: s.Who}
		if s.Budget > 0 {
			seconds := s.Budget.Seconds()
			one.Budget = &seconds
		}
		out.Steps = append(out.Steps, one)
	}
	return out
}

func runPlaybookList(s *streams, o playbookOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	var all []shownPlaybook
	for _, name := range playbooks.Names() {
		p, err := loadPlaybook(name)
		if err != nil {
			return err
		}
		all = append(all, shown(p))
	}
	if o.json() {
		return writeJSON(s, all)
	}
	for _, p := range all {
		fmt.Fprintf(s.Out, "%-12s %-10s %s\n", p.Name, p.Mode, p.Title)
	}
	return nil
}

func runPlaybookShow(s *streams, o playbookOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	p, err := loadPlaybook(o.Name)
	if err != nil {
		return err
	}
	if o.json() {
		return writeJSON(s, shown(p))
	}
	_, err = fmt.Fprint(s.Out, playbooks.Markdown(p))
	return err
}

// checkedPlaybook is the result of playbook check.
type checkedPlaybook struct {
	Playbook string       `json:"playbook"`
	Hash     string       `json:"sha256"`
	Steps    int          `json:"steps"`
	Runbook  string       `json:"runbook,omitempty"`
	Drifts   []shownDrift `json:"drifts"` // between runbook and playbook
	Status   int          `json:"status"`
}

type shownDrift struct {
	Line int    `json:"line,omitempty"` // of the runbook; absent: it is not in it
	Step string `json:"step"`
	What string `json:"what"`
}

func runPlaybookCheck(s *streams, o playbookOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	p, err := loadPlaybook(o.Name)
	if err != nil {
		return err
	}
	res := checkedPlaybook{Playbook: p.Name, Hash: p.Hash(), Steps: len(p.Steps), Runbook: o.Runbook, Drifts: []shownDrift{}}
	status := errext.Holds
	if o.Runbook != "" {
		page, err := readFile(o.Runbook)
		if err != nil {
			return usage(fmt.Errorf("reading the runbook: %w", err), "begin one with: drkit playbook show "+o.Name+" > "+o.Runbook)
		}
		for _, d := range playbooks.CheckRunbook(p, page) {
			res.Drifts, status = append(res.Drifts, shownDrift(d)), errext.Gate
		}
	}
	res.Status = int(status)
	if o.json() {
		err = writeJSON(s, res)
	} else {
		err = printChecked(s, p, res)
	}
	if err != nil {
		return err
	}
	return conclude(status)
}

func printChecked(s *streams, p playbooks.Playbook, res checkedPlaybook) error {
	_, err := fmt.Fprintf(s.Out, "%s: mode %s, %s, %s\n", p.Name, p.Mode, countOf(len(p.Steps), "step", "steps"), playbooks.BudgetText(p))
	for _, d := range res.Drifts {
		_, err = fmt.Fprintf(s.Out, "%s: %s\n", res.Runbook, playbooks.Drift(d))
	}
	if n := len(res.Drifts); n > 0 {
		fmt.Fprintf(s.Err, "%s between the runbook and the playbook\n  hint: drkit playbook show prints the playbook's own words, with the marks\n", countOf(n, "difference", "differences"))
	} else if res.Runbook != "" {
		_, err = fmt.Fprintf(s.Out, "%s says what the playbook does\n", res.Runbook)
	}
	return err
}

// loadPlaybook takes a built-in playbook's name or a file, checks the options of
// every step too, and knows the kinds that this drkit can run.
func loadPlaybook(name string) (playbooks.Playbook, error) {
	data, err := playbooks.Source(name)
	if err == nil {
		return playbooks.LoadChecked(data, "built-in "+name, step.CheckStep, step.KindNames()...)
	}
	if data, err = readFile(name); err != nil {
		return playbooks.Playbook{}, usage(fmt.Errorf("reading the playbook: %w", err), "give a file, or one of the built-in playbooks: drkit playbook list")
	}
	p, err := playbooks.LoadChecked(data, name, step.CheckStep, step.KindNames()...)
	if err == nil {
		err = step.CheckWay(p)
	}
	return p, err
}
