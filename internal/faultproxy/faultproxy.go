// Package faultproxy stands in front of an S3 server and makes chosen requests
// go wrong: slow, refused, cut off, altered, answered with what was true before.
//
//	p := faultproxy.New(server, faultproxy.Options{Seed: 1, Rules: []faultproxy.Rule{{Kind: faultproxy.SlowDown, Chance: 0.1}}})
//	defer p.Close()
//	http.ListenAndServe(addr, p)
//
// What a request meets depends on the seed, on its method and URL and on how
// many like it came before, so that a run repeats whatever order concurrent
// requests arrive in. Injected counts what was done to whom.
package faultproxy

import (
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// Options describes a proxy.
type Options struct {
	Seed  uint64
	Rules []Rule
}

// Injection is one fault that a request met.
type Injection struct {
	Kind                Kind
	Method, Path, Query string
}

// Proxy passes requests on, except where a rule says otherwise.
type Proxy struct {
	upstream http.Handler
	seed     uint64
	closed   chan struct{}
	closing  sync.Once

	mu    sync.Mutex
	rules []ruleState
	like  map[string]uint64 // requests by method and URL
	done  []Injection
	first map[string]recorded // answers that StaleList repeats
}

type ruleState struct {
	Rule
	fitted, used int
}

// New puts a proxy in front of a handler.
func New(upstream http.Handler, o Options) *Proxy {
	p := &Proxy{upstream: upstream, seed: o.Seed, closed: make(chan struct{}), like: map[string]uint64{}, first: map[string]recorded{}}
	p.SetRules(o.Rules...)
	return p
}

// To puts a proxy in front of a server at a URL, whose path is not used. The
// Host header is passed on as it came, so that signatures stay right.
func To(upstream *url.URL, o Options) *Proxy {
	return New(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = upstream.Scheme, upstream.Host, r.In.Host
		},
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // the client gets 502; cut connections are the purpose
	}, o)
}

// SetRules replaces the rules and begins counting anew.
func (p *Proxy) SetRules(rules ...Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules, p.like = nil, map[string]uint64{}
	for _, r := range rules {
		p.rules = append(p.rules, ruleState{Rule: r})
	}
}

// Injected lists the faults so far, oldest first.
func (p *Proxy) Injected() []Injection {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Injection(nil), p.done...)
}

// Counts is how often each fault was injected.
func (p *Proxy) Counts() map[Kind]int {
	all := map[Kind]int{}
	for _, i := range p.Injected() {
		all[i.Kind]++
	}
	return all
}

// Close ends requests that hang. The proxy passes on what still comes.
func (p *Proxy) Close() { p.closing.Do(func() { close(p.closed) }) }

// ServeHTTP passes a request on or lets it meet its fault.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rule, dice := p.choose(r)
	if rule == nil {
		p.pass(w, r)
		return
	}
	p.inject(w, r, *rule, dice)
}

// choose finds the rule that a request meets, and a number that decides where
// in the body the fault lies.
func (p *Proxy) choose(r *http.Request) (*Rule, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := r.Method + " " + r.URL.RequestURI()
	p.like[id]++
	for i := range p.rules {
		s := &p.rules[i]
		if !s.fits(r.Method, r.URL.Path, r.URL.RawQuery) {
			continue
		}
		s.fitted++
		dice := p.dice(fmt.Sprintf("%d %s %d", i, id, p.like[id]))
		if !s.applies(dice) {
			continue
		}
		if s.Kind == StaleList && !p.remembers(id) {
			continue // nothing earlier to answer with
		}
		s.used++
		p.done = append(p.done, Injection{s.Kind, r.Method, r.URL.Path, r.URL.RawQuery})
		rule := s.Rule
		return &rule, dice
	}
	return nil, 0
}

func (p *Proxy) remembers(id string) bool {
	_, ok := p.first[id]
	return ok
}

func (s *ruleState) applies(dice uint64) bool {
	const unit = 1 << 53
	return (s.Nth == 0 || s.Nth == s.fitted) && (s.Limit == 0 || s.used < s.Limit) &&
		(s.Chance == 0 || float64(dice%unit)/unit < s.Chance)
}

func (p *Proxy) dice(of string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", p.seed, of)
	x := h.Sum64() // mixed once more: FNV's low bits are weak
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

// pass lets a request through; a listing's first answer is kept when a rule may
// want to repeat it.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request) {
	if !p.mayRepeat(r) {
		p.upstream.ServeHTTP(w, r)
		return
	}
	rec := &recorder{ResponseWriter: w, kept: recorded{status: http.StatusOK}}
	p.upstream.ServeHTTP(rec, r)
	p.mu.Lock()
	defer p.mu.Unlock()
	id := r.Method + " " + r.URL.RequestURI()
	if _, ok := p.first[id]; !ok && !rec.tooLong && rec.kept.status == http.StatusOK && len(p.first) < maxRecorded {
		p.first[id] = rec.kept
	}
}

func (p *Proxy) mayRepeat(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.rules {
		if p.rules[i].Kind == StaleList && p.rules[i].fits(r.Method, r.URL.Path, r.URL.RawQuery) {
			return true
		}
	}
	return false
}

func (p *Proxy) inject(w http.ResponseWriter, r *http.Request, rule Rule, dice uint64) {
	switch rule.Kind {
	case Latency:
		p.wait(r, time.After(rule.Delay))
		p.pass(w, r)
	case Hang:
		io.Copy(io.Discard, r.Body) // else the server does not notice that the client has gone
		p.wait(r, nil)
		panic(http.ErrAbortHandler)
	case StaleList:
		p.mu.Lock()
		old := p.first[r.Method+" "+r.URL.RequestURI()]
		p.mu.Unlock()
		old.write(w)
	case WrongUpload:
		r.Body = &alteredBody{ReadCloser: r.Body, at: place(rule.At, dice, r.ContentLength)}
		p.pass(w, r)
	case LostAnswer:
		p.pass(&silent{header: http.Header{}}, r)
		panic(http.ErrAbortHandler)
	case Reset, Truncate, Short, WrongBytes:
		f := &bodyFault{ResponseWriter: w, rule: rule, dice: dice}
		p.pass(f, r)
		f.end()
	default:
		refuse(w, r, rule)
	}
}

// wait ends with the given time, the client or the proxy.
func (p *Proxy) wait(r *http.Request, until <-chan time.Time) {
	select {
	case <-until:
	case <-r.Context().Done():
	case <-p.closed:
	}
}

// place is the offset of a fault in a body of size bytes; of one whose size is
// not known, somewhere at its beginning.
func place(at int64, dice uint64, size int64) int64 {
	switch {
	case at > 0:
		return at
	case size > 0:
		return int64(dice % uint64(size))
	}
	return int64(dice % 256)
}

// abort closes the client's connection; hard sends a reset.
func abort(w http.ResponseWriter, hard bool) {
	rc := http.NewResponseController(w)
	rc.Flush()
	if hard {
		if conn, _, err := rc.Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				tcp.SetLinger(0)
			}
			conn.Close()
		}
	}
	panic(http.ErrAbortHandler)
}
