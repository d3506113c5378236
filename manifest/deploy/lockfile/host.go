package lockfile

import (
	"net"
	"strings"
)

// host is what a URL says about where it leads.
type host struct {
	name   string // in small letters, with its port, without user and password; "" for none
	hidden bool   // a variable stands in its place
	secret bool   // a password or token stands before it in plain text
}

// readHost finds the host of a URL by hand: net/url refuses ${VARIABLES} in the
// user part, which pip, pipenv and poetry all allow, and does not know
// git@host:path.
func readHost(raw string) host {
	raw = strings.TrimSpace(raw)
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return scpHost(raw)
	}
	if strings.HasSuffix(scheme, "file") {
		return host{}
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 && !strings.Contains(rest[:i], "${") {
		authority = rest[:i]
	} else if i >= 0 {
		authority = outsideVariables(rest)
	}
	user := ""
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, authority = authority[:i], authority[i+1:]
	}
	h := host{secret: secretUser(user, strings.Contains(scheme, "ssh"))}
	if strings.ContainsAny(authority, "${}%") {
		h.hidden = true
		return h
	}
	h.name = strings.ToLower(strings.TrimSuffix(authority, ":"))
	if !plausible(h.name) {
		h.name = ""
	}
	return h
}

// scpHost reads git@host:path; anything else without a scheme has no host.
func scpHost(raw string) host {
	raw = strings.TrimPrefix(raw, "git+")
	user, rest, ok := strings.Cut(raw, "@")
	if !ok || user == "" || strings.ContainsAny(user, "/: ") {
		return host{}
	}
	name, _, ok := strings.Cut(rest, ":")
	if !ok || !plausible(name) {
		return host{}
	}
	return host{name: strings.ToLower(name)}
}

// outsideVariables cuts a URL's rest at the first slash that is not inside ${…}.
func outsideVariables(rest string) string {
	depth := 0
	for i := range len(rest) {
		switch rest[i] {
		case '{':
			depth++
		case '}':
			depth--
		case '/', '?', '#':
			if depth <= 0 {
				return rest[:i]
			}
		}
	}
	return rest
}

// secretUser reports whether the user part of a URL holds a literal secret: a
// password, or over HTTP a single long word, as tokens are.
func secretUser(user string, ssh bool) bool {
	name, password, both := strings.Cut(user, ":")
	if both && password != "" {
		return !variable(password)
	}
	return !ssh && len(name) >= 16 && !variable(name)
}

// variable reports whether a word is ${NAME}, $NAME, %(name)s or {{ name }}.
func variable(s string) bool {
	return strings.HasPrefix(s, "$") || strings.HasPrefix(s, "%(") || strings.HasPrefix(s, "{{") ||
		strings.Trim(s, "*x<>") == ""
}

func plausible(name string) bool {
	if name == "" || len(name) > 260 {
		return false
	}
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	for _, r := range name {
		if r <= ' ' || strings.ContainsRune(`"'<>\^|`+"`", r) {
			return false
		}
	}
	return true
}
