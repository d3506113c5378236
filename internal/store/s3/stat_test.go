package s3_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"drkit/internal/store"
	"drkit/internal/store/s3"
	"drkit/internal/store/s3/s3test"
	"drkit/manifest/digest"
)

// composite uploads content in parts with CRC32 composites, as aws s3 cp does.
func composite(t *testing.T, b bench, key string, parts ...string) {
	t.Helper()
	c := b.raw()
	up, err := c.CreateMultipartUpload(t.Context(), &sdk.CreateMultipartUploadInput{Bucket: aws.String("b"), Key: &key, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32, ChecksumType: types.ChecksumTypeComposite})
	if err != nil {
		t.Fatal(err)
	}
	var done []types.CompletedPart
	for i, p := range parts {
		n := int32(i + 1)
		sum := aws.String(base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(p)))))
		out, err := c.UploadPart(t.Context(), &sdk.UploadPartInput{Bucket: aws.String("b"), Key: &key, UploadId: up.UploadId, PartNumber: &n, Body: bytes.NewReader([]byte(p)), ChecksumCRC32: sum})
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, types.CompletedPart{PartNumber: &n, ETag: out.ETag, ChecksumCRC32: sum})
	}
	if _, err := c.CompleteMultipartUpload(t.Context(), &sdk.CompleteMultipartUploadInput{Bucket: aws.String("b"), Key: &key, UploadId: up.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: done}}); err != nil {
		t.Fatal(err)
	}
}

// The composite is the CRC32 of the parts' CRC32s, worked out here with the
// standard library.
func TestCompositeComesWithItsParts(t *testing.T) {
	for name, c := range map[string]struct {
		server s3test.Options
		deny   string
		sums   bool // of parts are told
	}{
		"attributes":        {server: loose, sums: true},
		"many pages":        {server: loose, sums: true},
		"denied":            {server: loose, deny: "GetObjectAttributes", sums: true},
		"no such function":  {server: s3test.Options{MinPartSize: -1, NoAttributes: true}, sums: true},
		"no sums of parts":  {server: s3test.Options{MinPartSize: -1, NoPartChecksums: true}},
		"neither of theirs": {server: s3test.Options{MinPartSize: -1, NoPartChecksums: true, NoAttributes: true}},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, c.server, s3test.BucketOptions{})
			parts := []string{digits(100), digits(250), "tail"}
			if name == "many pages" {
				for range 1100 {
					parts = append(parts, "x")
				}
			}
			composite(t, b, "k", parts...)
			if c.deny != "" {
				b.Deny("b", "", c.deny)
			}
			var crcs []byte
			for _, p := range parts {
				crcs = binary.BigEndian.AppendUint32(crcs, crc32.ChecksumIEEE([]byte(p)))
			}
			want := fmt.Sprintf("%08x", crc32.ChecksumIEEE(crcs))
			o, err := b.open(t).Stat(t.Context(), "k")
			if got := sumsOf(o)[digest.CRC32]; err != nil || got.Hex != want || got.Parts != len(parts) || got.Evidence != store.Claimed {
				t.Fatalf("%+v, %v; want %s of %d parts", o, err, want, len(parts))
			}
			if len(o.Parts) != len(parts) {
				t.Fatalf("%d parts, want %d", len(o.Parts), len(parts))
			}
			for i, p := range parts {
				if o.Parts[i].Size != int64(len(p)) {
					t.Errorf("part %d has %d bytes, want %d", i+1, o.Parts[i].Size, len(p))
				}
				if crc := fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(p))); c.sums && o.Parts[i].Sums[digest.CRC32] != crc {
					t.Errorf("part %d: %v, want %s", i+1, o.Parts[i].Sums, crc)
				}
			}
		})
	}
}

// An object without checksums says nothing of how others were uploaded.
func TestPartsOfAMixedBucket(t *testing.T) {
	b := start(t, s3test.Options{MinPartSize: -1, NoDefaultChecksum: true}, s3test.BucketOptions{})
	s := b.open(t)
	if _, err := b.open(t, func(o *s3.Options) { o.PartSize, o.Checksums = 10, s3.WhenRequired }).Put(t.Context(), "bare", store.BytesBody([]byte(digits(1000))), store.Cond{}); err != nil {
		t.Fatal(err)
	}
	var parts []string
	for range 100 {
		parts = append(parts, "part")
	}
	composite(t, b, "composite", parts...)
	if o, err := s.Stat(t.Context(), "bare"); err != nil || len(o.Parts) != 0 { // 100 parts are too many to ask for each
		t.Errorf("%d parts, %v", len(o.Parts), err)
	}
	if o, err := s.Stat(t.Context(), "composite"); err != nil || len(o.Parts) != 100 {
		t.Errorf("%d parts, %v", len(o.Parts), err)
	}
}

// That one question for parts failed by chance says nothing of other objects.
func TestPartsAreAskedForAgain(t *testing.T) {
	parts := strings.Split(strings.Repeat("part ", 99)+"part", " ") // more than would be asked for one by one
	for name, fail := range map[string]http.HandlerFunc{
		"broken": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"gone":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"expired": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			w.Write([]byte("<Error><Code>ExpiredToken</Code></Error>"))
		},
	} {
		b := start(t, loose, s3test.BucketOptions{})
		composite(t, b, "k", parts...)
		var failing atomic.Bool
		failing.Store(true)
		s := b.before(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if failing.Load() && r.URL.Query().Has("attributes") {
				fail(w, r)
				return
			}
			next.ServeHTTP(w, r)
		}).open(t)
		if o, err := s.Stat(t.Context(), "k"); err != nil || len(o.Parts) != 0 {
			t.Errorf("%s: %d parts, %v", name, len(o.Parts), err)
		}
		failing.Store(false)
		if o, err := s.Stat(t.Context(), "k"); err != nil || len(o.Parts) != len(parts) {
			t.Errorf("%s, then whole: %d parts, %v", name, len(o.Parts), err)
		}
	}
}

// A whole-object checksum needs no question for parts.
func TestStatAsksOnce(t *testing.T) {
	b := start(t, loose, s3test.BucketOptions{})
	s := b.open(t, inParts)
	put(t, s, "k", digits(5000))
	b.ResetRequests()
	if _, err := s.Stat(t.Context(), "k"); err != nil || len(b.Requests()) != 1 {
		t.Errorf("%v, %d requests", err, len(b.Requests()))
	}
}

// An answer of attributes that cannot be read, as one gateway gives it, is no answer.
func TestAttributesThatBreakTheReader(t *testing.T) {
	b := start(t, loose, s3test.BucketOptions{})
	composite(t, b, "k", digits(100), "tail")
	s := b.before(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Query().Has("attributes") {
			w.Header().Set("Last-Modified", "yesterday")
			w.Write([]byte("<GetObjectAttributesResponse><Checksum></GetObjectAttributesResponse>"))
			return
		}
		next.ServeHTTP(w, r)
	}).open(t)
	if o, err := s.Stat(t.Context(), "k"); err != nil || len(o.Parts) != 2 || o.Parts[0].Size != 100 {
		t.Errorf("%+v, %v", o, err)
	}
}

// Parts that cannot make up the object, and lists of them without an end, are no answer:
// the parts are asked for one by one.
func TestAttributesOfNoObject(t *testing.T) {
	list := func(next string, sizes ...int64) string {
		text := "<GetObjectAttributesResponse><ObjectParts><IsTruncated>" + strconv.FormatBool(next != "") + "</IsTruncated><NextPartNumberMarker>" + next + "</NextPartNumberMarker>"
		for _, n := range sizes {
			text += "<Part><Size>" + strconv.FormatInt(n, 10) + "</Size></Part>"
		}
		return text + "</ObjectParts></GetObjectAttributesResponse>"
	}
	for name, answer := range map[string]func(n int64) string{
		"negative":     func(int64) string { return list("", -5, 109) }, // 104 in all, as the object
		"overflowing":  func(int64) string { return list("", math.MaxInt64, math.MinInt64+105) },
		"without end":  func(n int64) string { return list(strconv.FormatInt(n, 10), 1, 1, 1) },
		"empty, again": func(n int64) string { return list(strconv.FormatInt(n, 10), 0) },
	} {
		b := start(t, loose, s3test.BucketOptions{})
		composite(t, b, "k", digits(100), "tail")
		var asked atomic.Int64
		s := b.before(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if !r.URL.Query().Has("attributes") {
				next.ServeHTTP(w, r)
				return
			}
			n := asked.Add(1)
			if n > 10 {
				t.Errorf("%s: asked %d times", name, n)
				panic(http.ErrAbortHandler)
			}
			w.Write([]byte(answer(n)))
		}).open(t)
		if o, err := s.Stat(t.Context(), "k"); err != nil || len(o.Parts) != 2 || o.Parts[0].Size != 100 {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

func TestReplicationStatus(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	s := b.open(t)
	put(t, s, "k", "x")
	for said, want := range map[string]string{"COMPLETED": "COMPLETED", "COMPLETE": "COMPLETED", "PENDING": "PENDING", "FAILED": "FAILED", "REPLICA": "REPLICA", "": ""} {
		b.SetReplication("b", "k", said)
		if o, err := s.Stat(t.Context(), "k"); err != nil || o.Replication != want {
			t.Errorf("%s: %q, %v", said, o.Replication, err)
		}
	}
}

func TestReplicationRules(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{Versioning: true})
	s := b.open(t)
	if rules, err := s.ReplicationRules(t.Context()); err != nil || len(rules) != 0 {
		t.Errorf("without rules: %v, %v", rules, err)
	}
	role := "arn:aws:iam::111122223333:role/replication"
	config := &types.ReplicationConfiguration{Role: &role, Rules: []types.ReplicationRule{{
		ID: aws.String("models"), Priority: aws.Int32(3), Status: types.ReplicationRuleStatusEnabled,
		Filter:                    &types.ReplicationRuleFilter{And: &types.ReplicationRuleAndOperator{Prefix: aws.String("llm/"), Tags: []types.Tag{{Key: aws.String("dr"), Value: aws.String("yes")}}}},
		DeleteMarkerReplication:   &types.DeleteMarkerReplication{Status: types.DeleteMarkerReplicationStatusDisabled},
		SourceSelectionCriteria:   &types.SourceSelectionCriteria{SseKmsEncryptedObjects: &types.SseKmsEncryptedObjects{Status: types.SseKmsEncryptedObjectsStatusEnabled}},
		Destination:               &types.Destination{Bucket: aws.String("arn:aws:s3:::euw1"), EncryptionConfiguration: &types.EncryptionConfiguration{ReplicaKmsKeyID: aws.String("arn:aws:kms:eu-west-1:111122223333:key/k")}, Metrics: &types.Metrics{Status: types.MetricsStatusEnabled, EventThreshold: &types.ReplicationTimeValue{Minutes: aws.Int32(15)}}, ReplicationTime: &types.ReplicationTime{Status: types.ReplicationTimeStatusEnabled, Time: &types.ReplicationTimeValue{Minutes: aws.Int32(15)}}},
		ExistingObjectReplication: nil,
	}}}
	if _, err := b.raw().PutBucketReplication(t.Context(), &sdk.PutBucketReplicationInput{Bucket: aws.String("b"), ReplicationConfiguration: config}); err != nil {
		t.Fatal(err)
	}
	rules, err := s.ReplicationRules(t.Context())
	want := s3.Rule{ID: "models", Priority: 3, Enabled: true, Prefix: "llm/", Tags: map[string]string{"dr": "yes"}, Destination: "arn:aws:s3:::euw1", KMSObjects: true,
		ReplicaKMSKey: "arn:aws:kms:eu-west-1:111122223333:key/k", TimeControl: true, Metrics: true}
	if err != nil || len(rules) != 1 || fmt.Sprint(rules[0]) != fmt.Sprint(want) {
		t.Errorf("%+v, %v; want %+v", rules, err, want)
	}
	if on, err := s.Versioned(t.Context()); !on || err != nil {
		t.Errorf("versions %v, %v", on, err)
	}
	b.Deny("b", "", "GetBucketReplication")
	_, err = s.ReplicationRules(t.Context())
	named(t, err, store.ErrDenied, "replication rules of s3://b/", "s3:GetReplicationConfiguration")
	_, err = start(t, s3test.Options{NoReplication: true}, s3test.BucketOptions{}).open(t).ReplicationRules(t.Context())
	if !errors.Is(err, s3.ErrNoAnswer) || errors.Is(err, store.ErrNotFound) {
		t.Errorf("a server that knows no rules: %v", err)
	}
}

// Any key that another tool put there is listed as it is, also one that drkit
// would not write.
func TestListShowsEveryKey(t *testing.T) {
	b := start(t, s3test.Options{PageSize: 2}, s3test.BucketOptions{})
	s := b.open(t, func(o *s3.Options) { o.Prefix = "p" })
	for _, key := range []string{"p/folder/", "p/folder/x", "p//leading", "p/ctl\x01", "p/a+b", "pq/other", "p"} {
		if _, err := b.raw().PutObject(t.Context(), &sdk.PutObjectInput{Bucket: aws.String("b"), Key: &key, Body: strings.NewReader(key)}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for o, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, o.Key)
	}
	if want := []string{"/leading", "a+b", "ctl\x01", "folder/", "folder/x"}; fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	if content, err := read(t, s, store.Object{Key: "/leading"}); content != "p//leading" || err != nil {
		t.Errorf("read %q, %v", content, err)
	}
	if o, err := s.Stat(t.Context(), "/leading"); o.Size != 10 || err != nil {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := s.Stat(t.Context(), "folder/../a+b"); !errors.Is(err, store.ErrUnrepresentable) {
		t.Errorf("a key that a server may resolve was asked for: %v", err)
	}
}

// A listing that goes in circles, shows foreign keys or breaks off is an error
// that names the prefix, never a shorter list.
func TestListThatCannotBeTrusted(t *testing.T) {
	page := func(more string, keys ...string) string {
		var b strings.Builder
		if !strings.Contains(more, "IsTruncated") {
			more += "<IsTruncated>false</IsTruncated>"
		}
		b.WriteString("<ListBucketResult><Name>b</Name>" + more)
		for _, k := range keys {
			b.WriteString("<Contents><Key>" + k + "</Key><LastModified>2026-01-02T03:04:05.678Z</LastModified><ETag>&quot;e&quot;</ETag><Size>1</Size></Contents>")
		}
		return b.String() + "</ListBucketResult>"
	}
	const truncated = "<IsTruncated>true</IsTruncated>"
	for name, answer := range map[string]string{
		"in circles":    page(truncated+"<NextContinuationToken>t</NextContinuationToken>", "m/a", "m/b"),
		"not sorted":    page("", "m/b", "m/a"),
		"twice":         page("", "m/a", "m/a"),
		"foreign key":   page("", "n/a"),
		"no token":      page(truncated, "m/a"),
		"short page":    page("<KeyCount>3</KeyCount>", "m/a", "m/b"),
		"no time":       "<ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated><Contents><Key>m/a</Key><Size>1</Size></Contents></ListBucketResult>",
		"no XML":        "<html>a proxy's page</html>",
		"cut off":       "<ListBucketResult><Contents><Key>m/a</Key>",
		"bad encoding":  page("<EncodingType>url</EncodingType>", "m/%zz"),
		"empty answer":  "",
		"negative size": strings.Replace(page("", "m/a"), "<Size>1", "<Size>-1", 1),
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, s3test.Options{}, s3test.BucketOptions{}).before(t, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
				w.Header().Set("Content-Type", "application/xml")
				w.Write([]byte(answer))
			})
			n, last := 0, error(nil)
			for _, err := range b.open(t).List(t.Context(), "m/") {
				if n++; n > 10 {
					t.Fatal("it does not end")
				}
				last = err
			}
			named(t, last, nil, "s3://b/m/")
		})
	}
}

// A page that fails ends the listing with an error: what follows is not known.
func TestPageThatFails(t *testing.T) {
	pages := 0
	b := start(t, s3test.Options{PageSize: 2}, s3test.BucketOptions{})
	for i := range 5 {
		put(t, b.open(t), fmt.Sprintf("m/%d", i), "x")
	}
	s := b.before(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Query().Has("continuation-token") {
			pages++
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		next.ServeHTTP(w, r)
	}).open(t)
	n, last := 0, error(nil)
	for _, err := range s.List(t.Context(), "m/") {
		if last = err; err == nil {
			n++
		}
	}
	named(t, last, nil, "s3://b/m/", "the server failed", "later")
	if n != 2 || pages != 5 {
		t.Errorf("%d objects, %d attempts", n, pages)
	}
}

func TestMissingBucketIsNotAMissingKey(t *testing.T) {
	b := start(t, s3test.Options{}, s3test.BucketOptions{})
	_, err := b.open(t, func(o *s3.Options) { o.Bucket = "absent" }).Stat(t.Context(), "k")
	if errors.Is(err, store.ErrNotFound) {
		t.Error("a missing bucket is said to lack the key")
	}
	named(t, err, store.ErrUnreachable, "no such bucket")
	_, err = b.open(t).Stat(context.WithoutCancel(t.Context()), "k")
	named(t, err, store.ErrNotFound, "s3://b/k")
}

// Pages of versions that lead nowhere end the listing, though no key repeats.
func TestVersionsInCircles(t *testing.T) {
	const page = `<ListVersionsResult><Name>b</Name><IsTruncated>true</IsTruncated><NextKeyMarker>m/a</NextKeyMarker><NextVersionIdMarker>v</NextVersionIdMarker></ListVersionsResult>`
	asked := 0
	b := start(t, s3test.Options{}, s3test.BucketOptions{}).before(t, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		asked++
		w.Header().Set("Content-Type", "application/xml")
		w.Write([]byte(page))
	})
	var last error
	for _, err := range b.open(t, func(o *s3.Options) { o.Versions = true }).List(t.Context(), "m/") {
		last = err
	}
	named(t, last, nil, "s3://b/m/", "not from where")
	if asked != 2 {
		t.Errorf("asked %d times, want 2", asked)
	}
}
