package storetest

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/minio/crc64nvme"

	"drkit/internal/store"
	"drkit/manifest/digest"
)

// oddKeysOneByOne: what names one key must not reach a neighbour that a wrong
// encoding makes of it.
func oddKeysOneByOne(t *testing.T, s store.ReadWriter) {
	for _, key := range odd {
		put(t, s, key, "0123456789 of "+key)
	}
	for _, key := range odd {
		o, err := s.Stat(t.Context(), key)
		if err != nil || o.Key != key || o.Size != int64(len("0123456789 of "+key)) {
			t.Errorf("Stat(%q) = %+v, %v", key, o, err)
		}
		r, err := s.Open(t.Context(), o, 8, int64(len("89 of "+key)))
		if err != nil {
			t.Errorf("Open(%q): %v", key, err)
			continue
		}
		if got, err := io.ReadAll(r); string(got) != "89 of "+key || err != nil {
			t.Errorf("a range of %q is %q, %v", key, got, err)
		}
		r.Close()
	}
	left := slices.Sorted(slices.Values(odd))
	for _, key := range odd {
		if err := s.Remove(t.Context(), key, store.Cond{}); err != nil {
			t.Errorf("Remove(%q): %v", key, err)
		}
		left = slices.DeleteFunc(left, func(k string) bool { return k == key })
		if got := keys(t, s, ""); !slices.Equal(got, left) {
			t.Fatalf("after Remove(%q) the store lists %q", key, got)
		}
	}
}

func oddPrefixes(t *testing.T, s store.ReadWriter) {
	all := []string{"a b/x", "a+b/x", "a%2Bb/x", "a%20b/x", "c#d?e/x", "é/x", "e\u0301/x", "🙂/x"}
	for _, key := range all {
		put(t, s, key, key)
	}
	for _, key := range all {
		if got := keys(t, s, strings.TrimSuffix(key, "x")); !slices.Equal(got, []string{key}) {
			t.Errorf("List(%q) = %q", strings.TrimSuffix(key, "x"), got)
		}
	}
}

// pinnedVersion: an object that carries a version is that version for ever; one
// that carries none may be read anew, but only whole.
func pinnedVersion(t *testing.T, s store.ReadWriter) {
	put(t, s, "k", "the first content")
	first, err := s.Stat(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "k", "another, longer content")
	r, err := s.Open(t.Context(), first, 4, 5)
	if err != nil {
		return // the store cannot give back what it was, and says so
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil {
		return
	}
	if string(got) != "first" && (first.Version != "" || string(got) != "her, ") {
		t.Errorf("Open of version %q gave %q", first.Version, got)
	}
}

// hashes are the algorithms that a Sum may have, from where they are defined.
var hashes = map[string]func() hash.Hash{
	digest.SHA256: sha256.New, digest.MD5: md5.New,
	digest.CRC32:     func() hash.Hash { return crc32.NewIEEE() },
	digest.CRC32C:    func() hash.Hash { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) },
	digest.CRC64NVME: func() hash.Hash { return crc64nvme.New() },
}

func hashOf(algorithm string, data []byte) string {
	h := hashes[algorithm]()
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

func (u *suite) sumsAreTrue(t *testing.T, s store.ReadWriter) {
	for _, size := range []int64{0, 1, 5000, u.large} {
		data := pattern(size)
		made, err := s.Put(t.Context(), "k", patternBody(size), store.Cond{})
		if err != nil {
			t.Fatal(err)
		}
		checkSums(t, fmt.Sprintf("Put of %d bytes", size), made, data)
		stat, err := s.Stat(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		checkSums(t, fmt.Sprintf("Stat of %d bytes", size), stat, data)
		for o, err := range s.List(t.Context(), "k") {
			if err != nil {
				t.Fatal(err)
			}
			checkSums(t, fmt.Sprintf("List of %d bytes", size), o, data)
		}
	}
}

// checkSums compares what a store says of an object with its bytes.
func checkSums(t *testing.T, what string, o store.Object, data []byte) {
	t.Helper()
	for _, sum := range o.Sums {
		if hashes[sum.Algorithm] == nil || sum.Evidence < store.Claimed || sum.Evidence > store.Recomputed {
			t.Errorf("%s: %+v is of no known algorithm, or of no evidence that a store can have", what, sum)
			continue
		}
		if sum.Parts == 0 && !sum.EqualityOnly && sum.Hex != hashOf(sum.Algorithm, data) {
			t.Errorf("%s: %s is %s, the bytes have %s", what, sum.Algorithm, sum.Hex, hashOf(sum.Algorithm, data))
		}
		if sum.Parts > 0 && len(o.Parts) > 0 {
			checkComposite(t, what, o, sum)
		}
	}
	checkParts(t, what, o, data)
}

// checkComposite: a composite is the checksum of its parts' digests.
func checkComposite(t *testing.T, what string, o store.Object, sum store.Sum) {
	t.Helper()
	var all []byte
	for _, p := range o.Parts {
		raw, err := hex.DecodeString(p.Sums[sum.Algorithm])
		if err != nil || len(raw) == 0 {
			return // sizes alone are known
		}
		all = append(all, raw...)
	}
	if len(o.Parts) != sum.Parts || hashOf(sum.Algorithm, all) != sum.Hex {
		t.Errorf("%s: the composite %s of %d parts is not that of its %d parts", what, sum.Algorithm, sum.Parts, len(o.Parts))
	}
}

func checkParts(t *testing.T, what string, o store.Object, data []byte) {
	t.Helper()
	if len(o.Parts) == 0 {
		return
	}
	var off int64
	for i, p := range o.Parts {
		if off+p.Size > int64(len(data)) {
			break
		}
		for a, got := range p.Sums {
			if want := hashOf(a, data[off:off+p.Size]); got != want {
				t.Errorf("%s: part %d: %s is %s, the bytes have %s", what, i+1, a, got, want)
			}
		}
		off += p.Size
	}
	if off != int64(len(data)) {
		t.Errorf("%s: the parts do not add up to %d bytes", what, len(data))
	}
}

// pattern is size bytes without a short period, so that a shifted or repeated
// range shows.
func pattern(size int64) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i*7 + i/251 + i/65_537)
	}
	return data
}

// patternBody is the pattern with the digests that a manifest would have.
func patternBody(size int64) store.Body {
	data := pattern(size)
	return store.Body{Size: size, Open: store.BytesBody(data).Open, Sums: digest.Set{
		digest.SHA256: hashOf(digest.SHA256, data), digest.CRC64NVME: hashOf(digest.CRC64NVME, data), digest.CRC32: hashOf(digest.CRC32, data)}}
}

func emptyObject(t *testing.T, s store.ReadWriter) {
	o, err := s.Put(t.Context(), "dir/empty", patternBody(0), store.Cond{Absent: true})
	if err != nil || o.Size != 0 || o.Key != "dir/empty" {
		t.Fatalf("%+v, %v", o, err)
	}
	if got := read(t, s, "dir/empty"); got != "" {
		t.Errorf("it holds %q", got)
	}
	if got := keys(t, s, "dir/"); !slices.Equal(got, []string{"dir/empty"}) {
		t.Errorf("List = %q", got)
	}
	_, err = s.Put(t.Context(), "dir/empty", body("x"), store.Cond{Absent: true})
	wantIs(t, "Put if absent over an empty object", err, store.ErrPrecondition)
}

func (u *suite) largeObject(t *testing.T, s store.ReadWriter) {
	o, err := s.Put(t.Context(), "large", patternBody(u.large), store.Cond{})
	if err != nil || o.Size != u.large {
		t.Fatalf("%+v, %v", o, err)
	}
	data := pattern(u.large)
	for _, c := range [][2]int64{{0, -1}, {0, 1}, {u.large / 3, u.large / 3}, {u.large - 1, 1}, {u.large - 100, 1000}, {1, -1}} {
		r, err := s.Open(t.Context(), o, c[0], c[1])
		if err != nil {
			t.Errorf("Open from %d, %d bytes: %v", c[0], c[1], err)
			continue
		}
		got, err := io.ReadAll(r)
		r.Close()
		if want, _ := io.ReadAll(store.Range(data, c[0], c[1])); err != nil || !bytes.Equal(got, want) {
			t.Errorf("from %d, %d bytes: other bytes or %d of %d, %v", c[0], c[1], len(got), len(want), err)
		}
	}
}

// largeRefused: wherever in a large body the fault lies, nothing is left.
func (u *suite) largeRefused(t *testing.T, s store.ReadWriter) {
	b := patternBody(u.large)
	broken := errors.New("the cable was pulled")
	for _, at := range []int64{0, u.large / 2, u.large - 1} {
		data := pattern(u.large)
		data[at] ^= 1
		_, err := s.Put(t.Context(), "large", store.Body{Size: b.Size, Sums: b.Sums, Open: store.BytesBody(data).Open}, store.Cond{})
		wantIs(t, fmt.Sprintf("other byte at %d", at), err, store.ErrMismatch)
		_, err = s.Put(t.Context(), "large", store.Body{Size: b.Size, Sums: b.Sums, Open: breaksAt(pattern(u.large), at, broken)}, store.Cond{})
		wantIs(t, fmt.Sprintf("body that fails at %d", at), err, broken)
	}
	for _, size := range []int64{u.large - 1, u.large + 1} {
		_, err := s.Put(t.Context(), "large", store.Body{Size: b.Size, Sums: b.Sums, Open: store.BytesBody(pattern(size)).Open}, store.Cond{})
		wantIs(t, fmt.Sprintf("%d bytes", size), err, store.ErrMismatch)
	}
	if got := keys(t, s, ""); len(got) != 0 {
		t.Errorf("after refused puts the store lists %q", got)
	}
}

// breaksAt is a body of data that fails when the byte at an offset is asked for.
func breaksAt(data []byte, at int64, broken error) func(context.Context, int64, int64) (io.ReadCloser, error) {
	return func(_ context.Context, off, n int64) (io.ReadCloser, error) {
		if n >= 0 && off+n <= at {
			return io.NopCloser(store.Range(data, off, n)), nil
		}
		return io.NopCloser(io.MultiReader(store.Range(data, off, max(at-off, 0)), failing{broken})), nil
	}
}

func (u *suite) largeConditions(t *testing.T, s store.ReadWriter) {
	b := patternBody(u.large)
	first, err := s.Put(t.Context(), "large", b, store.Cond{Absent: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Put(t.Context(), "large", b, store.Cond{Absent: true})
	wantIs(t, "large Put if absent", err, store.ErrPrecondition)
	if first.ETag == "" {
		return
	}
	_, err = s.Put(t.Context(), "large", b, store.Cond{ETag: "no such"})
	wantIs(t, "large Put with another ETag", err, store.ErrPrecondition)
	winners := race(t, 16, func(i int) error {
		_, err := s.Put(t.Context(), "other/large", b, store.Cond{Absent: true})
		return err
	})
	if len(winners) != 1 {
		t.Errorf("%d creators of a large object won", len(winners))
	}
}

// copyOf copies by the store itself; false when it cannot.
func copyOf(t *testing.T, s store.ReadWriter, from store.Object, key string, b store.Body, c store.Cond) (store.Object, error, bool) {
	t.Helper()
	copier, ok := s.(store.Copier)
	if !ok {
		t.Skip("the store does not copy by itself")
	}
	o, err := copier.CopyFrom(t.Context(), s, from, key, b, c)
	return o, err, !errors.Is(err, store.ErrNoCopy)
}

func (u *suite) copies(t *testing.T, s store.ReadWriter) {
	for _, size := range []int64{0, 100, u.large} {
		b := patternBody(size)
		from, err := s.Put(t.Context(), "from", b, store.Cond{})
		if err != nil {
			t.Fatal(err)
		}
		o, err, can := copyOf(t, s, from, "to", b, store.Cond{})
		if !can {
			t.Logf("%d bytes: %v", size, err)
			continue
		}
		if err != nil || o.Size != size || o.Key != "to" {
			t.Errorf("copy of %d bytes: %+v, %v", size, o, err)
			continue
		}
		checkSums(t, fmt.Sprintf("copy of %d bytes", size), o, pattern(size))
		if read(t, s, "to") != string(pattern(size)) {
			t.Errorf("the copy of %d bytes holds others", size)
		}
	}
}

// copyOddKeys: a key that is encoded wrongly copies its neighbour.
func copyOddKeys(t *testing.T, s store.ReadWriter) {
	if _, ok := s.(store.Copier); !ok {
		t.Skip("the store does not copy by itself")
	}
	want := map[string]string{}
	for _, key := range odd {
		put(t, s, "from/"+key, "content of "+key)
	}
	for _, key := range odd {
		from, err := s.Stat(t.Context(), "from/"+key)
		if err != nil {
			t.Fatal(err)
		}
		_, err, can := copyOf(t, s, from, "to/"+key, body("content of "+key), store.Cond{})
		if !can {
			continue
		}
		if err != nil {
			t.Errorf("copy of %q: %v", key, err)
			continue
		}
		if want["to/"+key] = "content of " + key; read(t, s, "to/"+key) != want["to/"+key] {
			t.Errorf("the copy of %q holds %q", key, read(t, s, "to/"+key))
		}
	}
	if got := keys(t, s, "to/"); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Errorf("copies are %q, want %q", got, slices.Sorted(maps.Keys(want)))
	}
}

// copyRefused: a copy that would hold other bytes than expected, or whose
// condition is not met, leaves the key as it was.
func copyRefused(t *testing.T, s store.ReadWriter) {
	put(t, s, "from", "unwanted")
	put(t, s, "taken", "as it was")
	from, err := s.Stat(t.Context(), "from")
	if err != nil {
		t.Fatal(err)
	}
	if _, err, _ := copyOf(t, s, from, "to", body("expected"), store.Cond{}); err == nil {
		t.Error("other bytes than expected were copied")
	}
	if got := keys(t, s, "to"); len(got) != 0 {
		t.Errorf("a refused copy left %q", got)
	}
	if _, err, _ := copyOf(t, s, from, "taken", body("unwanted"), store.Cond{Absent: true}); err == nil {
		t.Error("a copy on condition that nothing is there replaced something")
	}
	if got := read(t, s, "taken"); got != "as it was" {
		t.Errorf("taken holds %q", got)
	}
	if _, err, _ := copyOf(t, s, store.Object{Key: "none"}, "to", body("x"), store.Cond{}); err == nil {
		t.Error("what is not there was copied")
	}
}
