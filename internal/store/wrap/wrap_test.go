package wrap_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/store"
	"drkit/internal/store/mem"
	"drkit/internal/store/storetest"
	"drkit/internal/store/wrap"
)

// quick retries often and without waiting.
var quick = wrap.Policy{Tries: 50, Initial: 1, Most: 1}

func TestConformance(t *testing.T) {
	var c wrap.Counter
	for name, all := range map[string][]wrap.Decorator{
		"retry": {wrap.Retry(wrap.Policy{})},
		"limit": {wrap.Limit(wrap.Limits{AtOnce: 1, PerSecond: 1e6, Burst: 100})},
		"count": {c.Decorate},
		"all":   {wrap.Fault(wrap.Faults{}), c.Decorate, wrap.Limit(wrap.Limits{AtOnce: 4}), wrap.Retry(quick)},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(*testing.T) store.ReadWriter { return wrap.ReadWriter(mem.New(), all...) })
		})
	}
}

// The abilities of stores that the project has.
type (
	reader  struct{ store.Source }
	asked   struct{ store.Source }
	located struct{ store.ReadWriter }
	copies  struct{ located }
	plain   struct{ located }
)

func (asked) Stat(context.Context, string) (store.Object, error) { return store.Object{}, nil }
func (located) Location() string                                 { return "here" }
func (plain) HoldsNoClaims()                                     {}
func (copies) CopyFrom(context.Context, store.Source, store.Object, string, store.Body, store.Cond) (store.Object, error) {
	return store.Object{Key: "copied"}, nil
}

func abilities(s store.Source) (all []string) {
	for name, has := range map[string]func() bool{
		"stat":      func() bool { _, ok := s.(store.Stater); return ok },
		"write":     func() bool { _, ok := s.(store.ReadWriter); return ok },
		"put":       func() bool { _, ok := s.(store.Sink); return ok },
		"located":   func() bool { _, ok := s.(store.Located); return ok },
		"claimless": func() bool { _, ok := s.(store.Claimless); return ok },
		"copy":      func() bool { _, ok := s.(store.Copier); return ok },
	} {
		if has() {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

func TestAbilitiesStayVisible(t *testing.T) {
	m := mem.New()
	for _, s := range []store.Source{reader{m}, asked{m}, m, located{m}, copies{located{m}}, plain{located{m}},
		struct {
			reader
			store.Located
			store.Claimless
		}{reader{m}, located{m}, plain{}},
		struct {
			reader
			store.Claimless
		}{reader{m}, plain{}},
		struct {
			asked
			store.Claimless
		}{asked{m}, plain{}},
		struct {
			asked
			store.Located
		}{asked{m}, located{m}},
		struct {
			copies
			store.Claimless
		}{copies{located{m}}, plain{}},
	} {
		w := wrap.Source(s, wrap.Retry(quick), wrap.Limit(wrap.Limits{AtOnce: 1}))
		if got, want := abilities(w), abilities(s); !slices.Equal(got, want) {
			t.Errorf("%T: decorated %v, itself %v", s, got, want)
		}
		if store.Innermost(w) != s {
			t.Errorf("%T: behind the decorators is %T", s, store.Innermost(w))
		}
	}
	w := wrap.Source(copies{located{m}}, wrap.Retry(quick))
	if o, err := w.(store.Copier).CopyFrom(t.Context(), m, store.Object{}, "k", store.Body{}, store.Cond{}); err != nil || o.Key != "copied" || w.(store.Located).Location() != "here" {
		t.Errorf("%+v, %v", o, err)
	}
}

// flaky fails its first operations with the errors given.
type flaky struct {
	*mem.Store
	mu   sync.Mutex
	errs []error
}

func (f *flaky) next() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errs) == 0 {
		return nil
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	return err
}

func (f *flaky) Stat(ctx context.Context, key string) (store.Object, error) {
	if err := f.next(); err != nil {
		return store.Object{}, err
	}
	return f.Store.Stat(ctx, key)
}

func (f *flaky) Put(ctx context.Context, key string, b store.Body, c store.Cond) (store.Object, error) {
	if err := f.next(); err != nil {
		return store.Object{}, err
	}
	return f.Store.Put(ctx, key, b, c)
}

type temporary struct{}

func (temporary) Error() string   { return "the line was busy" }
func (temporary) Temporary() bool { return true }

func TestRetryWaitsAndGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{Store: mem.New().Fill(map[string]string{"k": "x"})}
		s := wrap.ReadWriter(f, wrap.Retry(wrap.Policy{Tries: 3, Initial: time.Second, Most: time.Minute, Steady: true}))
		began := time.Now()
		f.errs = []error{temporary{}, io.ErrUnexpectedEOF}
		// 1 s, then half as long again.
		if _, err := s.Stat(t.Context(), "k"); err != nil || time.Since(began) != 2500*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		f.errs = []error{temporary{}, temporary{}, temporary{}, temporary{}}
		if _, err := s.Stat(t.Context(), "k"); !errors.Is(err, temporary{}) || !strings.Contains(err.Error(), "tried 3 times") || len(f.errs) != 1 {
			t.Errorf("%v, %d left", err, len(f.errs))
		}
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(500*time.Millisecond, func() { cancel(stop) })
		f.errs, began = []error{temporary{}, temporary{}}, time.Now()
		if _, err := s.Stat(ctx, "k"); err == nil || time.Since(began) != 500*time.Millisecond {
			t.Errorf("cancelled: %v after %v", err, time.Since(began))
		}
	})
}

func TestFinalErrorsAreNotRetried(t *testing.T) {
	f := &flaky{Store: mem.New().Fill(map[string]string{"k": "x"})}
	s := wrap.ReadWriter(f, wrap.Retry(quick))
	for _, final := range []error{store.ErrNotFound, store.ErrPrecondition, store.ErrMismatch, store.ErrUnrepresentable, store.ErrDenied, store.ErrUnreachable, errors.New("who knows")} {
		f.errs = []error{final}
		if _, err := s.Stat(t.Context(), "k"); !errors.Is(err, final) || strings.Contains(err.Error(), "tried") {
			t.Errorf("%v", err)
		}
	}
	f.errs = []error{temporary{}}
	if _, err := s.Put(t.Context(), "lock", store.BytesBody([]byte("x")), store.Cond{Absent: true}); !errors.Is(err, temporary{}) {
		t.Errorf("a conditional Put was repeated: %v", err)
	}
	f.errs = []error{temporary{}}
	if _, err := s.Put(t.Context(), "k", store.BytesBody([]byte("y")), store.Cond{}); err != nil {
		t.Errorf("Put: %v", err)
	}
}

// cut is a store whose bodies end after a few bytes.
type cut struct {
	*mem.Store
	err    error
	after  int64
	opened []int64 // offsets
	before func()  // each Open
}

func (c *cut) Open(ctx context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	if len(c.opened) > 0 && c.before != nil {
		c.before()
	}
	c.opened = append(c.opened, off)
	r, err := c.Store.Open(ctx, o, off, n)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(io.MultiReader(io.LimitReader(r, c.after), broken{c.err})), nil
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

func TestBrokenBodyIsResumed(t *testing.T) {
	content := "0123456789"
	for _, end := range []error{io.ErrUnexpectedEOF, io.EOF} { // EOF: the body is silently short
		c := &cut{Store: mem.New().Fill(map[string]string{"k": content}), err: end, after: 4}
		s := wrap.ReadWriter(c, wrap.Retry(quick))
		o, err := s.Stat(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Open(t.Context(), o, 1, 8)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); string(got) != "12345678" || err != nil || !slices.Equal(c.opened, []int64{1, 5}) {
			t.Errorf("%q, %v, opened at %v", got, err, c.opened)
		}
		r.Close()
	}
}

func TestBodiesOfTwoObjectsAreNeverJoined(t *testing.T) {
	m := mem.New().Fill(map[string]string{"k": "0123456789"})
	c := &cut{Store: m, err: io.ErrUnexpectedEOF, after: 4, before: func() { m.Fill(map[string]string{"k": "ABCDEFGHIJ"}) }}
	s := wrap.ReadWriter(c, wrap.Retry(quick))
	o, err := m.Stat(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]store.Object{"changed": o, "unknown": {Key: "k"}} {
		r, err := s.Open(t.Context(), o, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err == nil || !errors.Is(err, io.ErrUnexpectedEOF) || (string(got) != "0123" && string(got) != "ABCD") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	o, err = m.Stat(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	c = &cut{Store: m, err: io.ErrUnexpectedEOF, after: 0}
	r, _ := wrap.Source(c, wrap.Retry(quick)).Open(t.Context(), o, 0, -1)
	if _, err := io.ReadAll(r); !errors.Is(err, io.ErrUnexpectedEOF) || len(c.opened) != 50 {
		t.Errorf("a body that never comes: %v, opened %d times", err, len(c.opened))
	}
}

// torn is a store whose listing breaks off, each time further on.
type torn struct {
	*mem.Store
	passes int
}

func (s *torn) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	s.passes++
	left := s.passes * 2
	return func(yield func(store.Object, error) bool) {
		for o, err := range s.Store.List(ctx, prefix) {
			if left--; left < 0 {
				yield(store.Object{}, temporary{})
				return
			}
			if o.Key == "b" {
				err = &store.KeyError{Key: "b", Err: store.ErrIrregular}
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

func TestListingIsBegunAgain(t *testing.T) {
	s := &torn{Store: mem.New().Fill(map[string]string{"a": "", "b": "", "c": "", "d": "", "e": ""})}
	var keys []string
	var errs []error
	for o, err := range wrap.Source(s, wrap.Retry(quick)).List(t.Context(), "") {
		if err != nil {
			errs = append(errs, err)
		} else {
			keys = append(keys, o.Key)
		}
	}
	if !slices.Equal(keys, []string{"a", "c", "d", "e"}) || len(errs) != 1 || !errors.Is(errs[0], store.ErrIrregular) {
		t.Errorf("keys %q, errors %v", keys, errs)
	}
	s.passes = 0
	errs = nil
	for _, err := range wrap.Source(s, wrap.Retry(wrap.Policy{Tries: 2, Initial: 1, Most: 1})).List(t.Context(), "") {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) != 2 || !errors.Is(errs[1], temporary{}) {
		t.Errorf("a listing that stays broken: %v", errs)
	}
}

func TestLimitAtOnce(t *testing.T) {
	var now, most atomic.Int64
	m := mem.New().Fill(map[string]string{"k": "x"})
	m.Fault = func(op, _ string) error {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		defer now.Add(-1)
		time.Sleep(time.Second)
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		s := wrap.ReadWriter(m, wrap.Limit(wrap.Limits{AtOnce: 3}))
		began := time.Now()
		var wg sync.WaitGroup
		for range 9 {
			wg.Go(func() { s.Stat(t.Context(), "k") })
		}
		wg.Wait()
		if most.Load() != 3 || time.Since(began) != 3*time.Second {
			t.Errorf("%d at once, %v", most.Load(), time.Since(began))
		}
	})
}

func TestLimitOfBodiesAndRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mem.New().Fill(map[string]string{"k": "x"})
		s := wrap.ReadWriter(m, wrap.Limit(wrap.Limits{AtOnce: 1, PerSecond: 2}))
		r, err := s.Open(t.Context(), store.Object{Key: "k"}, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("too long"))
		defer cancel()
		if _, err := s.Stat(ctx, "k"); err == nil || err.Error() != "too long" {
			t.Errorf("while a body is open: %v", err)
		}
		r.Close()
		began := time.Now()
		for range 5 {
			if _, err := s.Stat(t.Context(), "k"); err != nil {
				t.Error(err)
			}
		}
		if d := time.Since(began); d != 2*time.Second { // the first at once, four more at two a second
			t.Errorf("five operations took %v", d)
		}
		// A copy within one store needs one turn, not two.
		o, _ := s.Stat(t.Context(), "k")
		if _, err := s.Put(t.Context(), "copy", store.ObjectBody(s, o, 1, store.BytesBody([]byte("x")).Sums), store.Cond{}); err != nil {
			t.Error(err)
		}
	})
}

func TestCounts(t *testing.T) {
	var c wrap.Counter
	s := wrap.ReadWriter(mem.New(), c.Decorate)
	s.Put(t.Context(), "a", store.BytesBody([]byte("12345")), store.Cond{})
	s.Put(t.Context(), "b", store.BytesBody([]byte("123")), store.Cond{})
	s.Stat(t.Context(), "none")
	r, _ := s.Open(t.Context(), store.Object{Key: "a"}, 1, 3)
	io.ReadAll(r)
	for range s.List(t.Context(), "") {
	}
	s.Remove(t.Context(), "a", store.Cond{})
	want := map[wrap.Op]wrap.Count{wrap.Put: {Calls: 2, Bytes: 8}, wrap.Stat: {Calls: 1, Failed: 1}, wrap.Open: {Calls: 1, Bytes: 3}, wrap.List: {Calls: 1, Keys: 2}, wrap.Remove: {Calls: 1}}
	got := c.Counts()
	for op, w := range want {
		if got[op] != w {
			t.Errorf("%s: %+v, want %+v", op, got[op], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("counts %+v", got)
	}
}

// Behind Retry nobody sees the faults, and every byte is right.
func TestFaultsAreOvercome(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var c wrap.Counter
		m := mem.New()
		s := wrap.ReadWriter(m, wrap.Fault(wrap.Faults{Seed: seed, Chance: 0.3, Lost: true}), c.Decorate, wrap.Retry(quick))
		want := map[string][]byte{}
		for i := range 20 {
			data := make([]byte, rnd.IntN(3000))
			for j := range data {
				data[j] = byte(rnd.Uint32())
			}
			key := strings.Repeat(string(rune('a'+i)), 3)
			want[key] = data
			if _, err := s.Put(t.Context(), key, store.BytesBody(data), store.Cond{}); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		n := 0
		for o, err := range s.List(t.Context(), "") {
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			data, err := store.ReadAll(t.Context(), s, o, 1<<20)
			if err != nil || !bytes.Equal(data, want[o.Key]) {
				t.Errorf("seed %d: %s: %d bytes, %v", seed, o.Key, len(data), err)
			}
			n++
		}
		if n != len(want) || c.Counts()[wrap.Put].Failed == 0 || c.Counts()[wrap.Open].Failed == 0 {
			t.Errorf("seed %d: %d of %d listed; %+v", seed, n, len(want), c.Counts())
		}
	}
}

func TestFaultsWithoutRetryAreErrorsThatNameTheKey(t *testing.T) {
	s := wrap.ReadWriter(mem.New().Fill(map[string]string{"key": "content"}), wrap.Fault(wrap.Faults{Chance: 1, Ops: []wrap.Op{wrap.Open, wrap.List}}))
	o, err := s.Stat(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Open(t.Context(), o, 0, -1); !wrap.IsFault(err) || !strings.Contains(err.Error(), "key") {
		t.Errorf("Open: %v", err)
	}
	if _, err := s.Put(t.Context(), "other", store.BytesBody(nil), store.Cond{}); err != nil {
		t.Errorf("Put is not among them: %v", err)
	}
}
