// Package errext carries two things with an error up to the command line: a
// hint that says what to do next, and the exit status that the error stands for.
//
// Wrap where the knowledge is, read once in cmd/drkit:
//
//	return errext.WithHint(err, "run drkit replicate to copy what is missing")
//	return errext.WithStatus(err, errext.Refused)
package errext

import (
	"errors"
	"slices"
)

// Status is a process exit status with a fixed meaning (README.md, Exit statuses).
type Status int

// The statuses of drkit's commands.
const (
	Holds           Status = 0   // everything that was asked for holds
	Failed          Status = 1   // could not be done; no verdict
	Usage           Status = 2   // wrong usage or configuration
	Refused         Status = 3   // refused before any change
	Gate            Status = 4   // a gate, rule or parity check failed or was skipped
	ObjectiveMissed Status = 5   // recovered, but later than promised
	Evidence        Status = 6   // evidence could not be written, signed or verified
	Paused          Status = 7   // waits for a person
	Unclean         Status = 8   // clean-up or undo is not proven
	Interrupted     Status = 130 // SIGINT, nothing changed or undo proven
	Terminated      Status = 143 // SIGTERM, nothing changed or undo proven
)

// precedence orders the statuses that may apply together, most urgent first.
var precedence = []Status{Unclean, Evidence, Gate, ObjectiveMissed, Failed, Paused}

// Combine returns the one status that a command exits with when several apply:
// the first of 8, 6, 4, 5, 1, 7. Any other status (usage, refusal, interrupt)
// is returned when none of those is present, and Holds when all hold.
func Combine(all ...Status) Status {
	for _, s := range precedence {
		if slices.Contains(all, s) {
			return s
		}
	}
	for _, s := range all {
		if s != Holds {
			return s
		}
	}
	return Holds
}

// String is the short name of the status in JSON reasons.
func (s Status) String() string {
	switch s {
	case Holds:
		return "holds"
	case Failed:
		return "failed"
	case Usage:
		return "usage"
	case Refused:
		return "refused"
	case Gate:
		return "gate-failed"
	case ObjectiveMissed:
		return "objective-missed"
	case Evidence:
		return "evidence"
	case Paused:
		return "paused"
	case Unclean:
		return "unclean"
	case Interrupted:
		return "interrupted"
	case Terminated:
		return "terminated"
	}
	return "unknown"
}

type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

type stated struct {
	error
	status Status
}

func (s stated) Unwrap() error { return s.error }

// WithHint adds a sentence that says what to do next. A nil error stays nil.
func WithHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return hinted{err, hint}
}

// WithStatus says which exit status the error stands for. A nil error stays nil.
func WithStatus(err error, s Status) error {
	if err == nil {
		return nil
	}
	return stated{err, s}
}

// Hint returns the outermost hint of err's chain, or "".
func Hint(err error) string {
	var h hinted
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}

// StatusOf returns the outermost status of err's chain: Holds for nil, Failed
// for an error that carries none. The parts of a joined error are combined.
func StatusOf(err error) Status {
	if err == nil {
		return Holds
	}
	for e := err; e != nil; {
		if s, ok := e.(stated); ok {
			return s.status
		}
		if j, ok := e.(interface{ Unwrap() []error }); ok {
			var all []Status
			for _, part := range j.Unwrap() {
				all = append(all, StatusOf(part))
			}
			return Combine(all...)
		}
		e = errors.Unwrap(e)
	}
	return Failed
}
