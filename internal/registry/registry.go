// Package registry asks container registries: which digest an image reference
// stands for, on which platforms it runs, and whether a region's registry holds
// all of it.
//
//	c := &registry.Client{}
//	facts, err := c.Resolve(ctx, "1.example/llm/vllm:v1")
//	for _, p := range c.Check(ctx, registry.Needed(m, "eu-west-1"), mapping, false) { … }
//
// Nothing that a registry says is believed: manifests are hashed, and what is
// asked for by digest must have it. Credentials come from docker's configuration
// and its helpers. They are sent to the registry and to the token server that it
// names, never along a redirect, and never without TLS except to this machine.
package registry

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// patience is how long one image may take, with all retries.
const patience = 2 * time.Minute

// Client asks registries. The zero value is ready and safe for concurrent use.
type Client struct {
	Transport http.RoundTripper // nil: TLS by the system's roots, proxies by the environment
	Keychain  authn.Keychain    // nil: docker's configuration and credential helpers, else podman's
	Timeout   time.Duration     // for one image with all retries; 0: two minutes

	mu       sync.Mutex
	sessions map[string]*session
}

// session is a signed-in way to one repository.
type session struct {
	repo   name.Repository
	client *http.Client
}

// within limits the time that one image may take.
func (c *Client) within(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := c.Timeout
	if limit == 0 {
		limit = patience
	}
	return context.WithTimeout(ctx, limit)
}

// open signs in, once a repository. A failure is not kept.
func (c *Client) open(ctx context.Context, repo name.Repository) (*session, error) {
	c.mu.Lock()
	s := c.sessions[repo.Name()]
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	auth, err := c.credentials(ctx, repo)
	if err != nil {
		return nil, err
	}
	t, err := transport.NewWithContext(ctx, repo.Registry, auth, c.transport(), []string{repo.Scope(transport.PullScope)})
	if err != nil {
		return nil, classify(err, repo.RegistryStr())
	}
	s = &session{repo, &http.Client{Transport: t, CheckRedirect: redirect}}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions == nil {
		c.sessions = map[string]*session{}
	}
	c.sessions[repo.Name()] = s
	return s, nil
}

func (c *Client) transport() http.RoundTripper {
	next := c.Transport
	if next == nil {
		next = defaultTransport
	}
	return guard{retrier{next}}
}

// credentials asks the keychain. A credential helper is a program that knows no
// deadline: one that hangs is left behind.
func (c *Client) credentials(ctx context.Context, repo name.Repository) (authn.Authenticator, error) {
	keychain := c.Keychain
	if keychain == nil {
		keychain = authn.DefaultKeychain
	}
	type answer struct {
		auth authn.Authenticator
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		auth, err := authn.Resolve(ctx, keychain, repo)
		answered <- answer{auth, err}
	}()
	select {
	case a := <-answered:
		if a.err != nil { // its text may quote the helper's output
			return nil, newError(Credentials, a.err, "the credentials for %s cannot be read from docker's configuration or its credential helper", repo.RegistryStr())
		}
		return a.auth, nil
	case <-ctx.Done():
		return nil, newError(Credentials, ctx.Err(), "the credential helper for %s did not answer in time", repo.RegistryStr())
	}
}
