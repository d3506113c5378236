package lockfile

import (
	"iter"
	"regexp"
	"strings"
)

// logical is a line after joining, without its comment.
type logical struct {
	text    string
	comment []string // whole-line comments that follow
	number  int
}

var reqComment = regexp.MustCompile(`(^|\s+)#.*$`)

// logicalLines joins lines that end in a backslash and cuts comments, in the
// order in which pip does it.
func logicalLines(text string) iter.Seq[logical] {
	return func(yield func(logical) bool) {
		j := joiner{}
		number := 0
		for line := range strings.Lines(text) {
			number++
			if j.start == 0 {
				j.start = number
			}
			if j.line(strings.TrimRight(line, "\r\n")) && j.flush(yield) {
				return
			}
		}
		if j.start != 0 && j.flush(yield) {
			return
		}
		if j.ready.text != "" {
			yield(j.ready)
		}
	}
}

// joiner holds a line that is still open, and the last whole one, whose comments
// may follow.
type joiner struct {
	open  strings.Builder
	start int
	ready logical
}

// line takes a physical line and reports whether the logical one is whole.
func (j *joiner) line(line string) bool {
	isComment := strings.HasPrefix(strings.TrimSpace(line), "#")
	if body, joined := strings.CutSuffix(line, "\\"); joined && !isComment {
		j.open.WriteString(body)
		return false
	}
	if isComment {
		line = " " + line
	}
	j.open.WriteString(line)
	return true
}

// flush ends a logical line, hands out the one before it, and reports whether the
// caller has enough.
func (j *joiner) flush(yield func(logical) bool) (stop bool) {
	whole := strings.TrimSpace(j.open.String())
	cut := whole
	if len(whole) <= maxLine { // a longer one is refused as it is
		cut = strings.TrimSpace(reqComment.ReplaceAllString(whole, ""))
	}
	if cut != "" {
		stop = j.ready.text != "" && !yield(j.ready)
		j.ready = logical{text: cut, number: j.start}
	}
	if cut != whole && j.ready.text != "" {
		j.ready.comment = append(j.ready.comment, comment(whole))
	}
	j.open.Reset()
	j.start = 0
	return stop
}

func comment(text string) string {
	_, after, _ := strings.Cut(text, "#")
	return strings.TrimSpace(after)
}
