package lockfile

import (
	"slices"
	"strconv"
	"strings"
)

// bounds is a range of Python versions: from low, and below or up to high. A nil
// end is open. Pre-releases and single excluded versions are left out.
type bounds struct {
	low, high           []int
	above, upToIncluded bool // low itself is out; high itself is in
}

func (b bounds) set() bool { return b.low != nil || b.high != nil }

// readBounds reads ">=3.11,<3.12" or "==3.11.*"; ok is false for what is no
// range of plain versions, such as "!=3.11.4".
func readBounds(spec string) (b bounds, ok bool) {
	for part := range strings.SplitSeq(spec, ",") {
		part = strings.Join(strings.Fields(part), "")
		if part == "" {
			continue
		}
		one, ok := readBound(part)
		if !ok {
			return bounds{}, false
		}
		b = b.meet(one)
	}
	return b, b.set()
}

func readBound(part string) (bounds, bool) {
	op := part[:len(part)-len(strings.TrimLeft(part, "=<>~!"))]
	text := part[len(op):]
	star := strings.HasSuffix(text, ".*")
	v, ok := numbers(strings.TrimSuffix(text, ".*"))
	if !ok {
		return bounds{}, false
	}
	switch op {
	case ">=":
		return bounds{low: v}, true
	case ">":
		return bounds{low: v, above: true}, true
	case "<":
		return bounds{high: v}, true
	case "<=":
		return bounds{high: v, upToIncluded: true}, true
	case "==":
		if star {
			return bounds{low: v, high: after(v)}, true
		}
		return bounds{low: v, high: v, upToIncluded: true}, true
	case "~=":
		if len(v) < 2 {
			return bounds{}, false
		}
		return bounds{low: v, high: after(v[:len(v)-1])}, true
	}
	return bounds{}, false
}

func numbers(text string) ([]int, bool) {
	var v []int
	for part := range strings.SplitSeq(text, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil, false
		}
		v = append(v, n)
	}
	return v, len(v) > 0
}

// after is the first version that no longer begins with v.
func after(v []int) []int {
	v = slices.Clone(v)
	v[len(v)-1]++
	return v
}

// compareNumbers compares versions; missing numbers are 0.
func compareNumbers(a, b []int) int {
	for i := range max(len(a), len(b)) {
		x, y := 0, 0
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return x - y
		}
	}
	return 0
}

// meet is the part that lies in both.
func (b bounds) meet(o bounds) bounds {
	if b.low == nil || o.low != nil && (compareNumbers(o.low, b.low) > 0 || compareNumbers(o.low, b.low) == 0 && o.above) {
		b.low, b.above = o.low, o.above
	}
	if b.high == nil || o.high != nil && (compareNumbers(o.high, b.high) < 0 || compareNumbers(o.high, b.high) == 0 && !o.upToIncluded) {
		b.high, b.upToIncluded = o.high, o.upToIncluded
	}
	return b
}

func (b bounds) equal(o bounds) bool {
	return b.above == o.above && b.upToIncluded == o.upToIncluded && (b.low == nil) == (o.low == nil) && (b.high == nil) == (o.high == nil) &&
		compareNumbers(b.low, o.low) == 0 && compareNumbers(b.high, o.high) == 0
}

// has reports whether a version lies in the range.
func (b bounds) has(v []int) bool {
	if b.low != nil {
		if c := compareNumbers(v, b.low); c < 0 || c == 0 && b.above {
			return false
		}
	}
	if b.high != nil {
		if c := compareNumbers(v, b.high); c > 0 || c == 0 && !b.upToIncluded {
			return false
		}
	}
	return true
}
