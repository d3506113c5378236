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

// maskTokens is the arguments with the values of secret options hidden.
func maskTokens(tokens []token) []string {
	out := make([]string, len(tokens))
	secret := false
	for i, t := range tokens {
		switch {
		case strings.HasPrefix(t.text, "--"):
			out[i] = t.text
			secret = isSecret(t.text)
			if name, _, ok := strings.Cut(t.text, "="); ok && secret {
				out[i] = name + "=" + hidden
			}
		case secret:
			out[i] = hidden
		default:
			out[i] = t.text
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
	return t.text
}

// maskValue hides text, and texts in a list, of secret options; true stays true.
func (p *parse) maskValue(o *option, v any) any {
	if !isSecret("--" + o.Name) {
		return v
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
		o := catalogue().byFlag["--"+name]
		switch v := p.values[o.dest()].(type) {
		case string, []any:
			if s, ok := v.(string); ok && strings.HasPrefix(s, "$") {
				continue
			}
			p.note(p.given[o.dest()], KindPlainSecret, fmt.Sprintf("--%s is given in plain text; give it by an environment variable from a Secret", name))
		}
	}
}
