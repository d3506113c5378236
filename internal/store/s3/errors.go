package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"drkit/internal/errext"
	"drkit/internal/store"
)

// Error says what a bucket refused or why it could not be asked. It is the
// store's sentinel for that, where there is one.
type Error struct {
	What   string // "reading s3://bucket/key"
	Says   string // why not, in a sentence without its end
	Code   string // as S3 names it, "" when there was no answer
	Status int    // of HTTP, 0 likewise
	ID     string // of the request, for the provider's support

	kinds []error
	cause error
}

// Error names the object, the reason and what support would ask for.
func (e *Error) Error() string {
	var more []string
	if e.Code != "" {
		more = append(more, e.Code)
	}
	if e.Status != 0 {
		more = append(more, fmt.Sprintf("HTTP %d", e.Status))
	}
	if e.ID != "" {
		more = append(more, "request "+e.ID)
	}
	if len(more) == 0 {
		return e.What + ": " + e.Says
	}
	return fmt.Sprintf("%s: %s (%s)", e.What, e.Says, strings.Join(more, ", "))
}

// Unwrap yields the sentinels that the error is, then its cause.
func (e *Error) Unwrap() []error { return append(slices.Clone(e.kinds), e.cause) }

// meaning is what a code means to a person and to callers.
type meaning struct {
	says, hint string
	kinds      []error
}

var (
	cannotAsk = []error{store.ErrUnreachable}
	absent    = []error{store.ErrNotFound}
	unmet     = []error{store.ErrPrecondition}
	noSuchKey = []error{store.ErrUnrepresentable}
)

const (
	signIn   = "renew them: sign in again (aws sso login), or fetch new temporary credentials, then run the same command"
	checkKey = "check the access key and its secret: aws sts get-caller-identity shows whom they belong to; a server of your own has its own keys (profile: in drkit.yaml, or AWS_PROFILE)"
	setClock = "set this machine's clock (NTP): requests are signed with the time"
	later    = "the server is overloaded or not well: run the same command again later, it goes on where it stopped"
	noMode   = "set checksums: when-required for servers that know no checksums but MD5"
)

var meanings = map[string]meaning{
	"NoSuchBucket":                  {"there is no such bucket", "check the name, the account and the endpoint: a bucket is never made by drkit (aws s3 mb makes one)", cannotAsk},
	"NoSuchKey":                     {"no such object", "", absent},
	"NotFound":                      {"no such object", "", absent},
	"NoSuchVersion":                 {"no such version of the object", "", absent},
	"PreconditionFailed":            {"it was changed or created by someone else", "", unmet},
	"ConditionalRequestConflict":    {"someone else writes it at the same time", "", unmet},
	"ExpiredToken":                  {"the credentials have expired", signIn, cannotAsk},
	"ExpiredTokenException":         {"the credentials have expired", signIn, cannotAsk},
	"TokenRefreshRequired":          {"the credentials must be renewed", signIn, cannotAsk},
	"InvalidToken":                  {"the session token is not valid", signIn, cannotAsk},
	"InvalidClientTokenId":          {"the access key is not known", checkKey, cannotAsk},
	"InvalidAccessKeyId":            {"the access key is not known there", checkKey, cannotAsk},
	"SignatureDoesNotMatch":         {"the secret key is not the right one", checkKey, cannotAsk},
	"RequestTimeTooSkewed":          {"this machine's clock is off", setClock, cannotAsk},
	"RequestExpired":                {"the request came too late, or this machine's clock is off", setClock, cannotAsk},
	"SlowDown":                      {"the server asks for fewer requests, still after several attempts", later, nil},
	"ServiceUnavailable":            {"the server is not available, still after several attempts", later, nil},
	"InternalError":                 {"the server failed, still after several attempts", later, nil},
	"RequestTimeout":                {"the server waited too long for the request, still after several attempts", later, nil},
	"InvalidObjectState":            {"the object is archived and cannot be read", "restore it first (aws s3api restore-object): a copy that must be thawed cannot be booted from in time", nil},
	"BadDigest":                     {"the bytes arrived as others than were sent, still after several attempts", "something between here and the server changes them: a proxy, or memory", nil},
	"XAmzContentChecksumMismatch":   {"the bytes arrived as others than were sent, still after several attempts", "something between here and the server changes them: a proxy, or memory", nil},
	"ObjectParentIsFile":            {"the server keeps objects as files, and a part of the key is a file there", "rename one of the two", noSuchKey},
	"ExistingObjectIsDirectory":     {"the server keeps objects as files, and the key is a folder there", "rename one of the two", noSuchKey},
	"XMinioObjectExistsAsDirectory": {"the server keeps objects as files, and the key is a folder there", "rename one of the two", noSuchKey},
	"XMinioParentIsObject":          {"the server keeps objects as files, and a part of the key is a file there", "rename one of the two", noSuchKey},
	"KeyTooLongError":               {"the key is longer than the server allows", "shorten the prefix or the file's name", noSuchKey},
	"NotImplemented":                {"the server has no such function", noMode, []error{ErrNoAnswer}},
	"MethodNotAllowed":              {"the server has no such function, or the version is a delete marker", "", []error{ErrNoAnswer}},
	"InvalidRequest":                {"the server does not take the request", noMode, nil},
	"EntityTooLarge":                {"the object is larger than the server allows", "", nil},
	"QuotaExceeded":                 {"the bucket's quota is used up", "make room, or raise the quota", nil},
}

func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

func statusOf(err error) int {
	var res *smithyhttp.ResponseError
	if errors.As(err, &res) {
		return res.HTTPStatusCode()
	}
	return 0
}

// fail turns what the library says into an error that names the object and what
// to do. Needs names the permissions of the request.
func (s *Store) fail(ctx context.Context, doing, key, needs string, err error) error {
	if err == nil {
		return nil
	}
	what := doing + " " + s.name(key)
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", what, firstErr(context.Cause(ctx), err))
	}
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	e := &Error{What: what, Code: codeOf(err), Status: statusOf(err), cause: err}
	var res *awshttp.ResponseError
	if errors.As(err, &res) {
		e.ID = res.ServiceRequestID()
	}
	return errext.WithHint(e, s.explain(e, needs))
}

func firstErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// explain fills in what the error says and returns the hint.
func (s *Store) explain(e *Error, needs string) (hint string) {
	if m, ok := meanings[e.Code]; ok {
		e.Says, e.kinds = m.says, m.kinds
		if e.Code == "RequestTimeTooSkewed" {
			e.Says += skew(e.cause)
		}
		return m.hint
	}
	region := regionOf(e.cause)
	switch {
	case isRole(e.cause):
		e.Says, e.kinds = "the role "+s.opts.AssumeRole+" cannot be taken on: "+message(e.cause), cannotAsk
		return "the chain's credentials need sts:AssumeRole on it, and its trust policy must name them"
	case region != "":
		e.Says, e.kinds = fmt.Sprintf("the bucket lies in region %s, not %s", region, s.now().Options().Region), cannotAsk
		return "set region: " + region + ", or leave the region out: drkit finds it"
	case e.Status == http.StatusMovedPermanently || e.Code == "PermanentRedirect" || e.Code == "AuthorizationHeaderMalformed":
		e.Says, e.kinds = "the bucket lies in another region or behind another endpoint: "+message(e.cause), cannotAsk
		return "set region or endpoint of the bucket"
	case e.Code == "AccessDenied" || e.Code == "Forbidden" || e.Status == http.StatusForbidden:
		return s.denied(e, needs)
	case strings.HasPrefix(e.Code, "KMS"):
		e.Says = "the key that encrypts it cannot be used: " + message(e.cause)
		return "the credentials need kms:Decrypt to read and kms:GenerateDataKey to write, and the key must be enabled in this region"
	case e.Status == http.StatusNotFound:
		e.Says, e.kinds = "no such object", absent
	case e.Status == http.StatusPreconditionFailed:
		e.Says, e.kinds = meanings["PreconditionFailed"].says, unmet
	case e.Status/100 == 2:
		e.Says = "the answer broke off, or is not that of an S3 server: " + e.cause.Error()
		return later
	case e.Status >= 500:
		e.Says = "the server failed, still after several attempts: " + message(e.cause)
		return later
	case e.Status != 0:
		e.Says = message(e.cause)
	default:
		return s.unreachable(e)
	}
	return ""
}

func (s *Store) denied(e *Error, needs string) string {
	e.Says, e.kinds = "access denied", []error{store.ErrDenied}
	if m := message(e.cause); strings.Contains(m, " ") && !strings.EqualFold(m, "access denied") { // AWS says who may not do what
		e.Says += ": " + m
	}
	hint := "the credentials need " + needs + " on it"
	if strings.Contains(needs, "s3:GetObject") {
		hint += "; without s3:ListBucket a missing object is answered like this, too"
	}
	if !s.opts.RequesterPays {
		hint += "; a bucket whose requester pays needs requester_pays: true"
	}
	return hint
}

// message is the server's own sentence.
func message(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorMessage() != "" {
		return strings.TrimSuffix(api.ErrorMessage(), ".")
	}
	if code := codeOf(err); code != "" {
		return code
	}
	if n := statusOf(err); n != 0 {
		return strings.ToLower(http.StatusText(n))
	}
	return "no answer that can be read"
}

func isRole(err error) bool {
	var op *smithy.OperationError
	for e := err; errors.As(e, &op); e = op.Err {
		if op.ServiceID == "STS" {
			return true
		}
	}
	return false
}

// skew says by how much the clocks differ.
func skew(err error) string {
	var res *smithyhttp.ResponseError
	if !errors.As(err, &res) || res.Response == nil {
		return ""
	}
	at, bad := http.ParseTime(res.Response.Header.Get("Date"))
	if bad != nil {
		return ""
	}
	switch off := time.Since(at).Round(time.Second); {
	case off.Abs() < time.Minute: // the answer's own time is another clock's
		return ""
	case off > 0:
		return fmt.Sprintf(": it is %v ahead of the server's", off)
	default:
		return fmt.Sprintf(": it is %v behind the server's", -off)
	}
}

// plainEndpoint is an endpoint without what may be a secret in it: one from the
// environment or a profile is not checked for any.
func plainEndpoint(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return "the endpoint, which is no URL"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// unreachable explains errors without an answer of S3.
func (s *Store) unreachable(e *Error) string {
	at := firstOf(plainEndpoint(s.base), "AWS, region "+s.now().Options().Region)
	e.kinds = cannotAsk
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var bad x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var wait net.Error
	switch text := e.cause.Error(); {
	case strings.Contains(text, "get credentials") || strings.Contains(text, "get identity") || strings.Contains(text, "static credentials are empty"):
		if lower := strings.ToLower(text); strings.Contains(lower, "sso") || strings.Contains(lower, "expired") {
			e.Says = "the credentials cannot be renewed: " + innermost(e.cause)
			return signIn
		}
		e.Says = "there are no credentials"
		return "set AWS_PROFILE, or profile: in drkit.yaml, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; aws sts get-caller-identity shows what the chain finds"
	case errors.As(e.cause, &dns):
		e.Says = "the name " + dns.Name + " cannot be resolved"
		return "check the endpoint, the region and the bucket's name; a server that has no names of buckets needs path_style: true"
	case errors.As(e.cause, &unknown), errors.As(e.cause, &host), errors.As(e.cause, &bad):
		e.Says = "the certificate of " + at + " is not trusted: " + tlsText(unknown, host, bad)
		return "give its authority's certificates in AWS_CA_BUNDLE, or mend the name or the certificate; it is never skipped"
	case errors.As(e.cause, &record), strings.Contains(text, "server gave HTTP response to HTTPS client"):
		e.Says = at + " does not speak TLS"
		return "write http:// in the endpoint if that is meant"
	case errors.Is(e.cause, syscall.ECONNREFUSED):
		e.Says = "nothing listens at " + at
		return "check the endpoint, and that the server runs"
	case errors.As(e.cause, &wait) && wait.Timeout(), errors.Is(e.cause, context.DeadlineExceeded):
		e.Says, e.kinds = at+" did not answer in time, still after several attempts", nil
		return later
	default:
		e.Says, e.kinds = "no whole answer from "+at+", still after several attempts: "+innermost(e.cause), nil
		return later
	}
}

func tlsText(unknown x509.UnknownAuthorityError, host x509.HostnameError, bad x509.CertificateInvalidError) string {
	switch {
	case unknown.Cert != nil:
		return unknown.Error()
	case host.Certificate != nil:
		return host.Error()
	}
	return bad.Error()
}

// innermost is the last error of a chain: what lies around it repeats addresses
// and the library's own words.
func innermost(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// reason asks again for what a HEAD was refused without a body, so that the
// answer names the reason. It returns the better error of the two.
func (s *Store) reason(ctx context.Context, key, version string, err error) error {
	switch statusOf(err) {
	case http.StatusBadRequest, http.StatusForbidden:
	default:
		return err
	}
	in := &s3.GetObjectInput{Bucket: s.bucket(), Key: s.full(key), Range: aws.String("bytes=0-0"), RequestPayer: s.payer()}
	if version != "" {
		in.VersionId = &version
	}
	out, again := s.now().GetObject(ctx, in)
	if again == nil {
		out.Body.Close()
		return err
	}
	if statusOf(again) == statusOf(err) && codeOf(again) != "" {
		return again
	}
	return err
}
