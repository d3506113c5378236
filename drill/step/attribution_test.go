package step

import (
	"testing"

	"drkit/drill"
)

// TestDelta: two workers, of which one may not have been asked yet; a count that was
// there and is not any more leaves the sum unknown, and is no 0.
func TestDelta(t *testing.T) {
	a, b := "http://127.0.0.1:8101", "http://127.0.0.1:8102"
	counts := func(n ...uint64) map[string]drill.Count {
		all := map[string]drill.Count{}
		for i, url := range []string{a, b}[:len(n)] {
			all[url] = drill.Count{OK: n[i], Unit: "attempts"}
		}
		return all
	}
	for name, c := range map[string]struct {
		before, after map[string]drill.Count
		want          string
	}{
		"both rise":             {counts(10, 4), counts(13, 9), "8"},
		"one was not asked yet": {counts(10), counts(13, 2), "5"},
		"one is never asked":    {counts(10), counts(13), "3"},
		"one is gone":           {counts(10, 4), counts(13), "(not known)"},
		"one fell":              {counts(10, 4), counts(13, 3), "(not known)"},
		"none was asked":        {counts(), counts(), "(not known)"},
		"not read":              {nil, counts(13), "(not known)"},
	} {
		if got := known(delta(c.before, c.after, []string{a, b})); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
