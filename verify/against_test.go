package verify_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/mem"
	"drkit/verify"
)

// Of "abc" and of the empty string, as FIPS 180-4 gives them.
const (
	sumABC   = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	sumEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

func TestAgainst(t *testing.T) {
	s := fillDir(t, map[string]string{"same": "abc", "empty": "", "rotten": "abd", "new": "x", "notes/a": "x"})
	ref := verify.Reference{Name: "SHA256SUMS", Files: map[string]string{"same": sumABC, "empty": sumEmpty, "rotten": sumABC, "gone": sumABC},
		Silent: func(path string) bool { return path == "notes/a" }}
	r, err := verify.Against(t.Context(), ref, verify.Copy{Region: "b", Store: s}, verify.Options{})
	want := map[string]verify.Verdict{"same": "match", "empty": "match", "rotten": "diverged", "gone": "missing", "new": "extra"}
	if err != nil || !maps.Equal(verdicts(r), want) || r.Status() != errext.Gate || r.Compared != 4 {
		t.Errorf("%v %v %+v", err, verdicts(r), r)
	}
	// A bucket's MD5 says nothing of a SHA-256, until it is read.
	b := claims("md5").Fill(map[string]string{"same": "abc"})
	one := verify.Reference{Files: map[string]string{"same": sumABC}}
	for level, verdict := range map[verify.Level]verify.Verdict{verify.Checksum: verify.NotComparable, verify.ByContent: verify.Match} {
		r, err := verify.Against(t.Context(), one, verify.Copy{Store: b}, verify.Options{Level: level})
		if err != nil || verdicts(r)["same"] != verdict {
			t.Errorf("%s: %v %+v", level, err, r)
		}
	}
	if r, err := verify.Against(t.Context(), one, verify.Copy{Store: claims("sha256").Fill(map[string]string{"same": "abc"})}, verify.Options{}); err != nil || !r.Holds() || r.CountEvidence(store.Claimed) != 1 {
		t.Errorf("%v %+v", err, r)
	}
}

func TestAgainstNothing(t *testing.T) {
	for name, files := range map[string]map[string]string{"no file": nil, "no digest": {"a": "abc"}, "a path upwards": {"../a": sumABC}} {
		if r, err := verify.Against(t.Context(), verify.Reference{Files: files}, verify.Copy{Store: fillDir(t, nil)}, verify.Options{}); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestAListKnowsNoSizes: a size that nobody stated is no evidence.
func TestAListKnowsNoSizes(t *testing.T) {
	ref := verify.Reference{Files: map[string]string{"same": sumABC}}
	for level, want := range map[verify.Level]verify.Verdict{verify.Presence: verify.Present, verify.Checksum: verify.NotComparable} {
		r, err := verify.Against(t.Context(), ref, verify.Copy{Store: claims("md5").Fill(map[string]string{"same": "abc"})}, verify.Options{Level: level})
		if err != nil || len(r.Gaps) != 1 || r.Gaps[0].Verdict != want || r.Gaps[0].Evidence != store.None || strings.Contains(r.Gaps[0].Why, "size was compared") {
			t.Errorf("%s: %v %+v", level, err, r.Gaps)
		}
	}
}

// TestAListThatWasEdited: what was proven by one digest is no proof of another, also
// when the verification that goes on has the same list by name.
func TestAListThatWasEdited(t *testing.T) {
	b := mem.New().Fill(map[string]string{"same": "abc", "empty": ""})
	var file bytes.Buffer
	against := func(st *verify.State, same string) verify.Result {
		t.Helper()
		ref := verify.Reference{Name: "SHA256SUMS", Files: map[string]string{"same": same, "empty": sumEmpty}}
		r, err := verify.Against(t.Context(), ref, verify.Copy{Store: b}, verify.Options{Level: verify.ByContent, State: st})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	st := verify.NewState(verify.StateKey{})
	if err := st.Record(&file); err != nil {
		t.Fatal(err)
	}
	against(st, sumABC)
	again := verify.NewState(verify.StateKey{})
	if err := again.Load(&file, time.Now()); err != nil {
		t.Fatal(err)
	}
	if r := against(again, sumABC); !r.Holds() || r.Resumed.Objects != 2 {
		t.Errorf("the same list: %+v", r)
	}
	if r := against(again, sumEmpty); verdicts(r)["same"] != verify.Diverged || r.Resumed.Objects != 1 || r.Holds() {
		t.Errorf("another digest: %v, %d taken over", verdicts(r), r.Resumed.Objects)
	}
}
