package main

import (
	"fmt"
	"io"

	"drkit/drill"
	"drkit/drill/ledger"
)

// openRun is a run that has not ended and that no process works on, or one that ended
// and left changes.
type openRun struct {
	Run   string      `json:"run"`
	Held  *drill.Held `json:"held"`           // null: its process is gone, or it has ended
	Left  int         `json:"left,omitempty"` // changes of a run that has ended which are not proven to be taken back
	Next  string      `json:"next"`           // the command that goes on; "": none does
	Abort string      `json:"abort"`
}

// openRuns lists them, oldest first. A journal that cannot be read is a fault of the
// evidence and not told here.
func openRuns(dir string) ([]openRun, error) {
	all := []openRun{}
	ids, err := ledger.List(dir)
	for _, id := range ids {
		r, err := ledger.Load(dir, id)
		if err != nil || ledger.Live(dir, id) {
			continue
		}
		if r.Finished != nil {
			if left := len(r.Left()); left > 0 {
				all = append(all, openRun{Run: id, Left: left, Abort: "drkit drill abort " + id})
			}
			continue
		}
		o := openRun{Run: id, Held: r.Held, Next: "drkit drill resume " + id, Abort: "drkit drill abort " + id}
		if r.Held != nil {
			o.Next = r.Held.Next
		}
		all = append(all, o)
	}
	return all, err
}

func printOpen(w io.Writer, all []openRun) {
	for _, o := range all {
		if o.Left > 0 {
			printLine(w, "%s has ended, and %s not proven to be taken back: %s", o.Run, countOf(o.Left, "change is", "changes are"), o.Abort)
			continue
		}
		if o.Held != nil {
			printLine(w, "%s is held: %s", o.Run, o.Held.Why)
		} else {
			printLine(w, "%s has not ended, and its process is gone", o.Run)
		}
		fmt.Fprintf(w, "  to go on: %s; to take it back: %s\n", o.Next, o.Abort)
	}
}
