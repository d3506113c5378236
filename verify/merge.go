package verify

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"drkit/internal/errext"
)

// Merge puts the results of all shards of one verification together. It refuses
// what does not make up one whole: other releases, places, levels or expectations,
// a shard that is missing or given twice, a subject without a verdict or with two.
// A copy that changed between its shards is an error of the result.
func Merge(shards []Result) (Result, error) {
	if len(shards) == 0 {
		return Result{}, refuse("there is nothing to merge")
	}
	all := slices.SortedStableFunc(slices.Values(shards), func(a, b Result) int { return cmp.Compare(a.Shard.Index, b.Shard.Index) })
	for _, s := range all {
		if s.Shard.IsZero() {
			return Result{}, refuse("one of them is a whole verification, not a shard of one")
		}
		if err := s.belongs(all[len(all)-1]); err != nil {
			return Result{}, err
		}
	}
	if err := complete(all); err != nil {
		return Result{}, err
	}
	return joined(all)
}

func refuse(format string, args ...any) error {
	return errext.WithHint(errext.WithStatus(fmt.Errorf("these results cannot be merged: "+format, args...), errext.Refused),
		"merge all shards of one verification, each once: same release, region, level and options, INDEX/COUNT from 0 on")
}

// belongs says in what a shard is not of the same verification as another.
func (r Result) belongs(o Result) error {
	draws := func(s *Sampled) string {
		if s == nil {
			return "none"
		}
		return fmt.Sprintf("%+v", *s)
	}
	for _, c := range []struct{ what, a, b string }{
		{"the service", r.Service, o.Service}, {"the release", r.Release, o.Release}, {"the place", r.Region, o.Region}, {"the other place", r.Source, o.Source},
		{"the level", string(r.Level), string(o.Level)}, {"the required evidence", r.Require.String(), o.Require.String()},
		{"the number of shards", fmt.Sprint(r.Shard.Count), fmt.Sprint(o.Shard.Count)}, {"the sample", draws(r.Sample), draws(o.Sample)},
		{"what should be there", r.Expected, o.Expected}, {"the number of objects", fmt.Sprint(r.Total), fmt.Sprint(o.Total)},
	} {
		if c.a != c.b {
			return refuse("%s of shard %s is %q, of shard %s %q", c.what, r.Shard, c.a, o.Shard, c.b)
		}
	}
	return nil
}

// complete says which shard is missing, stands twice or is not whole.
func complete(all []Result) error {
	for i, s := range all {
		switch {
		case i > 0 && s.Shard == all[i-1].Shard:
			return refuse("shard %s is there twice", s.Shard)
		case s.Shard.Index > i:
			return refuse("shard %d/%d is missing", i, s.Shard.Count)
		}
		if n := s.accounted(); n != s.Subjects {
			return refuse("shard %s has %d objects and says something of %d", s.Shard, s.Subjects, n)
		}
	}
	began := func(a, b Result) int { return a.Began.Compare(b.Began) }
	first, last := slices.MinFunc(all, began), slices.MaxFunc(all, began)
	if apart := last.Began.Sub(first.Began); apart > ProofAge {
		return refuse("shard %s began %s before shard %s, and may be of an earlier verification", first.Shard, apart.Round(time.Minute), last.Shard)
	}
	if n := all[0].Shard.Count; len(all) != n {
		return refuse("shard %d/%d is missing", len(all), n)
	}
	return nil
}

// accounted is how many units of work have a verdict, an error, or were said to be
// left out.
func (r Result) accounted() int { return len(r.spokenOf()) + r.Unasked }

// filesSpokenOf leaves out a release's images: one shard adds them to what all
// expect. Between two places that prefix is a folder like any other.
func (r Result) filesSpokenOf() []string {
	if r.Release == "" {
		return r.spokenOf()
	}
	return slices.DeleteFunc(r.spokenOf(), func(name string) bool { return strings.HasPrefix(name, ImagePrefix) })
}

// spokenOf lists the subjects with a verdict or an error, sorted.
func (r Result) spokenOf() []string {
	said := map[string]bool{}
	for _, g := range r.Gaps {
		if g.Verdict != Extra {
			said[g.Subject] = true
		}
	}
	for _, name := range r.Failed {
		said[name] = true
	}
	return slices.Sorted(maps.Keys(said))
}

func joined(all []Result) (Result, error) {
	m := all[0]
	m.Shard, m.Gaps, m.Errors, m.Notes = Shard{}, nil, nil, nil
	m.Subjects, m.Unasked, m.BytesRead, m.Failed, m.Resumed = 0, 0, 0, nil, Resumed{}
	seen, errs := map[string]bool{}, map[string]bool{}
	moved := false
	for _, s := range all {
		for _, g := range s.Gaps {
			if seen[g.Subject] {
				return Result{}, refuse("%s has a verdict in two shards", g.Subject)
			}
			seen[g.Subject] = true
		}
		m.Gaps = append(m.Gaps, s.Gaps...)
		for _, e := range s.Errors {
			if id := fmt.Sprintf("%q %q %q", e.Subject, e.Key, e.Error()); !errs[id] {
				errs[id] = true
				m.Errors = append(m.Errors, e)
			}
		}
		for _, n := range s.Notes {
			if !slices.Contains(m.Notes, n) {
				m.Notes = append(m.Notes, n)
			}
		}
		moved = moved || s.Listing != m.Listing
		m.add(s)
	}
	if m.Subjects != m.Total {
		return Result{}, refuse("the shards have %d objects, the verification %d", m.Subjects, m.Total)
	}
	if names, _, _ := strings.Cut(m.Expected, "-"); m.Unasked == 0 && digestOf(m.filesSpokenOf()) != names {
		return Result{}, refuse("they speak of other objects than those that were to be compared: one of the files was edited")
	}
	if moved {
		m.Errors = append(m.Errors, ObjectError{Err: errext.WithHint(fmt.Errorf("the shards did not see the same objects in %s: %w", m.Region, errChanged),
			"wait until whatever writes there has ended, and verify all shards again")})
	}
	m.unsettle()
	m.arrange()
	m.Age = m.Age.merged(m)
	return m, nil
}

// add sums up what shards count.
func (m *Result) add(s Result) {
	m.Subjects += s.Subjects
	m.Unasked += s.Unasked
	m.BytesRead += s.BytesRead
	m.Failed = append(m.Failed, s.Failed...)
	m.Resumed.Objects += s.Resumed.Objects
	if s.Resumed.Objects > 0 && (m.Resumed.Since.IsZero() || s.Resumed.Since.Before(m.Resumed.Since)) {
		m.Resumed.Since = s.Resumed.Since
	}
	if s.Began.Before(m.Began) {
		m.Began = s.Began
	}
	m.Ended = latest(m.Ended, s.Ended)
	if s.Age != nil && s.Ended.Equal(m.Ended) {
		m.Age = s.Age
	}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// unsettle takes back the verdicts on what one shard saw change after another had
// judged it.
func (m *Result) unsettle() {
	moved := map[string]bool{}
	for _, e := range m.Errors {
		if errors.Is(e.Err, errChanged) && e.Subject != "" {
			moved[e.Subject] = true
		}
	}
	m.Gaps = slices.DeleteFunc(m.Gaps, func(g Gap) bool { return moved[g.Subject] })
}
