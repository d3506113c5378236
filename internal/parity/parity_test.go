package parity

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"drkit/internal/faultproxy"
	"drkit/internal/store"
	"drkit/internal/store/s3"
	"drkit/internal/store/s3/s3test"
	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/verify"
)

var (
	seeds = flag.Uint64("parity.seeds", 40, "how many random trees to verify")
	first = flag.Uint64("parity.first", 0, "seed of the first tree")
)

// fate is what became of a file in the target.
type fate int

const (
	same     fate = iota
	other         // other bytes, same size
	longer        // other size
	rotten        // other bytes beneath the stored checksums
	missing       // not there
	unwanted      // there, and not in the source
)

// tree is a source and a damaged copy of it, each behind a proxy.
type tree struct {
	rnd            *rand.Rand
	source, target *side
	files          map[string][]byte
	fates          map[string]fate
}

// side is one bucket, its server and the proxy in front of it.
type side struct {
	server *s3test.Server
	proxy  *faultproxy.Proxy
	bucket string
	clean  *s3.Store // without the proxy
	store  *s3.Store // through the proxy
}

// newSide serves an empty bucket.
func newSide(t *testing.T, bucket string, partSize int64, o s3test.Options, b s3test.BucketOptions, seed uint64) *side {
	t.Helper()
	s := &side{server: s3test.New(o).CreateBucket(bucket, b), bucket: bucket}
	s.proxy = faultproxy.New(s.server, faultproxy.Options{Seed: seed})
	behind := httptest.NewServer(s.proxy)
	transport := &http.Transport{ResponseHeaderTimeout: 100 * time.Millisecond, MaxIdleConnsPerHost: 8}
	t.Cleanup(func() { s.proxy.Close(); transport.CloseIdleConnections(); behind.Close() })
	open := func(url string, h aws.HTTPClient) *s3.Store {
		have := s.server.Options()
		st, err := s3.New(t.Context(), s3.Options{Bucket: bucket, Region: have.Region, Endpoint: url, PathStyle: true, Backoff: 1, HTTP: h,
			Stall: 100 * time.Millisecond, PartSize: partSize, Credentials: credentials.NewStaticCredentialsProvider(have.AccessKey, have.SecretKey, "")})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	s.clean = open(s.server.Start(t), nil)
	s.store = open(behind.URL, &http.Client{Transport: transport})
	return s
}

// grow makes a random tree.
func grow(t *testing.T, seed uint64) *tree {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	o := s3test.Options{MinPartSize: -1, PageSize: 1 + rnd.IntN(9), NoPartChecksums: rnd.IntN(4) == 0, NoAttributes: rnd.IntN(4) == 0}
	shape := func() s3test.BucketOptions {
		return s3test.BucketOptions{Versioning: rnd.IntN(3) == 0, KMSKey: []string{"", "", "arn:aws:kms:us-east-1:1:key/2"}[rnd.IntN(3)]}
	}
	w := &tree{rnd: rnd, files: map[string][]byte{}, fates: map[string]fate{},
		source: newSide(t, "source", 1000+rnd.Int64N(5000), o, shape(), seed), target: newSide(t, "target", 1000+rnd.Int64N(5000), o, shape(), seed+1<<32)}
	for i := range 3 + rnd.IntN(10) {
		key := fmt.Sprintf("model/%s-%02d", []string{"a b", "a+b", "a%2Bb", "c#d?e", "é", "e\u0301", "dir/x", "plain"}[rnd.IntN(8)], i)
		w.files[key] = w.bytes(rnd.IntN(12_000))
		w.put(t, w.source, key, w.files[key])
		w.damage(t, key)
	}
	if rnd.IntN(3) == 0 {
		w.fates["model/unwanted"] = unwanted
		w.put(t, w.target, "model/unwanted", []byte("x"))
	}
	return w
}

func (w *tree) bytes(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(w.rnd.Uint32())
	}
	return data
}

func (w *tree) put(t *testing.T, s *side, key string, data []byte) {
	t.Helper()
	if _, err := s.clean.Put(t.Context(), key, store.BytesBody(data), store.Cond{}); err != nil {
		t.Fatal(err)
	}
}

// damage puts a file into the target as its fate wants.
func (w *tree) damage(t *testing.T, key string) {
	t.Helper()
	data := slices.Clone(w.files[key])
	f := fate(max(0, w.rnd.IntN(12)-7)) // same: 8 of 12, each other: 1
	if len(data) == 0 && (f == other || f == rotten) {
		f = missing
	}
	switch w.fates[key] = f; f {
	case other:
		data[w.rnd.IntN(len(data))] ^= 1
	case longer:
		data = append(data, 'x')
	case missing:
		return
	}
	w.put(t, w.target, key, data)
	if at := w.rnd.Int64N(max(int64(len(data)), 1)); f == rotten {
		w.target.server.Rot("target", key, at, []byte{data[at] ^ 1})
	}
}

// manifest describes the source.
func (w *tree) manifest() *manifest.Manifest {
	m := &manifest.Manifest{Service: "support", Release: strings.Repeat("0", 64)}
	for key, data := range w.files {
		h := digest.NewHasher(int64(len(data)))
		h.Write(data)
		m.Contents.Files = append(m.Contents.Files, manifest.File{Part: "model", Path: strings.TrimPrefix(key, "model/"), Size: int64(len(data)), Sums: h.Sums()})
	}
	return m
}

// rules are random faults of random kinds.
func (w *tree) rules() []faultproxy.Rule {
	objects := regexp.MustCompile(`^/\w+/.+`)
	var all []faultproxy.Rule
	for _, kind := range faultproxy.Kinds {
		if w.rnd.IntN(3) > 0 || kind == faultproxy.StaleList || kind == faultproxy.WrongUpload {
			continue
		}
		r := faultproxy.Rule{Kind: kind, Chance: 0.3 * w.rnd.Float64(), Delay: time.Millisecond}
		switch kind {
		case faultproxy.WrongBytes: // of objects alone: a document in plain HTTP proves nothing of itself
			r.Path, r.Query = objects, regexp.MustCompile(`x-id=GetObject`)
		case faultproxy.Hang:
			r.Limit = 2
		case faultproxy.ClockSkew, faultproxy.Expired, faultproxy.Permanent:
			r.Limit, r.Nth = 1, w.rnd.IntN(20)
		}
		all = append(all, r)
	}
	w.rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// right lists the verdicts that are true of a fate.
func (f fate) right(level verify.Level) verify.Verdict {
	switch {
	case f == same, f == rotten && level == verify.Checksum: // a claim is all that is asked for
		return verify.Match
	case f == missing:
		return verify.Missing
	case f == unwanted:
		return verify.Extra
	}
	return verify.Diverged
}

// run is one verification of a tree and how to judge it.
type run struct {
	w      *tree
	level  verify.Level
	pair   bool
	faults int // that it met
	unlike func(key string) bool
}

// judge compares a result with the truth and says what is wrong with it.
func (x *run) judge(r verify.Result) (wrong []string) {
	told := map[string]bool{}
	for _, g := range r.Gaps {
		told[g.Subject] = true
		if why := x.gap(g); why != "" {
			wrong = append(wrong, fmt.Sprintf("%q (fate %d) is %v on evidence %v (%s): %s", g.Subject, x.w.fates[g.Subject], g.Verdict, g.Evidence, g.Why, why))
		}
	}
	if x.faults == 0 && len(r.Errors) > 0 {
		wrong = append(wrong, fmt.Sprintf("no fault was injected, and yet %v", r.Errors))
	}
	damaged := false
	for key, f := range x.w.fates {
		damaged = damaged || f.right(x.level) != verify.Match
		if !told[key] && !named(r.Errors, key) {
			wrong = append(wrong, fmt.Sprintf("nothing is said of %q (fate %d): errors %v", key, f, r.Errors))
		}
	}
	if r.Holds() && damaged {
		wrong = append(wrong, "it holds, and the copy is damaged")
	}
	return wrong
}

// gap says what is wrong with one verdict.
func (x *run) gap(g verify.Gap) string {
	f, known := x.w.fates[g.Subject]
	want := f.right(x.level)
	switch {
	case !known:
		return "it is nowhere"
	case g.Verdict == verify.Match && want != verify.Match:
		return "A FALSE MATCH"
	case g.Verdict == verify.Match && x.level == verify.ByContent && g.Evidence != store.Content:
		return "at level content"
	case g.Verdict == want:
		return ""
	case g.Verdict == verify.NotComparable && x.pair && x.level == verify.Checksum && x.unlike(g.Subject):
		return "" // no checksum in common: said as it is
	}
	return fmt.Sprintf("want %v", want)
}

// unlike reports whether no checksum is of one algorithm on both sides: an upload
// in one piece has SHA-256, one in parts CRC64NVME.
func (w *tree) unlike(t *testing.T, key string) bool {
	parts := map[bool]bool{}
	for _, s := range []*side{w.source, w.target} {
		o, err := s.clean.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		parts[strings.Contains(o.ETag, "-")] = true
	}
	return len(parts) == 2
}

// named reports whether an error names an object, or the bucket as a whole.
func named(errs []verify.ObjectError, key string) bool {
	return slices.ContainsFunc(errs, func(e verify.ObjectError) bool {
		return e.Subject == key || strings.Contains(e.Error(), key) || (e.Key == "" && names(e))
	})
}

// names reports whether an error names a bucket.
func names(err error) bool {
	return strings.Contains(err.Error(), "source") || strings.Contains(err.Error(), "target")
}

// injected counts the faults of a kind so far, of any kind for "".
func (w *tree) injected(kind faultproxy.Kind) (n int) {
	for _, s := range []*side{w.source, w.target} {
		for _, i := range s.proxy.Injected() {
			if kind == "" || i.Kind == kind {
				n++
			}
		}
	}
	return n
}

func (w *tree) verify(t *testing.T, level verify.Level, release bool) (verify.Result, error) {
	o := verify.Options{Level: level, Workers: 2}
	if release {
		return verify.Release(t.Context(), w.manifest(), verify.Copy{Region: "target", Store: w.target.store, Bare: true}, o)
	}
	return verify.Pair(t.Context(), verify.Copy{Region: "source", Store: w.source.store}, verify.Copy{Region: "target", Store: w.target.store}, o)
}

// tally counts what came of all runs of a test.
type tally struct{ runs, faulty, judged, gaps atomic.Int64 }

func TestVerdictsUnderFaults(t *testing.T) {
	var all tally
	t.Cleanup(func() { all.check(t) })
	for seed := *first; seed < *first+*seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := grow(t, seed)
			for _, level := range []verify.Level{verify.Checksum, verify.ByContent} {
				for _, release := range []bool{false, true} {
					w.under(t, level, release, &all)
				}
			}
		})
	}
}

// check: runs that meet no fault, or end without a verdict, prove nothing. Of a few
// seeds that may be so.
func (a *tally) check(t *testing.T) {
	runs, faulty, judged, gaps := a.runs.Load(), a.faulty.Load(), a.judged.Load(), a.gaps.Load()
	t.Logf("%d runs, %d of them with faults, %d with a result, %d verdicts", runs, faulty, judged, gaps)
	if runs >= 100 && (faulty < runs/2 || judged < runs/2 || gaps < judged) {
		t.Error("too few of them prove anything")
	}
}

// under verifies under new random faults and judges what comes out.
func (w *tree) under(t *testing.T, level verify.Level, release bool, all *tally) {
	before := w.injected("")
	w.source.proxy.SetRules(w.rules()...)
	w.target.proxy.SetRules(w.rules()...)
	r, err := w.verify(t, level, release)
	x := &run{w: w, level: level, pair: !release, faults: w.injected("") - before,
		unlike: func(key string) bool { return w.unlike(t, key) }}
	all.runs.Add(1)
	if x.faults > 0 {
		all.faulty.Add(1)
	}
	if err != nil {
		if !names(err) || x.faults == 0 {
			t.Errorf("%s, release %v: %v", level, release, err)
		}
		return
	}
	all.judged.Add(1)
	all.gaps.Add(int64(len(r.Gaps)))
	for _, wrong := range x.judge(r) {
		t.Errorf("%s, release %v: %s", level, release, wrong)
	}
	if t.Failed() {
		t.Logf("faults of the source: %+v", w.source.proxy.Injected())
		t.Logf("faults of the target: %+v", w.target.proxy.Injected())
	}
}

// The judge itself must be able to say no.
func TestJudge(t *testing.T) {
	w := &tree{fates: map[string]fate{"good": same, "bad": other, "gone": missing, "rot": rotten}}
	x := &run{w: w, level: verify.ByContent, faults: 1, unlike: func(string) bool { return false }}
	gaps := func(change map[string]verify.Verdict) (all []verify.Gap) {
		for key, v := range map[string]verify.Verdict{"good": verify.Match, "bad": verify.Diverged, "gone": verify.Missing, "rot": verify.Diverged} {
			if c, ok := change[key]; ok {
				v = c
			}
			if v != "" {
				all = append(all, verify.Gap{Subject: key, Verdict: v, Evidence: store.Content})
			}
		}
		return all
	}
	if wrong := x.judge(verify.Result{Gaps: gaps(nil)}); len(wrong) > 0 {
		t.Errorf("the truth is called wrong: %q", wrong)
	}
	for want, r := range map[string]verify.Result{
		"A FALSE MATCH":         {Gaps: gaps(map[string]verify.Verdict{"bad": verify.Match})},
		"FALSE MATCH":           {Gaps: gaps(map[string]verify.Verdict{"rot": verify.Match})},
		"want match":            {Gaps: gaps(map[string]verify.Verdict{"good": verify.Diverged})},
		"nothing is said":       {Gaps: gaps(map[string]verify.Verdict{"gone": ""})},
		"it is nowhere":         {Gaps: append(gaps(nil), verify.Gap{Subject: "another", Verdict: verify.Match})},
		"and the copy is damag": {Gaps: gaps(map[string]verify.Verdict{"bad": verify.Match, "gone": verify.Match, "rot": verify.Match}), Compared: 4},
	} {
		if wrong := x.judge(r); !strings.Contains(strings.Join(wrong, "\n"), want) {
			t.Errorf("%q is not found: %q", want, wrong)
		}
	}
}

// A listing that shows what was there before: the verdict on what changed since
// is an error or right, never a match, however long the server goes on so (0: for
// ever). Level checksum rests on what listings say, and asks for some of the
// objects by name: here, for all of them.
func TestStaleListing(t *testing.T) {
	for level, times := range map[verify.Level][]int{verify.Checksum: {1, 2, 3, 0}, verify.ByContent: {1, 2, 3, 0}} {
		for _, stale := range times {
			for _, release := range []bool{false, true} {
				w := &tree{rnd: rand.New(rand.NewPCG(1, 1)), files: map[string][]byte{}, fates: map[string]fate{},
					source: newSide(t, "source", 1<<20, s3test.Options{}, s3test.BucketOptions{}, 1), target: newSide(t, "target", 1<<20, s3test.Options{}, s3test.BucketOptions{}, 2)}
				for key, f := range map[string]fate{"model/good": same, "model/changed": other, "model/gone": missing} {
					w.files[key], w.fates[key] = []byte("content of "+key), f
					w.put(t, w.source, key, w.files[key])
					w.put(t, w.target, key, w.files[key])
				}
				w.target.proxy.SetRules(faultproxy.Rule{Kind: faultproxy.StaleList, Query: regexp.MustCompile("list-type"), Limit: stale})
				for range w.target.store.List(t.Context(), "") { // the listing that will be repeated
				}
				w.put(t, w.target, "model/changed", []byte("CONTENT of model/changed"))
				if err := w.target.clean.Remove(t.Context(), "model/gone", store.Cond{}); err != nil {
					t.Fatal(err)
				}
				r, err := w.verify(t, level, release)
				if err != nil {
					t.Fatal(err)
				}
				x := &run{w: w, level: level, pair: !release, faults: w.injected("")}
				if x.faults == 0 {
					t.Error("no listing was stale")
				}
				for _, wrong := range x.judge(r) {
					t.Errorf("%s, release %v, %d stale: %s", level, release, stale, wrong)
				}
			}
		}
	}
}

// Whatever happens on the way, a key holds what was put or what was there
// before, and a Put that says it succeeded did.
func TestPutsUnderFaults(t *testing.T) {
	var done, failed atomic.Int64
	t.Cleanup(func() {
		if *seeds >= 20 && (done.Load() == 0 || failed.Load() == 0) {
			t.Errorf("%d puts succeeded, %d failed: one of the two was never judged", done.Load(), failed.Load())
		}
	})
	for seed := *first; seed < *first+*seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := &tree{rnd: rand.New(rand.NewPCG(seed, 2))}
			w.target = newSide(t, "target", 3000, s3test.Options{MinPartSize: -1}, s3test.BucketOptions{}, seed)
			for range 6 {
				before, after := w.bytes(w.rnd.IntN(9000)), w.bytes(w.rnd.IntN(9000))
				w.put(t, w.target, "k", before)
				w.target.proxy.SetRules(append(w.rules(), faultproxy.Rule{Kind: faultproxy.WrongUpload, Chance: 0.2})...)
				_, err := w.target.store.Put(t.Context(), "k", store.BytesBody(after), store.Cond{})
				if err == nil {
					done.Add(1)
				} else {
					failed.Add(1)
				}
				switch got, _ := w.target.server.Object("target", "k"); {
				case err == nil && !bytes.Equal(got, after):
					t.Errorf("Put succeeded, and the key holds %d other bytes", len(got))
				case err != nil && !bytes.Equal(got, after) && !bytes.Equal(got, before):
					t.Errorf("Put failed (%v), and the key holds %d bytes that nobody put", err, len(got))
				case err != nil && !strings.Contains(err.Error(), "k"):
					t.Errorf("an error that names nothing: %v", err)
				}
			}
		})
	}
}

// A page of a listing that ends early is asked for again, wherever it ended.
func TestBrokenListing(t *testing.T) {
	w := newSide(t, "target", 1<<20, s3test.Options{}, s3test.BucketOptions{}, 1)
	if _, err := w.clean.Put(t.Context(), "k", store.BytesBody([]byte("x")), store.Cond{}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []faultproxy.Kind{faultproxy.Truncate, faultproxy.Reset, faultproxy.Short} {
		for at := int64(1); at < 500; at += 31 { // the first two lie before the document's element
			w.proxy.SetRules(faultproxy.Rule{Kind: kind, Query: regexp.MustCompile("list-type"), Limit: 1, At: at})
			n, before := 0, len(w.proxy.Injected())
			for o, err := range w.store.List(t.Context(), "") {
				if n++; err != nil || o.Key != "k" {
					t.Errorf("%s at %d: %+v, %v", kind, at, o, err)
				}
			}
			if n != 1 || len(w.proxy.Injected()) != before+1 {
				t.Errorf("%s at %d: %d entries", kind, at, n)
			}
		}
		w.proxy.SetRules(faultproxy.Rule{Kind: kind, Query: regexp.MustCompile("list-type"), At: 100})
		for o, err := range w.store.List(t.Context(), "") {
			if err == nil || !strings.Contains(err.Error(), "s3://target/") || strings.Contains(err.Error(), ": ok (") {
				t.Errorf("%s, always: %+v, %v", kind, o, err)
			}
		}
	}
}
