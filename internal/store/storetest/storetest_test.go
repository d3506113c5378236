package storetest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"drkit/internal/store"
	"drkit/internal/store/mem"
	"drkit/internal/store/storetest"
	"drkit/manifest/digest"
)

// faulty is a store with one fault.
type faulty struct {
	mem.Copying
	fault string
}

// faults lists each fault and a check that must find it.
var faults = map[string]string{
	"plus is a space":        "odd_keys_one_by_one",
	"prefix is decoded":      "odd_prefixes",
	"version is ignored":     "pinned_version",
	"sums are of other data": "sums_are_true",
	"parts do not add up":    "sums_are_true",
	"composite is wrong":     "sums_are_true",
	"empty is dropped":       "empty_object",
	"range is shifted":       "large_object",
	"large is unchecked":     "large_refused",
	"large has no condition": "large_conditions",
	"copy loses the end":     "copy",
	"copy source is decoded": "copy_of_odd_keys",
	"copy is unchecked":      "copy_refused",
}

func (s *faulty) is(fault string) bool { return s.fault == fault }

func (s *faulty) decoded(fault, key string) string {
	if text, err := url.QueryUnescape(key); s.is(fault) && err == nil {
		return text
	}
	return key
}

func (s *faulty) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	return s.Copying.List(ctx, s.decoded("prefix is decoded", prefix))
}

func (s *faulty) Stat(ctx context.Context, key string) (store.Object, error) {
	o, err := s.Copying.Stat(ctx, s.decoded("plus is a space", key))
	return s.say(o), err
}

// say changes what is said of an object.
func (s *faulty) say(o store.Object) store.Object {
	a := digest.Digest{Algorithm: digest.CRC32, Hex: "01234567"}
	switch s.fault {
	case "version is ignored":
		o.Version = o.ETag
	case "sums are of other data":
		o.Sums = []store.Sum{{Digest: a, Evidence: store.Claimed}}
	case "composite is wrong":
		o.Sums = []store.Sum{{Digest: a, Evidence: store.Claimed, Parts: 1}}
		o.Parts = []store.Piece{{Size: o.Size, Sums: digest.Set{digest.CRC32: "01234567"}}}
	case "parts do not add up":
		o.Parts = []store.Piece{{Size: o.Size / 2}}
	}
	return o
}

func (s *faulty) Open(ctx context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	o.Version = ""
	if s.is("range is shifted") && off > 100 {
		off--
	}
	return s.Copying.Open(ctx, o, off, n)
}

func (s *faulty) Put(ctx context.Context, key string, b store.Body, c store.Cond) (store.Object, error) {
	large := b.Size > 100_000
	switch {
	case s.is("empty is dropped") && b.Size == 0:
		return store.Object{Key: key}, nil
	case s.is("large is unchecked") && large:
		b.Sums = nil
	case s.is("large has no condition") && large:
		c = store.Cond{}
	}
	return s.Copying.Put(ctx, key, b, c)
}

func (s *faulty) CopyFrom(ctx context.Context, from store.Source, o store.Object, key string, b store.Body, c store.Cond) (store.Object, error) {
	o.Key = s.decoded("copy source is decoded", o.Key)
	data, ok := s.Content()[o.Key]
	if !ok {
		return store.Object{}, fmt.Errorf("%s: %w", o.Key, store.ErrNotFound)
	}
	if s.is("copy loses the end") && len(data) > 100_000 {
		data = data[1:]
		b = store.BytesBody([]byte(data))
	}
	if s.is("copy is unchecked") || s.is("copy source is decoded") {
		b = store.BytesBody([]byte(data))
	}
	b.Open = store.BytesBody([]byte(data)).Open
	return s.Copying.Put(ctx, key, b, c)
}

// TestSuite is what TestEachFaultIsFound runs in a process of its own.
func TestSuite(t *testing.T) {
	fault := os.Getenv("STORETEST_FAULT")
	storetest.Run(t, func(*testing.T) store.ReadWriter {
		return &faulty{Copying: mem.Copying{Store: mem.New()}, fault: fault}
	})
}

func TestEachFaultIsFound(t *testing.T) {
	for fault, check := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSuite$/^"+check+"$", "-test.v")
			cmd.Env = append(os.Environ(), "STORETEST_FAULT="+fault)
			out, err := cmd.CombinedOutput()
			if err == nil || !bytes.Contains(out, []byte("--- FAIL: TestSuite/"+check+" ")) || strings.Contains(string(out), "panic:") {
				t.Errorf("the check %s did not find that %s: %v\n%s", check, fault, err, out)
			}
		})
	}
}
