package traffic

import (
	"slices"
	"time"
)

// Window counts the requests of one class that ended in a stretch of time.
type Window struct {
	Class, Phase     string
	From, To         time.Time
	Sent, OK, Failed int // Sent is OK + Failed: requests that ended in the window
	Cut              int // streams that began and did not end well; counted in Failed too
	TTFTP50, TTFTP99 time.Duration
	CacheHit         *float64 // cached/prompt tokens as answers said; nil: not said
	ByRegion         map[string]int
	Problems         []string // up to three different ones
}

// windows closes a window for each class at fixed intervals. A result counts in
// the window in which it ended, so no request is counted twice or lost.
type windows struct {
	g    *Generator
	from time.Time
	done int // results counted so far
}

func newWindows(g *Generator, start time.Time) *windows { return &windows{g: g, from: start} }

func (w *windows) upTo(now time.Time) {
	for to := w.from.Add(w.g.opts.Window); !now.Before(to); to = w.from.Add(w.g.opts.Window) {
		w.emit(to)
		w.from = to
	}
}

// close counts what ended after the last full window; a part of a window is
// reported only when something ended in it.
func (w *windows) close() {
	w.g.mu.Lock()
	left := len(w.g.results) - w.done
	w.g.mu.Unlock()
	if left > 0 {
		w.emit(time.Now())
	}
}

func (w *windows) emit(to time.Time) {
	w.g.mu.Lock()
	results, phase := slices.Clone(w.g.results[w.done:]), w.g.phase
	w.done = len(w.g.results)
	w.g.mu.Unlock()
	if w.g.opts.OnWindow == nil {
		return
	}
	for _, c := range w.g.opts.Classes {
		one := Summarize(slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Class != c.Name }))
		one.Class, one.Phase, one.From, one.To = c.Name, phase, w.from, to
		w.g.opts.OnWindow(one)
	}
}

// Summarize counts results, whatever their class.
func Summarize(results []Result) Window {
	w := Window{ByRegion: map[string]int{}}
	var first []time.Duration
	prompt, cached, told := 0, 0, false
	for _, r := range results {
		w.Sent++
		switch {
		case r.OK:
			w.OK++
		default:
			w.Failed++
			w.note(r.Problem)
		}
		if r.Cut {
			w.Cut++
		}
		if !r.FirstToken.IsZero() {
			first = append(first, r.FirstToken.Sub(r.Started))
		}
		if r.Region != "" {
			w.ByRegion[r.Region]++
		}
		if r.CachedTokens != nil && *r.CachedTokens >= 0 && *r.CachedTokens <= r.PromptTokens { // else the answer says nothing that can be
			told, prompt, cached = true, prompt+r.PromptTokens, cached+*r.CachedTokens
		}
	}
	w.TTFTP50, w.TTFTP99 = Percentile(first, 50), Percentile(first, 99)
	if told && prompt > 0 {
		rate := float64(cached) / float64(prompt)
		w.CacheHit = &rate
	}
	return w
}

func (w *Window) note(problem string) {
	if len(w.Problems) < 3 && !slices.Contains(w.Problems, problem) {
		w.Problems = append(w.Problems, problem)
	}
}

// Percentile is the smallest value that at least p per cent of the values do not
// exceed (nearest rank); 0 for none.
func Percentile(values []time.Duration, p int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	s := slices.Clone(values)
	slices.Sort(s)
	rank := (len(s)*p + 99) / 100
	return s[max(rank, 1)-1]
}
