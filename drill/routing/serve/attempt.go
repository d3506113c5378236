package serve

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
)

var errStalled = errors.New("the worker sent nothing for too long")

// attempt is one request to one worker, cut off when the worker stalls.
type attempt struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	stall  time.Duration
}

func newAttempt(ctx context.Context, stall time.Duration) *attempt {
	ctx, cancel := context.WithCancelCause(ctx)
	return &attempt{ctx, cancel, time.AfterFunc(stall, func() { cancel(errStalled) }), stall}
}

// alive notes that the worker sent something.
func (a *attempt) alive() { a.timer.Reset(a.stall) }

// abandoned tells that the client left, and not that the worker stalled.
func (a *attempt) abandoned() bool {
	return a.ctx.Err() != nil && !errors.Is(context.Cause(a.ctx), errStalled)
}

func (a *attempt) end() {
	a.timer.Stop()
	a.cancel(nil)
}

func (a *attempt) send(t http.RoundTripper, req *http.Request, base string, body []byte) (*http.Response, error) {
	out, err := http.NewRequestWithContext(a.ctx, req.Method, base+req.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	copyHeader(out.Header, req.Header)
	out.Header.Del(HeaderResidency)
	if out.Header.Get("Accept-Encoding") == "" {
		out.Header.Set("Accept-Encoding", "identity") // else the transport asks for gzip and hides the length
	}
	resp, err := t.RoundTrip(out)
	if err != nil {
		if errors.Is(context.Cause(a.ctx), errStalled) {
			return nil, errStalled
		}
		return nil, err
	}
	a.alive()
	return resp, nil
}

// hopByHop are the headers that belong to one connection (RFC 9110, 7.6.1).
var hopByHop = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

func copyHeader(to, from http.Header) {
	for name, values := range from {
		to[name] = append([]string(nil), values...)
	}
	for _, line := range from.Values("Connection") {
		for name := range strings.SplitSeq(line, ",") {
			to.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		to.Del(name)
	}
}
