package playbooks

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// Markdown renders the playbook for a person: an overview with the clock's
// share of each step, then what each proves and what to do when it is red.
// Each step's heading is its id, so that a report can link to it, and its text
// stands between the marks that Drift looks for.
func Markdown(p Playbook) string {
	var b strings.Builder
	title := or(p.Title, p.Name)
	fmt.Fprintf(&b, "# %s\n\nPlaybook `%s`, mode %s, %d steps, %s.\n\n", title, p.Name, p.Mode, len(p.Steps), BudgetText(p))
	b.WriteString("| # | step | kind | who | budget | given up after |\n|---|---|---|---|---|---|\n")
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "| %d | [%s](#%s) | %s | %s | %s | %s |\n", i+1, s.ID, s.ID, cell(s.Kind), cell(or(s.Who, "drkit")), budget(s), duration(s.Timeout))
	}
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n%s\n%s\n\n%s\n", s.ID, begins(s.ID), s.Text, ends, details(p, s))
	}
	return b.String()
}

// BudgetText says what the budgets of a playbook add up to, and over what.
func BudgetText(p Playbook) string {
	sum, judged := p.Budget()
	if judged {
		return "budget " + duration(sum) + " from declared to steady"
	}
	return "budgets " + duration(sum) + " in all"
}

func budget(s Step) string {
	if s.Budget == 0 {
		return "–"
	}
	return duration(s.Budget)
}

// details is one line on how the step is run.
func details(p Playbook, s Step) string {
	d := fmt.Sprintf("Kind `%s`", s.Kind)
	if s.Who != "" {
		d = "Of " + s.Who + ", kind `" + s.Kind + "`"
	}
	if w := options(&s.With); w != "" {
		d += " with `" + w + "`"
	}
	if s.Budget > 0 {
		d += ", budget " + duration(s.Budget)
	}
	d += ". After " + duration(s.Timeout)
	if s.OnTimeout == Hold {
		d += " the run holds and waits for a person"
	} else {
		d += " the run undoes what it did and ends"
	}
	switch s.Retries {
	case 0:
	case 1:
		d += "; tried once more before that counts"
	default:
		d += fmt.Sprintf("; tried %d times more before that counts", s.Retries)
	}
	if s.When == Always {
		d += "; runs after a failure too"
	}
	if beside := others(p, s); len(beside) > 0 {
		d += "; runs in parallel with " + strings.Join(beside, ", ")
	}
	if len(s.Modes) > 0 {
		d += "; only in mode " + strings.Join(s.Modes, ", ")
	}
	return d + "."
}

// others are the ids of the steps that run in parallel with s.
func others(p Playbook, s Step) (ids []string) {
	for _, o := range p.Steps {
		if s.Group != "" && o.Group == s.Group && o.ID != s.ID {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// options prints a step's with on one line, without comments.
func options(n *yaml.Node) string {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	var parts []string
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			parts = append(parts, options(n.Content[i])+": "+options(n.Content[i+1]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case yaml.SequenceNode:
		for _, item := range n.Content {
			parts = append(parts, options(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return strings.Join(strings.Fields(n.Value), " ")
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
