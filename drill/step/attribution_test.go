package step

import (
	"fmt"
	"testing"

	"drkit/drill"
	"drkit/internal/openai"
)

// unsaid is what said gives for nil.
const unsaid = "(not known)"

func said[T float64 | uint64](v *T) string {
	if v == nil {
		return unsaid
	}
	return fmt.Sprint(*v)
}

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
		"one is gone":           {counts(10, 4), counts(13), unsaid},
		"one fell":              {counts(10, 4), counts(13, 3), unsaid},
		"none was asked":        {counts(), counts(), unsaid},
		"not read":              {nil, counts(13), unsaid},
	} {
		if got := said(delta(c.before, c.after, []string{a, b})); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestTotal: an engine that says of one of its processes what no count can be does not say
// how many requests it computes; -1 and 1 are not none.
func TestTotal(t *testing.T) {
	for page, want := range map[string]string{
		"running{engine=\"0\"} 2\nrunning{engine=\"1\"} 1\n":  "4", // and 1 of the other engine
		"running{engine=\"0\"} -2\nrunning{engine=\"1\"} 1\n": unsaid,
		"running -1\n":   unsaid,
		"running NaN\n":  unsaid,
		"running +Inf\n": unsaid,
		"waiting 0\n":    unsaid,
	} {
		m, err := openai.ParseMetrics([]byte(page))
		if err != nil {
			t.Fatal(err)
		}
		other, err := openai.ParseMetrics([]byte("running 1\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := said(total([]openai.Metrics{m, other}, "running")); got != want {
			t.Errorf("%q: %s, want %s", page, got, want)
		}
	}
}
