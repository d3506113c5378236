// Package storetest is the suite that every store passes. An adapter's test
// calls Run with a function that makes an empty store.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"drkit/internal/store"
	"drkit/manifest/digest"
)

// Option changes what Run does.
type Option func(*suite)

// Large sets the size in bytes of what the checks call large; 300,003 without
// it. A store that cuts objects into parts should be given more than two parts.
func Large(size int64) Option { return func(s *suite) { s.large = size } }

// suite is what the checks of one run share.
type suite struct{ large int64 }

// Run checks a store that can be read and written. empty makes one a call. What
// only some stores can do (versions, checksums of their own, store.Copier) is
// checked where it is there.
func Run(t *testing.T, empty func(t *testing.T) store.ReadWriter, options ...Option) {
	u := &suite{large: 300_003}
	for _, set := range options {
		set(u)
	}
	for name, check := range map[string]func(*testing.T, store.ReadWriter){
		"put and read":         putAndRead,
		"odd keys":             oddKeys,
		"list order":           listOrder,
		"list prefix":          listPrefix,
		"ranges":               ranges,
		"not found":            notFound,
		"unrepresentable":      unrepresentable,
		"file beside folder":   fileBesideFolder,
		"wrong content":        wrongContent,
		"failing content":      failingContent,
		"put if absent":        putIfAbsent,
		"put if unchanged":     putIfUnchanged,
		"racing creators":      racingCreators,
		"racing replacers":     racingReplacers,
		"readers see no parts": readersSeeNoParts,
		"remove":               remove,
		"cancelled":            cancelled,
		"odd keys one by one":  oddKeysOneByOne,
		"odd prefixes":         oddPrefixes,
		"pinned version":       pinnedVersion,
		"sums are true":        u.sumsAreTrue,
		"empty object":         emptyObject,
		"large object":         u.largeObject,
		"large refused":        u.largeRefused,
		"large conditions":     u.largeConditions,
		"copy":                 u.copies,
		"copy of odd keys":     copyOddKeys,
		"copy refused":         copyRefused,
	} {
		t.Run(name, func(t *testing.T) { check(t, empty(t)) })
	}
}

// body is content with digests that were not taken by the store under test.
func body(content string) store.Body { return store.BytesBody([]byte(content)) }

func put(t *testing.T, s store.ReadWriter, key, content string) store.Object {
	t.Helper()
	o, err := s.Put(t.Context(), key, body(content), store.Cond{})
	if err != nil {
		t.Fatalf("Put(%q): %v", key, err)
	}
	return o
}

func read(t *testing.T, s store.ReadWriter, key string) string {
	t.Helper()
	r, err := s.Open(t.Context(), store.Object{Key: key}, 0, -1)
	if err != nil {
		t.Fatalf("Open(%q): %v", key, err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("reading %q: %v", key, err)
	}
	return string(data)
}

func keys(t *testing.T, s store.ReadWriter, prefix string) []string {
	t.Helper()
	var all []string
	for o, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatalf("List(%q): %v", prefix, err)
		}
		all = append(all, o.Key)
	}
	return all
}

func wantIs(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error %v, want %v", what, err, target)
	}
}

func putAndRead(t *testing.T, s store.ReadWriter) {
	for _, content := range []string{"", "x", strings.Repeat("0123456789abcdef", 80_000)} {
		o := put(t, s, "a/b/file", content)
		if got := read(t, s, "a/b/file"); got != content {
			t.Errorf("read %d bytes, want the %d that were put", len(got), len(content))
		}
		stat, err := s.Stat(t.Context(), "a/b/file")
		if err != nil || stat.Size != int64(len(content)) || stat.Key != "a/b/file" {
			t.Errorf("Stat = %+v, %v", stat, err)
		}
		if o.Key != stat.Key || o.Size != stat.Size || o.ETag != stat.ETag || !o.ModTime.Equal(stat.ModTime) {
			t.Errorf("Put said %+v, Stat %+v", o, stat)
		}
		for l, err := range s.List(t.Context(), "") {
			if err != nil || l.Size != int64(len(content)) || !l.ModTime.Equal(stat.ModTime) {
				t.Errorf("List said %+v, %v; Stat %+v", l, err, stat)
			}
		}
	}
}

// odd are keys that stores and their transports are known to mangle.
var odd = []string{
	"a b", "a+b", "a%2Bb", "a%20b", "c#d?e", "plain", "é-nfc-\u00e9", "é-nfd-e\u0301", "\u00e9", "e\u0301",
	"日本/語.bin", "quote'\"", "..hidden", "a..b", ".dot", "🙂", "tab\tin", "back\\slash", "~", "-dash", strings.Repeat("n", 200),
	"e&f=g;h", "100%", "%", "a,b@c:d!$", "*[x]{y}", "<&>", "two  spaces", "end.", "family 👩\u200d👧", "versionId=1", "x/a+b/c d",
}

func oddKeys(t *testing.T, s store.ReadWriter) {
	want := map[string]string{}
	for _, key := range odd {
		want[key] = "content of " + key
		put(t, s, key, want[key])
	}
	for key, content := range want {
		if got := read(t, s, key); got != content {
			t.Errorf("%q holds %q, want %q", key, got, content)
		}
	}
	if got := keys(t, s, ""); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Errorf("List = %q", got)
	}
}

func listOrder(t *testing.T, s store.ReadWriter) {
	// "-" and "." sort before "/", "0" after it: a walk by folder must not list
	// "a/b" in another place than byte order does.
	want := []string{"a-b", "a.b", "a/b", "a/c/d", "a/c-d", "a0", "b"}
	slices.Sort(want)
	for _, key := range []string{"b", "a0", "a/c-d", "a/c/d", "a/b", "a.b", "a-b"} {
		put(t, s, key, key)
	}
	if got := keys(t, s, ""); !slices.Equal(got, want) {
		t.Errorf("List = %q, want %q", got, want)
	}
	for range s.List(t.Context(), "") {
		break // a reader may stop early
	}
}

func listPrefix(t *testing.T, s store.ReadWriter) {
	for _, key := range []string{"m/base/x", "m/base/y", "m/bare", "mx", "n/z"} {
		put(t, s, key, key)
	}
	for prefix, want := range map[string][]string{
		"m/":      {"m/bare", "m/base/x", "m/base/y"},
		"m":       {"m/bare", "m/base/x", "m/base/y", "mx"},
		"m/bas":   {"m/base/x", "m/base/y"},
		"m/base/": {"m/base/x", "m/base/y"},
		"m/base":  {"m/base/x", "m/base/y"},
		"n/z":     {"n/z"},
		"q/r/":    nil,
		"mx/":     nil,
	} {
		if got := keys(t, s, prefix); !slices.Equal(got, want) {
			t.Errorf("List(%q) = %q, want %q", prefix, got, want)
		}
	}
	for _, bad := range []string{"../", "a/../b", "/a"} {
		for _, err := range s.List(t.Context(), bad) {
			wantIs(t, "List("+bad+")", err, store.ErrUnrepresentable)
		}
	}
}

func ranges(t *testing.T, s store.ReadWriter) {
	put(t, s, "digits", "0123456789")
	for _, c := range []struct {
		off, n int64
		want   string
	}{{0, -1, "0123456789"}, {0, 4, "0123"}, {3, 4, "3456"}, {7, -1, "789"}, {9, 1, "9"}, {8, 100, "89"}} {
		r, err := s.Open(t.Context(), store.Object{Key: "digits"}, c.off, c.n)
		if err != nil {
			t.Errorf("Open from %d, %d bytes: %v", c.off, c.n, err)
			continue
		}
		if got, err := io.ReadAll(r); string(got) != c.want || err != nil {
			t.Errorf("from %d, %d bytes: %q, %v; want %q", c.off, c.n, got, err, c.want)
		}
		r.Close()
	}
}

func notFound(t *testing.T, s store.ReadWriter) {
	put(t, s, "folder/file", "x")
	for _, key := range []string{"nothing", "folder", "folder/nothing", "folder/file/below"} {
		_, err := s.Stat(t.Context(), key)
		wantIs(t, "Stat of "+key, err, store.ErrNotFound)
		_, err = s.Open(t.Context(), store.Object{Key: key}, 0, -1)
		wantIs(t, "Open of "+key, err, store.ErrNotFound)
	}
}

func unrepresentable(t *testing.T, s store.ReadWriter) {
	for _, key := range []string{"", "/abs", "a//b", "a/", "../up", "a/../b", "a/./b", ".", "..", "nul\x00"} {
		_, err := s.Put(t.Context(), key, body("x"), store.Cond{})
		wantIs(t, "Put of "+key, err, store.ErrUnrepresentable)
		_, err = s.Open(t.Context(), store.Object{Key: key}, 0, -1)
		wantIs(t, "Open of "+key, err, store.ErrUnrepresentable)
		_, err = s.Stat(t.Context(), key)
		wantIs(t, "Stat of "+key, err, store.ErrUnrepresentable)
		wantIs(t, "Remove of "+key, s.Remove(t.Context(), key, store.Cond{}), store.ErrUnrepresentable)
	}
}

// fileBesideFolder: a store holds both "a" and "a/b", or says that it cannot;
// what was there first stays.
func fileBesideFolder(t *testing.T, s store.ReadWriter) {
	for _, pair := range [][2]string{{"a", "a/b"}, {"c/d", "c"}, {"e", "e/f/g"}} {
		put(t, s, pair[0], "first")
		if _, err := s.Put(t.Context(), pair[1], body("second"), store.Cond{}); err != nil {
			wantIs(t, "Put of "+pair[1]+" beside "+pair[0], err, store.ErrUnrepresentable)
		} else if got := read(t, s, pair[1]); got != "second" {
			t.Errorf("%s holds %q", pair[1], got)
		}
		if got := read(t, s, pair[0]); got != "first" {
			t.Errorf("%s holds %q", pair[0], got)
		}
	}
}

func wrongContent(t *testing.T, s store.ReadWriter) {
	put(t, s, "old", "as it was")
	right := body("expected")
	for name, bad := range map[string]store.Body{
		"other bytes": {Size: right.Size, Sums: right.Sums, Open: body("unwanted").Open},
		"too short":   {Size: right.Size, Sums: right.Sums, Open: body("expecte").Open},
		"too long":    {Size: right.Size, Sums: right.Sums, Open: body("expected!").Open},
		"size alone":  {Size: 3, Open: body("expected").Open},
		"one sum of two": {Size: right.Size, Open: right.Open, Sums: digest.Set{
			digest.SHA256: right.Sums[digest.SHA256], digest.CRC32: "00000000"}},
	} {
		for _, key := range []string{"old", "new"} {
			_, err := s.Put(t.Context(), key, bad, store.Cond{})
			wantIs(t, name+" to "+key, err, store.ErrMismatch)
		}
	}
	if got := keys(t, s, ""); !slices.Equal(got, []string{"old"}) {
		t.Errorf("after refused puts the store lists %q", got)
	}
	if got := read(t, s, "old"); got != "as it was" {
		t.Errorf("after refused puts old holds %q", got)
	}
}

func failingContent(t *testing.T, s store.ReadWriter) {
	broken := errors.New("the cable was pulled")
	b := body("expected")
	for name, open := range map[string]func(context.Context, int64, int64) (io.ReadCloser, error){
		"on open": func(context.Context, int64, int64) (io.ReadCloser, error) { return nil, broken },
		"in the middle": func(context.Context, int64, int64) (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader("expe"), failing{broken})), nil
		},
	} {
		_, err := s.Put(t.Context(), "new", store.Body{Size: b.Size, Sums: b.Sums, Open: open}, store.Cond{})
		wantIs(t, name, err, broken)
	}
	if got := keys(t, s, ""); len(got) != 0 {
		t.Errorf("after failed puts the store lists %q", got)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func putIfAbsent(t *testing.T, s store.ReadWriter) {
	if _, err := s.Put(t.Context(), "lock", body("first"), store.Cond{Absent: true}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Put(t.Context(), "lock", body("second"), store.Cond{Absent: true})
	wantIs(t, "second Put if absent", err, store.ErrPrecondition)
	if got := read(t, s, "lock"); got != "first" {
		t.Errorf("the object holds %q", got)
	}
}

func putIfUnchanged(t *testing.T, s store.ReadWriter) {
	_, err := s.Put(t.Context(), "record", body("new"), store.Cond{ETag: "no such"})
	wantIs(t, "Put on condition of an ETag where nothing is", err, store.ErrPrecondition)
	first := put(t, s, "record", "one")
	if first.ETag == "" {
		t.Fatal("a small object has no ETag")
	}
	if _, err := s.Put(t.Context(), "record", body("two"), store.Cond{ETag: first.ETag}); err != nil {
		t.Fatal(err)
	}
	_, err = s.Put(t.Context(), "record", body("three"), store.Cond{ETag: first.ETag})
	wantIs(t, "Put with an old ETag", err, store.ErrPrecondition)
	wantIs(t, "Remove with an old ETag", s.Remove(t.Context(), "record", store.Cond{ETag: first.ETag}), store.ErrPrecondition)
	if got := read(t, s, "record"); got != "two" {
		t.Errorf("the object holds %q", got)
	}
}

// race runs n writers at once and returns how many won; the others must have
// met the condition's error.
func race(t *testing.T, n int, write func(i int) error) (winners []int) {
	var wg sync.WaitGroup
	errs := make([]error, n)
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() { <-start; errs[i] = write(i) })
	}
	close(start)
	wg.Wait()
	for i, err := range errs {
		if err == nil {
			winners = append(winners, i)
		} else {
			wantIs(t, "a loser's Put", err, store.ErrPrecondition)
		}
	}
	return winners
}

func racingCreators(t *testing.T, s store.ReadWriter) {
	name := func(i int) string { return strings.Repeat(string(rune('a'+i)), 5000) }
	winners := race(t, 16, func(i int) error {
		_, err := s.Put(t.Context(), "x/lock", body(name(i)), store.Cond{Absent: true})
		return err
	})
	if len(winners) != 1 || read(t, s, "x/lock") != name(winners[0]) {
		t.Errorf("winners %v, and the object begins with %.3q", winners, read(t, s, "x/lock"))
	}
}

func racingReplacers(t *testing.T, s store.ReadWriter) {
	before := put(t, s, "record", "before")
	name := func(i int) string { return strings.Repeat(string(rune('a'+i)), 5000) }
	winners := race(t, 16, func(i int) error {
		_, err := s.Put(t.Context(), "record", body(name(i)), store.Cond{ETag: before.ETag})
		return err
	})
	if len(winners) != 1 || read(t, s, "record") != name(winners[0]) {
		t.Errorf("winners %v, and the object begins with %.3q", winners, read(t, s, "record"))
	}
}

func readersSeeNoParts(t *testing.T, s store.ReadWriter) {
	a, b := strings.Repeat("a", 5<<18), strings.Repeat("b", 9<<17)
	put(t, s, "weights", a)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 6 {
			if _, err := s.Put(t.Context(), "weights", body([]string{b, a}[i%2]), store.Cond{}); err != nil {
				t.Errorf("Put: %v", err)
			}
		}
	})
	for range 20 {
		r, err := s.Open(t.Context(), store.Object{Key: "weights"}, 0, -1)
		if err != nil {
			t.Errorf("Open: %v", err)
			break
		}
		got, err := io.ReadAll(r)
		r.Close()
		if errors.Is(err, store.ErrPrecondition) {
			continue // the connection broke, and the store would not join two objects
		}
		if err != nil || !(bytes.Equal(got, []byte(a)) || bytes.Equal(got, []byte(b))) {
			t.Errorf("a reader saw %d bytes that nobody put whole, %v", len(got), err)
			break
		}
	}
	wg.Wait()
}

func remove(t *testing.T, s store.ReadWriter) {
	put(t, s, "a/b/c", "x")
	put(t, s, "a/d", "y")
	for range 2 { // a key that is not there is no error
		if err := s.Remove(t.Context(), "a/b/c", store.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"a", "a/d/below"} { // no objects
		if err := s.Remove(t.Context(), key, store.Cond{}); err != nil {
			t.Errorf("Remove(%q): %v", key, err)
		}
	}
	if got := keys(t, s, ""); !slices.Equal(got, []string{"a/d"}) {
		t.Errorf("List = %q", got)
	}
	put(t, s, "a/b", "a removed folder leaves no trace")
}

func cancelled(t *testing.T, s store.ReadWriter) {
	put(t, s, "old", "as it was")
	stop := errors.New("the operator said stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	b := body("expected")
	open := b.Open
	b.Open = func(ctx context.Context, off, n int64) (io.ReadCloser, error) {
		cancel(stop)
		return open(ctx, off, n)
	}
	_, err := s.Put(ctx, "old", b, store.Cond{})
	wantIs(t, "Put cancelled in the middle", err, stop)
	if got := read(t, s, "old"); got != "as it was" {
		t.Errorf("the object holds %q", got)
	}
}
