package engine

import (
	"fmt"
	"slices"
	"strings"
)

// Change is a difference that another release of the engine makes to a command.
type Change struct {
	Kind   string `json:"kind"`
	Option string `json:"option,omitempty"` // as it was given, or the destination of a default
	What   string `json:"what"`
	Seen   string `json:"seen,omitempty"` // what the other release prints when it ends there
	Use    string `json:"use,omitempty"`  // what to write instead
	From   any    `json:"from"`           // of values and defaults; null: unset, or nothing to show
	To     any    `json:"to"`
	Source `json:"source,omitzero"`
}

// Kinds of changes.
const (
	ChangeRemoved    = "removed"    // the option is gone: the engine exits
	ChangeAdded      = "added"      // the option was unknown and is known
	ChangeDeprecated = "deprecated" // announced for removal
	ChangeRefused    = "refused"    // the value, or a field of it, is refused: the engine exits
	ChangeAccepted   = "accepted"   // what was refused is accepted
	ChangeSilent     = "silent"     // the engine starts, and something else than before is dropped or ignored
	ChangeValue      = "value"      // the same words give another value
	ChangeDefault    = "default"    // an option that is not given has another default
	ChangeExit       = "exit"       // the engine exits, or no longer does, for another reason
)

// Changes compares what two releases make of a command: cmd.Version, or the
// release that stands in for it, and version.
func Changes(cmd Command, version string) []Change {
	before := readWhole(cmd)
	cmd.Version = version
	after := readWhole(cmd)
	if before.cmd.Entry.Engine() != after.cmd.Entry.Engine() || before.t == after.t {
		return nil
	}
	out := before.comparedProblems(after)
	out = append(out, before.comparedValues(after)...)
	return append(out, before.comparedDefaults(after)...)
}

// readWhole reads a command and goes on after what would end the engine, as far
// as that makes sense, so that all differences are found and not only the first.
func readWhole(cmd Command) *parse {
	p := newParse(cmd)
	p.tolerant = true
	if f := p.run(); f != nil {
		p.failures = append(p.failures, f)
	}
	for _, f := range p.failures {
		if f.kind != "" {
			p.problems = append(p.problems, f.problem())
		}
	}
	return p
}

// gone reports whether an option that ends the engine is passed over.
func (p *parse) gone(f *failure) bool {
	if f != nil && p.tolerant {
		p.failures = append(p.failures, f)
		return true
	}
	return f == nil
}

// comparedProblems are the problems that one of the releases has and the other has not.
func (p *parse) comparedProblems(after *parse) (out []Change) {
	for _, problem := range after.problems {
		if problem.Kind != KindOtherVersion && !hasProblem(p.problems, problem) {
			out = append(out, after.arose(problem))
		}
	}
	for _, problem := range p.problems {
		switch {
		case problem.Kind == KindOtherVersion || hasProblem(after.problems, problem):
		case problem.Kind == KindUnknownOption:
			out = append(out, problem.change(ChangeAdded, fmt.Sprintf("%s has %s", after.title(), problem.Option)))
		case endsEngine(problem.Kind):
			out = append(out, problem.change(ChangeAccepted, fmt.Sprintf("%s accepts what %s refuses: %s", after.title(), p.title(), problem.What)))
		}
	}
	return out
}

func (p *parse) title() string { return titles[p.t.engine] + " " + p.t.version }

func hasProblem(all []Problem, p Problem) bool {
	return slices.ContainsFunc(all, func(q Problem) bool {
		return q.Kind == p.Kind && q.Option == p.Option && q.Path == p.Path && q.Line == p.Line
	})
}

func (pr Problem) change(kind, what string) Change {
	return Change{Kind: kind, Option: pr.Option, What: what, Source: Source{Path: pr.Path, Line: pr.Line}}
}

// arose is the change that a problem of the other release means.
func (p *parse) arose(problem Problem) Change {
	c := problem.change(ChangeSilent, problem.What)
	c.Seen = problem.Seen
	switch {
	case problem.Kind == KindUnknownOption:
		c.Kind = ChangeRemoved
		_, c.Use = p.t.fate(problem.Option)
	case problem.Kind == KindDeprecated:
		c.Kind = ChangeDeprecated
		if o := p.t.byFlag[problem.Option]; o != nil {
			c.Use = o.Use
		}
	case endsEngine(problem.Kind) && problem.Option != "":
		c.Kind = ChangeRefused
	case endsEngine(problem.Kind):
		c.Kind = ChangeExit
	}
	return c
}

// endsEngine reports whether the engine exits on a problem of this kind.
func endsEngine(kind string) bool {
	return slices.Contains([]string{
		KindSyntax, KindNotMapping, KindBadKey, KindUnknownOption, KindAmbiguousOption, KindExtraValue, KindTwoConfigs,
		KindBadSuffix, KindBadValue, KindUnknownField, KindModelMissing, KindMissingCompanion, KindTemplateMissing, KindExitsAtOnce,
	}, kind)
}

// comparedValues are the given options that mean something else to the other
// release. JSON options with a class are left out: of most releases the fields'
// defaults are not recorded, and their fields are compared as problems.
func (p *parse) comparedValues(after *parse) (out []Change) {
	for _, o := range p.t.options {
		dest := o.dest()
		other := after.t.byDest[dest]
		x, given := p.values[dest]
		y, still := after.values[dest]
		if !given || !still || other == nil || o.Class != "" || other.Class != "" || equal(x, y) {
			continue
		}
		t := p.given[dest]
		out = append(out, Change{Kind: ChangeValue, Option: "--" + o.Name, What: fmt.Sprintf("--%s gets another value", o.Name),
			From: plain(p.maskValue(o, x)), To: plain(after.maskValue(other, y)), Source: t.source()})
	}
	return out
}

// comparedDefaults are the options that neither release was given and whose
// defaults differ.
func (p *parse) comparedDefaults(after *parse) (out []Change) {
	for _, o := range p.t.options {
		other := after.t.byDest[o.dest()]
		if other == nil || o.RawDefault == nil || other.RawDefault == nil || p.t.byDest[o.dest()] != o || equal(o.Default, other.Default) {
			continue
		}
		_, given := p.values[o.dest()]
		_, still := after.values[o.dest()]
		if given || still || strings.HasPrefix(text(o.Default), "<") || strings.HasPrefix(text(other.Default), "<") {
			continue
		}
		out = append(out, Change{Kind: ChangeDefault, Option: "--" + o.Name, From: plain(o.Default), To: plain(other.Default),
			What: fmt.Sprintf("the default of --%s is %s, not %s", o.Name, defaultText(other.Default), defaultText(o.Default))})
	}
	return out
}

func defaultText(v any) string {
	if v == nil {
		return "unset"
	}
	return repr(v)
}
