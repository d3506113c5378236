package verify_test

import (
	"crypto/md5"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/internal/store/mem"
	"drkit/manifest/digest"
	"drkit/verify"
)

func fillDir(t *testing.T, files map[string]string) *dir.Store {
	t.Helper()
	s := dir.New(t.TempDir())
	for key, content := range files {
		put(t, s, key, content)
	}
	return s
}

func TestPairOfDirectories(t *testing.T) {
	a := fillDir(t, map[string]string{"same": "1", "diverged": "2", "longer": "3", "gone": "4", ".drkit/us/support/CURRENT": "us"})
	b := fillDir(t, map[string]string{"same": "1", "diverged": "x", "longer": "33", "new": "5", ".drkit/eu/support/CURRENT": "eu"})
	r, err := verify.Pair(t.Context(), verify.Copy{Store: a}, verify.Copy{Store: b}, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]verify.Verdict{"same": verify.Match, "diverged": verify.Diverged, "longer": verify.Diverged, "gone": verify.Missing, "new": verify.Extra}
	if got := verdicts(r); !maps.Equal(got, want) || r.Status() != errext.Gate || r.Compared != 4 {
		t.Errorf("verdicts %v, status %v, %d compared", got, r.Status(), r.Compared)
	}
	r, err = verify.Pair(t.Context(), verify.Copy{Store: a}, verify.Copy{Store: fillDir(t, map[string]string{"same": "1", "diverged": "2", "longer": "3", "gone": "4"})}, verify.Options{Require: store.Content})
	if err != nil || !r.Holds() || r.CountEvidence(store.Content) != 4 {
		t.Errorf("equal places: %+v, %v", r, err)
	}
}

func TestPairFollowsLinksOfACacheSnapshot(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"blobs", "snapshots/rev"} {
		os.MkdirAll(filepath.Join(root, d), 0o755)
	}
	os.WriteFile(filepath.Join(root, "blobs/abc"), []byte("tokens"), 0o644)
	os.Symlink("../../blobs/abc", filepath.Join(root, "snapshots/rev/tokenizer.json"))
	a := dir.New(filepath.Join(root, "snapshots/rev"))
	r, err := verify.Pair(t.Context(), verify.Copy{Store: a}, verify.Copy{Store: fillDir(t, map[string]string{"tokenizer.json": "tokens"})}, verify.Options{})
	if err != nil || !r.Holds() || r.Compared != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// inBucket is a bucket whose ETags are MD5s, and which takes keys that no folder can hold.
func inBucket(files map[string]string) *bucket {
	b := newBucket()
	for key, content := range files {
		sum := md5.Sum([]byte(content))
		etag := hex.EncodeToString(sum[:])
		b.objects[key] = store.Object{Key: key, Size: int64(len(content)), ETag: etag, ModTime: time.Unix(1750000000, 0), Sums: []store.Sum{{Digest: digest.Digest{Algorithm: digest.MD5, Hex: etag}, Evidence: store.Claimed}}}
		b.data[key] = []byte(content)
	}
	return b
}

// A key that ends in a slash marks a folder only where nothing is in the object, on
// both sides.
func TestPairOfFolderMarks(t *testing.T) {
	for name, c := range map[string]struct {
		source, target map[string]string
		want           map[string]verify.Verdict
	}{
		"both":           {map[string]string{"m": "1", "d/": ""}, map[string]string{"m": "1", "d/": ""}, map[string]verify.Verdict{"m": verify.Match}},
		"source alone":   {map[string]string{"m": "1", "d/": ""}, map[string]string{"m": "1"}, map[string]verify.Verdict{"m": verify.Match}},
		"content behind": {map[string]string{"m": "1", "d/": ""}, map[string]string{"m": "1", "d/": "evil"}, map[string]verify.Verdict{"m": verify.Match, "d/": verify.Diverged}},
		"content before": {map[string]string{"m": "1", "d/": "good"}, map[string]string{"m": "1", "d/": ""}, map[string]verify.Verdict{"m": verify.Match, "d/": verify.Diverged}},
	} {
		for _, level := range []verify.Level{verify.Presence, verify.Checksum, verify.ByContent} {
			r, err := verify.Pair(t.Context(), verify.Copy{Store: inBucket(c.source)}, verify.Copy{Store: inBucket(c.target)}, verify.Options{Level: level})
			if err != nil {
				t.Fatal(err)
			}
			got := verdicts(r)
			for k, v := range got {
				if v == verify.Present {
					got[k] = verify.Match // all that presence says
				}
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("%s at %s: %v, want %v", name, level, got, c.want)
			}
		}
	}
}

func TestPairOfADirectoryAndClaims(t *testing.T) {
	a := fillDir(t, map[string]string{"same": "1", "diverged": "2"})
	b := claims("crc64nvme").Fill(map[string]string{"same": "1", "diverged": "x"})
	r, err := verify.Pair(t.Context(), verify.Copy{Store: a}, verify.Copy{Store: b}, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]verify.Verdict{"same": verify.Match, "diverged": verify.Diverged}
	if got := verdicts(r); !maps.Equal(got, want) || r.CountEvidence(store.Claimed) != 1 || r.BytesRead != 2 {
		t.Errorf("verdicts %v, %+v", got, r)
	}
}

// Two multipart uploads in parts of other sizes: same bytes, nothing in common.
func TestPairWithoutCommonChecksum(t *testing.T) {
	a, b := claims("crc32").Fill(map[string]string{"x": "1"}), claims("crc64nvme").Fill(map[string]string{"x": "1"})
	r, err := verify.Pair(t.Context(), verify.Copy{Store: a}, verify.Copy{Store: b}, verify.Options{})
	if err != nil || r.Gaps[0].Verdict != verify.NotComparable || r.Status() != errext.Gate || len(r.Gaps[0].Resolve) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = verify.Pair(t.Context(), verify.Copy{Store: a}, verify.Copy{Store: b}, verify.Options{Level: verify.ByContent}); err != nil || !r.Holds() {
		t.Errorf("at content: %+v, %v", r, err)
	}
}

func TestPairSourceThatIsNotThere(t *testing.T) {
	_, err := verify.Pair(t.Context(), verify.Copy{Store: dir.New(t.TempDir() + "/no")}, verify.Copy{Store: mem.New().Fill(map[string]string{"x": "1"})}, verify.Options{})
	if errext.StatusOf(err) != errext.Failed {
		t.Errorf("error %v", err)
	}
}

func TestPairOfAPlaceWithItself(t *testing.T) {
	a := fillDir(t, map[string]string{"x": "1"})
	alias := t.TempDir() + "/alias"
	os.Symlink(a.Root(), alias)
	for _, b := range []*dir.Store{a, dir.New(a.Root()), dir.New(alias + "/../alias")} {
		if _, err := verify.Pair(t.Context(), verify.Copy{Store: a}, verify.Copy{Store: b}, verify.Options{}); errext.StatusOf(err) != errext.Usage {
			t.Errorf("%s: %v", b.Root(), err)
		}
	}
}
