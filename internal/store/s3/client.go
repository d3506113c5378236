package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"drkit/internal/errext"
)

const (
	attempts       = 5 // of each request
	dialTimeout    = 10 * time.Second
	headerTimeout  = time.Minute      // until an answer begins
	serverTimeout  = 15 * time.Minute // the same where the server copies or assembles
	connections    = 64
	fallbackRegion = "us-east-1" // where a region is asked for, and what servers other than AWS expect
)

// newClient reads the configuration as the AWS command line does.
func newClient(ctx context.Context, o Options) (*s3.Client, error) {
	load := []func(*config.LoadOptions) error{
		config.WithRetryer(func() aws.Retryer { return newRetryer(o.Backoff) }),
		config.WithHTTPClient(newHTTP(headerTimeout)),
		config.WithLogger(logging.Nop{}), // only commands print
	}
	if o.Profile != "" {
		load = append(load, config.WithSharedConfigProfile(o.Profile))
	}
	if o.Credentials != nil {
		load = append(load, config.WithCredentialsProvider(o.Credentials))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, configError(o, err)
	}
	if o.AssumeRole != "" {
		base := cfg.Copy()
		base.Region = firstOf(o.Region, cfg.Region, fallbackRegion)
		cfg.Credentials = aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(base), o.AssumeRole,
			func(r *stscreds.AssumeRoleOptions) { r.RoleSessionName = "drkit" }))
	}
	cfg.Region = firstOf(o.Region, cfg.Region, fallbackRegion)
	if o.HTTP != nil {
		cfg.HTTPClient = o.HTTP
	}
	if b, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		slow := b.WithTransportOptions(func(t *http.Transport) { t.ResponseHeaderTimeout = serverTimeout })
		cfg.HTTPClient = patient{fast: b.Freeze(), slow: slow.Freeze()}
	}
	cfg.HTTPClient = watched{cfg.HTTPClient, o.Stall}
	return s3.NewFromConfig(cfg, func(so *s3.Options) { o.apply(so) }), nil
}

func (o Options) apply(so *s3.Options) {
	if o.Endpoint != "" {
		so.BaseEndpoint = aws.String(o.Endpoint)
	}
	so.UsePathStyle = o.PathStyle || local(aws.ToString(so.BaseEndpoint))
	// Checksums are stated by hand, one for each upload; bytes that are read are
	// hashed by the reader, who says what is wrong with them.
	so.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	so.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	so.DisableLogOutputChecksumValidationSkipped = true
	so.DisableMultiRegionAccessPoints = true
}

// local reports whether the endpoint's host can have no bucket before its name.
func local(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if endpoint == "" || err != nil {
		return false
	}
	host := u.Hostname()
	return net.ParseIP(host) != nil || !strings.Contains(host, ".")
}

func firstOf(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}

func newHTTP(header time.Duration) *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
		WithTransportOptions(func(t *http.Transport) {
			t.TLSHandshakeTimeout = dialTimeout
			t.ResponseHeaderTimeout = header
			t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = connections, connections, connections
			t.ReadBufferSize, t.WriteBufferSize = 4<<10, 4<<10 // larger reads pass them by, and servers that close after each answer make them anew
			t.DisableCompression = true
		})
}

// patient waits longer for answers to requests on which the server works itself.
type patient struct{ fast, slow aws.HTTPClient }

// Do sends the request.
func (p patient) Do(r *http.Request) (*http.Response, error) {
	if laborious(r) {
		return p.slow.Do(r)
	}
	return p.fast.Do(r)
}

// newRetryer repeats what may pass when it is done again. There is no quota of
// attempts over all requests: each has its own.
func newRetryer(longest time.Duration) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff, o.RateLimiter = attempts, longest, ratelimit.None
		o.Retryables = append(o.Retryables, retry.RetryableErrorCode{Codes: map[string]struct{}{
			"BadDigest": {}, "XAmzContentChecksumMismatch": {}, "IncompleteBody": {}, "InternalError": {}, "OperationAborted": {},
		}}, retry.IsErrorRetryableFunc(brokenAnswer))
	})
}

// brokenAnswer finds documents that ended early, such as a page of a listing.
func brokenAnswer(err error) aws.Ternary {
	if errors.Is(err, errLarge) {
		return aws.FalseTernary
	}
	var unread *smithy.DeserializationError
	var cut *xml.SyntaxError
	if errors.As(err, &unread) || errors.As(err, &cut) || errors.Is(err, io.ErrUnexpectedEOF) {
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}

func configError(o Options, err error) error {
	var none config.SharedConfigProfileNotExistError
	hint := "drkit reads the same files and variables as the AWS command line: try aws s3 ls s3://" + o.Bucket
	if errors.As(err, &none) {
		hint = "aws configure list-profiles names those that there are"
	}
	return errext.WithHint(&Error{What: "reading the AWS configuration for s3://" + o.Bucket, Says: configText(err), cause: err}, hint)
}

// configText is the error without what the library lists of its files.
func configText(err error) string {
	var none config.SharedConfigProfileNotExistError
	if errors.As(err, &none) {
		return "there is no profile " + none.Profile
	}
	return err.Error()
}

// call runs a request. Where no region was given, a bucket that says that it lies
// in another one is asked there, once.
func call[T any](ctx context.Context, s *Store, do func(*s3.Client) (T, error)) (T, error) {
	client := s.now()
	out, err := do(client)
	if err == nil {
		s.seen.Store(true)
		return out, nil
	}
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	right := regionOf(err)
	if right == "" || right == client.Options().Region || s.opts.Region != "" {
		return out, err
	}
	out, err = do(s.move(right))
	if err == nil {
		s.seen.Store(true)
	} else if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out, err
}

func (s *Store) now() *s3.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

func (s *Store) straight() *direct {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.direct
}

// move makes the client of another region.
func (s *Store) move(region string) *s3.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.client.Options(); o.Region != region {
		o.Region = region
		s.client = s3.New(o)
		s.direct = newDirect(context.Background(), s.client, s.opts.Bucket)
	}
	return s.client
}

var expecting = regexp.MustCompile(`expecting ['"]([a-z0-9-]+)['"]`) // AWS writes single quotes, versitygw double ones

// regionOf is the region in which an error says that the bucket lies, or "".
func regionOf(err error) string {
	var api smithy.APIError
	var res *smithyhttp.ResponseError
	if !errors.As(err, &res) || res.Response == nil {
		return ""
	}
	code := ""
	if errors.As(err, &api) {
		code = api.ErrorCode()
		if m := expecting.FindStringSubmatch(api.ErrorMessage()); m != nil && code == "AuthorizationHeaderMalformed" {
			return m[1]
		}
	}
	switch region := res.Response.Header.Get("X-Amz-Bucket-Region"); {
	case res.HTTPStatusCode() == http.StatusMovedPermanently, res.HTTPStatusCode() == http.StatusTemporaryRedirect,
		code == "AuthorizationHeaderMalformed", code == "PermanentRedirect", code == "IllegalLocationConstraintException",
		code == "BadRequest" && region != "": // a HEAD, whose answers have no body
		return region
	}
	return ""
}
