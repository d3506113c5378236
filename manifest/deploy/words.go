package deploy

import "strings"

// argument is one word of a command line with where it stands.
type argument struct {
	text   string
	at     Place
	quoted bool // some of it stood in quotation marks
}

// typed is a word that drkit adds itself, such as the one that stands for an
// image's entry point.
func typed(line int, texts ...string) []argument {
	out := make([]argument, len(texts))
	for i, t := range texts {
		out[i] = argument{text: t, at: Place{Line: line}}
	}
	return out
}

func textsOf(args []argument) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a.text
	}
	return out
}

// words splits s as a shell does: blanks separate, quotation marks and
// backslashes hold together. Variables stay as they are.
func words(s string) []string { return textsOf(wordsAt(s, 0)) }

// wordsAt is words with the line of each; line is that of the first.
func wordsAt(s string, line int) []argument {
	var out []argument
	var b strings.Builder
	open, marked, quoted, start := false, false, byte(0), line
	begin := func() {
		if !open {
			open, start = true, line
		}
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quoted != 0 && c == quoted:
			quoted = 0
		case c == '\\' && quoted != '\'' && i+1 < len(s):
			i++
			if s[i] != '\n' {
				begin()
				b.WriteByte(s[i])
			}
		case quoted != 0:
			b.WriteByte(c)
		case c == '"' || c == '\'':
			begin()
			quoted, marked = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if open {
				out = append(out, argument{b.String(), Place{Line: start}, marked})
				b.Reset()
				open, marked = false, false
			}
		default:
			begin()
			b.WriteByte(c)
		}
		if s[i] == '\n' {
			line++
		}
	}
	if open {
		out = append(out, argument{b.String(), Place{Line: start}, marked})
	}
	return out
}
