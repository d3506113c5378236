// Package tokenizer reads a tokenizer.json of the byte-level BPE kind (GPT-2,
// Llama 3 and their descendants) and turns text into token ids and back, with
// special tokens recognised inside text as the reference library does it.
//
// It gives the ids of the Hugging Face tokenizers library or refuses: a file
// that asks for anything it does not implement is an *UnsupportedError that
// names the thing, never a guess.
//
//	tok, err := tokenizer.Load("tokenizer.json")
//	ids := tok.Encode("<|user|>Hello</s>", true)
//	text := tok.Decode(ids, true)
package tokenizer

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

// Tokenizer is immutable and safe for concurrent use.
type Tokenizer struct {
	model    bpe
	pre      preTokenizer
	passes   []addedSet // added tokens, in the order in which text is searched
	added    map[int]AddedToken
	before   []int // ids that the post-processor puts before a text
	after    []int
	idToText map[int]string // vocabulary and added tokens, as in the file
}

// AddedToken is a token matched in the raw text before BPE.
type AddedToken struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only between characters that are no word's
	LStrip     bool   `json:"lstrip"`      // swallows white space to its left
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"` // left out by Decode when asked
}

// UnsupportedError says that a tokenizer.json is well formed but needs
// something that this package does not implement.
type UnsupportedError struct {
	What string // e.g. `pre-tokenizer "Metaspace"`
}

func (e *UnsupportedError) Error() string {
	return "tokenizer.json asks for " + e.What + ", which is not supported here"
}

// Load reads a tokenizer.json.
func Load(path string) (*Tokenizer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Encode gives the ids of text. With special, the post-processor's tokens
// (such as a begin token) are added; tokens written inside the text are
// recognised either way.
func (t *Tokenizer) Encode(text string, special bool) []int {
	ids := []int{}
	if special {
		ids = append(ids, t.before...)
	}
	for _, p := range t.split(text) {
		if p.id >= 0 {
			ids = append(ids, p.id)
			continue
		}
		t.pre.words(p.text, func(word string) { ids = t.model.encode(ids, word) })
	}
	if special {
		ids = append(ids, t.after...)
	}
	return ids
}

// Decode gives the text of ids. Bytes that are not UTF-8 become U+FFFD, ids
// that do not exist are left out, special tokens too with skipSpecial.
func (t *Tokenizer) Decode(ids []int, skipSpecial bool) string {
	var b []byte
	for _, id := range ids {
		b = append(b, t.Bytes(id, skipSpecial)...)
	}
	return strings.ToValidUTF8(lossy(b), "\ufffd")
}

// Bytes is what one token adds to the text. A character may be spread over
// several tokens, so only the joined bytes are text.
func (t *Tokenizer) Bytes(id int, skipSpecial bool) []byte {
	if a, ok := t.added[id]; ok && a.Special && skipSpecial {
		return nil
	}
	s, ok := t.idToText[id]
	if !ok {
		return nil
	}
	return unmapBytes(s)
}

// Token is the token as tokenizer.json writes it, such as "Ġthe"; false for an
// id that does not exist.
func (t *Tokenizer) Token(id int) (string, bool) {
	s, ok := t.idToText[id]
	return s, ok
}

// ID finds a token by the text that tokenizer.json gives it.
func (t *Tokenizer) ID(token string) (int, bool) {
	for id, a := range t.added {
		if a.Content == token {
			return id, true
		}
	}
	id, ok := t.model.vocab[token]
	return id, ok
}

// MaxID is the greatest id that Encode can give; a model whose vocabulary is
// not larger fails on that token.
func (t *Tokenizer) MaxID() int {
	most := -1
	for id := range t.idToText {
		most = max(most, id)
	}
	return most
}

// lossy replaces each broken sequence by U+FFFD as the reference's
// String::from_utf8_lossy does: one for each maximal broken prefix.
func lossy(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var sb strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r != utf8.RuneError || n > 1 {
			sb.WriteRune(r)
			b = b[n:]
			continue
		}
		sb.WriteRune(utf8.RuneError)
		b = b[brokenPrefix(b):]
	}
	return sb.String()
}

// brokenPrefix is the length of the longest beginning of b that could have
// become a character, at least 1.
func brokenPrefix(b []byte) int {
	n := 1
	for n < len(b) && n < 4 && !utf8.FullRune(b[:n]) && b[n]&0xC0 == 0x80 {
		if utf8.FullRune(b[:n+1]) {
			break
		}
		n++
	}
	return n
}
