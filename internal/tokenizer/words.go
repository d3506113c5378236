package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// preTokenizer cuts text into the words that BPE never merges across.
type preTokenizer struct {
	prefixSpace bool // a space before a text that does not begin with one
	scan        func(text string) int
}

func (p preTokenizer) words(text string, f func(word string)) {
	if p.prefixSpace && !strings.HasPrefix(text, " ") {
		text = " " + text
	}
	for text != "" {
		n := p.scan(text)
		f(text[:n])
		text = text[n:]
	}
}

// whole is the pre-tokenizer without a regular expression.
func whole(text string) int { return len(text) }

// gpt2 gives the length of the first match of GPT-2's expression
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// which Go's regexp cannot express, for the look-ahead. Every character is in
// one of its classes, so it always matches.
func gpt2(text string) int {
	if n := contraction(text, false); n > 0 {
		return n
	}
	skip := 0
	if text[0] == ' ' {
		skip = 1
	}
	for _, class := range []func(rune) bool{isLetter, isNumber, isOther} {
		if n := run(text[skip:], class); n > 0 {
			return skip + n
		}
	}
	return spaces(text)
}

// llama3 gives the length of the first match of Llama 3's expression, and of
// Qwen 2's, which takes one digit at a time where Llama 3 takes up to three:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func llama3(digits int) func(string) int {
	return func(text string) int {
		if n := contraction(text, true); n > 0 {
			return n
		}
		r, size := utf8.DecodeRuneInString(text)
		if isLetter(r) {
			return run(text, isLetter)
		}
		if r != '\r' && r != '\n' && !isNumber(r) {
			if n := run(text[size:], isLetter); n > 0 {
				return size + n
			}
		}
		if isNumber(r) {
			return runUpTo(text, isNumber, digits)
		}
		skip := 0
		if r == ' ' {
			skip = 1
		}
		if n := run(text[skip:], isOther); n > 0 {
			n += skip
			return n + run(text[n:], isNewline)
		}
		all := run(text, unicode.IsSpace)
		if i := strings.LastIndexAny(text[:all], "\r\n"); i >= 0 {
			return i + 1
		}
		return spaces(text)
	}
}

// spaces is \s+(?!\S)|\s+: white space before a word leaves it its last
// character.
func spaces(text string) int {
	n := run(text, unicode.IsSpace)
	if n == len(text) {
		return n
	}
	_, last := utf8.DecodeLastRuneInString(text[:n])
	if n > last {
		return n - last
	}
	return n
}

func contraction(text string, anyCase bool) int {
	if text[0] != '\'' {
		return 0
	}
	for _, c := range []string{"s", "t", "re", "ve", "m", "ll", "d"} {
		if len(text) <= len(c) {
			continue
		}
		got := text[1 : 1+len(c)]
		if got == c || anyCase && strings.ToLower(got) == c {
			return 1 + len(c)
		}
	}
	// Case folding knows one more s: U+017F, the long s.
	if anyCase && strings.HasPrefix(text, "'\u017f") {
		return len("'\u017f")
	}
	return 0
}

func run(text string, class func(rune) bool) int { return runUpTo(text, class, -1) }

// runUpTo is the length in bytes of the first characters of a class, at most
// limit characters unless limit is negative.
func runUpTo(text string, class func(rune) bool, limit int) int {
	count := 0
	for i, r := range text {
		if count == limit || !class(r) {
			return i
		}
		count++
	}
	return len(text)
}

func isLetter(r rune) bool  { return unicode.Is(unicode.L, r) }
func isNumber(r rune) bool  { return unicode.Is(unicode.N, r) }
func isNewline(r rune) bool { return r == '\r' || r == '\n' }
func isOther(r rune) bool   { return !unicode.IsSpace(r) && !isLetter(r) && !isNumber(r) }
