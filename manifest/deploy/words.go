package deploy

import "strings"

// words splits s as a shell does: blanks separate, quotation marks and
// backslashes hold together. Variables stay as they are.
func words(s string) []string {
	var out []string
	var b strings.Builder
	open, quoted := false, byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quoted != 0 && c == quoted:
			quoted = 0
		case c == '\\' && quoted != '\'' && i+1 < len(s):
			i++
			if s[i] != '\n' {
				b.WriteByte(s[i])
				open = true
			}
		case quoted != 0:
			b.WriteByte(c)
		case c == '"' || c == '\'':
			quoted, open = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if open {
				out = append(out, b.String())
				b.Reset()
				open = false
			}
		default:
			b.WriteByte(c)
			open = true
		}
	}
	if open {
		out = append(out, b.String())
	}
	return out
}
