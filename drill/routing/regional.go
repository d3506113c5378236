package routing

import (
	"cmp"
	"errors"
	"slices"

	"drkit/manifest/region"
)

// Candidate is a worker as the policy sees it at one moment.
type Candidate struct {
	ID        string
	Region    string
	Residency region.Residency
	Available bool // healthy and not draining
	Load      int  // requests in flight
	Sent      uint64
	Matched   int // leading blocks of the request that it was sent before
}

// Request is what the policy knows of a request.
type Request struct {
	Blocks  int                // whole blocks of the prompt; 0: its prompt could not be seen
	Bound   bool               // may only be answered inside Allowed
	Allowed []region.Residency // an empty list of a bound request allows nothing
}

// Why says what a decision rested on.
type Why int

// A hit rests on a known prefix. A miss had a prompt but no known prefix, or a
// worker too busy to keep to it. A blind decision could not see the prompt.
const (
	Hit Why = iota
	Miss
	Blind
)

// Decision is the worker chosen.
type Decision struct {
	ID  string
	Why Why
}

// Errors of Choose. A border is not overload: no retry elsewhere may follow.
var (
	ErrBorder   = errors.New("no worker lies inside the request's residency")
	ErrNoWorker = errors.New("no worker is available")
)

// Regional is the cache-aware regional policy: inside the borders, the home
// region while it has an available worker, else the other regions; there the
// worker with the longest known prefix, unless loads have come too far apart.
type Regional struct {
	Home string // "": no region is preferred

	// MatchShare is how much of a prompt has to be known for its worker to be
	// preferred, 0 to 1. Prompts that share only a short beginning spread.
	MatchShare float64
	// A worker is too busy for its prefixes when its load exceeds the smallest
	// by more than BalanceAbs requests and BalanceRel times.
	BalanceAbs int
	BalanceRel float64
}

// Name is the policy's name in outputs.
const Name = "cache-aware-regional"

// Choose applies the policy. Borders come before everything else.
func (p Regional) Choose(r Request, all []Candidate) (Decision, error) {
	inside := keep(all, func(c Candidate) bool { return !r.Bound || region.Allows(r.Allowed, c.Residency) })
	if r.Bound && len(inside) == 0 {
		return Decision{}, ErrBorder
	}
	up := keep(inside, func(c Candidate) bool { return c.Available })
	if len(up) == 0 {
		return Decision{}, ErrNoWorker
	}
	if home := keep(up, func(c Candidate) bool { return c.Region == p.Home }); len(home) > 0 {
		up = home
	}
	return p.pick(r, up), nil
}

func (p Regional) pick(r Request, up []Candidate) Decision {
	idle := slices.MinFunc(up, byLoad)
	if r.Blocks == 0 {
		return Decision{idle.ID, Blind}
	}
	best := slices.MinFunc(up, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Matched, a.Matched), byLoad(a, b))
	})
	known := best.Matched > 0 && float64(best.Matched) >= p.MatchShare*float64(r.Blocks)
	if !known || p.tooBusy(best.Load, idle.Load) {
		return Decision{idle.ID, Miss}
	}
	return Decision{best.ID, Hit}
}

// tooBusy compares a worker's load with the smallest.
func (p Regional) tooBusy(load, least int) bool {
	return load-least > p.BalanceAbs && float64(load) > p.BalanceRel*float64(least)
}

// byLoad prefers the smaller load; of equals the one that was sent less, so that
// an idle fleet fills evenly; of those the first by name.
func byLoad(a, b Candidate) int {
	return cmp.Or(cmp.Compare(a.Load, b.Load), cmp.Compare(a.Sent, b.Sent), cmp.Compare(a.ID, b.ID))
}

func keep(all []Candidate, ok func(Candidate) bool) []Candidate {
	var out []Candidate
	for _, c := range all {
		if ok(c) {
			out = append(out, c)
		}
	}
	return out
}
