package store_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"drkit/internal/store"
	"drkit/manifest/digest"
)

func TestCheckPrefix(t *testing.T) {
	for prefix, ok := range map[string]bool{"": true, "a": true, "a/": true, "a/b": true, "a/b/": true, "a/.": true, ".hidden": true,
		"/": false, "/a": false, "..": false, "../": false, "a/..": false, "a/../b": false, "a//": false, "a//b": false, "./a": false, "\x00": false} {
		if err := store.CheckPrefix(prefix); (err == nil) != ok || (err != nil && !errors.Is(err, store.ErrUnrepresentable)) {
			t.Errorf("CheckPrefix(%q) = %v", prefix, err)
		}
	}
}

func TestSumKeepsItsEvidenceInJSON(t *testing.T) {
	want := store.Sum{Digest: digest.Digest{Algorithm: digest.CRC32, Hex: "cbf43926"}, Parts: 3, Evidence: store.Recomputed, EqualityOnly: true}
	data, err := json.Marshal(want)
	if err != nil || string(data) != `{"digest":"crc32:cbf43926","evidence":"recomputed","parts":3,"equality_only":true}` {
		t.Errorf("%s, %v", data, err)
	}
	var got store.Sum
	if err := json.Unmarshal(data, &got); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestEvidenceNames(t *testing.T) {
	for _, e := range []store.Evidence{store.None, store.Size, store.Claimed, store.Recomputed, store.Content} {
		if got, err := store.ParseEvidence(e.String()); err != nil || got != e {
			t.Errorf("%v: %v, %v", e, got, err)
		}
	}
	if _, err := store.ParseEvidence("hearsay"); err == nil {
		t.Error("an unknown evidence was read")
	}
}

func TestMismatchSaysWhat(t *testing.T) {
	b := store.BytesBody([]byte("expected"))
	for content, want := range map[string]string{"unwanted": "sha256 is", "expecte": "7 bytes instead of 8", "expected!": "more than the expected 8 bytes"} {
		_, err := store.CopyBody(t.Context(), &strings.Builder{}, "key", store.Body{Size: b.Size, Sums: b.Sums, Open: store.BytesBody([]byte(content)).Open})
		if !errors.Is(err, store.ErrMismatch) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "key: ") {
			t.Errorf("%q: %v, want %q", content, err, want)
		}
	}
	// A digest that is malformed must not pass as one that is equal to nothing.
	b.Sums = digest.Set{digest.SHA256: ""}
	if _, err := store.CopyBody(t.Context(), &strings.Builder{}, "key", b); err == nil {
		t.Error("an empty digest was accepted")
	}
}
