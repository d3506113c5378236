package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"drkit/drill"
	"drkit/drill/forecast"
)

// Plain writes one line for each event that a person wants to see, with the
// recovery clock before it: 00:12.4 counts from "declared", --:--.- before it.
type Plain struct {
	// ASCII replaces the marks that a plain terminal may not have.
	ASCII bool
	// Earlier is what earlier runs took, for the projection after each step.
	Earlier forecast.Earlier

	w     io.Writer
	jumps int         // of the machine's clock, told so far
	told  drill.Stamp // of the newest word on long work
}

// NewPlain writes to w.
func NewPlain(w io.Writer) *Plain { return &Plain{w: w} }

var _ drill.Handler = (*Plain)(nil)

// Event writes the event's line, if it has one. The run has the event folded in.
func (p *Plain) Event(e drill.Event, r *drill.Run) error {
	for ; p.jumps < len(r.Jumps); p.jumps++ {
		if err := p.write(r, "●", r.Jumps[p.jumps].String()); err != nil {
			return err
		}
	}
	mark, text := line(e, r)
	switch e.Type {
	case drill.TypeStepFinished:
		text += p.outlook(r)
	case drill.TypeStepStarted:
		p.told = r.Last
	case drill.TypeInstant:
		text += happened(e, r)
	case drill.TypeProgress:
		mark, text = p.long(e, r)
	}
	if text == "" {
		return nil
	}
	return p.write(r, mark, text)
}

func (p *Plain) write(r *drill.Run, mark, text string) error {
	out := stopwatch(r) + " " + mark + " " + flat(text)
	if p.ASCII {
		out = ascii.Replace(out)
	}
	_, err := io.WriteString(p.w, out+"\n")
	return err
}

// outlook is how the run stands after a step, while its clock runs.
func (p *Plain) outlook(r *drill.Run) string {
	_, declared := r.Instant(drill.InstantDeclared)
	if _, steady := r.Instant(drill.InstantSteady); !declared || steady {
		return ""
	}
	f := forecast.Of(r, r.Last.Mono, p.Earlier)
	if !f.Known {
		return ""
	}
	return fmt.Sprintf(" · %s: %s, promised %s", forecast.Judge(r, r.Last.Mono, f).State, f, forecast.Clock(r.Plan.Objectives.RTO))
}

// longEvery is how often long work gets a line.
const longEvery = 15 * time.Second

// long says how far long work is: how much, how fast, how long yet.
func (p *Plain) long(e drill.Event, r *drill.Run) (mark, text string) {
	if since := drill.Between(p.told, r.Last); since.Measured && since.Elapsed < longEvery {
		return "", ""
	}
	for _, t := range r.Progress {
		data, ok := read[drill.Progress](e)
		if !ok || t.Step != e.Step || t.Task != data.Task || t.Total <= 0 || t.Done >= t.Total {
			continue
		}
		p.told = r.Last
		return "…", t.Step + ": " + forecast.Task(t)[0]
	}
	return "", ""
}

var ascii = strings.NewReplacer("✓", "ok", "✗", "FAIL", "●", "*", "→", "->", "↶", "undo", "…", "...", "–", "-", "·", "-")

// flat makes one line of foreign text, and not too long a one.
func flat(text string) string {
	text = drill.Clip(text, plainText)
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, text)
}

// stopwatch is the recovery clock at the newest event.
func stopwatch(r *drill.Run) string {
	in, ok := r.Instant(drill.InstantDeclared)
	if !ok {
		return "--:--.-"
	}
	s := drill.Between(in.At, r.Last)
	if !s.Measured {
		return "??:??.?"
	}
	return minutes(s.Elapsed)
}

// happened is when an instant was, where it was found out later: a first answer after
// the cutover is known once the step has counted what it needs.
func happened(e drill.Event, r *drill.Run) string {
	data, _ := read[drill.Instant](e)
	from, declared := r.Instant(drill.InstantDeclared)
	in, stamped := r.Instant(data.Name)
	if !declared || !stamped {
		return ""
	}
	s := drill.Between(from.At, in.At)
	if when := minutes(s.Elapsed); s.Measured && when != stopwatch(r) {
		return " at " + when
	}
	return ""
}

// minutes writes 00:12.4; parts of a tenth are cut off.
func minutes(d time.Duration) string {
	tenths := d / (100 * time.Millisecond)
	return fmt.Sprintf("%02d:%02d.%d", tenths/600, tenths/10%60, tenths%10)
}

// line says what an event is to a person; an empty text is nothing.
func line(e drill.Event, r *drill.Run) (mark, text string) {
	switch e.Type {
	case drill.TypeRunStarted:
		return "●", fmt.Sprintf("run %s: %s, %s%s → %s, promised within %s", r.ID, r.Plan.Service, yes(r.Plan.Back(), "failback ", ""), r.Plan.From(), r.Plan.To(), duration(r.Plan.Objectives.RTO))
	case drill.TypeStepStarted:
		return "…", e.Step + attempt(e)
	case drill.TypeStepFinished:
		return stepLine(e.Step, r)
	case drill.TypeRunAborting:
		return "✗", "ends early: " + r.Aborting.Why
	case drill.TypeTakingBack:
		b := r.TakenBack[len(r.TakenBack)-1]
		return "●", "after the end, by " + b.By + ": " + b.Why
	case drill.TypeHeld:
		return "●", "held: " + r.Held.Why + " → " + r.Held.Next
	case drill.TypeAsked:
		return askedLine(e.Step, r)
	case drill.TypeResumed:
		return "●", "run " + r.ID + ": another process goes on with it"
	case drill.TypeRunFinished:
		return finishLine(r)
	case drill.TypeIntent, drill.TypeChanged, drill.TypeUndone, drill.TypeKept:
		return changeLine(e, r)
	}
	return dataLine(e)
}

// askedLine is what a person is asked to do.
func askedLine(id string, r *drill.Run) (mark, text string) {
	for _, s := range r.Steps {
		if s.ID == id {
			return "●", s.Who + ": " + s.Text
		}
	}
	return "", ""
}

func attempt(e drill.Event) string {
	if e.Attempt > 1 {
		return fmt.Sprintf(" (attempt %d)", e.Attempt)
	}
	return ""
}

func stepLine(id string, r *drill.Run) (mark, text string) {
	for _, s := range r.Steps {
		if s.ID != id {
			continue
		}
		took := ""
		if e := s.Elapsed(); e.Measured {
			took = " in " + duration(e.Elapsed)
		}
		if s.Result == drill.Passed {
			return "✓", id + " passed" + took
		}
		return yes(s.Result == drill.Failed, "✗", "–"), id + " " + s.Result + took + because(s.Error, s.Hint)
	}
	return "", ""
}

func because(why, hint string) string {
	if why == "" {
		return ""
	}
	if hint != "" {
		hint = " → " + hint
	}
	return ": " + why + hint
}

func finishLine(r *drill.Run) (mark, text string) {
	f := r.Finished
	text = fmt.Sprintf("%s (status %d)", f.Verdict, f.Status)
	if d, ok, why := r.RTO(); ok {
		text += fmt.Sprintf(", declared → steady in %s, promised %s", duration(d), duration(r.Plan.Objectives.RTO))
	} else {
		text += ", recovery time not measured: " + why
	}
	return yes(f.Verdict == drill.Recovered, "✓", "✗"), text
}

func changeLine(e drill.Event, r *drill.Run) (mark, text string) {
	var id struct{ ID string }
	if json.Unmarshal(e.Data, &id) != nil {
		return "", ""
	}
	for _, c := range r.Changes {
		switch {
		case c.ID != id.ID:
		case e.Type == drill.TypeKept:
			return "●", "stays: " + c.What + because(c.Stays(), "")
		case e.Type == drill.TypeUndone && c.Gone():
			return "↶", c.What
		case e.Type == drill.TypeUndone:
			return "✗", "not proven to be taken back: " + c.What + because(c.Trouble(), "")
		case e.Type == drill.TypeChanged && c.Error != "":
			return "✗", c.What + because(c.Error, "")
		}
	}
	return "", ""
}

// dataLine is for the events whose own data says it all.
func dataLine(e drill.Event) (mark, text string) {
	switch e.Type {
	case drill.TypeInstant:
		if in, ok := read[drill.Instant](e); ok {
			return "●", in.Name + yes(in.Cached, " (cached)", "")
		}
	case drill.TypeGate:
		if g, ok := read[drill.Gate](e); ok {
			return gateLine(g)
		}
	case drill.TypeProblem:
		if p, ok := read[drill.Problem](e); ok {
			return "✗", strings.TrimPrefix(e.Step+because(p.What, p.Hint), ": ")
		}
	case drill.TypeComponent:
		if c, ok := read[drill.Component](e); ok {
			return "●", strings.TrimSpace(c.Name+": "+c.Kind+" "+c.Version) + yes(c.Substitute, " (drkit's own stand-in)", "")
		}
	case drill.TypeNote:
		if n, ok := read[drill.Note](e); ok {
			return "●", n.Text
		}
	}
	return "", ""
}

func gateLine(g drill.Gate) (mark, text string) {
	title := yes(g.Title != "", g.Title, g.ID)
	if g.Result == drill.Passed {
		return "✓", title + ": " + g.Observed
	}
	return yes(g.Result == drill.Failed, "✗", "–"), fmt.Sprintf("%s %s: expected %s, observed %s%s", title, g.Result, g.Expected, g.Observed, yes(g.Hint != "", " → "+g.Hint, ""))
}

func read[T any](e drill.Event) (T, bool) {
	var data T
	return data, json.Unmarshal(e.Data, &data) == nil
}
