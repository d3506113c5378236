package main

import (
	"errors"
	"testing"

	"drkit/internal/errext"
)

// TestGCStatus: a look that failed (1) hides no clean-up that is not proven (8), and is
// before a refusal (3), in the order of docs: 8, 6, 4, 5, 1, 7, then the others.
func TestGCStatus(t *testing.T) {
	change, traffic, lock := leftover{Kind: "change"}, leftover{Kind: "pod", Traffic: true}, leftover{Kind: "lock"}
	look := errors.New("listing the pods of drill-eu: connection refused")
	gone := errext.WithStatus(errors.New("pod p of run R1 is not proven to be gone"), errext.Unclean)
	for name, c := range map[string]struct {
		found  []leftover
		failed []error
		want   errext.Status
	}{
		"nothing":                          {nil, nil, 0},
		"what stays for a reason":          {[]leftover{lock}, nil, 0},
		"a change":                         {[]leftover{lock, change}, nil, 8},
		"traffic":                          {[]leftover{traffic}, nil, 3},
		"a change beside traffic":          {[]leftover{traffic, change}, nil, 8},
		"a look that failed":               {nil, []error{look}, 1},
		"a look that failed and a change":  {[]leftover{change}, []error{look}, 8},
		"a look that failed and traffic":   {[]leftover{traffic}, []error{look}, 1},
		"a look and a removal that failed": {nil, []error{look, gone}, 8},
	} {
		err := gcStatus(c.found, c.failed)
		if got := errext.StatusOf(err); got != c.want {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
		for _, f := range c.failed {
			if !errors.Is(err, f) {
				t.Errorf("%s: %v is not told", name, f)
			}
		}
	}
}
