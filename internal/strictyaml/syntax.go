package strictyaml

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// badBytes finds what no YAML may hold. yaml.v3 refuses these too, but without a line.
func badBytes(data []byte) (Error, bool) {
	if len(data) > maxBytes {
		return Error{What: fmt.Sprintf("is larger than %d KiB", maxBytes>>10), Hint: "is this the right file?"}, true
	}
	for i, line := 0, 1; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return Error{Line: line, What: "is not UTF-8", Hint: "save the file as UTF-8"}, true
		}
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f {
			return Error{Line: line, What: fmt.Sprintf("holds the control character U+%04X", r)}, true
		}
		if r == '\n' {
			line++
		}
		i += n
	}
	return Error{}, false
}

var (
	yamlError     = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// hints for what yaml.v3 says of the mistakes that people make most.
var hints = []struct{ part, hint string }{
	{"mapping values are not allowed", `put a value that holds ": " in quotes, and check the indentation`},
	{"cannot start any token", "put a value that begins with @, %, ` or a similar sign in quotes"},
	{"unexpected end of stream", "a quote or bracket is not closed"},
	{"did not find expected ',' or", "a bracket or brace is not closed"},
	{"did not find expected", "check the indentation around this line"},
}

// syntaxError turns yaml.v3's one syntax error into ours.
func syntaxError(data []byte, err error) Error {
	e := Error{Line: 1, What: err.Error()}
	if m := yamlError.FindStringSubmatch(err.Error()); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			e.Line = n
		}
		e.What = m[2]
	}
	if m := unknownAnchor.FindStringSubmatch(e.What); m != nil {
		e.Line = 1 + bytes.Count(before(data, "*"+m[1]), []byte("\n"))
		e.Hint = "an alias needs an anchor &" + m[1] + " before it; put a value that begins with * in quotes"
		return e
	}
	if n := tabLine(data, e.Line); n > 0 {
		return Error{Line: n, What: "a tab is used for indentation", Hint: "indent with spaces"}
	}
	for _, h := range hints {
		if e.Hint == "" && strings.Contains(e.What, h.part) {
			e.Hint = h.hint
		}
	}
	return e
}

// before is data up to the first sep, or nothing when there is none.
func before(data []byte, sep string) []byte {
	head, _, found := bytes.Cut(data, []byte(sep))
	if !found {
		return nil
	}
	return head
}

// tabLine is the line at or right beside near that is indented with a tab, or 0.
func tabLine(data []byte, near int) int {
	lines := bytes.Split(data, []byte("\n"))
	for _, n := range []int{near, near + 1, near - 1} {
		if n < 1 || n > len(lines) {
			continue
		}
		line := lines[n-1]
		if indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]; bytes.ContainsRune(indent, '\t') {
			return n
		}
	}
	return 0
}
