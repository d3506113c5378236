package tokenizer

import "strings"

// byteChar is GPT-2's bijection from bytes to printable characters, in which
// vocabularies are written: printable Latin-1 stands for itself, the other 68
// bytes for U+0100 and up in their order (so a space is Ġ).
var byteChar = func() (table [256]rune) {
	next := rune(0x100)
	for b := range rune(256) {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
			table[b] = b
			continue
		}
		table[b] = next
		next++
	}
	return table
}()

var charByte = func() map[rune]byte {
	m := make(map[rune]byte, 256)
	for b, c := range byteChar {
		m[c] = byte(b)
	}
	return m
}()

func mapBytes(s string) string {
	var sb strings.Builder
	for i := range len(s) {
		sb.WriteRune(byteChar[s[i]])
	}
	return sb.String()
}

// unmapBytes turns a token back into bytes. A token with a character outside
// the bijection, such as an added token with a space in it, is its own text.
func unmapBytes(token string) []byte {
	b := make([]byte, 0, len(token))
	for _, c := range token {
		x, ok := charByte[c]
		if !ok {
			return []byte(token)
		}
		b = append(b, x)
	}
	return b
}
