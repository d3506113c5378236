// Package redact keeps secrets out of everything that drkit writes. One
// Redactor wraps every writer (cmd/drkit does it once): logs, journals, reports,
// errors on the terminal.
//
// Secrets are found two ways: literal values that the caller names (credentials
// from the environment), and shapes that only credentials have.
package redact

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Mark stands where a secret was.
const Mark = "[redacted]"

// minLength keeps short or common values from blanking ordinary text.
const minLength = 8

// shape is what a credential looks like, and the words of which it holds at least
// one, in lower case: a text without any of them need not be searched, which makes
// a manifest of 100 MB a matter of a second.
type shape struct {
	*regexp.Regexp
	words []string
}

// shapes are credentials by their form: provider key ids and tokens, bearer
// headers, user information in URLs, signatures of pre-signed URLs, private keys.
var shapes = []shape{
	{regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`), []string{"akia", "asia"}},
	{regexp.MustCompile(`\bhf_[A-Za-z0-9]{20,}\b`), []string{"hf_"}},
	{regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{20,}\b`), []string{"sk-"}},
	{regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{30,}\b`), []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}},
	{regexp.MustCompile(`(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}`), []string{"bearer"}},
	{regexp.MustCompile(`(?i)(\bbasic\s+)[A-Za-z0-9+/=]{16,}`), []string{"basic"}},
	{regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)[^/\s:@"'\\]*:[^/\s@"'\\]+@`), []string{"://"}},
	{regexp.MustCompile(`(?i)(https?://)[^/\s@"'\\]+@`), []string{"://"}}, // a token alone
	{regexp.MustCompile(`(?i)([?&](?:X-Amz-Signature|X-Amz-Security-Token|X-Amz-Credential|sig|token|access_token)=)[^&\s"'\\]+`), []string{"x-amz-", "sig=", "token="}},
	{regexp.MustCompile(`(?i)((?:aws_secret_access_key|aws_session_token|api[_-]?key|secret[_-]?key|password|passwd)["']?\s*[:=]\s*["']?)[^\s"',}&\\]{6,}`), []string{"aws_secret_access_key", "aws_session_token", "api_key", "api-key", "apikey", "secret_key", "secret-key", "secretkey", "passw"}},
	{regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), []string{"private key"}},
}

// Redactor replaces secrets. The zero value knows the shapes alone; a nil one
// is as good. It is safe for concurrent use.
type Redactor struct {
	mu      sync.RWMutex
	secrets []string // longest first
}

// New returns a Redactor for the given literal secrets.
func New(secrets ...string) *Redactor {
	r := &Redactor{}
	r.Add(secrets...)
	return r
}

// Add makes further literal values secret. Values under eight bytes are left
// out: they would blank ordinary words.
func (r *Redactor) Add(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range secrets {
		if len(s) >= minLength && !slices.Contains(r.secrets, s) {
			r.secrets = append(r.secrets, s)
		}
	}
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
}

// secretNames are the environment variables whose values are always secret, and
// the endings that mark others.
var secretNames = []string{"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "VLLM_API_KEY", "OPENAI_API_KEY"}

// FromEnviron returns a Redactor for the credentials in an environment, given as
// "NAME=value" lines: the usual names, and every name that ends in _TOKEN,
// _SECRET, _PASSWORD, _API_KEY or _SECRET_KEY.
func FromEnviron(environ []string) *Redactor {
	r := New()
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		if isSecretName(name) {
			r.Add(value)
		}
	}
	return r
}

func isSecretName(name string) bool {
	if slices.Contains(secretNames, name) {
		return true
	}
	upper := strings.ToUpper(name)
	for _, end := range []string{"_TOKEN", "_SECRET", "_PASSWORD", "_API_KEY", "_SECRET_KEY"} {
		if strings.HasSuffix(upper, end) {
			return true
		}
	}
	return false
}

// String returns text without secrets.
func (r *Redactor) String(text string) string {
	for _, s := range r.literals() {
		text = strings.ReplaceAll(text, s, Mark)
	}
	possible := possibleIn(text)
	for _, shape := range shapes {
		if !possible(shape) {
			continue
		}
		text = shape.ReplaceAllStringFunc(text, func(hit string) string {
			parts := shape.FindStringSubmatch(hit)
			if len(parts) < 2 {
				return Mark
			}
			end := ""
			if strings.HasSuffix(hit, "@") {
				end = "@"
			}
			return parts[1] + Mark + end
		})
	}
	return text
}

// possibleIn tells of a shape whether it can occur in text at all. Long s and the
// Kelvin sign count as s and k for expressions that ignore case, and have no lower
// case of that kind: with them every shape is possible.
func possibleIn(text string) func(shape) bool {
	if strings.ContainsAny(text, "\u017f\u212a") {
		return func(shape) bool { return true }
	}
	lower := strings.ToLower(text)
	return func(s shape) bool {
		return slices.ContainsFunc(s.words, func(w string) bool { return strings.Contains(lower, w) })
	}
}

// Bytes is String for bytes.
func (r *Redactor) Bytes(b []byte) []byte { return []byte(r.String(string(b))) }

func (r *Redactor) literals() []string {
	if r == nil {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.secrets
}

// Writer wraps w. A literal secret that is split over two writes is caught too:
// an ending that may be the beginning of a secret is held until the next write
// or Flush.
func (r *Redactor) Writer(w io.Writer) *Writer { return &Writer{r: r, w: w} }

// Writer is an io.Writer without secrets. It is safe for concurrent use.
type Writer struct {
	r    *Redactor
	w    io.Writer
	mu   sync.Mutex
	held string
}

// Write redacts p and writes it. It reports len(p) on success, whatever length
// was written.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.held + string(p)
	keep := w.r.suspicious(text)
	w.held = text[len(text)-keep:]
	if _, err := io.WriteString(w.w, w.r.String(text[:len(text)-keep])); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes what was held back.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := w.held
	w.held = ""
	_, err := io.WriteString(w.w, w.r.String(held))
	return err
}

// suspicious is the length of text's longest ending that is a proper beginning
// of a secret.
func (r *Redactor) suspicious(text string) int {
	longest := 0
	for _, s := range r.literals() {
		for n := min(len(s)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, s[:n]) {
				longest = n
				break
			}
		}
	}
	return longest
}
