package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"drkit/manifest"
	"drkit/manifest/engine"
)

// printEngines writes the report for people.
func printEngines(s *streams, r engineReport) error {
	for i, v := range r.Engines {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		printEngine(s, v)
	}
	for i, p := range r.Deploy {
		if i == 0 {
			fmt.Fprintln(s.Out, "\ndeploy files")
		}
		fmt.Fprintf(s.Out, "  %s  %s: %s\n", place(engine.Source{Path: p.Path, Line: p.Line}), p.Kind, p.What)
	}
	return nil
}

func printEngine(s *streams, v engineView) {
	title := map[string]string{engine.VLLM: "vLLM", engine.SGLang: "SGLang"}[v.Engine]
	fmt.Fprintf(s.Out, "%s %s", title, v.Version)
	if v.Assumed {
		fmt.Fprint(s.Out, " (no version is named)")
	}
	if v.Source != "" {
		fmt.Fprintf(s.Out, ", started by %s", v.Source)
	}
	if v.Region != "" {
		fmt.Fprintf(s.Out, ", region %s", v.Region)
	}
	fmt.Fprintln(s.Out)
	switch {
	case v.WouldExit != nil:
		fmt.Fprintf(s.Out, "would exit with status %d: %s\n", *v.WouldExit, v.Error)
	case v.Default != "":
		fmt.Fprintf(s.Out, "names no model: one is named where it is run, or the engine serves its default, %s\n", v.Default)
	case v.Model == "":
		fmt.Fprintln(s.Out, "serves the model that the release names")
	default:
		fmt.Fprintf(s.Out, "serves %s\n", v.Model)
	}
	if !v.Judged {
		fmt.Fprintln(s.Out, "not judged whole: see below what is missing")
	}
	printOptions(s, v)
	for i, p := range v.Problems {
		if i == 0 {
			fmt.Fprintln(s.Out, "\nto know")
		}
		fmt.Fprintf(s.Out, "  %s  %s: %s\n", place(engine.Source{Path: p.Path, Line: p.Line}), p.Kind, p.What)
	}
	printChanges(s, v)
}

func printOptions(s *streams, v engineView) {
	names := slices.Sorted(maps.Keys(v.Options))
	if len(names) > 0 {
		fmt.Fprintln(s.Out, "\noptions that differ from their defaults")
	}
	width := 0
	for _, name := range names {
		width = max(width, len(name))
	}
	for _, name := range names {
		fmt.Fprintf(s.Out, "  %-*s  %s  (%s)\n", width, name, compact(v.Options[name]), place(v.Sources[name]))
	}
	for i, name := range v.Unknown {
		if i == 0 {
			fmt.Fprintln(s.Out, "\nunknown options")
		}
		fmt.Fprintf(s.Out, "  %s  (%s)\n", name, place(v.Sources[name]))
	}
}

func printChanges(s *streams, v engineView) {
	if v.Compared == nil {
		return
	}
	if len(v.Changes) == 0 {
		fmt.Fprintf(s.Out, "\nnothing changes from %s to %s\n", v.Compared.From, v.Compared.To)
		return
	}
	fmt.Fprintf(s.Out, "\nchanges from %s to %s\n", v.Compared.From, v.Compared.To)
	for _, c := range v.Changes {
		what := c.What
		if c.Use != "" && !strings.Contains(what, c.Use) {
			what += "; use " + c.Use
		}
		if c.Kind == engine.ChangeValue {
			what += fmt.Sprintf(": %s, not %s", compact(c.To), compact(c.From))
		}
		fmt.Fprintf(s.Out, "  %-10s  %s", c.Kind, what)
		if c.Source != (engine.Source{}) {
			fmt.Fprintf(s.Out, "  (%s)", place(c.Source))
		}
		fmt.Fprintln(s.Out)
	}
}

// place is where an argument was given, for people.
func place(at engine.Source) string {
	where := at.Path
	switch {
	case at.Path == "":
		where = "command line"
	case at.Path == manifest.EngineOptionsPath:
		where = "drkit.yaml, engine"
	case at.Line > 0:
		where += fmt.Sprintf(":%d", at.Line)
	}
	if at.Env != "" {
		where += ", variable " + at.Env
	}
	return where
}

// compact is a value as JSON on one line.
func compact(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
