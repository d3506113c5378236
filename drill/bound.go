package drill

import (
	"fmt"
	"unicode/utf8"
)

// maxText bounds a text of somebody else that an event quotes, in bytes: an engine
// may write a line of megabytes, and the journal is for what happened.
const maxText = 8 << 10

// bounded cuts the texts of an event that steps take from elsewhere. Figures, ids
// and undo's arguments stay as they are.
func bounded(data any) any {
	switch d := data.(type) {
	case Gate:
		d.Expected, d.Observed, d.Evidence, d.Hint = cut(d.Expected), cut(d.Observed), cut(d.Evidence), cut(d.Hint)
		return d
	case StepFinished:
		d.Error, d.Hint = cut(d.Error), cut(d.Hint)
		return d
	case Proof:
		d.Why = cut(d.Why)
		return d
	case Problem:
		d.What, d.Hint = cut(d.What), cut(d.Hint)
		return d
	case Phase:
		d.Line = cut(d.Line)
		return d
	case Log:
		d.Line = cut(d.Line)
		return d
	case Component: // as an engine or a router names itself
		d.Kind, d.Version = cut(d.Kind), cut(d.Version)
		return d
	case Note:
		d.Text = cut(d.Text)
		return d
	case Changed:
		d.Error = cut(d.Error)
		return d
	case Undone:
		d.Error = cut(d.Error)
		return d
	case Held:
		d.Why, d.Next = cut(d.Why), cut(d.Next)
		return d
	case Rechecked:
		d.Why = cut(d.Why)
		return d
	case RunAborting:
		d.Why = cut(d.Why)
		return d
	case Notified:
		d.Text, d.Why = cut(d.Text), cut(d.Why)
		return d
	}
	return data
}

func cut(text string) string { return Clip(text, maxText) }

// Clip shortens a text to so many bytes, between two characters, and says how much
// is missing.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	at := limit
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return fmt.Sprintf("%s… (%d bytes more)", text[:at], len(text)-at)
}
