package step

import (
	"fmt"
	"strings"

	"drkit/drill"
	"drkit/drill/traffic"
	"drkit/manifest/region"
)

// classes says of each class of traffic whether it can be recovered at all: by its
// border, before any router is asked.
func (w *World) classes() []drill.Class {
	var all []drill.Class
	for _, c := range w.Classes {
		d := drill.Class{Name: c.Name, Share: c.Share, Router: w.Production.routerOf(c.Name)}
		for _, r := range c.Residency {
			d.Residency = append(d.Residency, string(r))
		}
		lawfulSource, lawfulTarget := region.Allows(c.Residency, w.Source.Residency), region.Allows(c.Residency, w.Target.Residency)
		switch {
		case w.Back && !(lawfulSource && lawfulTarget):
			d.Aside = fmt.Sprintf("it may be answered in %v, and not in both %s (%q) and %s (%q): it was never moved, and does not go back", c.Residency, w.Source.Name, w.Source.Residency, w.Target.Name, w.Target.Residency)
		case !lawfulSource:
			d.Aside = fmt.Sprintf("it may be answered in %v, and source %s, where the traffic starts, is in %q", c.Residency, w.Source.Name, w.Source.Residency)
		case !lawfulTarget:
			d.Refused = fmt.Sprintf("it may be answered in %v, target %s is in %q", c.Residency, w.Target.Name, w.Target.Residency)
		}
		all = append(all, d)
	}
	return all
}

// sent are the classes that are moved, and for which the drill sends requests: those
// that both regions may answer. No request of another class is sent anywhere.
func (w *World) sent() []traffic.Class {
	plan := w.classes()
	var all []traffic.Class
	for i, c := range w.Classes {
		if plan[i].Refused == "" && plan[i].Aside == "" {
			all = append(all, c)
		}
	}
	return all
}

func names(classes []traffic.Class) []string {
	var all []string
	for _, c := range classes {
		all = append(all, c.Name)
	}
	return all
}

// sayClasses journals what the plan makes of each class, and notes those that are
// not sent.
func (w *World) sayClasses(sc drill.Scope) error {
	for _, c := range w.classes() {
		if err := sc.Emit(drill.TypeClass, c); err != nil {
			return err
		}
		text := ""
		switch {
		case c.Refused != "":
			text = fmt.Sprintf("traffic class %s is refused: %s; no request of it is sent there, and the run does not pass for it", c.Name, c.Refused)
		case c.Aside != "":
			text = fmt.Sprintf("traffic class %s is not rehearsed: %s", c.Name, c.Aside)
		}
		if text == "" {
			continue
		}
		if err := sc.Emit(drill.TypeNote, drill.Note{Text: text}); err != nil {
			return err
		}
	}
	return nil
}

// lawless refuses a run in which no class could be moved at all. One class without a
// lawful target does not keep the others from being recovered: it is refused alone.
func (w *World) lawless() []error {
	var problems []error
	if len(w.sent()) > 0 {
		return nil
	}
	for _, c := range w.classes() {
		if c.Refused != "" {
			problems = append(problems, refuse(fmt.Errorf("traffic class %s %s: no class has a lawful target", c.Name, strings.TrimPrefix(c.Refused, "it ")),
				"drill a target inside the border, or state the class's residency in drkit.yaml"))
		}
	}
	return problems
}

// staying are the classes that the region which is left answers and that are not moved:
// their requests go on to its engines, as long as these live.
func (w *World) staying() []string {
	var all []string
	for i, c := range w.classes() {
		back := w.Back && c.Aside != "" && region.Allows(w.Classes[i].Residency, w.Target.Residency)
		if c.Refused != "" || back {
			all = append(all, c.Name)
		}
	}
	return all
}
