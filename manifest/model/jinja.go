package model

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Fault is why Jinja refuses to parse a template. Only what is certain is told:
// a tag that is not closed, brackets that do not match, blocks that do not nest,
// a tag that does not exist.
type Fault struct {
	Line int    `json:"line"` // of the template, from 1
	What string `json:"what"`
	Seen string `json:"seen"` // what Jinja says
}

// scanner walks over a template as Jinja's lexer does.
type scanner struct {
	text  string
	at    int
	open  []block // tags that wait for their end
	fault *Fault
	depth int // of brackets or tags, at the deepest

	counted, lines int // newlines before counted
}

type block struct {
	tag  string
	line int
}

// fault finds the first thing that Jinja would refuse, or nil, and how deep
// the template nests.
func fault(text string) (*Fault, int) {
	s := &scanner{text: text}
	for s.fault == nil && s.next() {
	}
	if s.fault == nil && len(s.open) > 0 {
		last := s.open[len(s.open)-1]
		s.refuse(last.line, fmt.Sprintf("{%% %s %%} has no {%% %s %%}", last.tag, ends[last.tag]),
			fmt.Sprintf("jinja2.exceptions.TemplateSyntaxError: Unexpected end of template. Jinja was looking for the following tags: '%s'. The innermost block that needs to be closed is '%s'.", ends[last.tag], last.tag))
	}
	return s.fault, s.depth
}

func (s *scanner) refuse(line int, what, seen string) {
	if s.fault == nil {
		s.fault = &Fault{line, what, seen}
	}
}

// line is the line of the current place.
func (s *scanner) line() int {
	at := min(s.at, len(s.text))
	s.lines += strings.Count(s.text[s.counted:at], "\n")
	s.counted = at
	return 1 + s.lines
}

// next reads one tag and reports whether there was one.
func (s *scanner) next() bool {
	for s.at+1 < len(s.text) {
		if s.text[s.at] == '{' && strings.IndexByte("{%#", s.text[s.at+1]) >= 0 {
			s.tag()
			return true
		}
		s.at++
	}
	return false
}

func (s *scanner) tag() {
	line, kind := s.line(), s.text[s.at+1]
	s.at += 2
	switch kind {
	case '#':
		end := strings.Index(s.text[s.at:], "#}")
		if end < 0 {
			s.refuse(line, "a comment {# has no #}", "jinja2.exceptions.TemplateSyntaxError: Missing end of comment tag")
			return
		}
		s.at += end + 2
	case '{':
		s.inner("}}", line)
	default:
		if statement, ok := s.inner("%}", line); ok {
			s.statement(statement, line)
		}
	}
}

var closing = map[byte]byte{')': '(', ']': '[', '}': '{'}

// inner reads up to the end of a tag and returns it with the text of string
// literals left out.
func (s *scanner) inner(end string, line int) (string, bool) {
	var b strings.Builder
	var brackets []byte
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case len(brackets) == 0 && strings.HasPrefix(s.text[s.at:], end):
			s.at += 2
			return strings.Trim(b.String(), "-+ \t\r\n"), true
		case c == '\'' || c == '"':
			if !s.quoted(c, line) {
				return "", false
			}
			b.WriteString("''")
			continue
		case c == '(' || c == '[' || c == '{':
			brackets = append(brackets, c)
			s.depth = max(s.depth, len(brackets))
		case closing[c] != 0:
			if len(brackets) == 0 || brackets[len(brackets)-1] != closing[c] {
				s.refuse(s.line(), fmt.Sprintf("%q closes nothing", c), fmt.Sprintf("jinja2.exceptions.TemplateSyntaxError: unexpected '%c'", c))
				return "", false
			}
			brackets = brackets[:len(brackets)-1]
		}
		b.WriteByte(c)
		s.at++
	}
	s.refuse(line, fmt.Sprintf("a tag that begins here has no %s", end), "jinja2.exceptions.TemplateSyntaxError: unexpected end of template")
	return "", false
}

// quoted skips a string literal.
func (s *scanner) quoted(quote byte, line int) bool {
	for s.at++; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '\\':
			s.at++
		case quote:
			s.at++
			return true
		}
	}
	s.refuse(line, "a text in quotes has no end", fmt.Sprintf("jinja2.exceptions.TemplateSyntaxError: unexpected char '%c'", quote))
	return false
}

// ends are the tags that end others.
var ends = map[string]string{"for": "endfor", "if": "endif", "macro": "endmacro", "call": "endcall", "filter": "endfilter", "set": "endset",
	"block": "endblock", "with": "endwith", "autoescape": "endautoescape", "generation": "endgeneration", "raw": "endraw"}

// single are tags without an end; those of the loop controls that transformers
// switches on are among them.
var single = []string{"include", "import", "from", "extends", "break", "continue"}

var tagName = regexp.MustCompile(`^\w*`)

var assignment = regexp.MustCompile(`[^=!<>]=[^=]`)

func (s *scanner) statement(text string, line int) {
	name := tagName.FindString(text)
	rest := text[len(name):]
	switch {
	case name == "raw":
		s.raw(line)
	case name == "set" && assignment.MatchString(rest+" "):
	case ends[name] != "":
		s.open = append(s.open, block{name, line})
		s.depth = max(s.depth, len(s.open))
	case name == "else" || name == "elif":
		if top := s.top(); top != "if" && !(top == "for" && name == "else") {
			s.unknown(name, line)
		}
	case strings.HasPrefix(name, "end"):
		if ends[s.top()] != name {
			s.unknown(name, line)
			return
		}
		s.open = s.open[:len(s.open)-1]
	case !slices.Contains(single, name):
		s.unknown(name, line)
	}
}

func (s *scanner) top() string {
	if len(s.open) == 0 {
		return ""
	}
	return s.open[len(s.open)-1].tag
}

func (s *scanner) unknown(name string, line int) {
	s.refuse(line, fmt.Sprintf("{%% %s %%} has no place here", name), fmt.Sprintf("jinja2.exceptions.TemplateSyntaxError: Encountered unknown tag '%s'.", name))
}

var endRaw = regexp.MustCompile(`\{%[-+]?\s*endraw\s*[-+]?%\}`)

func (s *scanner) raw(line int) {
	end := endRaw.FindStringIndex(s.text[s.at:])
	if end == nil {
		s.refuse(line, "{% raw %} has no {% endraw %}", "jinja2.exceptions.TemplateSyntaxError: Missing end of raw directive")
		return
	}
	s.at += end[1]
}
