package verify

import (
	"fmt"
	"regexp"
	"strconv"

	"drkit/internal/store"
	"drkit/manifest/digest"
)

// combined are the checksums of the whole that the checksums of its parts give:
// CRCs can be combined when every part is there with size and checksum. Parts
// that do not give the composite which the place says of them give nothing.
func combined(parts []store.Piece, size int64, said []store.Sum) []store.Sum {
	var all []store.Sum
	for _, algorithm := range parts[0].Sums.Algorithms() {
		if d, n, ok := join(parts, algorithm); ok && n == size && agrees(parts, algorithm, said) {
			all = append(all, store.Sum{Digest: d, Evidence: store.Claimed})
		}
	}
	return all
}

// join combines one checksum of successive pieces and adds up their sizes.
func join(pieces []store.Piece, algorithm string) (total digest.Digest, size int64, ok bool) {
	for i, p := range pieces {
		d, has := p.Sums.Get(algorithm)
		if !has || p.Size < 0 || size+p.Size < 0 {
			return digest.Digest{}, 0, false
		}
		size += p.Size
		if i == 0 {
			total = d
			continue
		}
		var err error
		if total, err = digest.Combine(total, d, p.Size); err != nil {
			return digest.Digest{}, 0, false
		}
	}
	return total, size, len(pieces) > 0 && digest.Combines(algorithm)
}

// agrees reports whether the composite that the place says is that of its parts,
// as far as it says one.
func agrees(parts []store.Piece, algorithm string, said []store.Sum) bool {
	for _, s := range said {
		if s.Algorithm != algorithm || s.Parts == 0 {
			continue
		}
		if d, ok := compositeOf(parts, algorithm); !ok || s.Parts != len(parts) || d != s.Digest {
			return false
		}
	}
	return true
}

func compositeOf(parts []store.Piece, algorithm string) (digest.Digest, bool) {
	var hex []string
	for _, p := range parts {
		hex = append(hex, p.Sums[algorithm])
	}
	d, err := digest.Composite(algorithm, hex)
	return d, err == nil
}

// multipartETag is the ETag of an upload in parts: the MD5 of the MD5s of the
// parts in hexadecimal, and their number.
var multipartETag = regexp.MustCompile(`^"?([0-9a-f]{32})-([1-9][0-9]{0,4})"?$`)

// composites are the side's checksums of checksums of parts, the ETag among them.
// Different ETags prove nothing while it is not known that neither encryption nor
// anything else went into them.
func (s *side) composites() []store.Sum {
	var all []store.Sum
	etag := true
	for _, sum := range s.sums {
		if sum.Parts > 0 && sum.Hex != "" {
			all = append(all, sum)
			etag = etag && sum.Algorithm != digest.MD5
		}
	}
	if m := multipartETag.FindStringSubmatch(s.object.ETag); m != nil && etag {
		n, _ := strconv.Atoi(m[2]) // at most five digits
		all = append(all, store.Sum{Digest: digest.Digest{Algorithm: digest.MD5, Hex: m[1]}, Parts: n, Evidence: store.Claimed, EqualityOnly: !s.plain()})
	}
	return all
}

// plain reports whether the place was asked and said nothing of a key that
// changes ETags.
func (s *side) plain() bool {
	return s.asked && (s.object.Encryption == "" || s.object.Encryption == "AES256")
}

// differing finds the ranges of size bytes in which two lists of pieces differ.
// Wherever pieces of both end at one place, what lies before is compared: CRCs of
// several pieces are combined. A single range that is everything says nothing.
func differing(a, b []store.Piece, size int64) []Range {
	var ranges []Range
	var at int64
	for len(a) > 0 && len(b) > 0 {
		i, j, n := nextCommon(a, b)
		if n < 0 {
			return nil
		}
		if unequal(a[:i], b[:j]) {
			if last := len(ranges) - 1; last >= 0 && ranges[last].To == at {
				ranges[last].To = at + n
			} else {
				ranges = append(ranges, Range{at, at + n})
			}
		}
		a, b, at = a[i:], b[j:], at+n
	}
	if at != size || len(a) > 0 || len(b) > 0 || (len(ranges) == 1 && ranges[0] == Range{0, size}) {
		return nil
	}
	return ranges
}

// nextCommon is how many pieces of each make up equally many bytes n; n is -1
// when they never do.
func nextCommon(a, b []store.Piece) (i, j int, n int64) {
	var m int64
	for {
		switch {
		case i > 0 && j > 0 && n == m:
			return i, j, n
		case (i == 0 || n < m) && i < len(a) && a[i].Size > 0:
			n += a[i].Size
			i++
		case j < len(b) && b[j].Size > 0 && m <= n:
			m += b[j].Size
			j++
		default:
			return 0, 0, -1
		}
	}
}

// unequal reports whether a checksum proves the two runs of pieces to differ.
func unequal(a, b []store.Piece) bool {
	for algorithm := range a[0].Sums {
		if len(a) == 1 && len(b) == 1 {
			if want, got := a[0].Sums[algorithm], b[0].Sums[algorithm]; got != "" && want != "" && got != want {
				return true
			}
			continue
		}
		want, _, ok := join(a, algorithm)
		got, _, ok2 := join(b, algorithm)
		if ok && ok2 && want != got {
			return true
		}
	}
	return false
}

// describe names ranges in words, the first few of them.
func describe(ranges []Range) string {
	if len(ranges) == 0 {
		return ""
	}
	text := fmt.Sprintf("it differs within %s", ranges[0])
	if n := len(ranges) - 1; n > 0 {
		text += fmt.Sprintf(" and %d further ranges", n)
	}
	return text
}
