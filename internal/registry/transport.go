package registry

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"
)

// defaultTransport gives up early on what does not answer: a build that asks is
// at a desk or in CI, and says what it could not learn.
var defaultTransport http.RoundTripper = &http.Transport{
	Proxy:                  http.ProxyFromEnvironment,
	DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
	ForceAttemptHTTP2:      true,
	TLSHandshakeTimeout:    10 * time.Second,
	ResponseHeaderTimeout:  30 * time.Second,
	MaxResponseHeaderBytes: 64 << 10,
	MaxIdleConnsPerHost:    8,
	IdleConnTimeout:        30 * time.Second,
}

// guard refuses requests without TLS, except to this machine: credentials and
// answers could be read and changed on the way.
type guard struct{ next http.RoundTripper }

func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !loopback(r.URL.Hostname()) {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, newError(PlainHTTP, nil, "%s was to be asked without TLS", r.URL.Host)
	}
	return g.next.RoundTrip(r)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// maxRedirects is enough for a registry that hands blobs to a store.
const maxRedirects = 5

// redirect follows a registry to its blob store, not out of TLS.
func redirect(r *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	switch {
	case len(via) > maxRedirects:
		return newError(Untrue, nil, "%s redirects more than %d times", via[0].URL.Host, maxRedirects)
	case from.Scheme == "https" && r.URL.Scheme != "https":
		return newError(PlainHTTP, nil, "%s redirects to %s without TLS", from.Host, r.URL.Host)
	}
	return nil
}

const (
	attempts = 3
	// maxPause is the longest pause that a registry may ask for between attempts;
	// with a longer one the answer stands.
	maxPause = 30 * time.Second
)

// retrier asks again after answers that pass by: too many requests, a server in
// trouble, a connection that broke. It honours Retry-After.
type retrier struct{ next http.RoundTripper }

func (t retrier) RoundTrip(r *http.Request) (*http.Response, error) {
	pause := time.Second
	for n := 1; ; n++ {
		resp, err := t.next.RoundTrip(r)
		wait, again := after(resp, err, pause)
		if !again || n == attempts || (r.Method != http.MethodGet && r.Method != http.MethodHead) {
			return resp, err
		}
		if resp != nil {
			_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody) // so that the connection can be used again
			resp.Body.Close()
		}
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		pause *= 3
	}
}

// maxErrorBody bounds what is read of an answer that is thrown away.
const maxErrorBody = 64 << 10

// after says how long to wait before a request is tried again, if it should be.
func after(resp *http.Response, err error, pause time.Duration) (time.Duration, bool) {
	if err != nil {
		broke := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
		return pause, broke
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		asked := retryAfter(resp.Header.Get("Retry-After"))
		return max(pause, asked), asked <= maxPause
	}
	return 0, false
}

// retryAfter reads the header's seconds or date; 0 when it says nothing.
func retryAfter(text string) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
