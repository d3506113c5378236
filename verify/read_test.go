package verify_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/verify"
)

// timed gives bodies of zeros that take a second each to open.
type timed struct {
	objects []store.Object
	delay   time.Duration
	peak    atomic.Uint64 // of the heap, sampled while it is read
}

func (s *timed) List(context.Context, string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		for _, o := range s.objects {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (s *timed) Open(_ context.Context, o store.Object, _, _ int64) (io.ReadCloser, error) {
	time.Sleep(s.delay) // virtual
	return io.NopCloser(&zeros{left: o.Size, s: s}), nil
}

// zeros is a stream of zeros that watches the heap.
type zeros struct {
	left, n int64
	s       *timed
}

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.left)
	clear(p[:n])
	z.left -= n
	if z.n += n; z.n%(16<<20) < n {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		for old := z.s.peak.Load(); m.HeapInuse > old && !z.s.peak.CompareAndSwap(old, m.HeapInuse); old = z.s.peak.Load() {
		}
	}
	return int(n), nil
}

// ofZeros is a release of n objects of one size, and a place that holds it.
func ofZeros(n int, size int64) (*manifest.Manifest, *timed) {
	sums, _, err := digest.Read(&zeros{left: size, s: &timed{}}, size, digest.Options{Algorithms: []string{digest.SHA256}})
	if err != nil {
		panic(err)
	}
	m, s := &manifest.Manifest{Schema: manifest.Schema, Service: "support"}, &timed{}
	for i := range n {
		f := manifest.File{Part: manifest.Model, Path: fmt.Sprint(i), Size: size, Role: manifest.Weights, Sums: sums}
		m.Contents.Files = append(m.Contents.Files, f)
		s.objects = append(s.objects, store.Object{Key: f.Subject(), Size: size})
	}
	m.Release = manifest.ReleaseID(m.Contents)
	return m, s
}

// TestReadsAtOnce: as many large objects as there are cores, eight times as many
// small ones, for which the answer takes longer than the hashing.
func TestReadsAtOnce(t *testing.T) {
	cores := runtime.GOMAXPROCS(0)
	for name, c := range map[string]struct {
		n       int
		size    int64
		workers int
		want    time.Duration
	}{
		"large":            {4 * cores, 1 << 20, 0, 4 * time.Second},
		"small":            {16 * cores, 1 << 10, 0, 2 * time.Second},
		"small, as told":   {4, 1 << 10, 1, 4 * time.Second},
		"large, two asked": {4, 1 << 20, 2, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			m, s := ofZeros(c.n, c.size)
			s.delay = time.Second
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r, err := verify.Release(t.Context(), m, verify.Copy{Store: s, Bare: true}, verify.Options{Level: verify.ByContent, Workers: c.workers})
				if took := time.Since(began); err != nil || !r.Holds() || took != c.want {
					t.Errorf("took %v, want %v; %v %v", took, c.want, r.Err(), err)
				}
			})
		})
	}
}

// TestMemoryOfReading reads 8 large objects from one place, and from two; no more
// is in memory than the buffers. DRKIT_OBJECT_MIB makes them larger.
func TestMemoryOfReading(t *testing.T) {
	mib, err := strconv.ParseInt(os.Getenv("DRKIT_OBJECT_MIB"), 10, 64)
	if err != nil {
		mib = 32
	}
	m, s := ofZeros(8, mib<<20)
	other := &timed{objects: s.objects}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	r, err := verify.Release(t.Context(), m, verify.Copy{Store: s, Bare: true}, verify.Options{Level: verify.ByContent})
	if err != nil || !r.Holds() || r.BytesRead != 8*mib<<20 {
		t.Fatal(r.Err(), err)
	}
	one := time.Since(began)
	p, err := verify.Pair(t.Context(), verify.Copy{Store: s}, verify.Copy{Store: other}, verify.Options{Level: verify.ByContent})
	if err != nil || !p.Holds() || p.BytesRead != 16*mib<<20 {
		t.Fatal(p.Err(), err)
	}
	peak := int64(max(s.peak.Load(), other.peak.Load())) - int64(before.HeapInuse)
	t.Logf("8 × %d MiB: %v against a manifest, %v two places, at most %d MiB more on the heap", mib, one, time.Since(began)-one, peak>>20)
	if peak > 48<<20 { // what waits for the collector is in it; two objects in memory would be 64
		t.Errorf("the heap grew by %d MiB", peak>>20)
	}
}
