package verify_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"runtime"
	"syscall"
	"testing"

	"drkit/internal/store"
	"drkit/manifest/digest"
	"drkit/verify"
)

// listed is a place that only lists.
type listed []store.Object

func (l listed) List(context.Context, string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		for _, o := range l {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (listed) Open(context.Context, store.Object, int64, int64) (io.ReadCloser, error) {
	return nil, store.ErrNotFound
}

// BenchmarkObjects verifies trees of small objects at level checksum, on checksums
// that the listing shows. Time (of the processors, so that other work beside it
// does not count) and memory by the object stay the same when the tree grows.
func BenchmarkObjects(b *testing.B) {
	for _, n := range []int{25_000, 50_000, 100_000, 200_000} {
		b.Run(fmt.Sprintf("%dk", n/1000), func(b *testing.B) {
			files := make(map[string]string, n)
			for i := range n {
				files[fmt.Sprintf("model/d%03d/f%06d.bin", i%500, i)] = "x"
			}
			m := newRelease(files)
			clear(files)
			var place listed
			for _, f := range m.Contents.Files {
				place = append(place, store.Object{Key: f.Subject(), Size: f.Size, Sums: []store.Sum{claim(digest.MD5, f.Sums[digest.MD5], 0)}})
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := cpu(b)
			for b.Loop() {
				r, err := verify.Release(b.Context(), m, verify.Copy{Region: "eu", Store: place, Bare: true}, verify.Options{})
				if err != nil || r.CountEvidence(store.Claimed) != n {
					b.Fatal(r.Err(), err)
				}
			}
			used := cpu(b) - began
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(used)/float64(b.N)/float64(n), "cpu-ns/object")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N)/float64(n), "B/object")
		})
	}
}

// cpu is the processor time of this process in nanoseconds.
func cpu(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
