package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drkit/drill"
	"drkit/drill/step"
	"drkit/internal/errext"
	"drkit/playbooks"
)

func newDrillPlanCommand(s *streams, run func(context.Context, *streams, drillOptions) error) *cobra.Command {
	var o drillOptions
	c := &cobra.Command{
		Use:   "plan",
		Short: "Print what a drill would do, and the hash of its plan",
		Long: `Prints regions, release, objectives, must_prove, each step with its budget and what
it would change, in order, and the hash that an approval is bound to. It checks and
reaches nothing but what region publishes which release; drkit drill run --dry-run makes
every check too. The hash covers all of it and none of the machine, the user or the
time: another machine with the same drkit.yaml prints the same.`,
		Example: `  drkit drill plan --playbook planned
  drkit drill approve $(drkit drill plan --playbook planned --output json | jq -r .plan_hash) --key KEY`,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), s, o) },
	}
	o.serviceOption.addFlags(c)
	o.outputOption.addFlags(c)
	o.addPlan(c)
	return c
}

func runDrillPlan(ctx context.Context, s *streams, o drillOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	d, err := newDrillPlan(o)
	if err != nil {
		return err
	}
	d.dir = step.PlanDir(d.svc.Run.Dir.Path)
	start := d.start(ctx)
	return d.print(s, d.page(start, d.world(start), nil))
}

// dryRun makes every check that a run makes, and prints every call that would change
// something. Nothing is changed or written.
func (d *drillPlan) dryRun(ctx context.Context, s *streams) error {
	d.dir = step.PlanDir(d.svc.Run.Dir.Path)
	start := d.start(ctx)
	d.addPeople(ctx, s, &start)
	world := d.world(start)
	chain, err := ledgerOf(s, d.svc)
	if err != nil {
		return err
	}
	if len(d.policy.People) > 0 || d.o.SelfApprove != "" {
		world.Approvals = d.tally(chain, start.PlanHash)
	}
	problems := []drill.ProblemState{}
	add := func(step string, found []error) {
		for _, err := range found {
			problems = append(problems, drill.ProblemState{Step: step, Problem: drill.Problem{What: err.Error(), Hint: errext.Hint(err)}})
		}
	}
	add("", d.stoppedNow(ctx))
	if _, err := chain.Scan(ctx); err != nil && d.o.WithoutLedger == "" {
		add("", []error{fmt.Errorf("the ledger: %w", err)})
	}
	add("", d.checks(start)(ctx))
	kinds := step.Kinds(world)
	for _, x := range d.steps() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		add(x.ID, kinds[x.Kind].Check(ctx, x))
	}
	page := d.page(start, world, problems)
	page.Notes = world.Remarks()
	if err := d.print(s, page); err != nil {
		return err
	}
	if len(problems) > 0 {
		return conclude(errext.Refused)
	}
	return nil
}

// planPage is a plan as it is printed. Problems are null when nothing was checked.
type planPage struct {
	Schema       string         `json:"schema"`
	PlanHash     string         `json:"plan_hash"`
	Service      string         `json:"service"`
	Mode         string         `json:"mode"`
	Live         bool           `json:"live"` // it moves production
	Playbook     string         `json:"playbook"`
	PlaybookHash string         `json:"playbook_hash"`
	Release      *string        `json:"release"` // null: the target publishes none
	Source       string         `json:"source"`  // as drkit.yaml calls the regions
	Target       string         `json:"target"`
	From         string         `json:"from"` // the region that the traffic leaves: in a failback the target
	To           string         `json:"to"`   // the one that takes over
	RTO          float64        `json:"rto_seconds"`
	TTFTP99      *float64       `json:"ttft_p99_seconds"` // null: not promised
	ErrorRate    float64        `json:"error_rate"`
	MustProve    []string       `json:"must_prove"`
	Budget       float64        `json:"budget_seconds"`
	Judged       bool           `json:"budget_is_judged"` // it is that of declared → steady; false: of all steps
	Approvals    plannedConsent `json:"approvals"`
	Steps        []plannedStep  `json:"steps"`
	Problems     *[]planProblem `json:"problems"`
	Notes        []string       `json:"notes,omitempty"` // what the checks saw that is no problem
}

// plannedConsent is who has to approve; Counting and Void are null when nobody looked.
type plannedConsent struct {
	Required int            `json:"required"`
	People   []string       `json:"people"`
	Counting *[]string      `json:"counting"`
	Void     *[]voidConsent `json:"counting_nothing"`
}

// voidConsent is an approval of the ledger that would count nothing in this run.
type voidConsent struct {
	Approver string `json:"approver"`
	Record   uint64 `json:"record"`
	Why      string `json:"why"`
}

type planProblem struct {
	Step string `json:"step"`
	What string `json:"what"`
	Hint string `json:"hint"`
}

type plannedStep struct {
	ID      string                `json:"id"`
	Kind    string                `json:"kind"`
	Who     string                `json:"who,omitempty"`
	Group   string                `json:"group,omitempty"`
	When    string                `json:"when"`
	Budget  float64               `json:"budget_seconds"`
	Timeout float64               `json:"timeout_seconds"`
	Changes []drill.PlannedChange `json:"changes"`
	Said    bool                  `json:"changes_known"` // the kind says what it changes
}

func (d *drillPlan) page(start drill.RunStarted, world *step.World, problems []drill.ProblemState) planPage {
	p := planPage{Schema: "drkit.drill-plan/1.0", PlanHash: start.PlanHash, Service: start.Service, Mode: start.Mode, Live: live(d.playbook),
		Playbook: d.playbook.Name, PlaybookHash: d.playbook.Hash(), Source: start.Source, Target: start.Target, From: start.Source, To: start.Target, RTO: start.Objectives.RTO.Seconds(),
		MustProve: start.Objectives.MustProve, Steps: []plannedStep{}, Approvals: plannedConsent{Required: d.policy.Required, People: []string{}}}
	p.ErrorRate = start.Objectives.ErrorRate
	if world.Back {
		p.From, p.To = p.To, p.From
	}
	if s := start.Objectives.TTFTP99.Seconds(); s > 0 {
		p.TTFTP99 = &s
	}
	if start.Release != "" {
		p.Release = &start.Release
	}
	for _, x := range d.policy.People {
		p.Approvals.People = append(p.Approvals.People, x.Name)
	}
	sum, judged := d.playbook.Budget()
	p.Budget, p.Judged = sum.Seconds(), judged
	kinds := step.Kinds(world)
	for _, x := range d.steps() {
		p.Steps = append(p.Steps, plannedOf(x, kinds[x.Kind]))
	}
	if problems == nil {
		return p
	}
	p.Problems, p.Approvals.Counting, p.Approvals.Void = &[]planProblem{}, &[]string{}, &[]voidConsent{}
	for _, x := range problems {
		*p.Problems = append(*p.Problems, planProblem{x.Step, x.What, x.Hint})
	}
	for _, a := range start.Approvals {
		if a.Why == "" {
			*p.Approvals.Counting = append(*p.Approvals.Counting, a.Approver)
		} else {
			*p.Approvals.Void = append(*p.Approvals.Void, voidConsent{a.Approver, a.Record, a.Why})
		}
	}
	return p
}

func plannedOf(x playbooks.Step, h drill.StepHandler) plannedStep {
	s := plannedStep{ID: x.ID, Kind: x.Kind, Who: x.Who, Group: x.Group, When: x.When, Budget: x.Budget.Seconds(), Timeout: x.Timeout.Seconds(), Changes: []drill.PlannedChange{}}
	if planner, ok := h.(drill.Planner); ok {
		s.Said = true
		s.Changes = append(s.Changes, planner.Plan(x)...)
	}
	return s
}

func (d *drillPlan) print(s *streams, p planPage) error {
	if d.o.json() {
		return writeJSON(s, p)
	}
	var b bytes.Buffer
	mode := p.Mode + ": production's traffic is not touched"
	if p.Live {
		mode = p.Mode + ": PRODUCTION'S TRAFFIC IS MOVED"
	}
	release := "none is published in the target"
	if p.Release != nil {
		release = *p.Release
	}
	promised := "recovery in " + duration(p.RTO)
	if p.TTFTP99 != nil {
		promised += ", first token in " + duration(*p.TTFTP99) + " for 99 % of requests"
	}
	fmt.Fprintf(&b, "plan       %s\nservice    %s\nmode       %s\nplaybook   %s (%.12s)\nrelease    %s\nfrom       %s\nto         %s\npromised   %s, error rate at most %g; must prove %s\nsteps      %d, %s\n",
		p.PlanHash, p.Service, mode, p.Playbook, p.PlaybookHash, release, p.From, p.To, promised, p.ErrorRate, strings.Join(p.MustProve, ", "), len(p.Steps), playbooks.BudgetText(d.playbook))
	if p.Live {
		fmt.Fprintf(&b, "approvals  %d of %s\n", p.Approvals.Required, cmp.Or(strings.Join(p.Approvals.People, ", "), "nobody: approvals.keys is empty"))
		if p.Approvals.Counting != nil {
			fmt.Fprintf(&b, "           so far: %s\n", cmp.Or(strings.Join(*p.Approvals.Counting, ", "), "none"))
			for _, a := range *p.Approvals.Void {
				fmt.Fprintf(&b, "           counting nothing: record %d by %s: %s\n", a.Record, a.Approver, a.Why)
			}
		}
	}
	b.WriteString("\n")
	for i, x := range p.Steps {
		x.print(&b, i+1)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "\nNOTE     %s\n", n)
	}
	d.printProblems(&b, p)
	_, err := s.Out.Write(b.Bytes())
	return err
}

func (x plannedStep) print(b *bytes.Buffer, n int) {
	budget := "no budget"
	if x.Budget > 0 {
		budget = duration(x.Budget)
	}
	fmt.Fprintf(b, "%2d. %s (%s), %s", n, x.ID, x.Kind, budget)
	if x.Who != "" {
		fmt.Fprintf(b, ", by %s", x.Who)
	}
	if x.When == playbooks.Always {
		b.WriteString(", also after a failure")
	}
	b.WriteString("\n")
	if !x.Said {
		fmt.Fprintf(b, "      may change something: steps of kind %s do not say what\n", x.Kind)
	}
	for _, c := range x.Changes {
		fmt.Fprintf(b, "      change: %s\n        by:   %s\n        undo: %s\n", c.What, c.How, c.Undo)
	}
}

func (d *drillPlan) printProblems(b *bytes.Buffer, p planPage) {
	switch {
	case p.Problems == nil:
		b.WriteString("\nnothing was checked: drkit drill run --dry-run does\n")
	case len(*p.Problems) == 0:
		b.WriteString("\nno problem was found; nothing was changed or written\n")
	default:
		fmt.Fprintf(b, "\n%s; nothing was changed or written\n", countOf(len(*p.Problems), "problem", "problems"))
		for _, x := range *p.Problems {
			where := ""
			if x.Step != "" {
				where = "step " + x.Step + ": "
			}
			fmt.Fprintf(b, "REFUSED  %s%s\n", where, x.What)
			if x.Hint != "" {
				fmt.Fprintf(b, "         → %s\n", x.Hint)
			}
		}
	}
}

// duration is written to the millisecond, without zeros at its end: 30m, not 30m0s.
func duration(seconds float64) string {
	text := time.Duration(seconds * float64(time.Second)).Round(time.Millisecond).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
