package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"drkit/internal/errext"
)

// Class says what kept a registry from answering, so that callers can branch and
// people know what to do.
type Class string

// The classes.
const (
	Unauthorized Class = "unauthorized" // no credentials, wrong ones, or no right to pull
	NotFound     Class = "not-found"
	Unreachable  Class = "unreachable" // no such host, no connection, a connection that broke
	TimedOut     Class = "timed-out"   // connected, and no whole answer in time
	RateLimited  Class = "rate-limited"
	TLS          Class = "tls"
	PlainHTTP    Class = "plain-http"  // would have been asked without TLS
	Untrue       Class = "untrue"      // not what it says that it is, or not what was asked for
	Unavailable  Class = "unavailable" // the registry says that it is in trouble
	Credentials  Class = "credentials" // docker's configuration or its helper does not work
	Invalid      Class = "invalid"     // no image reference
)

// hints say what to do about each class.
var hints = map[Class]string{
	Unauthorized: "sign in with docker login, or have the right to pull granted; many registries answer so for a name that they do not have",
	NotFound:     "see that the name is spelled right and that the image was pushed and not cleaned up since",
	Unreachable:  "see that this machine reaches the registry: name, network, proxy",
	TimedOut:     "try again; if it stays so, the registry or a proxy before it hangs",
	RateLimited:  "sign in with docker login for a higher limit, or try again later",
	TLS:          "give the registry a certificate that this machine trusts, or add its authority to the system's roots",
	PlainHTTP:    "give the registry a certificate; without TLS only registries on this machine are asked",
	Untrue:       "do not use the image: find out what stands between here and the registry, and who pushed what; a proxy or login page may have answered",
	Unavailable:  "try again later",
	Credentials:  "repair docker's config.json or the credential helper that it names; docker pull should work without asking",
	Invalid:      "write registry/repository:tag or registry/repository@sha256:…",
}

// Error is what went wrong with an image. Its text holds no words of the server,
// which could repeat what it was sent.
type Error struct {
	Class Class
	text  string
	cause error
}

func (e *Error) Error() string { return e.text }

// Unwrap is for branching; the cause is not fit to be printed.
func (e *Error) Unwrap() error { return e.cause }

func newError(c Class, cause error, format string, args ...any) error {
	return errext.WithHint(&Error{c, fmt.Sprintf(format, args...), cause}, hints[c])
}

// ClassOf is the class of an error of this package, or "".
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return ""
}

// classify turns what the layers below say into an Error about the host.
func classify(err error, host string) error {
	if e, ok := errors.AsType[*transport.Error](err); ok {
		return answered(e, host, false)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return newError(Unreachable, err, "there is no host %s", dns.Name)
		}
		return newError(Unreachable, err, "the host %s cannot be looked up", dns.Name)
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && (dial.Op == "dial" || dial.Op == "proxyconnect") {
		return newError(Unreachable, err, "no connection to %s", host)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded) || timeout(err):
		return newError(TimedOut, err, "%s did not answer in time", host)
	case errors.Is(err, http.ErrSchemeMismatch):
		return newError(PlainHTTP, err, "%s answers without TLS", host)
	}
	if what := untrusted(err); what != "" {
		return newError(TLS, err, "no trusted connection to %s: %s", host, what)
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return errext.WithHint(own, hints[own.Class])
	}
	if _, broke := after(nil, err, 0); broke {
		return newError(Unreachable, err, "the connection to %s broke", host)
	}
	return newError(Untrue, err, "%s does not answer as a registry should", host)
}

func timeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// untrusted says what is wrong with a TLS connection, or "".
func untrusted(err error) string {
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		return "its certificate is expired or not yet valid"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "its certificate is for another name"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is by an unknown authority"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate does not hold"
	}
	_, alert := errors.AsType[tls.AlertError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	if alert || record || strings.Contains(err.Error(), "tls: ") {
		return "the handshake failed"
	}
	return ""
}

// answered classifies an answer by its status. Only a 404 to the request for a
// manifest or blob says that it is not there; one to the sign-in says nothing.
func answered(e *transport.Error, host string, content bool) error {
	status := e.StatusCode
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return newError(Unauthorized, e, "%s refuses: status %d", host, status)
	case status == http.StatusTooManyRequests:
		return newError(RateLimited, e, "%s limits the rate of requests: status %d", host, status)
	case status >= 500:
		return newError(Unavailable, e, "%s is in trouble: status %d", host, status)
	case status == http.StatusNotFound && content:
		return newError(NotFound, e, "%s does not have it", host)
	}
	return newError(Untrue, e, "%s does not answer as a registry should: status %d", host, status)
}
