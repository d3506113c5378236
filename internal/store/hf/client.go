package hf

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"drkit/internal/errext"
	"drkit/internal/store"
)

const (
	tries        = 6                // of one request
	longestPause = 2 * time.Minute  // that an answer 429 may ask for
	answerWithin = 60 * time.Second // the beginning of an answer
	maxRedirects = 10
)

// errRedirect is why a redirect was not followed.
var errRedirect = errors.New("redirect not followed")

// client speaks HTTP with one hub about one repository.
type client struct {
	base  *url.URL
	repo  string
	token bool // one is sent
	http  *http.Client
}

func newClient(repo string, o Options) (*client, error) {
	if o.Endpoint == "" {
		o.Endpoint = DefaultEndpoint
	}
	base, err := url.Parse(strings.TrimRight(o.Endpoint, "/"))
	if err != nil || (base.Scheme != "https" && base.Scheme != "http") || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errext.WithStatus(errext.WithHint(errors.New("the hub's endpoint (HF_ENDPOINT) is not the URL of a server"),
			"write it as https://host; credentials belong in HF_TOKEN"), errext.Usage)
	}
	transport := o.Transport
	if transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.ResponseHeaderTimeout = answerWithin
		transport = t
	}
	c := &client{base: base, repo: repo, token: o.Token != ""}
	c.http = &http.Client{Transport: &authorized{transport, base, o.Token}, CheckRedirect: checkRedirect}
	return c, nil
}

// authorized adds the token to requests to the hub itself and to no other. It
// does so beneath the redirects: http.Client would pass a header on to a
// subdomain, which may be somebody else's storage.
type authorized struct {
	next  http.RoundTripper
	base  *url.URL
	token string
}

// RoundTrip sends one request.
func (a *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.token != "" && sameOrigin(r.URL, a.base) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	return a.next.RoundTrip(r)
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

func checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("%w: %d redirects one after another", errRedirect, len(via))
	}
	if via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
		return fmt.Errorf("%w: it leads from https to %s", errRedirect, r.URL.Scheme)
	}
	return nil
}

// json asks the API, decodes the answer and returns its header.
func (c *client) json(ctx context.Context, path, query string, to any) (header http.Header, err error) {
	err = c.get(ctx, path, query, "", func(res *http.Response) error {
		defer res.Body.Close()
		header = res.Header
		return c.decode(res.Body, to)
	})
	return header, err
}

func (c *client) decode(r io.Reader, to any) error {
	data, err := io.ReadAll(io.LimitReader(r, maxPage+1))
	if err != nil {
		return fmt.Errorf("the answer of %s broke off: %w", c.base.Host, plainError(err))
	}
	if len(data) > maxPage {
		return backoff.Permanent(fmt.Errorf("the answer of %s is larger than %d bytes", c.base.Host, maxPage))
	}
	if err := json.Unmarshal(data, to); err != nil {
		return backoff.Permanent(errext.WithHint(fmt.Errorf("the answer of %s is not the hub's: %w", c.base.Host, err),
			"does HF_ENDPOINT name a hub, and does no proxy or login page answer for it?"))
	}
	return nil
}

// get asks for a path below the endpoint until take is content or it is no use
// any more. take owns the body of an answer 200 or 206.
func (c *client) get(ctx context.Context, path, query, byteRange string, take func(*http.Response) error) error {
	target, err := url.Parse(c.base.String() + path)
	if err != nil {
		return fmt.Errorf("asking for %s: %w", path, err)
	}
	target.RawQuery = query
	pause := backoff.NewExponentialBackOff()
	pause.Multiplier, pause.MaxInterval = 2, 30*time.Second
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		res, err := c.once(ctx, target, byteRange)
		if err == nil {
			err = take(res)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(0))
	var final *backoff.PermanentError
	if errors.As(err, &final) { // the last try's comes back wrapped
		err = final.Err
	}
	return err
}

func (c *client) once(ctx context.Context, target *url.URL, byteRange string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, backoff.Permanent(plainError(err))
	}
	req.Header.Set("User-Agent", "drkit")
	req.Header.Set("Accept-Encoding", "identity") // lengths and ranges are those of the content
	if byteRange != "" {
		req.Header.Set("Range", byteRange)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusPartialContent {
		return res, nil
	}
	defer res.Body.Close()
	return nil, c.refused(res)
}

// plainError is an error of net/http without the URL, whose query may be a
// signature.
func plainError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// failed says why there was no answer, and whether to ask again.
func (c *client) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return backoff.Permanent(context.Cause(ctx))
	}
	err = fmt.Errorf("asking %s: %w", c.base.Host, plainError(err))
	err = errext.WithHint(err, "is there a network, and is HF_ENDPOINT right? A model in the local cache can be named by its folder")
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	if errors.Is(err, errRedirect) || errors.As(err, &cert) || (errors.As(err, &dns) && dns.IsNotFound) {
		return backoff.Permanent(err)
	}
	return err
}

// refused says what an answer other than 200 means, and whether to ask again.
func (c *client) refused(res *http.Response) error {
	at := res.Request.URL
	err := fmt.Errorf("%s answered %d %s", at.Host, res.StatusCode, http.StatusText(res.StatusCode))
	switch {
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable:
		return retryLater(err, res.Header.Get("Retry-After"))
	case res.StatusCode >= 500 || res.StatusCode == http.StatusRequestTimeout:
		return err
	case !sameOrigin(at, c.base):
		return err // a signed URL of the hub's storage that has run out: a new one comes with the next request
	}
	return backoff.Permanent(c.explain(err, res))
}

// retryLater honours a pause in seconds that is not too long.
func retryLater(err error, after string) error {
	seconds, parseErr := strconv.Atoi(after)
	if parseErr != nil || seconds <= 0 {
		return err
	}
	if time.Duration(seconds)*time.Second > longestPause {
		return backoff.Permanent(errext.WithHint(fmt.Errorf("%w and asks to wait %d seconds", err, seconds), "try again later, or set HF_TOKEN: requests with a token have a higher limit"))
	}
	return fmt.Errorf("%w: %w", err, backoff.RetryAfter(seconds))
}

// explain adds what to do about a refusal of the hub. Its X-Error-Code tells
// gated, absent repositories and absent revisions apart.
func (c *client) explain(err error, res *http.Response) error {
	code := res.Header.Get("X-Error-Code")
	switch {
	case code == "GatedRepo" || (res.StatusCode == http.StatusForbidden && code == ""):
		return errext.WithHint(fmt.Errorf("%w: access to %s is gated or not granted", err, c.repo),
			fmt.Sprintf("accept its conditions at %s/%s with the account that HF_TOKEN belongs to; a fine-grained token also needs the right to read it", c.base, c.repo))
	case res.StatusCode == http.StatusUnauthorized && c.token:
		return errext.WithHint(fmt.Errorf("%w: the token in HF_TOKEN is not valid there, or may not read %s", err, c.repo), "make a new token with the right to read this repository")
	case res.StatusCode == http.StatusUnauthorized:
		return errext.WithHint(fmt.Errorf("%w: %s does not exist, or is private or gated", err, c.repo), "set HF_TOKEN to a token that may read it, and check the name")
	case res.StatusCode == http.StatusNotFound && code == "RevisionNotFound":
		return errext.WithHint(fmt.Errorf("%w: %s has no such revision: %w", err, c.repo, store.ErrNotFound), "name a branch, a tag or a full commit after the @")
	case res.StatusCode == http.StatusNotFound:
		return errext.WithHint(fmt.Errorf("%w: %w", err, store.ErrNotFound), "check the name and HF_ENDPOINT; a private repository looks absent without a token (HF_TOKEN)")
	}
	return err
}
