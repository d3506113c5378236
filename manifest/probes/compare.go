package probes

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Difference says how an answer departs from the recorded one.
type Difference struct {
	Probe    string `json:"probe"`
	What     string `json:"what"`
	Expected string `json:"expected"`
	Observed string `json:"observed"`
}

// String is one line for people.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s: expected %s, observed %s", d.Probe, d.What, d.Expected, d.Observed)
}

// Compare judges an answer to a probe. Token ids of texts and rendered
// conversations must be equal. Greedy tokens must be equal until a place where
// the two candidates are within the tolerance of each other on both sides: there
// low bits decide, and what follows is not compared. Log probabilities up to
// that place must agree within the tolerance, those of likely other tokens within
// twice of it.
func Compare(p Probe, got Answer, tolerance float64) []Difference {
	c := comparison{probe: p.ID}
	want := p.Want
	switch p.Kind {
	case KindModels:
		c.equal("served models", strings.Join(sorted(want.Models), ", "), strings.Join(sorted(got.Models), ", "))
		c.equal("max_model_len", fmt.Sprint(want.MaxModelLen), fmt.Sprint(got.MaxModelLen))
	case KindTokenize, KindRender:
		c.ids("token ids", want.PromptIDs, got.PromptIDs)
		if want.MaxModelLen != 0 {
			c.equal("max_model_len", fmt.Sprint(want.MaxModelLen), fmt.Sprint(got.MaxModelLen))
		}
	case KindCompletion:
		c.ids("prompt token ids", want.PromptIDs, got.PromptIDs)
		c.greedy(want, got, tolerance)
	case KindTools:
		c.ids("prompt token ids", want.PromptIDs, got.PromptIDs)
		if c.greedy(want, got, tolerance) {
			c.equal("tool calls", calls(want), calls(got))
		}
	case KindJSON:
		c.ids("prompt token ids", want.PromptIDs, got.PromptIDs)
		c.greedy(want, got, tolerance)
		c.object(want, got)
	default:
		c.add("kind", "a kind that this drkit knows", fmt.Sprintf("%q", p.Kind))
	}
	return c.found
}

// Inert reports whether two answers are equal token by token and log
// probability by log probability: an adapter whose answers are its base's was
// not applied.
func Inert(adapter, base Answer) bool {
	return slices.Equal(adapter.TokenIDs, base.TokenIDs) && slices.Equal(adapter.Logprobs, base.Logprobs)
}

type comparison struct {
	probe string
	found []Difference
}

func (c *comparison) add(what, expected, observed string) {
	c.found = append(c.found, Difference{c.probe, what, expected, observed})
}

func (c *comparison) equal(what, want, got string) {
	if want != got {
		c.add(what, want, got)
	}
}

func (c *comparison) ids(what string, want, got []int) {
	if slices.Equal(want, got) {
		return
	}
	i := 0
	for i < min(len(want), len(got)) && want[i] == got[i] {
		i++
	}
	c.add(fmt.Sprintf("%s differ from position %d", what, i), around(want, i), around(got, i))
}

// around shows the ids at a place, and how many there are.
func around(ids []int, at int) string {
	if at >= len(ids) {
		return fmt.Sprintf("the end after %d ids", len(ids))
	}
	return fmt.Sprintf("%v of %d ids", ids[at:min(at+6, len(ids))], len(ids))
}

// calls are an answer's tool calls in one line.
func calls(a Answer) string {
	var all []string
	for _, t := range a.ToolCalls {
		all = append(all, t.Name+"("+t.Arguments+")")
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// object insists that a JSON answer which ended by itself is an object, as the
// recorded one was: low bits may change its words, never that.
func (c *comparison) object(want, got Answer) {
	if got.Finish == "stop" && isObject(want.Text) && !isObject(got.Text) {
		c.add("JSON mode", "a JSON object", fmt.Sprintf("%q", got.Text))
	}
}

func isObject(text string) bool {
	var o map[string]any
	return json.Unmarshal([]byte(text), &o) == nil && o != nil
}

// greedy compares token by token. It is true when every token is the same one and
// as likely: where low bits decided otherwise, what follows cannot be compared.
func (c *comparison) greedy(want, got Answer, tolerance float64) (same bool) {
	if len(got.Logprobs) != len(got.TokenIDs) || len(got.Top) != len(got.TokenIDs) {
		c.add("log probabilities", "one for each token", fmt.Sprintf("%d for %d tokens", len(got.Logprobs), len(got.TokenIDs)))
		return false
	}
	for i := range max(len(want.TokenIDs), len(got.TokenIDs)) {
		if i >= len(want.TokenIDs) || i >= len(got.TokenIDs) {
			c.add("length of the answer", fmt.Sprintf("%d tokens", len(want.TokenIDs)), fmt.Sprintf("%d tokens", len(got.TokenIDs)))
			return false
		}
		if want.TokenIDs[i] != got.TokenIDs[i] {
			if !closeCall(want, got, i, tolerance) {
				c.add(fmt.Sprintf("greedy token %d", i), token(want, i), token(got, i))
			}
			return false
		}
		if d := math.Abs(want.Logprobs[i] - got.Logprobs[i]); !(d <= tolerance) {
			c.add(fmt.Sprintf("log probability of token %d (tolerance %g)", i, tolerance), token(want, i), token(got, i))
			return false
		}
		if expected, observed, differ := runnersUp(want, got, i, tolerance); differ {
			c.add(fmt.Sprintf("top log probabilities of token %d (tolerance %g)", i, slack*tolerance), expected, observed)
			return false
		}
	}
	c.equal("finish reason", want.Finish, got.Finish)
	return want.Finish == got.Finish
}

// Runners-up are compared where they are no rarer than near natural logarithms below
// the chosen token, within slack times the tolerance: low bits move the rarer ones more.
const (
	near  = 2
	slack = 2
)

// runnersUp compares the other likely tokens of a place. One that the answer does not
// list among its likeliest may only be missing by a close call with the last of them.
func runnersUp(want, got Answer, i int, tolerance float64) (expected, observed string, differ bool) {
	last := math.Inf(1)
	for _, l := range got.Top[i] {
		last = min(last, l)
	}
	for _, id := range slices.Sorted(maps.Keys(want.Top[i])) {
		w := want.Top[i][id]
		if id == want.TokenIDs[i] || !(w >= want.Logprobs[i]-near) {
			continue
		}
		g, listed := got.Top[i][id]
		switch {
		case listed && !(math.Abs(w-g) <= slack*tolerance):
			return fmt.Sprintf("token %d at %.4f", id, w), fmt.Sprintf("at %.4f", g), true
		case !listed && !(w <= last+slack*tolerance):
			return fmt.Sprintf("token %d at %.4f", id, w), fmt.Sprintf("not among the likeliest, the last of which is at %.4f", last), true
		}
	}
	return "", "", false
}

// closeCall reports whether, at the first divergence, each side ranks the other's
// token among its top tokens within the tolerance of its own choice.
func closeCall(want, got Answer, i int, tolerance float64) bool {
	w, wok := want.Top[i][got.TokenIDs[i]]
	g, gok := got.Top[i][want.TokenIDs[i]]
	return wok && gok && want.Logprobs[i]-w <= tolerance && got.Logprobs[i]-g <= tolerance
}

func token(a Answer, i int) string {
	return fmt.Sprintf("token %d at %.4f in %q", a.TokenIDs[i], a.Logprobs[i], a.Text)
}

func sorted(names []string) []string {
	s := slices.Clone(names)
	slices.Sort(s)
	return s
}
