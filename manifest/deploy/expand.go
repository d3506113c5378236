package deploy

import (
	"strings"
)

// expand replaces $NAME, ${NAME}, ${NAME:-default}, ${NAME-default} and
// ${NAME:+other} as Dockerfiles and Compose files know them. used reports
// whether any variable was replaced, whole whether all were.
func expand(s string, value func(name string) (string, bool)) (out string, used, whole bool) {
	var b strings.Builder
	whole = true
	for i := 0; i < len(s); {
		if s[i] == '\\' && i+1 < len(s) {
			b.WriteByte(s[i+1])
			i += 2
			continue
		}
		if s[i] != '$' {
			b.WriteByte(s[i])
			i++
			continue
		}
		raw, name, modifier, word := variable(s[i:])
		if name == "" {
			b.WriteByte('$')
			whole = false
			i++
			continue
		}
		v, ok := substitute(name, modifier, word, value)
		if ok {
			used = true
			b.WriteString(v)
		} else {
			whole = false
			b.WriteString(raw)
		}
		i += len(raw)
	}
	return b.String(), used, whole
}

func substitute(name, modifier, word string, value func(string) (string, bool)) (string, bool) {
	v, ok := value(name)
	if strings.HasPrefix(modifier, ":") && v == "" {
		ok = false
	}
	switch strings.TrimPrefix(modifier, ":") {
	case "-":
		if !ok {
			inner, _, whole := expand(word, value)
			return inner, whole
		}
	case "+":
		if ok {
			inner, _, whole := expand(word, value)
			return inner, whole
		}
		return "", true
	}
	return v, ok
}

// variable takes the reference at the beginning of s apart; an empty name means
// that none begins there.
func variable(s string) (raw, name, modifier, word string) {
	if strings.HasPrefix(s, "${") {
		end := closing(s)
		if end < 0 {
			return "", "", "", ""
		}
		body := s[2:end]
		n := nameLength(body)
		name, rest := body[:n], body[n:]
		for _, m := range []string{":-", ":+", "-", "+"} {
			if strings.HasPrefix(rest, m) {
				return s[:end+1], name, m, rest[len(m):]
			}
		}
		if rest != "" { // ${NAME:?message} and others give no default
			return s[:end+1], name, "?", ""
		}
		return s[:end+1], name, "", ""
	}
	n := nameLength(s[1:])
	return s[:1+n], s[1 : 1+n], "", ""
}

// closing is the place of the brace that ends the reference at the beginning of s.
func closing(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

func nameLength(s string) int {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return len(s)
}
