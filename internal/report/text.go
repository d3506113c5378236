package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// clean writes what a terminal, a page or XML would take for something else
// visibly: control characters but line feed and tab, the marks that turn the
// direction of text, and bytes that are no UTF-8.
func clean(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\r' && strings.HasPrefix(s[i:], "\r\n"): // the line feed follows
		case !hidden(r) || r == utf8.RuneError:
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ', r >= 0x7f && r < 0xa0: // C0, DEL, C1
		return true
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f: // direction
		return true
	case r == 0x2028, r == 0x2029, r == 0xfffe, r == 0xffff, r == utf8.RuneError:
		return true
	}
	return false
}

// line is clean text on one line.
func line(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }

// cut shortens text to so many bytes, at a character's border, and says so.
func cut(s string, limit int) string {
	const mark = " … (cut)"
	if len(s) <= limit {
		return s
	}
	n := max(0, limit-len(mark))
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}

// where is the place of a row in the repository, "" when it has none.
func (r Row) where() string {
	if r.Path == "" || r.Line < 1 {
		return r.Path
	}
	return r.Path + ":" + strconv.Itoa(r.Line)
}

// about names what the row is about.
func (r Row) about() string {
	if r.Subject != "" {
		return r.Subject
	}
	return r.where()
}

// details are the sentences of a row after its message, one a line.
func (r Row) details() string {
	var b strings.Builder
	for _, l := range [][2]string{{"Field: ", r.Field}, {"You would see: ", r.Seen}, {"Hint: ", r.Hint}, {"Waived: ", r.Waived}} {
		if l[1] != "" {
			b.WriteString("\n" + l[0] + l[1])
		}
	}
	return b.String()
}

// count writes a number with its noun: "1 error", "3 errors".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
