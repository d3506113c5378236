package lockfile

import (
	"regexp"
	"strconv"
	"strings"
)

// triple is a semantic version: three numbers and a pre-release. given is how
// many of the numbers were written.
type triple struct {
	n     [3]int
	pre   string
	given int
}

var semver = regexp.MustCompile(`^v?(\d{1,9})(?:\.(\d{1,9}|[xX*]))?(?:\.(\d{1,9}|[xX*]))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$`)

func parseTriple(text string) (triple, bool) {
	m := semver.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return triple{}, false
	}
	t := triple{pre: m[4]}
	for i := range 3 {
		n, err := strconv.Atoi(m[i+1])
		if err != nil {
			break
		}
		t.n[i] = n
		t.given++
	}
	return t, true
}

// exactSemver reports whether text is one whole version, not a range.
func exactSemver(text string) bool {
	t, ok := parseTriple(text)
	return ok && t.given == 3
}

func (t triple) compare(o triple) int {
	for i := range 3 {
		if t.n[i] != o.n[i] {
			return t.n[i] - o.n[i]
		}
	}
	switch {
	case t.pre == o.pre:
		return 0
	case t.pre == "":
		return 1
	case o.pre == "":
		return -1
	}
	return comparePre(strings.Split(t.pre, "."), strings.Split(o.pre, "."))
}

// comparePre orders pre-releases as SemVer 2 does: numbers by value, before words.
func comparePre(a, b []string) int {
	for i := range min(len(a), len(b)) {
		x, errX := strconv.Atoi(a[i])
		y, errY := strconv.Atoi(b[i])
		switch {
		case errX == nil && errY == nil && x != y:
			return x - y
		case errX == nil && errY != nil:
			return -1
		case errX != nil && errY == nil:
			return 1
		case errX != nil && a[i] != b[i]:
			return strings.Compare(a[i], b[i])
		}
	}
	return len(a) - len(b)
}

var comparison = regexp.MustCompile(`^(\^|~>|~|=|!=|>=|<=|>|<)?\s*(.+)$`)

// inRange reports whether a version meets all comparisons of a range, which
// commas separate. bare is the operator of a comparison without one: ^ for Cargo,
// = for Terraform. known is false when either cannot be parsed.
func inRange(text, version, bare string) (ok, known bool) {
	v, valid := parseTriple(version)
	if !valid {
		return false, false
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" || part == "*" {
			continue
		}
		m := comparison.FindStringSubmatch(part)
		t, valid := parseTriple(m[2])
		if !valid {
			return false, false
		}
		op := m[1]
		if op == "" {
			op = bare
			if t.given < 3 && strings.ContainsAny(m[2], "xX*") {
				op = "="
			}
		}
		if !holds(op, v, t, bare == "^") {
			return false, true
		}
	}
	return true, true
}

// holds judges one comparison. partial: "=1.2" and ">1.2" speak of all of 1.2, as
// Cargo has it.
func holds(op string, v, t triple, partial bool) bool {
	c := v.compare(t)
	switch op {
	case "^":
		keep := 0
		for keep < 2 && t.n[keep] == 0 && keep+1 < t.given {
			keep++
		}
		return c >= 0 && v.shares(t, keep+1)
	case "~":
		return c >= 0 && v.shares(t, min(max(t.given, 1), 2))
	case "~>":
		return c >= 0 && v.shares(t, max(t.given-1, 1))
	case "=":
		if partial && t.given < 3 {
			return v.shares(t, t.given)
		}
		return c == 0
	case "!=":
		return c != 0
	case ">":
		return c > 0 && !(partial && t.given < 3 && v.shares(t, t.given))
	case ">=":
		return c >= 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0 || partial && t.given < 3 && v.shares(t, t.given)
	}
	return false
}

// shares reports whether the first n numbers are equal.
func (t triple) shares(o triple, n int) bool {
	for i := range n {
		if t.n[i] != o.n[i] {
			return false
		}
	}
	return true
}
