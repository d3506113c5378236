package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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

// TestGCKeepsTheFilesOfAnEngine: what an engine reads stays while that engine stays, or
// was to be removed and is not proven to be gone; other runs' files do not. R2's was
// adopted, and nobody has its journal any more.
func TestGCKeepsTheFilesOfAnEngine(t *testing.T) {
	dir := t.TempDir()
	states := map[string]runState{}
	for _, run := range []string{"R1", "R2", "R3"} {
		if err := os.MkdirAll(filepath.Join(dir, "runs", run, "restored", "eu"), 0o755); err != nil {
			t.Fatal(err)
		}
		states[run] = runState{over: true}
	}
	g := &collector{dir: dir, states: states}
	engine := func(run string) leftover { return leftover{Kind: "process", Run: run, Name: "target-canary"} }
	if x := g.serves(engine("R1"), "its engine computes 2 requests"); !x.Traffic || x.Removable {
		t.Errorf("%+v", x)
	}
	if x := g.judgeReplica(t.Context(), engine("R2"), nil, "mei", undoProcess); x.Traffic || x.Removable {
		t.Errorf("%+v", x)
	}
	found, err := g.files(t.Context())
	if err != nil || len(found) != 3 || found[0].Removable || found[1].Removable || !found[2].Removable {
		t.Errorf("%+v, %v", found, err)
	}
	g.blind = true
	if found, err := g.files(t.Context()); err != nil || len(found) != 3 || found[2].Removable {
		t.Errorf("the processes could not be listed: %+v, %v", found, err)
	}
	still := errors.New("it is still there")
	gone := 0
	remove := func(err error) func(context.Context) error {
		return func(context.Context) error { gone++; return err }
	}
	all := []leftover{{Kind: "pod", Run: "R1", Name: "target-canary", Removable: true, remove: remove(still)}, {Kind: "process", Run: "R2", Removable: true, remove: remove(nil)},
		{Kind: "files", Run: "R1", Removable: true, remove: remove(nil)}, {Kind: "files", Run: "R2", Removable: true, remove: remove(nil)}}
	failed := collect(t.Context(), all)
	if len(failed) != 1 || !errors.Is(failed[0], still) || errext.StatusOf(failed[0]) != errext.Unclean || gone != 3 || all[2].Removed || all[2].Removable || !all[3].Removed {
		t.Errorf("%v, %d removed: %+v", failed, gone, all)
	}
}
