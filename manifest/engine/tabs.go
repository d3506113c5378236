package engine

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// strayTab finds a tab that PyYAML refuses and yaml.v3 lets pass: one outside
// of quoted text, block text and comments, such as the tab of "port:<tab>9000"
// or one at the end of a line. It returns the line, or 0.
func strayTab(data []byte, doc *yaml.Node) int {
	if !strings.Contains(string(data), "\t") {
		return 0
	}
	s := newSource(data)
	s.protect(doc)
	for line, runes := range s.lines {
		comment := false
		for i, r := range runes {
			switch {
			case s.safe[line][i]:
			case r == '#' && (i == 0 || runes[i-1] == ' ' || runes[i-1] == '\t'):
				comment = true
			case r == '\t' && !comment:
				return line + 1
			}
		}
	}
	return 0
}

// source is a file by lines, with the places marked where a tab is text.
type source struct {
	lines [][]rune
	safe  [][]bool
}

func newSource(data []byte) *source {
	s := &source{}
	text := strings.TrimPrefix(string(data), "\ufeff")
	for line := range strings.SplitSeq(text, "\n") {
		runes := []rune(strings.TrimSuffix(line, "\r"))
		s.lines = append(s.lines, runes)
		s.safe = append(s.safe, make([]bool, len(runes)))
	}
	return s
}

func (s *source) protect(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Line > 0 && n.Line <= len(s.lines) {
		switch {
		case n.Style&yaml.DoubleQuotedStyle != 0:
			s.quoted(n.Line-1, n.Column-1, '"')
		case n.Style&yaml.SingleQuotedStyle != 0:
			s.quoted(n.Line-1, n.Column-1, '\'')
		case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
			s.block(n.Line - 1)
		}
	}
	for _, child := range n.Content {
		s.protect(child)
	}
}

// quoted marks the text in quotation marks that begins at or after the column
// (a tag or anchor may stand before it).
func (s *source) quoted(line, column int, mark rune) {
	open := false
	for ; line < len(s.lines); line, column = line+1, 0 {
		runes := s.lines[line]
		for i := max(column, 0); i < len(runes); i++ {
			switch {
			case !open:
				open = runes[i] == mark
			case mark == '"' && runes[i] == '\\':
				s.mark(line, i)
				i++
				s.mark(line, i)
			case runes[i] == mark && mark == '\'' && i+1 < len(runes) && runes[i+1] == mark:
				i++
			case runes[i] == mark:
				return
			default:
				s.mark(line, i)
			}
		}
	}
}

func (s *source) mark(line, i int) {
	if i < len(s.safe[line]) {
		s.safe[line][i] = true
	}
}

// block marks the lines of a block text, which begins after its header line and
// ends before the first line that is indented less.
func (s *source) block(header int) {
	indent := -1
	for line := header + 1; line < len(s.lines); line++ {
		runes := s.lines[line]
		spaces := 0
		for spaces < len(runes) && runes[spaces] == ' ' {
			spaces++
		}
		if spaces == len(runes) {
			continue
		}
		if indent < 0 {
			indent = spaces
		}
		if spaces < indent || indent == 0 {
			return
		}
		for i := range runes {
			s.mark(line, i)
		}
	}
}
