package tokenizer

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// piece is a stretch of text, or an added token when id is not negative.
type piece struct {
	text string
	id   int
}

// addedSet finds added tokens in text, the longest at the leftmost place.
type addedSet struct {
	byFirst [256][]AddedToken // by first byte, longest first
	any     bool
}

func newAddedSet(tokens []AddedToken) addedSet {
	var s addedSet
	for _, t := range tokens {
		if t.Content == "" {
			continue
		}
		s.any = true
		first := t.Content[0]
		s.byFirst[first] = append(s.byFirst[first], t)
	}
	for i := range s.byFirst {
		slices.SortStableFunc(s.byFirst[i], func(a, b AddedToken) int { return cmp.Compare(len(b.Content), len(a.Content)) })
	}
	return s
}

// split cuts text at added tokens. Those that are not normalized come first,
// the others are looked for in what is left; without a normalizer that is the
// only difference between the two.
func (t *Tokenizer) split(text string) []piece {
	pieces := []piece{{text: text, id: -1}}
	for i := range t.passes {
		var next []piece
		for _, p := range pieces {
			if p.id >= 0 {
				next = append(next, p)
				continue
			}
			next = t.passes[i].cut(next, p.text)
		}
		pieces = next
	}
	return pieces
}

func (s *addedSet) cut(out []piece, text string) []piece {
	done := 0 // text before it is dealt with
	for at := 0; s.any && at < len(text); {
		t, ok := s.match(text, at)
		if !ok {
			at++
			continue
		}
		start, stop := at, at+len(t.Content)
		at = stop
		if t.SingleWord && (endsWithWord(text[:start]) || startsWithWord(text[stop:])) {
			continue
		}
		if t.LStrip {
			start = max(len(strings.TrimRightFunc(text[:start], unicode.IsSpace)), done)
		}
		if t.RStrip {
			stop = len(text) - len(strings.TrimLeftFunc(text[stop:], unicode.IsSpace))
		}
		if start > done {
			out = append(out, piece{text: text[done:start], id: -1})
		}
		out = append(out, piece{id: t.ID})
		done, at = stop, max(at, stop)
	}
	if done < len(text) {
		out = append(out, piece{text: text[done:], id: -1})
	}
	return out
}

func (s *addedSet) match(text string, at int) (AddedToken, bool) {
	for _, t := range s.byFirst[text[at]] {
		if strings.HasPrefix(text[at:], t.Content) {
			return t, true
		}
	}
	return AddedToken{}, false
}

func endsWithWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func startsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}

// isWord is \w of Unicode regular expressions.
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Join_Control, unicode.Other_Alphabetic)
}
