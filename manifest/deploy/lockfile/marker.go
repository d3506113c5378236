package lockfile

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// verdict of comparing two markers.
type verdict int

const (
	different verdict = iota
	unsure            // too many cases to try them all
	same
)

// maxCases is how many environments are tried to tell two markers apart.
const maxCases = 20000

// sameMarker reports whether two environment markers hold in the same
// environments. uv rewrites markers (python_version as python_full_version, terms
// sorted and simplified), so they are compared by what they mean: both are judged
// in every environment that their terms can tell apart, with a Python in range.
func sameMarker(a, b string, python bounds) verdict {
	p := markerParser{python: python, values: map[string][]string{}}
	x, y := p.parse(a), p.parse(b)
	if a == b {
		return same
	}
	names := slices.Sorted(maps.Keys(p.values))
	cases := 1
	for _, n := range names {
		if cases *= len(p.values[n]); cases > maxCases {
			return unsure
		}
	}
	env := map[string]string{}
	for i := range cases {
		for _, n := range names {
			env[n] = p.values[n][i%len(p.values[n])]
			i /= len(p.values[n])
		}
		if x(env) != y(env) {
			return different
		}
	}
	return same
}

// condition is a parsed marker.
type condition func(env map[string]string) bool

func always(map[string]string) bool { return true }

var markerToken = regexp.MustCompile(`'[^']*'|"[^"]*"|\(|\)|===|==|~=|!=|<=|>=|<|>|[A-Za-z_.]+`)

// markerParser reads markers and collects for each variable the values that its
// terms can tell apart.
type markerParser struct {
	tokens []string
	python bounds
	values map[string][]string
}

func (p *markerParser) parse(marker string) condition {
	p.tokens = markerToken.FindAllString(marker, 1000)
	if len(p.tokens) == 0 {
		return always
	}
	return p.or(0)
}

func (p *markerParser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *markerParser) take() string {
	t := p.peek()
	if len(p.tokens) > 0 {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *markerParser) or(depth int) condition {
	all := []condition{p.and(depth)}
	for p.peek() == "or" {
		p.take()
		all = append(all, p.and(depth))
	}
	return func(env map[string]string) bool {
		return slices.ContainsFunc(all, func(c condition) bool { return c(env) })
	}
}

func (p *markerParser) and(depth int) condition {
	all := []condition{p.term(depth)}
	for p.peek() == "and" {
		p.take()
		all = append(all, p.term(depth))
	}
	return func(env map[string]string) bool {
		return !slices.ContainsFunc(all, func(c condition) bool { return !c(env) })
	}
}

var mirrored = map[string]string{"<": ">", ">": "<", "<=": ">=", ">=": "<="}

func (p *markerParser) term(depth int) condition {
	if p.peek() == "(" && depth < maxDepth {
		p.take()
		inner := p.or(depth + 1)
		p.take()
		return inner
	}
	left, op := p.take(), p.take()
	if op == "not" {
		op += " " + p.take()
	}
	right := p.take()
	if left == "" || right == "" {
		return always
	}
	if strings.ContainsAny(left[:1], `'"`) && !strings.HasSuffix(op, "in") {
		left, right = right, left
		if m, ok := mirrored[op]; ok {
			op = m
		}
	}
	return p.compare(left, op, strings.Trim(right, `'"`))
}

func (p *markerParser) compare(left, op, value string) condition {
	switch left {
	case "python_version":
		op, value = fullVersion(op, value)
		left = "python_full_version"
	case "extra":
		value = normal(value)
	}
	if left == "python_full_version" {
		if c, ok := p.version(op, value); ok {
			return c
		}
	}
	switch op {
	case "==":
		p.mean(left, value, "another")
		return func(env map[string]string) bool { return env[left] == value }
	case "!=":
		p.mean(left, value, "another")
		return func(env map[string]string) bool { return env[left] != value }
	}
	whole := left + " " + op + " " + value
	p.mean(whole, "true", "false")
	return func(env map[string]string) bool { return env[whole] == "true" }
}

// mean adds values that a variable may have.
func (p *markerParser) mean(name string, values ...string) {
	p.values[name] = sortedSet(append(p.values[name], values...))
}

// version is a comparison of Python's version. It can be told apart from others
// at its ends, just below and just above.
func (p *markerParser) version(op, value string) (condition, bool) {
	not := op == "!="
	if not {
		op = "=="
	}
	b, ok := readBounds(op + value)
	if !ok {
		return nil, false
	}
	const name = "python_full_version"
	for _, end := range [][]int{b.low, b.high, p.python.low, p.python.high} {
		for _, v := range around(end) {
			if p.python.has(v) {
				p.mean(name, dotted(v))
			}
		}
	}
	return func(env map[string]string) bool {
		v, ok := numbers(env[name])
		return ok && b.has(v) != not
	}, true
}

// around are the versions at an end of a range and next to it.
func around(end []int) [][]int {
	if len(end) == 0 {
		return nil
	}
	above := append(slices.Clone(end), 0, 0, 0)[:max(3, len(end))]
	above[len(above)-1]++
	below := slices.Clone(end)
	for i := len(below) - 1; i >= 0; i-- {
		if below[i] > 0 {
			below[i]--
			below = append(below[:i+1], 9999)
			break
		}
	}
	return [][]int{end, above, below, after(end)}
}

func dotted(v []int) string {
	var s []string
	for _, n := range v {
		s = append(s, strconv.Itoa(n))
	}
	return strings.Join(s, ".")
}

// fullVersion turns a comparison of python_version (two numbers) into one of
// python_full_version: `<= 3.11` means `< 3.12`.
func fullVersion(op, value string) (string, string) {
	major, minor, ok := strings.Cut(value, ".")
	n, err := strconv.Atoi(minor)
	if !ok || err != nil {
		return op, value
	}
	switch op {
	case "<=":
		return "<", major + "." + strconv.Itoa(n+1)
	case ">":
		return ">=", major + "." + strconv.Itoa(n+1)
	case "==":
		return "==", value + ".*"
	case "!=":
		return "!=", value + ".*"
	}
	return op, value
}

// withExtra adds the marker by which uv notes that a requirement belongs to an
// extra.
func withExtra(marker, extra string) string {
	e := "extra == '" + extra + "'"
	if marker == "" {
		return e
	}
	return "(" + marker + ") and " + e
}
