package probe

import (
	"context"
	"fmt"

	"drkit/internal/openai"
	"drkit/manifest/probes"
)

// Result is what a comparison found. Only an empty list of differences and
// errors, with at least one completion compared, is equal behaviour.
type Result struct {
	Asked       int                 `json:"asked"`
	Completions int                 `json:"completions"`
	Tolerance   float64             `json:"tolerance"`
	Differences []probes.Difference `json:"differences"`
	Errors      []string            `json:"errors"`
}

// Equal reports whether the endpoint behaves as recorded.
func (r Result) Equal() bool {
	return r.Completions > 0 && len(r.Differences) == 0 && len(r.Errors) == 0
}

// Compare asks every question of the set, in order, and judges the answers. A
// question that fails is an error of the result and does not stop the others;
// only a cancelled context does.
func Compare(ctx context.Context, c *openai.Client, set probes.ProbeSet) (Result, error) {
	r := Result{Tolerance: set.Tolerance}
	answers := map[string]probes.Answer{}
	for _, p := range set.Probes {
		got, err := Ask(ctx, c, p)
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
		r.Asked++
		if err != nil {
			r.Errors = append(r.Errors, err.Error())
			continue
		}
		if probes.Greedy(p.Kind) {
			r.Completions++
		}
		answers[p.ID] = got
		r.Differences = append(r.Differences, probes.Compare(p, got, set.Tolerance)...)
	}
	r.Differences = append(r.Differences, inert(set, answers)...)
	return r, nil
}

// inert names the adapters whose answers are their base's to the last bit.
func inert(set probes.ProbeSet, answers map[string]probes.Answer) []probes.Difference {
	var found []probes.Difference
	for _, p := range set.Probes {
		got, asked := answers[p.ID]
		base, baseAsked := answers[p.DiffersFrom]
		if p.DiffersFrom == "" || !asked || !baseAsked || !probes.Inert(got, base) {
			continue
		}
		found = append(found, probes.Difference{
			Probe: p.ID, What: fmt.Sprintf("adapter %s answers as its base does", p.Model),
			Expected: fmt.Sprintf("an answer unlike that of %s", p.DiffersFrom), Observed: fmt.Sprintf("the same tokens and log probabilities: %q", got.Text),
		})
	}
	return found
}
