package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"drkit/internal/errext"
)

const user, password = "reader", "correct-horse-battery"

// known is a keychain with one credential for one host.
type known struct{ host string }

func (k known) Resolve(r authn.Resource) (authn.Authenticator, error) {
	if r.RegistryStr() != k.host {
		return authn.Anonymous, nil
	}
	return &authn.Basic{Username: user, Password: password}, nil
}

// demandBasic makes a region ask for the password.
func (r *region) demandBasic() {
	r.wrap(func(w http.ResponseWriter, q *http.Request) bool {
		if u, p, _ := q.BasicAuth(); u == user && p == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"`+q.Header.Get("Authorization")+`"}]}`)
		return true
	})
}

// demandBearer makes a region ask for a token that it gives for the password.
func (r *region) demandBearer() {
	r.wrap(func(w http.ResponseWriter, q *http.Request) bool {
		if q.URL.Path == "/token" {
			if u, p, _ := q.BasicAuth(); u != user || p != password || q.URL.Query().Get("scope") != "repository:llm/vllm:pull" {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = io.WriteString(w, "no token for "+q.Header.Get("Authorization"))
				return true
			}
			_, _ = io.WriteString(w, `{"token":"a-token"}`)
			return true
		}
		if q.Header.Get("Authorization") == "Bearer a-token" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.host+`/token",service="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
}

func TestChallenges(t *testing.T) {
	for name, demand := range map[string]func(*region){"basic": (*region).demandBasic, "bearer": (*region).demandBearer} {
		t.Run(name, func(t *testing.T) {
			r := newRegion(t)
			image := oneImage("amd64", "")
			reference := r.push(t, "llm/vllm:v1", image)
			demand(r)
			_, err := client().Resolve(t.Context(), reference)
			if ClassOf(err) != Unauthorized || !strings.Contains(errext.Hint(err), "docker login") {
				t.Errorf("without credentials: class %q: %v", ClassOf(err), err)
			}
			got, err := (&Client{Keychain: known{r.host}}).Resolve(t.Context(), reference)
			if err != nil || got.Resolved != sha(image.Digest()) {
				t.Errorf("with credentials: %v, %v", got, err)
			}
		})
	}
}

// TestErrorsHoldNoCredentials: the server repeats what it was sent.
func TestErrorsHoldNoCredentials(t *testing.T) {
	for _, demand := range []func(*region){(*region).demandBasic, (*region).demandBearer} {
		r := newRegion(t)
		demand(r)
		wrong := authn.FromConfig(authn.AuthConfig{Username: "someone", Password: "wrong-but-secret"})
		_, err := (&Client{Keychain: always{wrong}}).Resolve(t.Context(), r.host+"/llm/vllm:v1")
		text := fmt.Sprint(err, errext.Hint(err))
		if ClassOf(err) != Unauthorized || strings.Contains(text, "wrong-but-secret") || strings.Contains(text, "c29tZW9uZT") { // its beginning in base64
			t.Errorf("class %q: %s", ClassOf(err), text)
		}
	}
}

type always struct{ authn.Authenticator }

func (a always) Resolve(authn.Resource) (authn.Authenticator, error) { return a.Authenticator, nil }

func TestRedirectCarriesNoCredentials(t *testing.T) {
	for name, demand := range map[string]func(*region){"basic": (*region).demandBasic, "bearer": (*region).demandBearer} {
		t.Run(name, func(t *testing.T) {
			r, elsewhere := newRegion(t), newRegion(t)
			image := oneImage("amd64", "")
			reference := r.push(t, "llm/vllm:v1", image)
			elsewhere.push(t, "llm/vllm:v1", image)
			var mu sync.Mutex
			var seen []string
			elsewhere.wrap(func(_ http.ResponseWriter, q *http.Request) bool {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, q.Method+" "+q.Header.Get("Authorization"))
				return false
			})
			r.wrap(func(w http.ResponseWriter, q *http.Request) bool { // blobs lie in another place
				if !strings.Contains(q.URL.Path, "/blobs/") {
					return false
				}
				http.Redirect(w, q, "http://"+elsewhere.host+q.URL.Path, http.StatusTemporaryRedirect)
				return true
			})
			demand(r)
			c := &Client{Keychain: known{r.host}}
			_, err := c.Resolve(t.Context(), reference)
			p := c.Check(t.Context(), []Image{{Reference: reference, Digest: sha(image.Digest())}}, Mapping{}, false)
			if err != nil || p[0].Verdict != Present || len(seen) != 4 { // the configuration twice, two layers
				t.Fatalf("%v, %+v, %q", err, p, seen)
			}
			for _, request := range seen {
				if request != "GET " && request != "HEAD " {
					t.Errorf("the other host was sent %q", request)
				}
			}
		})
	}
}

func TestRedirectLoopEnds(t *testing.T) {
	reference := answers(t, func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, q.URL.Path, http.StatusFound) })
	if _, err := client().Resolve(t.Context(), reference); ClassOf(err) != Untrue || !strings.Contains(err.Error(), "redirects more than 5 times") {
		t.Errorf("class %q: %v", ClassOf(err), err)
	}
}

func TestRedirectOutOfTLS(t *testing.T) {
	from := httptest.NewRequest(http.MethodGet, "https://registry.example/v2/a/blobs/b", nil)
	to := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/secret", nil)
	if err := redirect(to, []*http.Request{from}); ClassOf(err) != PlainHTTP {
		t.Error(err)
	}
}

// TestDockerConfiguration: the usual file is read, and a broken one is said.
func TestDockerConfiguration(t *testing.T) {
	r := newRegion(t)
	image := oneImage("amd64", "")
	reference := r.push(t, "llm/vllm:v1", image)
	r.demandBasic()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("DOCKER_CONFIG", home)
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"auths":{"` + r.host + `":{"auth":"cmVhZGVyOmNvcnJlY3QtaG9yc2UtYmF0dGVyeQ=="}}}`) // reader:correct-horse-battery
	if got, err := (&Client{}).Resolve(t.Context(), reference); err != nil || got.Resolved != sha(image.Digest()) {
		t.Errorf("%v, %v", got, err)
	}
	write(`{"auths":{"` + password)
	if _, err := (&Client{}).Resolve(t.Context(), reference); ClassOf(err) != Credentials || strings.Contains(err.Error(), password) {
		t.Errorf("class %q: %v", ClassOf(err), err)
	}
}

// answer is one thing that scripted says.
type answer struct {
	status int
	after  string
	err    error
}

// scripted answers from a list and notes when it was asked.
type scripted struct {
	answers []answer
	at      []time.Duration
	since   time.Time
}

func (s *scripted) RoundTrip(*http.Request) (*http.Response, error) {
	s.at = append(s.at, time.Since(s.since))
	a := s.answers[min(len(s.at), len(s.answers))-1]
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{StatusCode: a.status, Header: http.Header{"Retry-After": {a.after}}, Body: http.NoBody}, nil
}

func TestRetries(t *testing.T) {
	for name, c := range map[string]struct {
		method  string
		answers []answer
		at      []time.Duration
		status  int
	}{
		"limited, then not":       {"GET", []answer{{status: 429}, {status: 200}}, []time.Duration{0, time.Second}, 200},
		"limited for good":        {"GET", []answer{{status: 429}}, []time.Duration{0, time.Second, 4 * time.Second}, 429},
		"says for how long":       {"HEAD", []answer{{status: 429, after: "7"}, {status: 200}}, []time.Duration{0, 7 * time.Second}, 200},
		"says until when":         {"GET", []answer{{status: 503, after: "Sat, 01 Jan 2000 00:00:20 GMT"}, {status: 200}}, []time.Duration{0, 20 * time.Second}, 200}, // a bubble's clock begins at 2000-01-01 00:00 UTC
		"for too long":            {"GET", []answer{{status: 429, after: "3600"}}, []time.Duration{0}, 429},
		"broken connection":       {"GET", []answer{{err: syscall.ECONNRESET}, {err: io.EOF}, {status: 200}}, []time.Duration{0, time.Second, 4 * time.Second}, 200},
		"no connection":           {"GET", []answer{{err: syscall.ECONNREFUSED}}, []time.Duration{0}, 0},
		"not found":               {"GET", []answer{{status: 404}}, []time.Duration{0}, 404},
		"what is not sent again":  {"POST", []answer{{status: 429}}, []time.Duration{0}, 429},
		"a time that is no time":  {"GET", []answer{{status: 429, after: "soon"}, {status: 200}}, []time.Duration{0, time.Second}, 200},
		"a time that is far past": {"GET", []answer{{status: 429, after: "Sat, 01 Jan 1980 00:00:20 GMT"}, {status: 200}}, []time.Duration{0, time.Second}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{answers: c.answers, since: time.Now()}
				resp, err := retrier{s}.RoundTrip(httptest.NewRequestWithContext(t.Context(), c.method, "https://registry.example/v2/", nil))
				status := 0
				if err == nil {
					status = resp.StatusCode
				}
				if fmt.Sprint(s.at) != fmt.Sprint(c.at) || status != c.status {
					t.Errorf("status %d, asked at %v; want %d, %v", status, s.at, c.status, c.at)
				}
			})
		})
	}
}

func TestRateLimitIsNamed(t *testing.T) {
	reference := answers(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	if _, err := client().Resolve(t.Context(), reference); ClassOf(err) != RateLimited {
		t.Errorf("class %q: %v", ClassOf(err), err)
	}
}

func TestBrokenConnectionIsNamed(t *testing.T) {
	for _, cause := range []error{io.EOF, fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), syscall.EPIPE} {
		if err := classify(cause, "registry.example"); ClassOf(err) != Unreachable || !errors.Is(err, cause) {
			t.Errorf("class %q: %v", ClassOf(err), err)
		}
	}
}
