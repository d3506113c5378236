package verify_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/verify"
)

// cached is a bucket whose listing stays what it was.
type cached struct {
	*bucket
	page []store.Object
}

func cache(b *bucket) cached {
	c := cached{bucket: b}
	for o := range b.List(context.Background(), "") {
		c.page = append(c.page, o)
	}
	return c
}

func (c cached) List(context.Context, string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		for _, o := range c.page {
			if !yield(o, nil) {
				return
			}
		}
	}
}

// listedOf is a release of n small files and a bucket whose listing proves all.
func listedOf(n int) (*manifest.Manifest, *bucket) {
	files, b := map[string]string{}, newBucket()
	for i := range n {
		name := fmt.Sprintf("model/%03d", i)
		files[name] = name
		b.object(name, []byte(name), nil)
	}
	m := newRelease(files)
	for _, f := range m.Contents.Files {
		o := b.objects[f.Subject()]
		o.ETag, o.Sums = f.Sums[digest.MD5], []store.Sum{claim(digest.MD5, f.Sums[digest.MD5], 0)}
		b.objects[o.Key] = o
	}
	return m, b
}

// A listing that is the same outdated one each time: one object that answers
// otherwise by name is enough for all to be asked.
func TestOutdatedListing(t *testing.T) {
	m, b := listedOf(300)
	c := cache(b)
	for i := range 150 {
		name := fmt.Sprintf("model/%03d", i)
		o := b.objects[name]
		o.ETag, o.Sums = strings.Repeat("0", 32), []store.Sum{claim(digest.MD5, strings.Repeat("0", 32), 0)}
		if b.objects[name] = o; i%2 == 1 {
			delete(b.objects, name)
		}
	}
	r := mustRelease(t, m, verify.Copy{Region: "eu", Store: c, Bare: true}, verify.Options{})
	if r.Holds() || len(r.Errors) != 150 || r.Count(verify.Match) != 150 || len(r.Failed) != 150 {
		t.Errorf("%d errors, %d matches, want 150 of each; holds %v", len(r.Errors), r.Count(verify.Match), r.Holds())
	}
	if len(r.Errors) > 0 && !strings.Contains(r.Errors[0].Error(), "listing is out of date") {
		t.Errorf("%v does not say what is wrong", r.Errors[0])
	}
}

func TestListingThatIsRight(t *testing.T) {
	m, b := listedOf(300)
	r := mustRelease(t, m, verify.Copy{Region: "eu", Store: cache(b), Bare: true}, verify.Options{})
	if !r.Holds() || len(b.stats) != 64 || len(slices.Compact(slices.Sorted(slices.Values(b.stats)))) != 64 {
		t.Errorf("holds %v; %d asked by name, want 64", r.Holds(), len(b.stats))
	}
}

// slow is a bucket whose listing takes its time; lists counts them.
type slow struct {
	*bucket
	takes time.Duration
	lists *int
}

func (s slow) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	*s.lists++
	time.Sleep(s.takes)
	return s.bucket.List(ctx, prefix)
}

// A second listing tells what changed meanwhile. It is left out where it costs more
// than one request and the first look was over in less than two seconds.
func TestASecondListing(t *testing.T) {
	for name, c := range map[string]struct {
		objects int
		takes   time.Duration
		lists   int
	}{
		"one page":             {1000, 0, 2},
		"two pages, a moment":  {1001, 1999 * time.Millisecond, 1},
		"two pages, no moment": {1001, 2 * time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, b := listedOf(c.objects)
				lists := 0
				r := mustRelease(t, m, verify.Copy{Region: "eu", Store: slow{b, c.takes, &lists}, Bare: true}, verify.Options{})
				if !r.Holds() || lists != c.lists {
					t.Errorf("holds %v, listed %d times, want %d", r.Holds(), lists, c.lists)
				}
			})
		})
	}
}

// altering gives bytes of which one was altered on the way, the first times.
type altering struct {
	*bucket
	times *int
}

func (a altering) Open(ctx context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	if *a.times == 0 {
		return a.bucket.Open(ctx, o, off, n)
	}
	*a.times--
	data := bytes.Clone(a.data[o.Key])
	data[*a.times] ^= 1
	return io.NopCloser(store.Range(data, off, n)), nil
}

// Bytes that are others only on their way are no verdict on the object.
func TestAlteredOnTheWay(t *testing.T) {
	for times, c := range []struct {
		data    []byte
		verdict verify.Verdict // "": an error
	}{0: {right, verify.Match}, 1: {right, ""}, 2: {right, ""}} {
		b := newBucket().object("model/x", c.data, nil)
		for _, pair := range []bool{false, true} {
			left := times
			m, place := oneFile(right, altering{b, &left})
			r, err := mustRelease(t, m, place, verify.Options{Level: verify.ByContent}), error(nil)
			if left = times; pair {
				place.Prefix = ""
				r, err = verify.Pair(t.Context(), verify.Copy{Region: "us", Store: newBucket().object("model/x", right, nil)}, place, verify.Options{Level: verify.ByContent})
			}
			var got verify.Verdict
			if len(r.Gaps) == 1 {
				got = r.Gaps[0].Verdict
			}
			if err != nil || got != c.verdict || (got == "") != (len(r.Errors) == 1 && strings.Contains(r.Errors[0].Error(), "two readings gave different bytes")) {
				t.Errorf("altered %d times, pair %v: %q, want %q; %v, %v", times, pair, got, c.verdict, r.Errors, err)
			}
		}
	}
	b := newBucket().object("model/x", wrong, nil)
	none := 0
	m, place := oneFile(right, altering{b, &none})
	if r := mustRelease(t, m, place, verify.Options{Level: verify.ByContent}); r.Count(verify.Diverged) != 1 || b.reads() != 2 {
		t.Errorf("an object with other bytes: %+v, read %d times", r.Gaps, b.reads())
	}
}
