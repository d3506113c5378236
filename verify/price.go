package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"sync"

	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/digest"
)

// keysPerPage is how many keys one answer to a listing holds.
const keysPerPage = 1000

// Cost is what a verification will ask of one place. Requests are those of S3; the
// figures are upper bounds where an answer that is not known yet can spare some.
// Repeated requests are not in them, nor the second reading of what turns out to
// have other bytes.
type Cost struct {
	Place string `json:"place"`
	Local bool   `json:"local,omitempty"` // read from disk: no requests, no egress
	Lists int    `json:"list_requests"`
	Heads int    `json:"head_requests"` // HeadObject and GetObjectAttributes
	Gets  int    `json:"get_requests"`
	Puts  int    `json:"copy_requests"` // CopyObject onto a scratch key
	Bytes int64  `json:"bytes_read"`
}

// Estimate is what a verification will ask of each place before any object is
// asked for. The listings that it rests on were made.
type Estimate struct {
	Level  Level         `json:"level"`
	Sample Sample        `json:"sample,omitzero"` // that was asked for; places that hold no checksums are read whole all the same
	Costs  []Cost        `json:"places"`
	Errors []ObjectError `json:"errors"` // what could not be listed is not counted
}

// EstimateRelease tells what Release will ask for. It lists the copy and goes
// through the verification itself, with a store that counts in place of one that
// answers. What an interrupted verification had proven is counted too.
func EstimateRelease(ctx context.Context, m *manifest.Manifest, c Copy, opts Options) (Estimate, error) {
	d := count(&c)
	return estimate(opts, []*counting{d}, func(o Options) (Result, error) { return Release(ctx, m, c, o) })
}

// EstimatePair tells what Pair will ask for.
func EstimatePair(ctx context.Context, a, b Copy, opts Options) (Estimate, error) {
	da, db := count(&a), count(&b)
	return estimate(opts, []*counting{da, db}, func(o Options) (Result, error) { return Pair(ctx, a, b, o) })
}

// EstimateAgainst tells what Against will ask for.
func EstimateAgainst(ctx context.Context, ref Reference, c Copy, opts Options) (Estimate, error) {
	d := count(&c)
	return estimate(opts, []*counting{d}, func(o Options) (Result, error) { return Against(ctx, ref, c, o) })
}

func estimate(o Options, places []*counting, verify func(Options) (Result, error)) (Estimate, error) {
	o.Progress, o.State, o.Original, o.relist = nil, nil, nil, true
	if o.Resolver != nil {
		o.Resolver = countedResolver{places[len(places)-1]}
	}
	r, err := verify(o)
	if err != nil {
		return Estimate{}, err
	}
	e := Estimate{Level: r.Level, Sample: o.Sample, Errors: []ObjectError{}}
	for _, p := range places {
		e.Costs = append(e.Costs, p.total())
	}
	for _, failed := range r.Errors {
		if !errors.Is(failed.Err, errNotRead) {
			e.Errors = append(e.Errors, failed)
		}
	}
	return e, nil
}

// errNotRead is the answer of a place that only counts.
var errNotRead = errors.New("it is only counted")

// counting is a place that lists what is there and counts what else it is asked for.
type counting struct {
	inner store.Source
	name  string
	local bool

	mu      sync.Mutex
	cost    Cost
	listed  map[string][]listEntry // by prefix: the second listing is the first
	objects map[string]store.Object
}

type listEntry struct {
	o   store.Object
	err error
}

// count puts a counting place in the copy.
func count(c *Copy) *counting {
	_, local := c.Store.(store.Claimless)
	d := &counting{inner: c.Store, name: c.Region, local: local, listed: map[string][]listEntry{}, objects: map[string]store.Object{}}
	if c.Store = d; local {
		c.Store = countingLocal{d}
	}
	return d
}

func (d *counting) total() Cost {
	c := d.cost
	c.Place, c.Local = d.name, d.local
	if d.local {
		c.Lists, c.Heads, c.Gets, c.Puts = 0, 0, 0, 0
	}
	return c
}

func (d *counting) add(change func(*Cost)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.cost)
}

// List lists once and repeats it.
func (d *counting) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		all, ok := d.listed[prefix]
		if !ok {
			for o, err := range d.inner.List(ctx, prefix) {
				all = append(all, listEntry{o, err})
				if err == nil {
					d.objects[o.Key] = o
				}
			}
			d.listed[prefix] = all
		}
		d.add(func(c *Cost) { c.Lists += max(1, (len(all)+keysPerPage-1)/keysPerPage) })
		for _, e := range all {
			if !yield(e.o, e.err) {
				return
			}
		}
	}
}

// Stat says what the listing said. A multipart upload costs a second request, for
// its parts, one for each thousand of them.
func (d *counting) Stat(_ context.Context, key string) (store.Object, error) {
	o, ok := d.objects[key]
	if _, asks := d.inner.(store.Stater); !asks && ok {
		return o, nil
	}
	parts := 0
	if m := multipartETag.FindStringSubmatch(o.ETag); m != nil {
		fmt.Sscan(m[2], &parts)
	}
	d.add(func(c *Cost) { c.Heads += 1 + (parts+999)/1000 })
	if !ok {
		return store.Object{}, errNotRead
	}
	return o, nil
}

// Open counts what would be read and gives nothing.
func (d *counting) Open(_ context.Context, o store.Object, _, n int64) (io.ReadCloser, error) {
	if n < 0 {
		n = o.Size
	}
	d.add(func(c *Cost) { c.Gets, c.Bytes = c.Gets+1, c.Bytes+n })
	return nil, errNotRead
}

// Location lets Pair see that two places are one.
func (d *counting) Location() string {
	if l, ok := d.inner.(store.Located); ok {
		return l.Location()
	}
	return fmt.Sprintf("%p", d)
}

// countingLocal is a counting place that holds no checksums.
type countingLocal struct{ *counting }

func (countingLocal) HoldsNoClaims() {}

// countedResolver counts a copy for each object that it is asked for.
type countedResolver struct{ d *counting }

func (r countedResolver) Resolve(_ context.Context, _ Copy, o store.Object, _ digest.Set) ([]store.Sum, error) {
	if o.Size > maxScratch {
		return nil, ErrCannotResolve
	}
	r.d.add(func(c *Cost) { c.Puts++ })
	return nil, ErrCannotResolve
}

// Prices are what a store's owner pays. Money is in Currency; the requests are
// counted by the thousand, egress by 10⁹ bytes, which is a little more than by the
// binary gigabytes of some invoices.
type Prices struct {
	Currency        string  `json:"currency"`
	ListsPer1000    float64 `json:"list_requests_per_1000"` // also those that copy
	RequestsPer1000 float64 `json:"get_requests_per_1000"`  // GET, HEAD and others
	EgressPerGB     float64 `json:"egress_per_gb"`
	Source          string  `json:"source"` // where the prices stand, and of when they are
}

// Route is where the bytes go that drkit reads from a store.
type Route string

// The routes that egress is paid by.
const (
	SameRegion  Route = "same-region"
	OtherRegion Route = "other-region"
	Internet    Route = "internet"
)

// ListPrices are AWS's published prices of S3 Standard in us-east-1, without the
// free tier, discounts, KMS requests and retrieval fees of other storage classes.
// Other regions and other stores have others; drkit never asks for prices.
func ListPrices(route Route) (Prices, error) {
	p := Prices{Currency: "USD", ListsPer1000: 0.005, RequestsPer1000: 0.0004,
		Source: "AWS list prices of S3 Standard in us-east-1: requests as its Price List API gave them in October 2025"}
	switch route {
	case SameRegion:
		p.Source += "; nothing is charged for transfer within a region"
	case OtherRegion:
		p.EgressPerGB = 0.02
		p.Source += "; transfer to most other regions as on its EC2 on-demand page"
	case Internet:
		p.EgressPerGB = 0.09
		p.Source += "; transfer to the internet as on its EC2 on-demand page, the first 10 TB a month"
	default:
		return Prices{}, fmt.Errorf("unknown route %q: want same-region, other-region or internet", route)
	}
	return p, nil
}

// Price is what a place will charge. Without prices it is unknown: nil.
func (c Cost) Price(p *Prices) *float64 {
	if c.Local {
		return new(float64)
	}
	if p == nil {
		return nil
	}
	sum := float64(c.Lists+c.Puts)/1000*p.ListsPer1000 + float64(c.Heads+c.Gets)/1000*p.RequestsPer1000 + float64(c.Bytes)/1e9*p.EgressPerGB
	return &sum
}

// Lines says in words what each place will be asked and what that costs at the
// prices of its place, nil for unknown ones.
func (e Estimate) Lines(prices func(Cost) *Prices) []string {
	var lines []string
	for _, c := range e.Costs {
		if c.Local {
			line := fmt.Sprintf("%s: at most %d bytes read from disk", c.Place, c.Bytes)
			if !e.Sample.IsZero() {
				line += "; directories hold no checksums, so the sample saves nothing"
			}
			lines = append(lines, line)
			continue
		}
		p := prices(c)
		price := "cost unknown: no prices are known of this store"
		if sum := c.Price(p); sum != nil {
			price = fmt.Sprintf("at most %s %s (%s)", money(*sum), p.Currency, p.Source)
		}
		lines = append(lines, fmt.Sprintf("%s: at most %d list, %d head, %d get and %d copy requests, %d bytes read and sent out of it: %s", c.Place, c.Lists, c.Heads, c.Gets, c.Puts, c.Bytes, price))
	}
	return lines
}

// money rounds up to a hundredth, and keeps small sums from looking like none.
func money(sum float64) string {
	if sum > 0 && sum < 0.01 {
		return "0.01"
	}
	return fmt.Sprintf("%.2f", math.Ceil(sum*100-1e-9)/100)
}
