package probes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"drkit/internal/errext"
)

// Encode writes the set as JSON: equal sets give equal bytes.
func Encode(w io.Writer, s ProbeSet) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(s)
}

// Decode reads what Encode wrote and checks that the set can judge something:
// known schema, a subject, at least one completion with log probabilities, and
// probes that name each other correctly.
func Decode(data []byte) (ProbeSet, error) {
	var s ProbeSet
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return s, errext.WithHint(fmt.Errorf("decoding probes: %w", err), "record them anew with drkit probe record")
	}
	if !strings.HasPrefix(s.Schema, "drkit.probes/1.") {
		return s, fmt.Errorf("probes have schema %q, this drkit reads %s", s.Schema, Schema)
	}
	return s, s.Validate()
}

// maxTolerance bounds the tolerance: other hardware moves log probabilities by a
// tenth or three; more would take another answer for the same.
const maxTolerance = 0.5

// Validate says why the set cannot judge anything, or nil.
func (s ProbeSet) Validate() error {
	var problems []error
	if s.Subject.Hex == "" {
		problems = append(problems, errors.New("no subject: it is not known which model and engine they belong to"))
	}
	if !(s.Tolerance > 0) || s.Tolerance > maxTolerance {
		problems = append(problems, fmt.Errorf("tolerance %v is outside (0, %g]", s.Tolerance, maxTolerance))
	}
	ids, completions := map[string]bool{}, 0
	for _, p := range s.Probes {
		if p.ID == "" || ids[p.ID] {
			problems = append(problems, fmt.Errorf("probe id %q is empty or used twice", p.ID))
		}
		ids[p.ID] = true
		if p.Kind == KindCompletion {
			completions++
		}
		if Greedy(p.Kind) {
			problems = append(problems, p.checkGreedy())
		}
	}
	for _, p := range s.Probes {
		if p.DiffersFrom != "" && !ids[p.DiffersFrom] {
			problems = append(problems, fmt.Errorf("probe %s must differ from %s, which is not in the set", p.ID, p.DiffersFrom))
		}
	}
	if completions == 0 {
		problems = append(problems, errors.New("no completion among them: they cannot show that the answers are right"))
	}
	return errors.Join(problems...)
}

func (p Probe) checkGreedy() error {
	w := p.Want
	if len(w.TokenIDs) == 0 || len(w.Logprobs) != len(w.TokenIDs) || len(w.Top) != len(w.TokenIDs) {
		return fmt.Errorf("probe %s has %d token ids, %d log probabilities and %d top lists: want equally many, and some", p.ID, len(w.TokenIDs), len(w.Logprobs), len(w.Top))
	}
	for i, l := range w.Logprobs {
		if math.IsNaN(l) || math.IsInf(l, 0) || l > 0 {
			return fmt.Errorf("probe %s: log probability %d is %v", p.ID, i, l)
		}
	}
	return nil
}
