package lockfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	pep440 "github.com/aquasecurity/go-pep440-version"
)

var separators = regexp.MustCompile(`[-_.]+`)

// normal is a Python project's name as PEP 503 compares it.
func normal(name string) string {
	return strings.ToLower(separators.ReplaceAllString(strings.TrimSpace(name), "-"))
}

// requirement is one line of PEP 508.
type requirement struct {
	name   string   // normal form
	extras []string // normal form, sorted
	spec   string   // ">=1,<2"; "" for any version
	url    string   // of `name @ url`
	marker string
}

var pep508 = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[([^\]]*)\])?\s*(.*)$`)

// parseRequirement reads a requirement as PEP 508 writes it.
func parseRequirement(text string) (requirement, error) {
	m := pep508.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return requirement{}, fmt.Errorf("%q is no requirement", clip(text, 80))
	}
	r := requirement{name: normal(m[1]), extras: nameList(m[2])}
	rest := m[3]
	if target, ok := strings.CutPrefix(rest, "@"); ok {
		r.url, r.marker = cutURLMarker(strings.TrimSpace(target))
		if r.url == "" {
			return r, fmt.Errorf("%q has no URL after @", clip(text, 80))
		}
		return r, nil
	}
	rest, r.marker, _ = strings.Cut(rest, ";")
	r.marker = strings.TrimSpace(r.marker)
	r.spec = strings.TrimSpace(rest)
	if inner, ok := strings.CutPrefix(r.spec, "("); ok {
		r.spec = strings.TrimSpace(strings.TrimSuffix(inner, ")"))
	}
	for _, part := range r.parts() {
		if !specifier.MatchString(part) {
			return r, fmt.Errorf("%q is no version range of %s", clip(part, 80), r.name)
		}
	}
	return r, nil
}

// cutURLMarker splits `url ; marker`: PEP 508 wants a space before the semicolon.
func cutURLMarker(text string) (url, marker string) {
	if i := strings.Index(text, " ;"); i >= 0 {
		return strings.TrimSpace(text[:i]), strings.TrimSpace(text[i+2:])
	}
	return text, ""
}

func nameList(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		if part = normal(part); part != "" {
			out = append(out, part)
		}
	}
	return sortedSet(out)
}

var specifier = regexp.MustCompile(`^(===\s*[^\s,;]+|(==|~=|!=|<=|>=|<|>)\s*([0-9]+!)?[0-9A-Za-z.*+_-]+)$`)

// parts are the single comparisons of a range.
func (r requirement) parts() []string {
	var out []string
	for part := range strings.SplitSeq(r.spec, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// exact reports whether the range allows one version only.
func (r requirement) exact() bool { return exactSpec(r.spec) }

func exactSpec(spec string) bool {
	for part := range strings.SplitSeq(spec, ",") {
		part = strings.TrimSpace(part)
		if strings.HasPrefix(part, "==") && !strings.HasSuffix(part, "*") {
			return true
		}
	}
	return false
}

// zeros are trailing parts of a version that mean nothing: 0.30 is 0.30.0.
var zeros = regexp.MustCompile(`^([=<>!]+[0-9.]*?)(?:\.0)+$`)

// canonical writes a range so that equal ranges are equal strings: no spaces, no
// trailing zeros, sorted.
func canonical(spec string) string {
	var out []string
	for part := range strings.SplitSeq(spec, ",") {
		if part = strings.Join(strings.Fields(part), ""); part != "" && part != "*" {
			if !strings.HasPrefix(part, "===") {
				part = zeros.ReplaceAllString(part, "$1")
			}
			out = append(out, strings.ToLower(part))
		}
	}
	return strings.Join(sortedSet(out), ",")
}

// allows reports whether a version lies in a range. known is false when either
// cannot be parsed.
func allows(spec, version string) (ok, known bool) {
	if spec = strings.TrimSpace(spec); spec == "" || spec == "*" {
		return true, true
	}
	if strings.Contains(spec, "===") {
		return strings.TrimSpace(strings.TrimPrefix(spec, "===")) == version, true
	}
	v, err := pep440.Parse(version)
	if err != nil {
		return false, false
	}
	s, err := pep440.NewSpecifiers(spec, pep440.WithPreRelease(true))
	if err != nil {
		return false, false
	}
	return s.Check(v), true
}

// versions maps a name to all versions that a lock holds of it.
type versions map[string][]string

func (v versions) add(name, version string) {
	name = normal(name)
	v[name] = append(v[name], version)
}

// satisfy compares a manifest's requirement with what is locked and returns why
// they disagree, or "". A requirement with a marker may be absent.
func (v versions) satisfy(r requirement) string {
	locked, ok := v[r.name]
	if !ok {
		if r.marker != "" {
			return ""
		}
		return r.name + " is required but not locked"
	}
	if r.url != "" || slices.Contains(locked, "") {
		return ""
	}
	for _, version := range locked {
		if ok, known := allows(r.spec, version); ok || !known {
			return ""
		}
	}
	return fmt.Sprintf("%s%s is required, %s is locked", r.name, r.spec, strings.Join(locked, " and "))
}

var hexDigits = regexp.MustCompile(`^[0-9a-fA-F]+$`)

// hashLength is the number of hex digits of the algorithms that count.
var hashLength = map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}

// strongHash reports whether "sha256:…" is whole and of an algorithm that pip
// accepts. md5 and sha1 prove nothing against a forged file.
func strongHash(text string) bool {
	algorithm, value, _ := strings.Cut(text, ":")
	n, ok := hashLength[strings.ToLower(algorithm)]
	return ok && len(value) == n && hexDigits.MatchString(value)
}

// commit matches a full git commit, SHA-1 or SHA-256.
var commit = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)
