// Package traffic sends the drill's own requests through a router, the way
// clients do, and judges each by what the client saw: a stream is good only with
// a finish reason, no error event and [DONE].
//
// Requests come in prefix families, as conversations with a shared system prompt
// do, in one of two shapes: text, or token ids. A cache-aware router may see
// only one of them.
package traffic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"drkit/internal/openai"
	"drkit/manifest/region"
)

// Shape is the form of a request's prompt.
type Shape string

// The shapes.
const (
	Text     Shape = "text"
	TokenIDs Shape = "token-ids"
)

// Class is a share of the traffic with its border.
type Class struct {
	Name      string
	Residency []region.Residency
	Share     float64
	Shape     Shape
}

// Options says what to send. Tokenize is needed when a class sends token ids.
type Options struct {
	Router    *openai.Client
	Model     string
	Classes   []Class
	Rate      float64 // requests a second over all classes
	Families  int     // distinct shared prefixes
	MaxTokens int
	Window    time.Duration // length of the windows that OnWindow gets
	Timeout   time.Duration // of one request
	Seed      uint64        // order of classes and families
	RunID     string        // begins every X-Request-Id
	Tokenize  func(ctx context.Context, text string) ([]int, error)
	OnWindow  func(Window)
	// Route says through which router the next request of a class goes; nil: all
	// through Router.
	Route func(class string) *openai.Client
}

// Result is one request as its client saw it.
type Result struct {
	ID, Class, Worker, Region string // Worker and Region as a response header named them, else ""
	Family                    int
	Started, FirstToken       time.Time // FirstToken is zero when none came
	Ended                     time.Time
	OK, Cut                   bool
	Problem                   string
	PromptTokens              int
	CachedTokens              *int // nil: the answer did not say
}

// Headers by which drkit's reference router names who answered.
const (
	HeaderResidency = "X-Drkit-Residency"
	HeaderWorker    = "X-Drkit-Worker"
	HeaderRegion    = "X-Drkit-Region"
)

// Generator sends requests at a constant rate, whatever the answers: an open
// loop, so that a slow router gets no mercy.
type Generator struct {
	opts     Options
	prefixes []string
	ids      [][]int
	mu       sync.Mutex
	phase    string
	results  []Result
	open     map[string]time.Time // requests without an end, by id
}

// maxInFlight bounds open requests; beyond it a request fails as not sent, which
// counts against the router that does not answer.
const maxInFlight = 256

// New prepares the families; token ids are asked for once.
func New(ctx context.Context, o Options) (*Generator, error) {
	if o.Rate <= 0 || o.Families <= 0 || len(o.Classes) == 0 {
		return nil, errors.New("traffic needs a rate, a number of families and at least one class")
	}
	g := &Generator{opts: o, phase: "baseline", open: map[string]time.Time{}}
	for f := range o.Families {
		g.prefixes = append(g.prefixes, prefix(f))
	}
	if !slices.ContainsFunc(o.Classes, func(c Class) bool { return c.Shape == TokenIDs }) {
		return g, nil
	}
	for _, p := range g.prefixes {
		ids, err := o.Tokenize(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("token ids for the traffic: %w", err)
		}
		g.ids = append(g.ids, ids)
	}
	return g, nil
}

// prefix is the shared beginning of a family: long enough for several cache
// blocks of 16 or 32 tokens.
func prefix(family int) string {
	return fmt.Sprintf("Runbook %d. ", family) + strings.Repeat(fmt.Sprintf("Step %d: check the copy, boot the canary, ask it, move the router. ", family), 4)
}

// SetPhase names the part of the drill that the following requests belong to.
func (g *Generator) SetPhase(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.phase = name
}

// Run sends until ctx ends, then waits for the open requests (each has its own
// time-out) and returns. It reports a window for each class every Window.
func (g *Generator) Run(ctx context.Context) {
	var open sync.WaitGroup
	slots := make(chan struct{}, maxInFlight)
	order := rand.New(rand.NewPCG(g.opts.Seed, 1))
	tick := time.NewTicker(time.Duration(float64(time.Second) / g.opts.Rate))
	defer tick.Stop()
	window := newWindows(g, time.Now())
	defer window.close()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			open.Wait()
			return
		case now := <-tick.C:
			window.upTo(now)
		}
		r := g.request(n, order)
		select {
		case slots <- struct{}{}:
			open.Go(func() {
				defer func() { <-slots }()
				g.send(ctx, r)
			})
		default:
			g.record(Result{ID: r.id, Class: r.class.Name, Family: r.family, Started: time.Now(), Ended: time.Now(), Problem: fmt.Sprintf("not sent: %d requests are still open", maxInFlight)})
		}
	}
}

type request struct {
	id     string
	class  Class
	router *openai.Client
	family int
	number int
}

func (g *Generator) request(n int, order *rand.Rand) request {
	r := request{id: fmt.Sprintf("%s-%d", g.opts.RunID, n), class: pick(g.opts.Classes, order.Float64()), router: g.opts.Router, family: order.IntN(g.opts.Families), number: n}
	if g.opts.Route != nil {
		r.router = g.opts.Route(r.class.Name)
	}
	return r
}

// pick takes a class by its share; shares need not add up to one.
func pick(classes []Class, at float64) Class {
	total := 0.0
	for _, c := range classes {
		total += c.Share
	}
	for _, c := range classes {
		if at -= c.Share / total; at < 0 {
			return c
		}
	}
	return classes[len(classes)-1]
}

// send is not cut by the end of the traffic, only by its own time-out: a request
// that the drill itself cancels would look like the router's fault.
func (g *Generator) send(parent context.Context, r request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), g.opts.Timeout)
	defer cancel()
	ctx = openai.WithRequestID(ctx, r.id)
	started := time.Now()
	g.mu.Lock()
	g.open[r.id] = started
	g.mu.Unlock()
	res, err := r.router.Stream(ctx, g.completion(r), g.header(r))
	out := Result{ID: r.id, Class: r.class.Name, Family: r.family, Started: started, FirstToken: res.FirstToken, Ended: time.Now()}
	if err != nil {
		out.Problem = err.Error()
		g.record(out)
		return
	}
	out.OK, out.Problem = res.Good(), res.Problem()
	out.Cut = !out.OK
	if out.OK && out.FirstToken.IsZero() && (res.Usage == nil || res.Usage.CompletionTokens == 0) {
		out.OK, out.Problem = false, "the stream ended well and held no token"
	}
	out.Worker, out.Region = res.Header.Get(HeaderWorker), res.Header.Get(HeaderRegion)
	if res.Usage != nil {
		out.PromptTokens = res.Usage.PromptTokens
		if d := res.Usage.PromptTokensDetails; d != nil {
			out.CachedTokens = d.CachedTokens
		}
	}
	g.record(out)
}

func (g *Generator) completion(r request) openai.CompletionRequest {
	suffix := fmt.Sprintf("Question %d?", r.number)
	prompt := openai.Prompt{Text: g.prefixes[r.family] + suffix}
	if r.class.Shape == TokenIDs {
		ids := g.ids[r.family]
		prompt = openai.Prompt{IDs: append(slices.Clone(ids), ids[r.number%len(ids)])}
	}
	return openai.CompletionRequest{Model: g.opts.Model, Prompt: prompt, Sampling: openai.Sampling{
		MaxTokens: openai.Ptr(g.opts.MaxTokens), Temperature: openai.Ptr(0.0), IgnoreEOS: true,
		StreamOptions: &openai.StreamOptions{IncludeUsage: true},
	}}
}

func (g *Generator) header(r request) http.Header {
	h := http.Header{}
	var allowed []string
	for _, residency := range r.class.Residency {
		allowed = append(allowed, string(residency))
	}
	if len(allowed) > 0 {
		h.Set(HeaderResidency, strings.Join(allowed, ","))
	}
	return h
}

func (g *Generator) record(r Result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, r.ID)
	g.results = append(g.results, r)
}

// Open counts the requests without an end.
func (g *Generator) Open() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.open)
}

// Hanging counts the open requests that are older than a window and than twice
// the slowest good answer so far: a request that never ends must not count as
// nothing until its time-out.
func (g *Generator) Hanging() int { return g.HangingSince(time.Time{}) }

// HangingSince counts those of them that began at or after a moment.
func (g *Generator) HangingSince(since time.Time) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	limit := g.opts.Window
	for _, r := range g.results {
		if r.OK {
			limit = max(limit, 2*r.Ended.Sub(r.Started))
		}
	}
	for _, started := range g.open {
		if time.Since(started) > limit && !started.Before(since) {
			n++
		}
	}
	return n
}

// Results returns the requests that began at or after since and have ended, in
// the order of their ends.
func (g *Generator) Results(since time.Time) []Result {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []Result
	for _, r := range g.results {
		if !r.Started.Before(since) {
			out = append(out, r)
		}
	}
	return out
}
