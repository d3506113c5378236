package verify_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/verify"
)

// caseFile is an objects.yaml: what a manifest says and what buckets hold. Its
// digests were made by zlib, hashlib and the AWS runtime.
type caseFile struct {
	dir      string
	Manifest []struct {
		Path                          string
		Size                          int64
		SHA256, MD5, CRC32, CRC64NVME string
	}
	Source   []caseObject
	Variants map[string][]caseObject
}

type caseObject struct {
	Key     string
	Content struct {
		Seed, File string
		Size       int64
		Flip       *int64
	}
	Parts        []int64
	ETag         string
	Checksums    map[string]string
	ChecksumType string              `yaml:"checksum_type"`
	ObjectParts  []map[string]string `yaml:"object_parts"`
	LastModified time.Time           `yaml:"last_modified"`
}

func loadCase(t testing.TB, name string) caseFile {
	t.Helper()
	c := caseFile{dir: filepath.Join("testdata/reports", name)}
	data, err := os.ReadFile(filepath.Join(c.dir, "objects.yaml"))
	if err == nil {
		err = yaml.Unmarshal(data, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// known holds what seeded made: the larger ones take a while.
var known sync.Map

// seeded are the bytes that a seed stands for, not to be written to.
func seeded(seed string, size int64) []byte {
	type name struct {
		seed string
		size int64
	}
	if b, ok := known.Load(name{seed, size}); ok {
		return b.([]byte)
	}
	b := grow(seed, size)
	known.Store(name{seed, size}, b)
	return b
}

func grow(seed string, size int64) []byte {
	b := make([]byte, 0, size+sha256.Size)
	for i := 0; int64(len(b)) < size; i++ {
		sum := sha256.Sum256([]byte(seed + ":" + strconv.Itoa(i)))
		b = append(b, sum[:]...)
	}
	return b[:size]
}

func (o caseObject) bytes(t testing.TB, dir string) []byte {
	t.Helper()
	if o.Content.File != "" {
		data, err := os.ReadFile(filepath.Join(dir, o.Content.File))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	data := seeded(o.Content.Seed, o.Content.Size)
	if o.Content.Flip != nil {
		data = slices.Clone(data)
		data[*o.Content.Flip] ^= 1
	}
	return data
}

// release is the manifest of a case.
func (c caseFile) release() *manifest.Manifest {
	m := &manifest.Manifest{Schema: manifest.Schema, Service: "support"}
	for _, f := range c.Manifest {
		part, path, _ := strings.Cut(f.Path, "/")
		if part == "adapters" { // a part of the model
			part, path = "model", f.Path
		}
		m.Contents.Files = append(m.Contents.Files, manifest.File{Part: manifest.Part(part), Path: path, Size: f.Size, Role: manifest.Other,
			Sums: digest.Set{digest.SHA256: f.SHA256, digest.MD5: f.MD5, digest.CRC32: fromBase64(f.CRC32), digest.CRC64NVME: fromBase64(f.CRC64NVME)}})
	}
	m.Release = manifest.ReleaseID(m.Contents)
	return m
}

func fromBase64(text string) string {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return hex.EncodeToString(raw)
}

// bucket is a place that says of its objects what an S3 server says: in a listing
// the ETag alone, asked by name what is stored beside it. It counts what is asked.
type bucket struct {
	objects map[string]store.Object
	data    map[string][]byte

	mu    sync.Mutex
	stats []string
	opens map[string]int
}

func newBucket() *bucket {
	return &bucket{objects: map[string]store.Object{}, data: map[string][]byte{}, opens: map[string]int{}}
}

func (c caseFile) bucket(t testing.TB, objects []caseObject) *bucket {
	t.Helper()
	b := newBucket()
	for _, o := range objects {
		data := o.bytes(t, c.dir)
		said := store.Object{Key: o.Key, Size: int64(len(data)), ETag: strings.Trim(o.ETag, `"`), ModTime: cmp.Or(o.LastModified, time.Unix(1750000000, 0))}
		if !strings.Contains(said.ETag, "-") {
			said.Sums = append(said.Sums, store.Sum{Digest: digest.Digest{Algorithm: digest.MD5, Hex: said.ETag}, Evidence: store.Claimed})
		}
		for algorithm, value := range o.Checksums {
			text, n, _ := strings.Cut(value, "-")
			parts, _ := strconv.Atoi(n)
			said.Sums = append(said.Sums, store.Sum{Digest: digest.Digest{Algorithm: algorithm, Hex: fromBase64(text)}, Parts: parts, Evidence: store.Claimed})
		}
		for _, p := range o.ObjectParts {
			size, _ := strconv.ParseInt(p["size"], 10, 64)
			piece := store.Piece{Size: size, Sums: digest.Set{}}
			for algorithm, value := range p {
				if algorithm != "size" {
					piece.Sums[algorithm] = fromBase64(value)
				}
			}
			said.Parts = append(said.Parts, piece)
		}
		b.objects[o.Key], b.data[o.Key] = said, data
	}
	return b
}

func (b *bucket) List(_ context.Context, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(b.objects)) {
			o := b.objects[key]
			o.Sums, o.Parts, o.Encryption = nil, nil, ""
			for _, s := range b.objects[key].Sums {
				if s.Algorithm == digest.MD5 && s.Parts == 0 {
					s.EqualityOnly = true
					o.Sums = append(o.Sums, s)
				}
			}
			if strings.HasPrefix(key, prefix) && !yield(o, nil) {
				return
			}
		}
	}
}

func (b *bucket) Stat(_ context.Context, key string) (store.Object, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats = append(b.stats, key)
	if o, ok := b.objects[key]; ok {
		return o, nil
	}
	return store.Object{}, store.ErrNotFound
}

func (b *bucket) Open(_ context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opens[o.Key]++
	return io.NopCloser(store.Range(b.data[o.Key], off, n)), nil
}

// reads is how often an object's bytes were asked for.
func (b *bucket) reads() (n int) {
	for _, times := range b.opens {
		n += times
	}
	return n
}

// reportCase is one row of a case's expectations.
type reportCase struct {
	name, variant string
	opts          verify.Options
	verdict       verify.Verdict
	evidence      store.Evidence
	status        int
	says          []string // in the gap
	stats         int      // asked by name, in the target; -1: any number. Once what the listing alone proves
	reads         int      // how often objects were read in the target: twice what is found to be others
}

const shard = "model/model.safetensors"

var reportCases = []reportCase{
	// 07: a multipart object was overwritten with other bytes of the same size.
	{"07-multipart-same-size", "checksum-at-both-ends", verify.Options{}, verify.Diverged, store.Claimed, 4, []string{"crc64nvme is 549702f43730ba87", "want 230e62e871f097a7"}, 1, 0},
	{"07-multipart-same-size", "checksum-at-both-ends", verify.Options{Level: verify.ByContent}, verify.Diverged, store.Content, 4, []string{"sha256 is ", "want 1fddf61d17a893ebed4096543c90ae819b904df602931d866ff43729cacd5f82"}, 0, 2},
	{"07-multipart-same-size", "checksum-at-both-ends", verify.Options{Level: verify.Presence}, verify.Present, store.Size, 4, []string{"only its size was compared"}, 0, 0},
	{"07-multipart-same-size", "no-checksum-at-target", verify.Options{}, verify.NotComparable, store.Size, 4, []string{"no", "level content", "read"}, 1, 0},
	{"07-multipart-same-size", "no-checksum-at-target", verify.Options{Level: verify.ByContent}, verify.Diverged, store.Content, 4, []string{"sha256"}, 0, 2},
	{"07-multipart-same-size", "no-checksum-at-target", verify.Options{Level: verify.Presence}, verify.Present, store.Size, 4, nil, 0, 0},
	{"07-multipart-same-size", "no-checksum-at-target", verify.Options{Resolve: []string{verify.ByRead}}, verify.Diverged, store.Content, 4, []string{"sha256"}, 1, 2},
	{"07-multipart-same-size", "control-same-bytes", verify.Options{}, verify.Match, store.Claimed, 0, nil, 1, 0},
	{"07-multipart-same-size", "control-same-bytes", verify.Options{Level: verify.ByContent}, verify.Match, store.Content, 0, nil, 0, 1},
	{"07-multipart-same-size", "control-same-bytes", verify.Options{Level: verify.Presence}, verify.Present, store.Size, 4, nil, 0, 0},
	// 08: newer and of equal size; time proves nothing in either direction.
	{"08-newer-but-different", "newer-other-bytes", verify.Options{}, verify.Diverged, store.Claimed, 4, []string{"md5 is b7b57f58ff1dafc35dedfe79484d6ed7, want 62a57554a7724d1bb7fddeccc021b131"}, 1, 0},
	{"08-newer-but-different", "same-second-other-bytes", verify.Options{}, verify.Diverged, store.Claimed, 4, []string{"md5 is b7b57f58ff1dafc35dedfe79484d6ed7"}, 1, 0},
	{"08-newer-but-different", "control-older-same-bytes", verify.Options{}, verify.Match, store.Claimed, 0, nil, 1, 0},
	// 09: the upload's framing is stored. The hint reads the object once.
	{"09-upload-framing-stored", "one-chunk", verify.Options{}, verify.Diverged, store.Size, 4, []string{"118 bytes, want 76", "chunked upload framing is stored in the object; the right content is inside", "checksums: when-required"}, 0, 1},
	{"09-upload-framing-stored", "two-chunks", verify.Options{}, verify.Diverged, store.Size, 4, []string{"132 bytes", "chunked upload framing is stored in the object; the right content is inside"}, 0, 1},
	{"09-upload-framing-stored", "signed-chunks", verify.Options{}, verify.Diverged, store.Size, 4, []string{"249 bytes", "chunked upload framing is stored in the object; the right content is inside"}, 0, 1},
	{"09-upload-framing-stored", "signed-chunks", verify.Options{Level: verify.Presence}, verify.Diverged, store.Size, 4, []string{"249 bytes"}, 0, 0},
	// 11: the same bytes in other part sizes.
	{"11-part-size-differs", "parts-listed", verify.Options{}, verify.Match, store.Claimed, 0, nil, 1, 0},
	{"11-part-size-differs", "parts-listed", verify.Options{Level: verify.ByContent}, verify.Match, store.Content, 0, nil, 0, 1},
	{"11-part-size-differs", "parts-not-listed", verify.Options{}, verify.NotComparable, store.Size, 4, []string{"crc32 is one of 2 parts, whose sizes are not told", "level content", "checksum of the whole", "S3 Batch"}, 1, 0},
	{"11-part-size-differs", "parts-not-listed", verify.Options{Level: verify.ByContent}, verify.Match, store.Content, 0, nil, 0, 1},
	{"11-part-size-differs", "parts-not-listed", verify.Options{Accept: []verify.Acceptance{{Verdict: verify.NotComparable}}}, verify.NotComparable, store.Size, 0, []string{"Accepted:true"}, 1, 0},
	{"11-part-size-differs", "parts-not-listed", verify.Options{Accept: []verify.Acceptance{{Verdict: verify.NotComparable, Subject: shard}}}, verify.NotComparable, store.Size, 0, []string{"Accepted:true"}, 1, 0},
	{"11-part-size-differs", "parts-not-listed", verify.Options{Accept: []verify.Acceptance{{Verdict: verify.NotComparable, Subject: "model/other"}}}, verify.NotComparable, store.Size, 4, nil, 1, 0},
	{"11-part-size-differs", "parts-not-listed", verify.Options{Resolve: []string{verify.ByRead}}, verify.Match, store.Content, 0, nil, 1, 1},
	{"11-part-size-differs", "parts-listed-other-bytes", verify.Options{}, verify.Diverged, store.Claimed, 4, []string{"crc32, combined from its parts, is ", "want 2c1d6fc6"}, 1, 0},
	{"11-part-size-differs", "parts-listed-other-bytes", verify.Options{Accept: []verify.Acceptance{{Verdict: verify.NotComparable}}}, verify.Diverged, store.Claimed, 4, nil, 1, 0},
}

// TestReports runs the cases against a manifest.
func TestReports(t *testing.T) {
	for i, rc := range reportCases {
		t.Run(fmt.Sprintf("%d %s %s", i, rc.name, rc.variant), func(t *testing.T) {
			c := loadCase(t, rc.name)
			b := c.bucket(t, c.Variants[rc.variant])
			r := mustRelease(t, c.release(), verify.Copy{Region: "eu", Store: b, Bare: true}, rc.opts)
			rc.check(t, r, b)
		})
	}
}

func (rc reportCase) check(t *testing.T, r verify.Result, b *bucket) {
	t.Helper()
	if len(r.Errors) > 0 || len(r.Gaps) != 1 {
		t.Fatalf("%d gaps, errors %v", len(r.Gaps), r.Errors)
	}
	g := r.Gaps[0]
	if g.Verdict != rc.verdict || g.Evidence != rc.evidence || int(r.Status()) != rc.status {
		t.Errorf("%s on %s, status %d (%s); want %s on %s, status %d", g.Verdict, g.Evidence, r.Status(), g.Why, rc.verdict, rc.evidence, rc.status)
	}
	if said := fmt.Sprintf("%+v", g); !containsAll(said, rc.says) {
		t.Errorf("%s\ndoes not say all of %q", said, rc.says)
	}
	if n := len(b.stats); rc.stats >= 0 && n != rc.stats || b.reads() != rc.reads {
		t.Errorf("%d asked by name and %d read, want %d and %d", n, b.reads(), rc.stats, rc.reads)
	}
	if g.Accepted && r.Count(verify.Match) != 0 {
		t.Error("what was accepted is counted as a match")
	}
	if g.Verdict == verify.Diverged && g.WantSize == g.GotSize && !strings.Contains(g.Why, "from byte") && (len(g.Want) == 0 || len(g.Got) == 0) {
		t.Error("the digests of both sides are not there")
	}
}

func containsAll(text string, all []string) bool {
	return !slices.ContainsFunc(all, func(s string) bool { return !strings.Contains(text, s) })
}

// TestReportsBetweenTwoPlaces compares each variant with the case's source.
func TestReportsBetweenTwoPlaces(t *testing.T) {
	for i, rc := range []reportCase{
		{"07-multipart-same-size", "checksum-at-both-ends", verify.Options{}, verify.Diverged, store.Claimed, 4, []string{"crc64nvme is 549702f43730ba87, want 230e62e871f097a7"}, 1, 0},
		{"07-multipart-same-size", "checksum-at-both-ends", verify.Options{Level: verify.ByContent}, verify.Diverged, store.Content, 4, []string{"others from byte 0 on"}, 0, 2},
		{"07-multipart-same-size", "no-checksum-at-target", verify.Options{}, verify.NotComparable, store.Size, 4, nil, 1, 0},
		{"07-multipart-same-size", "control-same-bytes", verify.Options{}, verify.Match, store.Claimed, 0, nil, 1, 0}, // equal ETags of two parts
		{"08-newer-but-different", "newer-other-bytes", verify.Options{}, verify.Diverged, store.Claimed, 4, []string{"md5"}, 1, 0},
		{"08-newer-but-different", "control-older-same-bytes", verify.Options{}, verify.Match, store.Claimed, 0, nil, 1, 0},
		{"09-upload-framing-stored", "two-chunks", verify.Options{}, verify.Diverged, store.Size, 4, []string{"chunked upload framing", "the right content is inside"}, 0, 1},
		{"11-part-size-differs", "parts-listed", verify.Options{}, verify.Match, store.Claimed, 0, nil, 1, 0},
		{"11-part-size-differs", "parts-not-listed", verify.Options{}, verify.NotComparable, store.Size, 4, []string{"crc32 is one of parts, whose sizes differ (3 parts and 2)"}, 1, 0},
		{"11-part-size-differs", "parts-not-listed", verify.Options{Resolve: []string{verify.ByRead}}, verify.Match, store.Content, 0, nil, 1, 1},
		{"11-part-size-differs", "parts-listed-other-bytes", verify.Options{}, verify.Diverged, store.Claimed, 4, []string{"crc32, combined from its parts"}, 1, 0},
		{"11-part-size-differs", "parts-listed-other-bytes", verify.Options{Level: verify.ByContent}, verify.Diverged, store.Content, 4, []string{"others from byte 9000000 on"}, 0, 2},
	} {
		t.Run(fmt.Sprintf("%d %s %s", i, rc.name, rc.variant), func(t *testing.T) {
			c := loadCase(t, rc.name)
			b := c.bucket(t, c.Variants[rc.variant])
			r, err := verify.Pair(t.Context(), verify.Copy{Store: c.bucket(t, c.Source)}, verify.Copy{Store: b}, rc.opts)
			if err != nil {
				t.Fatal(err)
			}
			rc.check(t, r, b)
		})
	}
}

// TestReportOfKeys: case 10, keys that some encoder mixes up. Each object is its
// own, and the content of one under the name of another is found by every way.
func TestReportOfKeys(t *testing.T) {
	c := loadCase(t, "10-copy-source-encoding")
	subjects := func(b *bucket) *bucket { // a release holds adapters beneath its model
		for key, o := range maps.Clone(b.objects) {
			b.data["model/"+key], o.Key = b.data[key], "model/"+key
			b.objects[o.Key] = o
			delete(b.objects, key)
		}
		return b
	}
	for _, level := range []verify.Level{verify.Checksum, verify.ByContent} {
		b := subjects(c.bucket(t, c.Source))
		place := verify.Copy{Region: "eu", Store: b, Bare: true}
		if r := mustRelease(t, c.release(), place, verify.Options{Level: level}); !r.Holds() || r.Count(verify.Match) != 6 {
			t.Errorf("%s: %+v", level, r)
		}
		mixed, own := b.objects["model/adapters/a b.bin"], "model/adapters/a+b.bin"
		mixed.Key = own
		b.objects[own], b.data[own] = mixed, b.data["model/adapters/a b.bin"]
		r := mustRelease(t, c.release(), place, verify.Options{Level: level})
		if got := verdicts(r); r.Holds() || got[own] != verify.Diverged || r.Count(verify.Match) != 5 {
			t.Errorf("%s, mixed up: %v", level, got)
		}
		p, err := verify.Pair(t.Context(), verify.Copy{Store: subjects(c.bucket(t, c.Source))}, verify.Copy{Store: b}, verify.Options{Level: level})
		if err != nil || verdicts(p)[own] != verify.Diverged || p.Count(verify.Match) != 5 {
			t.Errorf("%s, two places: %v, %v", level, verdicts(p), err)
		}
	}
}
