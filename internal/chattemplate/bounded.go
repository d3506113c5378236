package chattemplate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Bounds of a template. The renderer runs inside the process: a macro without an
// end overflows its stack, which nothing can catch, and a string that is
// multiplied takes all memory.
const (
	maxSource = 1 << 20    // bytes
	maxFactor = 10_000_000 // product of all whole numbers beside a *
)

var (
	macroStart = regexp.MustCompile(`{%-?\+?\s*macro\s+(\w+)`)
	macroEnd   = regexp.MustCompile(`{%-?\+?\s*endmacro`)
	factor     = regexp.MustCompile(`\*\s*\(*\s*(\d[\d_]*)|(\d[\d_]*)\s*\)*\s*\*`)
)

// bounded refuses what could not be rendered within bounds. It says nothing about
// other engines.
func bounded(source string) error {
	if len(source) > maxSource {
		return fmt.Errorf("chat template: it has %d bytes, at most %d are rendered here", len(source), maxSource)
	}
	product := 1.0
	for _, m := range factor.FindAllStringSubmatch(source, -1) {
		n, err := strconv.ParseFloat(strings.ReplaceAll(m[1]+m[2], "_", ""), 64)
		if err != nil || n < 1 {
			continue
		}
		if product *= n; product > maxFactor {
			return fmt.Errorf("chat template: its multiplications reach %g: such a template is not rendered here", product)
		}
	}
	if name := recursive(macros(source)); name != "" {
		return fmt.Errorf("chat template: macro %s calls itself: such a template is not rendered here", name)
	}
	return nil
}

// macros are the bodies of a template's macros by name. Bodies of nested macros
// belong to both.
func macros(source string) map[string]string {
	bodies := map[string]string{}
	for _, m := range macroStart.FindAllStringSubmatchIndex(source, -1) {
		body := source[m[1]:]
		if end := macroEnd.FindStringIndex(body); end != nil {
			body = body[:end[0]]
		}
		bodies[source[m[2]:m[3]]] += body
	}
	return bodies
}

// recursive names a macro that leads back to itself, or "". A name counts as
// called where it stands before a parenthesis.
func recursive(bodies map[string]string) string {
	calls := map[string][]string{}
	for name, body := range bodies {
		for other := range bodies {
			if regexp.MustCompile(`\b` + other + `\s*\(`).MatchString(body) {
				calls[name] = append(calls[name], other)
			}
		}
	}
	for name := range bodies {
		seen, next := map[string]bool{}, calls[name]
		for len(next) > 0 {
			at := next[0]
			next = next[1:]
			if at == name {
				return name
			}
			if !seen[at] {
				seen[at] = true
				next = append(next, calls[at]...)
			}
		}
	}
	return ""
}
