package verify_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/verify"
)

// priced is a release of 1,500 small files, whose ETags are MD5s, and of four
// shards in three parts each; a bucket holds it, with one small file changed.
func priced() (*manifest.Manifest, *bucket) {
	files, b := map[string]string{}, newBucket()
	for i := range 1500 {
		name := fmt.Sprintf("engine/%04d", i)
		files[name] = name
		b.object(name, []byte(name), nil)
	}
	for i := range 4 {
		name := fmt.Sprintf("model/%d", i)
		files[name] = string(right)
		b.object(name, right, func(o *store.Object) { o.ETag = strings.Repeat("a", 32) + "-3" })
	}
	m := newRelease(files)
	for _, f := range m.Contents.Files {
		if o := b.objects[f.Subject()]; f.Part == manifest.Engine {
			o.ETag, o.Sums = f.Sums[digest.MD5], []store.Sum{claim(digest.MD5, f.Sums[digest.MD5], 0)}
			b.objects[o.Key] = o
		}
	}
	o := b.objects["engine/0007"]
	o.Sums = []store.Sum{claim(digest.MD5, strings.Repeat("0", 32), 0)}
	b.objects[o.Key] = o
	return m, b
}

// The figures are counted by hand: 1,504 keys are two pages of a listing, and 64 of
// those that it proves are asked for by name.
func TestEstimateRelease(t *testing.T) {
	const small, shards = 1500 * 11, 4 << 20
	for name, c := range map[string]struct {
		opts verify.Options
		want verify.Cost
	}{
		"presence":    {verify.Options{Level: verify.Presence}, verify.Cost{Lists: 2}},
		"checksum":    {verify.Options{}, verify.Cost{Lists: 4, Heads: 1 + 4*2 + 64}},
		"content":     {verify.Options{Level: verify.ByContent}, verify.Cost{Lists: 4, Gets: 1504, Bytes: small + shards}},
		"and by read": {verify.Options{Resolve: []string{verify.ByRead}}, verify.Cost{Lists: 4, Heads: 1 + 4*2 + 64, Gets: 5, Bytes: 11 + shards}},
		"and by copy": {verify.Options{Resolve: []string{verify.ByCopy}, Resolver: &hasher{}}, verify.Cost{Lists: 4, Heads: 1 + 4*2 + 64, Puts: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			m, b := priced()
			e, err := verify.EstimateRelease(t.Context(), m, verify.Copy{Region: "eu", Store: b, Bare: true}, c.opts)
			c.want.Place = "eu"
			if err != nil || len(e.Errors) > 0 || len(e.Costs) != 1 || e.Costs[0] != c.want {
				t.Errorf("%+v, %v; want %+v", e, err, c.want)
			}
			if len(b.stats)+b.reads() > 0 {
				t.Error("estimating asked for objects")
			}
			if r := mustRelease(t, m, verify.Copy{Region: "eu", Store: b, Bare: true}, verify.Options{Level: c.opts.Level}); len(b.stats) > e.Costs[0].Heads || c.opts.Level == verify.ByContent && r.BytesRead != e.Costs[0].Bytes {
				t.Errorf("%d were asked and %d bytes read", len(b.stats), r.BytesRead)
			}
		})
	}
}

func TestEstimatePairAndDirectories(t *testing.T) {
	a := fillDir(t, map[string]string{"x": "12345", "y": "123"})
	b := newBucket().object("x", []byte("12345"), nil).object("y", []byte("12"), nil)
	e, err := verify.EstimatePair(t.Context(), verify.Copy{Region: "a", Store: a}, verify.Copy{Region: "b", Store: b}, verify.Options{})
	want := []verify.Cost{{Place: "a", Local: true, Bytes: 5}, {Place: "b", Lists: 2, Heads: 1, Gets: 1, Bytes: 2}} // y differs in size: read for the hint
	if err != nil || fmt.Sprint(e.Costs) != fmt.Sprint(want) {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := verify.EstimatePair(t.Context(), verify.Copy{Store: a}, verify.Copy{Store: a}, verify.Options{}); errext.StatusOf(err) != errext.Usage {
		t.Errorf("a place with itself: %v", err)
	}
}

// unlistable fails to list.
type unlistable struct{ *bucket }

func (unlistable) List(context.Context, string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) { yield(store.Object{}, errors.New("denied")) }
}

func TestEstimateOfWhatCannotBeListed(t *testing.T) {
	m, b := priced()
	e, err := verify.EstimateRelease(t.Context(), m, verify.Copy{Region: "eu", Store: unlistable{b}, Bare: true}, verify.Options{})
	if err != nil || len(e.Errors) == 0 || !strings.Contains(e.Errors[0].Error(), "denied") {
		t.Errorf("%+v, %v", e, err)
	}
}

// 3 TB in 40,000 objects, counted by hand: 80 lists are 0.0004 USD, 40,000 GETs
// 0.016 USD, 3,000 GB to another region 60 USD.
func TestPrice(t *testing.T) {
	c := verify.Cost{Place: "s3://b", Lists: 80, Gets: 40_000, Bytes: 3e12}
	for route, want := range map[verify.Route]float64{verify.SameRegion: 0.0164, verify.OtherRegion: 60.0164, verify.Internet: 270.0164} {
		p, err := verify.ListPrices(route)
		if err != nil || !strings.Contains(p.Source, "us-east-1") || !strings.Contains(p.Source, "2025") {
			t.Fatal(p, err)
		}
		if got := c.Price(&p); got == nil || math.Abs(*got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", route, *got, want)
		}
	}
	if _, err := verify.ListPrices("moon"); err == nil {
		t.Error("an unknown route has prices")
	}
	if c.Price(nil) != nil {
		t.Error("a price without prices")
	}
	p, _ := verify.ListPrices(verify.OtherRegion)
	e := verify.Estimate{Costs: []verify.Cost{c, {Place: "minio"}, {Place: "dir", Local: true, Bytes: 5}}}
	lines := e.Lines(func(c verify.Cost) *verify.Prices {
		if c.Place == "s3://b" {
			return &p
		}
		return nil
	})
	for i, says := range []string{"at most 60.02 USD (AWS list prices", "cost unknown", "5 bytes read from disk"} {
		if !strings.Contains(lines[i], says) {
			t.Errorf("%q does not say %q", lines[i], says)
		}
	}
}
