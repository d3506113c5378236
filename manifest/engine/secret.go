package engine

import (
	"fmt"
	"regexp"
	"strings"
)

// hidden stands for a secret wherever a value is shown.
const hidden = "[hidden]"

// secretName matches names of options whose values must never be shown. It is
// wider than vLLM's own two (api-key, hf-token), for options that are misspelt.
var secretName = regexp.MustCompile(`(?i)(api[-_]?k|token$|secret|passw|credential|private[-_]key)`)

func isSecret(flag string) bool {
	name := strings.TrimLeft(strings.SplitN(flag, "=", 2)[0], "-")
	return secretName.MatchString(name) && name != "skip-tokenizer-init"
}

// secretKey finds the same names as keys inside JSON.
var secretKey = regexp.MustCompile(`(?i)(api[-_]?key|\btoken|[-_]token|secret|passw(or)?d|credentials?|private[-_]key)["']?\s*:`)

// hideText is a value as it may be shown: secrets inside JSON are hidden, and
// the whole of it when it is not JSON.
func hideText(s string) string {
	if !secretKey.MatchString(s) {
		return s
	}
	if v, err := loads(s, true); err == nil {
		if out, f := dumps(hideIn(v)); f == nil {
			return out
		}
	}
	return hidden
}

// hideIn hides what stands under secret names, at any depth.
func hideIn(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = hideIn(e)
		}
		return out
	case *dict:
		out := newDict()
		for _, it := range v.items {
			if name := text(it.key); isSecret(name) && it.value != nil {
				out.set(it.key, hidden, it.line)
			} else {
				out.set(it.key, hideIn(it.value), it.line)
			}
		}
		return out
	}
	return v
}

// maskTokens is the arguments with the values of secret options hidden.
func maskTokens(tokens []token) []string {
	out := make([]string, len(tokens))
	secret := false
	for i, t := range tokens {
		switch {
		case strings.HasPrefix(t.text, "--"):
			out[i] = t.text
			secret = isSecret(t.text)
			if name, value, ok := strings.Cut(t.text, "="); ok && secret {
				out[i] = name + "=" + hidden
			} else if ok {
				out[i] = name + "=" + hideText(value)
			}
		case secret:
			out[i] = hidden
		default:
			out[i] = hideText(t.text)
		}
	}
	return out
}

func (p *parse) maskedTokens() []string { return maskTokens(p.tokens) }

// masked is the i-th leftover argument, hidden when it belongs to a secret.
func (p *parse) masked(i int) string { return maskTokens(p.extras)[i] }

// shown is an option's value as messages may show it.
func (p *parse) shown(o *option, t token) string {
	if isSecret("--" + o.Name) {
		return hidden
	}
	return hideText(t.text)
}

// maskValue hides text, and texts in a list, of secret options; true stays true.
func (p *parse) maskValue(o *option, v any) any {
	if !isSecret("--" + o.Name) {
		return hideIn(v)
	}
	switch v := v.(type) {
	case string:
		return hidden
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = hidden
		}
		return out
	}
	return v
}

// noteSecrets reports secrets that stand in the configuration itself.
func (p *parse) noteSecrets() {
	for _, name := range []string{"api-key", "hf-token"} {
		o := p.t.byFlag["--"+name]
		if o == nil {
			continue
		}
		switch v := p.values[o.dest()].(type) {
		case string, []any:
			if s, ok := v.(string); ok && strings.HasPrefix(s, "$") {
				continue
			}
			p.note(p.given[o.dest()], KindPlainSecret, fmt.Sprintf("--%s is given in plain text; give it by an environment variable from a Secret", name))
		}
	}
}
