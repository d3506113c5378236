package verify_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/verify"
)

func claim(algorithm, hex string, parts int) store.Sum {
	return store.Sum{Digest: digest.Digest{Algorithm: algorithm, Hex: hex}, Parts: parts, Evidence: store.Claimed}
}

func hexOf(sum []byte) string { return hex.EncodeToString(sum) }

// upload is what a bucket says of data that was uploaded in parts of the given
// size with one checksum, computed here by the standard library.
func upload(data []byte, part int, algorithm string) (etag string, composite store.Sum, pieces []store.Piece) {
	var md5s, sums []byte
	for chunk := range slices.Chunk(data, part) {
		m := md5.Sum(chunk)
		md5s = append(md5s, m[:]...)
		var sum []byte
		switch algorithm {
		case digest.SHA256:
			s := sha256.Sum256(chunk)
			sum = s[:]
		case digest.CRC32:
			h := crc32.NewIEEE()
			h.Write(chunk)
			sum = h.Sum(nil)
		}
		sums = append(sums, sum...)
		pieces = append(pieces, store.Piece{Size: int64(len(chunk)), Sums: digest.Set{algorithm: hexOf(sum)}})
	}
	m := md5.Sum(md5s)
	h := sha256.Sum256(sums)
	whole := h[:]
	if algorithm == digest.CRC32 {
		c := crc32.NewIEEE()
		c.Write(sums)
		whole = c.Sum(nil)
	}
	return fmt.Sprintf("%x-%d", m, len(pieces)), claim(algorithm, hexOf(whole), len(pieces)), pieces
}

// object puts an object into a bucket and lets it be changed.
func (b *bucket) object(key string, data []byte, change func(*store.Object)) *bucket {
	o := store.Object{Key: key, Size: int64(len(data))}
	if change != nil {
		change(&o)
	}
	b.objects[key], b.data[key] = o, data
	return b
}

func uploaded(data []byte, part int, algorithm string) func(*store.Object) {
	return func(o *store.Object) {
		var sum store.Sum
		o.ETag, sum, o.Parts = upload(data, part, algorithm)
		o.Sums = []store.Sum{sum}
	}
}

func gapOf(t *testing.T, a, b store.Source, o verify.Options) verify.Gap {
	t.Helper()
	r, err := verify.Pair(t.Context(), verify.Copy{Store: a}, verify.Copy{Store: b}, o)
	if err != nil || len(r.Errors) > 0 || len(r.Gaps) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	return r.Gaps[0]
}

var (
	right = bytes.Repeat([]byte("right bytes and "), 64<<10) // 1 MiB
	wrong = func() []byte { b := bytes.Clone(right); b[700_000] ^= 1; return b }()
)

// TestWhatTwoPlacesSay compares what two buckets say of an object.
func TestWhatTwoPlacesSay(t *testing.T) {
	bare := func(etag string) func(*store.Object) { return func(o *store.Object) { o.ETag = etag } }
	kms := func(f func(*store.Object)) func(*store.Object) {
		return func(o *store.Object) { f(o); o.Encryption = "aws:kms" }
	}
	sizes := func(data []byte, part int) func(*store.Object) { // the ETag and part sizes, no checksums
		return func(o *store.Object) {
			uploaded(data, part, digest.SHA256)(o)
			o.Sums = nil
			for i := range o.Parts {
				o.Parts[i].Sums = nil
			}
		}
	}
	hidden := func(f func(*store.Object)) func(*store.Object) { // parts not listed
		return func(o *store.Object) { f(o); o.Parts = nil }
	}
	other := func(f func(*store.Object), etag string) func(*store.Object) {
		return func(o *store.Object) { f(o); o.ETag = etag }
	}
	for name, c := range map[string]struct {
		a, b    func(*store.Object)
		dataB   []byte
		verdict verify.Verdict
		says    string
	}{
		"composites of one layout, equal":            {other(uploaded(right, 300_000, digest.SHA256), "x"), other(uploaded(right, 300_000, digest.SHA256), "y"), right, verify.Match, ""},
		"composites of one layout, different":        {other(uploaded(right, 300_000, digest.SHA256), "x"), other(uploaded(wrong, 300_000, digest.SHA256), "y"), wrong, verify.Diverged, "bytes 600000 to 899999"},
		"composites of other layouts":                {other(uploaded(right, 300_000, digest.SHA256), "x"), other(uploaded(right, 500_000, digest.SHA256), "y"), right, verify.NotComparable, "sizes differ"},
		"composites of as many parts, other layouts": {other(uploaded(right, 300_000, digest.SHA256), "x"), other(uploaded(right, 310_000, digest.SHA256), "y"), right, verify.NotComparable, "sizes differ"},
		"composites, layout not told, equal":         {hidden(uploaded(right, 300_000, digest.SHA256)), hidden(uploaded(right, 300_000, digest.SHA256)), right, verify.Match, ""},
		"composites, layout not told, different":     {hidden(uploaded(right, 300_000, digest.SHA256)), hidden(uploaded(wrong, 300_000, digest.SHA256)), wrong, verify.NotComparable, "sizes are not told"},
		"CRCs of parts combine, other layouts":       {uploaded(right, 300_000, digest.CRC32), uploaded(right, 500_000, digest.CRC32), right, verify.Match, ""},
		"CRCs of parts combine, other bytes":         {uploaded(right, 300_000, digest.CRC32), uploaded(wrong, 500_000, digest.CRC32), wrong, verify.Diverged, "combined from its parts"},
		"CRCs of parts, aligned twice":               {uploaded(right, 100_000, digest.CRC32), uploaded(wrong, 200_000, digest.CRC32), wrong, verify.Diverged, "bytes 600000 to 799999"},
		"only ETags of one layout, different":        {sizes(right, 300_000), sizes(wrong, 300_000), wrong, verify.Diverged, "md5 of its 4 parts"},
		"only ETags, encrypted with a key":           {sizes(right, 300_000), kms(sizes(wrong, 300_000)), wrong, verify.NotComparable, "proves nothing"},
		"only ETags of other layouts":                {sizes(right, 300_000), sizes(right, 500_000), right, verify.NotComparable, "sizes differ"},
		"only ETags, equal":                          {bare("0123456789abcdef0123456789abcdef-4"), bare("0123456789abcdef0123456789abcdef-4"), right, verify.Match, ""},
		"ETags that are no digests":                  {bare("write-1"), bare("write-1"), right, verify.NotComparable, "no checksum in common"},
		"nothing at all":                             {nil, nil, right, verify.NotComparable, "no checksum in common"},
		"parts that do not make their composite": {uploaded(right, 300_000, digest.CRC32), func(o *store.Object) {
			uploaded(right, 500_000, digest.CRC32)(o)
			o.Sums[0].Hex = "00000000"
		}, right, verify.NotComparable, "sizes differ"},
		"parts that are not all there": {uploaded(right, 300_000, digest.CRC32), func(o *store.Object) {
			uploaded(right, 500_000, digest.CRC32)(o)
			o.Parts = o.Parts[:2]
		}, right, verify.NotComparable, ""},
		"a part without a checksum": {uploaded(right, 300_000, digest.CRC32), func(o *store.Object) {
			uploaded(right, 500_000, digest.CRC32)(o)
			o.Parts[1].Sums = nil
		}, right, verify.NotComparable, ""},
		"a place that contradicts itself": {func(o *store.Object) { o.Sums = []store.Sum{claim(digest.CRC32, "cbf43926", 0)} }, func(o *store.Object) {
			o.Sums = []store.Sum{claim(digest.CRC32, "cbf43926", 0), claim(digest.CRC32, "00000000", 0)}
		}, right, verify.Diverged, "00000000"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newBucket().object("x", right, c.a), newBucket().object("x", c.dataB, c.b)
			g := gapOf(t, a, b, verify.Options{})
			if g.Verdict != c.verdict || !strings.Contains(g.Why, c.says) {
				t.Errorf("%s: %s; want %s: …%s…", g.Verdict, g.Why, c.verdict, c.says)
			}
			if g.Verdict == verify.Match && !bytes.Equal(right, c.dataB) || a.reads()+b.reads() > 0 {
				t.Errorf("a false match, or %d reads", a.reads()+b.reads())
			}
			read := gapOf(t, a, b, verify.Options{Resolve: []string{verify.ByRead}})
			if same := bytes.Equal(right, c.dataB); read.Verdict == verify.NotComparable || (read.Verdict == verify.Match) != same && name != "a place that contradicts itself" {
				t.Errorf("resolved by reading: %s: %s", read.Verdict, read.Why)
			}
		})
	}
}

// style is a random way in which data may have come into a bucket, and what the
// bucket says of it: all of it true.
func style(rng *rand.Rand, data []byte) func(*store.Object) {
	return func(o *store.Object) {
		part, algorithm := 50_000+rng.IntN(4)*50_000, []string{digest.CRC32, digest.SHA256}[rng.IntN(2)]
		kms := rng.IntN(4) == 0
		if rng.IntN(3) == 0 { // one part: its ETag is an MD5 unless a key is in it
			h := md5.Sum(data)
			o.ETag = hexOf(h[:])
			o.Sums = []store.Sum{claim(digest.MD5, o.ETag, 0)}
			if kms {
				o.ETag, o.Sums = fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64()), nil
			}
		} else {
			uploaded(data, part, algorithm)(o)
			if kms {
				o.ETag = fmt.Sprintf("%016x%016x-%d", rng.Uint64(), rng.Uint64(), len(o.Parts))
			}
		}
		if kms {
			o.Encryption = "aws:kms"
		}
		switch rng.IntN(4) { // what is kept of it
		case 0:
			o.Parts = nil
		case 1:
			o.Sums = slices.DeleteFunc(o.Sums, func(s store.Sum) bool { return s.Parts > 0 })
			for i := range o.Parts {
				o.Parts[i].Sums = nil
			}
		case 2:
			o.Sums = append(o.Sums, claim(digest.CRC32, fmt.Sprintf("%08x", crc32.ChecksumIEEE(data)), 0))
		}
	}
}

// TestNeverGuesses compares random uploads, in buckets that say only what is true,
// with each other, with a directory and with a manifest: what is the same is never
// called diverged, and what differs never a match.
func TestNeverGuesses(t *testing.T) {
	seen := map[verify.Verdict]int{}
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 7))
		a := make([]byte, 200_000+rng.IntN(3)*100_000)
		for i := range a {
			a[i] = byte(rng.Uint32())
		}
		b, same := bytes.Clone(a), rng.IntN(2) == 0
		if !same {
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
		opts := verify.Options{Level: []verify.Level{verify.Checksum, verify.Checksum, verify.ByContent}[rng.IntN(3)]}
		if rng.IntN(3) == 0 {
			opts.Resolve = []string{verify.ByRead}
		}
		to := newBucket().object("model/x", b, style(rng, b))
		var r verify.Result
		var err error
		switch rng.IntN(3) {
		case 0:
			r, err = verify.Pair(t.Context(), verify.Copy{Store: newBucket().object("model/x", a, style(rng, a))}, verify.Copy{Store: to}, opts)
		case 1:
			r, err = verify.Pair(t.Context(), verify.Copy{Store: fillDir(t, map[string]string{"model/x": string(a)})}, verify.Copy{Store: to}, opts)
		default:
			m, place := oneFile(a, to)
			if rng.IntN(2) == 0 {
				opts.Original = func(context.Context, string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(a)), nil }
			}
			r, err = verify.Release(t.Context(), m, place, opts)
		}
		if err != nil || len(r.Gaps) != 1 || len(r.Errors) > 0 {
			t.Fatalf("seed %d: %+v, %v", seed, r, err)
		}
		g := r.Gaps[0]
		seen[g.Verdict]++
		certain := opts.Level == verify.ByContent || len(opts.Resolve) > 0
		if same && g.Verdict == verify.Diverged || !same && g.Verdict == verify.Match || certain && g.Verdict == verify.NotComparable {
			t.Errorf("seed %d: the same: %t, verdict %s: %s", seed, same, g.Verdict, g.Why)
		}
	}
	if seen[verify.Match] < 50 || seen[verify.Diverged] < 50 || seen[verify.NotComparable] < 20 {
		t.Errorf("the cases are not mixed: %v", seen)
	}
}

// A local side is hashed in the parts in which the other was uploaded.
func TestDirectoryAgainstAnUploadInParts(t *testing.T) {
	for name, c := range map[string]struct {
		data    []byte
		change  func(*store.Object)
		verdict verify.Verdict
		says    string
	}{
		"composite SHA-256": {right, uploaded(right, 300_000, digest.SHA256), verify.Match, ""},
		"other bytes":       {wrong, uploaded(wrong, 300_000, digest.SHA256), verify.Diverged, "bytes 600000 to 899999"},
		"ETag alone": {wrong, func(o *store.Object) {
			uploaded(wrong, 300_000, digest.SHA256)(o)
			o.Sums = nil
		}, verify.Diverged, "md5 of its 4 parts"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBucket().object("x", c.data, c.change)
			g := gapOf(t, fillDir(t, map[string]string{"x": string(right)}), b, verify.Options{})
			if g.Verdict != c.verdict || !strings.Contains(g.Why, c.says) || g.Evidence != store.Claimed || b.reads() > 0 {
				t.Errorf("%s on %s: %s, %d reads", g.Verdict, g.Evidence, g.Why, b.reads())
			}
		})
	}
}

// A small file is settled by the ETag of the listing, a changed one by one request.
func TestDirectoryAgainstListedETags(t *testing.T) {
	etag := func(data []byte, encryption string) func(*store.Object) {
		return func(o *store.Object) {
			h := md5.Sum(data)
			o.ETag, o.Encryption = hexOf(h[:]), encryption
			o.Sums = []store.Sum{claim(digest.MD5, o.ETag, 0)}
		}
	}
	for name, c := range map[string]struct {
		data    []byte
		change  func(*store.Object)
		verdict verify.Verdict
		stats   int
	}{
		"equal":     {right, etag(right, ""), verify.Match, 1}, // in the end, to see that the listing is no old one
		"different": {wrong, etag(wrong, ""), verify.Diverged, 1},
		"encrypted with a key, a CRC beside it": {right, func(o *store.Object) {
			etag(wrong, "aws:kms")(o)
			c := crc32.ChecksumIEEE(right)
			o.Sums = []store.Sum{{Digest: digest.Digest{Algorithm: digest.MD5, Hex: o.ETag}, Evidence: store.Claimed, EqualityOnly: true}, claim(digest.CRC32, fmt.Sprintf("%08x", c), 0)}
		}, verify.Match, 1},
	} {
		b := newBucket().object("x", c.data, c.change)
		r, err := verify.Pair(t.Context(), verify.Copy{Store: fillDir(t, map[string]string{"x": string(right)})}, verify.Copy{Store: b}, verify.Options{})
		if err != nil || r.Gaps[0].Verdict != c.verdict || len(b.stats) != c.stats || r.BytesRead != int64(len(right)) {
			t.Errorf("%s: %+v, %v, %d asked", name, r, err, len(b.stats))
		}
	}
}

// oneFile is a release of model/x, and a bare copy of it in b.
func oneFile(content []byte, b store.Source) (*manifest.Manifest, verify.Copy) {
	return newRelease(map[string]string{"model/x": string(content)}), verify.Copy{Region: "eu", Store: b, Bare: true}
}

// Case 07: with the right bytes at hand, the ETag of an upload in known parts tells.
func TestOriginalAtHand(t *testing.T) {
	sizes := func(o *store.Object) {
		uploaded(wrong, 300_000, digest.SHA256)(o)
		o.Sums = nil
		for i := range o.Parts {
			o.Parts[i].Sums = nil
		}
	}
	good := func(o *store.Object) { sizes(o); o.ETag, _, _ = upload(right, 300_000, digest.SHA256) }
	open := func(data []byte) func(context.Context, string) (io.ReadCloser, error) {
		return func(_ context.Context, subject string) (io.ReadCloser, error) {
			if subject != "model/x" {
				return nil, fmt.Errorf("asked for %s", subject)
			}
			return io.NopCloser(bytes.NewReader(data)), nil
		}
	}
	for name, c := range map[string]struct {
		change   func(*store.Object)
		original []byte
		want     verify.Verdict
	}{
		"other bytes":          {sizes, right, verify.Diverged},
		"the same":             {good, right, verify.Match},
		"the original is none": {good, wrong, verify.NotComparable},
		"it is longer":         {good, append(bytes.Clone(right), 'x'), verify.NotComparable},
	} {
		b := newBucket().object("model/x", wrong, c.change)
		m, place := oneFile(right, b)
		r := mustRelease(t, m, place, verify.Options{Original: open(c.original)})
		if len(r.Gaps) != 1 || r.Gaps[0].Verdict != c.want || b.reads() > 0 {
			t.Errorf("%s: %+v", name, r.Gaps)
		}
	}
}

func TestBlocksNameTheRange(t *testing.T) {
	_, _, blocks := upload(right, 1<<16, digest.CRC32)
	b := newBucket().object("model/x", wrong, uploaded(wrong, 1<<17, digest.CRC32))
	m, place := oneFile(right, b)
	r := mustRelease(t, m, place, verify.Options{Blocks: map[string][]store.Piece{"model/x": blocks}})
	want := verify.Range{From: 655360, To: 786432} // the sixth part of 128 KiB
	if g := r.Gaps[0]; g.Verdict != verify.Diverged || !slices.Equal(g.Ranges, []verify.Range{want}) {
		t.Errorf("%+v", g)
	}
}

// What is known from elsewhere counts only for the state that it speaks of.
func TestKnownFromElsewhere(t *testing.T) {
	sum := func(data []byte) []store.Sum {
		h := sha256.Sum256(data)
		return []store.Sum{{Digest: digest.Digest{Algorithm: digest.SHA256, Hex: hexOf(h[:])}, Evidence: store.Recomputed}}
	}
	for name, c := range map[string]struct {
		known    verify.Known
		version  string
		verdict  verify.Verdict
		evidence store.Evidence
		says     string
	}{
		"of this ETag":           {verify.Known{ETag: `"e-2"`, Sums: sum(right)}, "", verify.Match, store.Recomputed, ""},
		"other bytes":            {verify.Known{ETag: "e-2", Sums: sum(wrong)}, "", verify.Diverged, store.Recomputed, "sha256"},
		"of another ETag":        {verify.Known{ETag: "f-2", Sums: sum(right)}, "", verify.NotComparable, store.Size, "another state"},
		"of nothing in special":  {verify.Known{Sums: sum(right)}, "", verify.NotComparable, store.Size, "another state"},
		"of this version":        {verify.Known{Version: "v1", Sums: sum(right)}, "v1", verify.Match, store.Recomputed, ""},
		"of another version":     {verify.Known{Version: "v1", ETag: "e-2", Sums: sum(right)}, "v2", verify.NotComparable, store.Size, "another state"},
		"of the null version":    {verify.Known{Version: "null", Sums: sum(right)}, "null", verify.NotComparable, store.Size, "another state"},
		"null version, its ETag": {verify.Known{Version: "null", ETag: "e-2", Sums: sum(right)}, "null", verify.Match, store.Recomputed, ""},
	} {
		b := newBucket().object("model/x", right, func(o *store.Object) { o.ETag, o.Version = "e-2", c.version })
		m, place := oneFile(right, b)
		r := mustRelease(t, m, place, verify.Options{Known: map[string]verify.Known{"model/x": c.known}, Resolve: []string{verify.ByBatch}})
		if g := r.Gaps[0]; g.Verdict != c.verdict || g.Evidence != c.evidence || !strings.Contains(g.Why, c.says) {
			t.Errorf("%s: %s on %s: %s", name, g.Verdict, g.Evidence, g.Why)
		}
	}
	// Nothing is tied to nothing.
	bare := newBucket().object("model/x", right, nil)
	m, place := oneFile(right, bare)
	if r := mustRelease(t, m, place, verify.Options{Known: map[string]verify.Known{"model/x": {Sums: sum(right)}}}); r.Gaps[0].Verdict != verify.NotComparable {
		t.Errorf("without version and ETag: %+v", r.Gaps[0])
	}
	// The same key in the source is another object.
	a, b := newBucket().object("x", right, nil), newBucket().object("x", wrong, func(o *store.Object) { o.ETag = "e-2" })
	if g := gapOf(t, a, b, verify.Options{Known: map[string]verify.Known{"x": {ETag: "e-2", Sums: sum(right)}}}); g.Verdict != verify.NotComparable {
		t.Errorf("%+v", g)
	}
}

// hasher is a Resolver that says what it is told to.
type hasher struct {
	sums  []store.Sum
	err   error
	asked []string
}

func (h *hasher) Resolve(_ context.Context, _ verify.Copy, o store.Object, _ digest.Set) ([]store.Sum, error) {
	h.asked = append(h.asked, o.Key)
	return h.sums, h.err
}

func TestResolveByCopy(t *testing.T) {
	h := sha256.Sum256(right)
	said := []store.Sum{{Digest: digest.Digest{Algorithm: digest.SHA256, Hex: hexOf(h[:])}, Evidence: store.Recomputed}}
	denied := errors.New("access denied")
	for name, c := range map[string]struct {
		sums    []store.Sum
		err     error
		want    []byte
		verdict verify.Verdict
	}{
		"equal":      {said, nil, right, verify.Match},
		"different":  {said, nil, wrong, verify.Diverged},
		"too large":  {nil, verify.ErrCannotResolve, right, verify.NotComparable},
		"it is lost": {nil, denied, right, ""},
	} {
		b := newBucket().object("model/x", right, nil)
		m, place := oneFile(c.want, b)
		resolver := &hasher{sums: c.sums, err: c.err}
		r := mustRelease(t, m, place, verify.Options{Resolve: []string{verify.ByCopy}, Resolver: resolver})
		if c.verdict == "" {
			if len(r.Errors) != 1 || !errors.Is(r.Errors[0], denied) || !strings.Contains(r.Errors[0].Error(), "model/x") {
				t.Errorf("%s: %+v", name, r)
			}
			continue
		}
		if r.Gaps[0].Verdict != c.verdict || len(resolver.asked) != 1 {
			t.Errorf("%s: %+v, asked for %v", name, r.Gaps[0], resolver.asked)
		}
	}
	// What is comparable is not asked for, and without the flag nothing is.
	b := newBucket().object("model/x", right, func(o *store.Object) { o.Sums = []store.Sum{claim(digest.SHA256, hexOf(h[:]), 0)} })
	m, place := oneFile(right, b)
	resolver := &hasher{}
	if r := mustRelease(t, m, place, verify.Options{Resolve: []string{verify.ByCopy}, Resolver: resolver}); !r.Holds() || len(resolver.asked) > 0 {
		t.Errorf("%+v, asked for %v", r, resolver.asked)
	}
	for _, o := range []verify.Options{{Resolve: []string{"guess"}}, {Resolve: []string{verify.ByCopy}}} {
		if _, err := verify.Release(t.Context(), m, place, o); errext.StatusOf(err) != errext.Usage {
			t.Errorf("%v: %v", o.Resolve, err)
		}
	}
}

func TestParseAcceptance(t *testing.T) {
	for text, want := range map[string]verify.Acceptance{"not-comparable": {Verdict: verify.NotComparable}, "not-comparable:model/a:b": {Verdict: verify.NotComparable, Subject: "model/a:b"}} {
		if got, err := verify.ParseAcceptance(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "diverged", "missing:x", "present", "not-comparable:", "all"} {
		if _, err := verify.ParseAcceptance(text); errext.StatusOf(err) != errext.Usage {
			t.Errorf("%q: %v", text, err)
		}
	}
	// Not even by hand is anything else accepted.
	m, place := oneFile(right, newBucket())
	if r := mustRelease(t, m, place, verify.Options{Accept: []verify.Acceptance{{Verdict: verify.Missing}}}); r.Holds() {
		t.Error("a missing file was accepted")
	}
	m, place = oneFile(right, newBucket().object("model/x", wrong, uploaded(wrong, 1<<19, digest.CRC32)))
	if r := mustRelease(t, m, place, verify.Options{Accept: []verify.Acceptance{{Verdict: verify.Diverged}}}); r.Holds() || r.Gaps[0].Verdict != verify.Diverged {
		t.Errorf("a diverged file was accepted: %+v", r.Gaps[0])
	}
}

// rewritten is a bucket in which an object was replaced since it was listed, by
// other bytes of the same size in the same second.
type rewritten struct{ *bucket }

func (b rewritten) Stat(ctx context.Context, key string) (store.Object, error) {
	o, err := b.bucket.Stat(ctx, key)
	o.ETag = "another"
	return o, err
}

func TestETagChangesMeanwhile(t *testing.T) {
	h := sha256.Sum256(right)
	b := newBucket().object("model/x", right, func(o *store.Object) {
		o.ETag, o.Sums = "one", []store.Sum{claim(digest.SHA256, hexOf(h[:]), 0)}
	})
	m, place := oneFile(right, rewritten{b})
	r := mustRelease(t, m, place, verify.Options{})
	if len(r.Errors) != 1 || len(r.Gaps) != 0 || !strings.Contains(r.Errors[0].Error(), "changed while it was verified") {
		t.Errorf("%+v", r)
	}
}

// cutting gives bodies of other lengths than it lists.
type cutting struct {
	*bucket
	add int
}

func (c cutting) Open(_ context.Context, o store.Object, _, _ int64) (io.ReadCloser, error) {
	data := c.data[o.Key]
	if c.add < 0 {
		return io.NopCloser(bytes.NewReader(data[:len(data)+c.add])), nil
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(data), io.LimitReader(endless{}, int64(c.add)))), nil
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A body of another length is an error that names the object, also when both
// sides break off at one place.
func TestBodiesOfAnotherLength(t *testing.T) {
	for _, add := range []int{-1, -300_000, 1, 1 << 40} {
		b := cutting{newBucket().object("model/x", right, nil), add}
		m, place := oneFile(right, b)
		results := []verify.Result{mustRelease(t, m, place, verify.Options{Level: verify.ByContent})}
		for _, a := range []store.Source{b, newBucket().object("model/x", right, nil)} {
			r, err := verify.Pair(t.Context(), verify.Copy{Store: a}, verify.Copy{Store: b}, verify.Options{Level: verify.ByContent})
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, r)
		}
		for i, r := range results {
			if len(r.Errors) != 1 || len(r.Gaps) != 0 || !strings.Contains(r.Errors[0].Error(), "model/x") || !strings.Contains(r.Errors[0].Error(), "bytes") || r.Status() != errext.Failed {
				t.Errorf("%+d bytes, %d: %+v", add, i, r)
			}
		}
	}
}

// breaking ends bodies with an error in the middle.
type breaking struct{ *bucket }

func (b breaking) Open(_ context.Context, o store.Object, _, _ int64) (io.ReadCloser, error) {
	return io.NopCloser(io.MultiReader(bytes.NewReader(b.data[o.Key][:1000]), failing{})), nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, fmt.Errorf("connection: %w", io.ErrUnexpectedEOF) }

func TestBodiesThatBreakOffAtOnePlace(t *testing.T) {
	a, b := breaking{newBucket().object("x", right, nil)}, breaking{newBucket().object("x", right, nil)}
	r, err := verify.Pair(t.Context(), verify.Copy{Store: a}, verify.Copy{Store: b}, verify.Options{Level: verify.ByContent})
	if err != nil || r.Status() != errext.Failed || len(r.Errors) != 1 || !errors.Is(r.Errors[0], io.ErrUnexpectedEOF) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRecognise(t *testing.T) {
	const content = "{\n  \"model_type\": \"llama\"\n}\n"
	zip := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		io.WriteString(z, text)
		z.Close()
		return b.String()
	}
	const html = "<!DOCTYPE html>\n<html><body>Sign in</body></html>"
	for name, c := range map[string]struct {
		file, stored, want string // want: in what it says; "" for silence
	}{
		"gzip":                       {"model/config.json", zip(content), "gzip is stored in place of the file; the right content is inside"},
		"gzip of something else":     {"model/config.json", zip("x"), "or is not the right content either"},
		"a gzip by name":             {"model/data.gz", zip(content), ""},
		"CRLF":                       {"model/config.json", strings.ReplaceAll(content, "\n", "\r\n"), "converted to CRLF"},
		"byte order mark":            {"model/config.json", "\ufeff" + content, "byte order mark"},
		"CRLF, but other words":      {"model/config.json", strings.ReplaceAll(content, "\n", "\r\n") + "x", ""},
		"HTML page":                  {"model/model.safetensors", html, "HTML page is stored in place of the file"},
		"an HTML file":               {"model/card.html", html, ""},
		"XML error":                  {"model/config.json", `<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>`, "XML error (AccessDenied) is stored"},
		"LFS pointer":                {"model/model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "Git LFS pointer"},
		"framing":                    {"model/config.json", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(content), content), "chunked upload framing is stored in the object; the right content is inside"},
		"framing around other words": {"model/config.json", "3\r\nabc\r\n0\r\n\r\n", "chunked upload framing is stored in the object; what is inside was not compared, or is not"},
		"framing that ends early":    {"model/config.json", "3\r\nabc\r\n", ""},
		"framing with too much":      {"model/config.json", "ffffffffffffffff\r\nabc", ""},
		"JSON that is longer":        {"model/config.json", content + " ", ""},
		"nothing":                    {"model/config.json", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newRelease(map[string]string{c.file: content})
			b := newBucket().object(c.file, []byte(c.stored), nil)
			g := mustRelease(t, m, verify.Copy{Region: "eu", Store: b, Bare: true}, verify.Options{}).Gaps[0]
			if g.Verdict != verify.Diverged || !strings.Contains(g.Why, c.want) || (g.Hint == "") != (c.want == "") {
				t.Errorf("%s: %s (%s), want %q", g.Verdict, g.Why, g.Hint, c.want)
			}
		})
	}
	head := []byte("10000\r\n" + strings.Repeat("x", 1<<16))
	if f, ok := verify.Recognise("model/x", head, 10<<20, 9<<20, nil); !ok || !strings.Contains(f.What, "begins as if chunked") {
		t.Errorf("a large framed object: %v, %v", f, ok)
	}
}

// What a small object unpacks to is hashed, and not held in memory.
func TestRecogniseHoldsNoBomb(t *testing.T) {
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	const size = 48 << 20
	for range size >> 20 {
		z.Write(make([]byte, 1<<20))
	}
	z.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, ok := verify.Recognise("model/x", packed.Bytes(), int64(packed.Len()), size, []store.Sum{claim(digest.SHA256, strings.Repeat("0", 64), 0)})
	runtime.ReadMemStats(&after)
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; !ok || !strings.Contains(f.What, "not the right content") || used > 4 {
		t.Errorf("%v, %v, %d MiB", f, ok, used)
	}
}

// Two places without checksums: the right file is read for the comparison.
func TestRecogniseBetweenDirectories(t *testing.T) {
	a := fillDir(t, map[string]string{"x": "one\ntwo\n"})
	for stored, says := range map[string]string{"one\r\ntwo\r\n": "converted to CRLF", "two\r\none\r\n": ""} {
		if g := gapOf(t, a, fillDir(t, map[string]string{"x": stored}), verify.Options{}); g.Verdict != verify.Diverged || !strings.Contains(g.Why, says) || (g.Hint == "") != (says == "") {
			t.Errorf("%+v", g)
		}
	}
}

// A great tree of other sizes is not read for the sake of hints.
func TestRecognisesOnlySome(t *testing.T) {
	b, files := newBucket(), map[string]string{}
	for i := range 300 {
		name := fmt.Sprintf("model/%03d", i)
		files[name] = "x"
		b.object(name, []byte("xx"), nil)
	}
	r := mustRelease(t, newRelease(files), verify.Copy{Region: "eu", Store: b, Bare: true}, verify.Options{})
	if r.Count(verify.Diverged) != 300 || b.reads() > 64 {
		t.Errorf("%d diverged, %d reads", r.Count(verify.Diverged), b.reads())
	}
}

func FuzzRecognise(f *testing.F) {
	f.Add([]byte("4c\r\nabc\r\n0\r\n\r\n"))
	f.Add([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0})
	f.Add([]byte("<?xml <Error><Code>"))
	f.Add([]byte("version https://git-lfs.github.com/spec/v1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		verify.Recognise("model/x", data, int64(len(data)), 10, []store.Sum{claim(digest.CRC32, "cbf43926", 0)})
		verify.Recognise("model/x", data, int64(len(data))+1, 10, nil)
	})
}
