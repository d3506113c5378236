package step

import (
	"context"
	"sync"
	"time"

	"drkit/drill"
)

// tokens are how many prompt tokens engines looked up in their prefix cache, and how
// many of them they found; nil: not known.
type tokens struct{ hits, queries *float64 }

func (w *World) tokens(ctx context.Context, e engines) tokens {
	if len(e.all) == 0 {
		return tokens{}
	}
	found := w.series(ctx, e, "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total")
	return tokens{found[0], found[1]}
}

// warmth is the hit rate of a stretch of time.
type warmth struct {
	to   time.Time
	rate float64
	why  string // why it is not known; "": it is
}

// since is the hit rate from an earlier reading on.
func (t tokens) since(was tokens, who string) warmth {
	w := warmth{to: time.Now()}
	hits, queries := rise(was.hits, t.hits), rise(was.queries, t.queries)
	switch {
	case hits == nil || queries == nil:
		w.why = who + " does not count its prefix cache's hits"
	case *queries == 0:
		w.why = who + " looked nothing up in its prefix cache"
	case *hits > *queries:
		w.why = who + " counts more hits than lookups in its prefix cache: one of the two is wrong"
	default:
		w.rate = *hits / *queries
	}
	return w
}

// warming reads the hit rate of the engines that took over, window by window, from the
// cutover on: a step that looks at it later still sees when it was back.
type warming struct {
	mu     sync.Mutex
	seen   []warmth
	own    bool // the window holds questions of the drill itself
	asking int  // of it, now
	stop   context.CancelFunc
	done   chan struct{}
}

// warm begins to read, anew when an earlier attempt read already.
func (w *World) warm(ctx context.Context, e engines) {
	w.warming.end()
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	r, every := &warming{stop: stop, done: make(chan struct{})}, w.Objectives.Steady.Window
	w.warming = r
	go func() {
		defer close(r.done)
		was := w.tokens(life, e)
		for {
			select {
			case <-life.Done():
				return
			case <-time.After(every):
			}
			now := w.tokens(life, e)
			if life.Err() != nil {
				return
			}
			r.add(now.since(was, e.name()))
			was = now
		}
	}()
}

// add keeps a window's rate, unless the drill itself was asking in it.
func (r *warming) add(w warmth) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.own && r.asking == 0 {
		r.seen = append(r.seen, w)
	}
	r.own = r.asking > 0
}

// aside leaves the windows out in which the drill asks questions: it asked them before,
// so they would be found in the cache and say nothing of users' prompts.
func (r *warming) aside(ask func()) {
	if r == nil {
		ask()
		return
	}
	r.mu.Lock()
	r.own, r.asking = true, r.asking+1
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.asking--
	}()
	ask()
}

// baseline is the hit rate of the engines that are left, from the traffic's beginning
// on. In an emergency there is none.
func (w *World) baseline(ctx context.Context, from engines) warmth {
	if w.Mode == drill.ModeEmergency {
		return warmth{why: "in an emergency the region that is lost gives no baseline"}
	}
	return w.tokens(ctx, from).since(w.traffic.cache, from.name())
}

func (r *warming) all() []warmth {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]warmth(nil), r.seen...)
}

// end stops reading; nil has nothing to stop.
func (r *warming) end() {
	if r != nil {
		r.stop()
		<-r.done
	}
}
