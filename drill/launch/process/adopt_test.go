//go:build unix

package process

import (
	"runtime"
	"slices"
	"testing"
)

func TestAdopt(t *testing.T) {
	t.Parallel()
	l, s := testLauncher(t), fakeSpec(t, "hang")
	if err := l.Adopt(t.Context(), s.Run, s.Name, "mei"); err == nil {
		t.Error("what does not run is taken over")
	}
	r := launch(t, l, s)
	waitLine(t, r, "ready")
	if by := l.AdoptedBy(s.Run, s.Name); by != "" {
		t.Errorf("adopted by %q before", by)
	}
	if err := l.Adopt(t.Context(), s.Run, s.Name, "mei"); err != nil {
		t.Fatal(err)
	}
	if by := (&Launcher{Dir: l.Dir}).AdoptedBy(s.Run, s.Name); by != "mei" {
		t.Errorf("adopted by %q", by)
	}
	found, err := l.Find(t.Context(), s.Run) // a run that is resumed still finds it
	if err != nil || len(found) != 1 {
		t.Errorf("%v %v", found, err)
	}
	ours, _, err := l.Runs(t.Context())
	if err != nil || !slices.Contains(ours, s.Run) {
		t.Errorf("%v %v", ours, err)
	}
	if runtime.GOOS == "linux" {
		if _, others, err := (&Launcher{Dir: t.TempDir()}).Runs(t.Context()); err != nil || !slices.Contains(others, s.Run) {
			t.Errorf("elsewhere: %v %v", others, err)
		}
	}
	mustStop(t, r)
	if by := l.AdoptedBy(s.Run, s.Name); by != "" {
		t.Errorf("the mark outlives the replica: %q", by)
	}
}
