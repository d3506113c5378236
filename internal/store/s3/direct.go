package s3

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/auth"
	"github.com/aws/smithy-go/encoding/httpbinding"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// noBody is the SHA-256 of no bytes: the payload of a GET, as its signature states it.
const noBody = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// direct sends the GETs of objects itself, signed by the library's signer and with
// its endpoint, credentials and transport. The way through the library's stack
// costs three times the processor time of such a request, and of a small object
// that is most of what it costs to read it. Anything but the plain success of a
// request is left to the library, which asks again: it knows what may be repeated,
// and how clocks, regions and errors are to be understood.
type direct struct {
	bucket          url.URL // where its keys begin
	service, region string  // that requests are signed for
	options         s3.Options
	signer          *v4.Signer
}

// newDirect is nil where requests need more than a signature of version 4.
func newDirect(ctx context.Context, c *s3.Client, bucket string) *direct {
	o := c.Options()
	if o.Credentials == nil || o.EndpointResolverV2 == nil || len(o.AuthSchemePreference) > 0 || aws.IsCredentialsProvider(o.Credentials, (*aws.AnonymousCredentials)(nil)) {
		return nil
	}
	e, err := o.EndpointResolverV2.ResolveEndpoint(ctx, s3.EndpointParameters{
		Bucket: &bucket, Region: &o.Region, Endpoint: o.BaseEndpoint, ForcePathStyle: &o.UsePathStyle, Accelerate: &o.UseAccelerate,
		UseFIPS:                        aws.Bool(o.EndpointOptions.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled),
		UseDualStack:                   aws.Bool(o.EndpointOptions.UseDualStackEndpoint == aws.DualStackEndpointStateEnabled),
		DisableMultiRegionAccessPoints: &o.DisableMultiRegionAccessPoints, UseArnRegion: &o.UseARNRegion, DisableS3ExpressSessionAuth: o.DisableS3ExpressSessionAuth,
	})
	if err != nil || len(e.Headers) > 0 {
		return nil
	}
	schemes, _ := auth.GetAuthOptions(&e.Properties)
	if len(schemes) == 0 || schemes[0].SchemeID != "sigv4" {
		return nil
	}
	service, _ := smithyhttp.GetSigV4SigningName(&schemes[0].SignerProperties)
	region, _ := smithyhttp.GetSigV4SigningRegion(&schemes[0].SignerProperties)
	return &direct{bucket: e.URI, service: cmp.Or(service, "s3"), region: cmp.Or(region, o.Region), options: o,
		signer: v4.NewSigner(func(so *v4.SignerOptions) { so.DisableURIPathEscaping = true })}
}

// get asks for an object, and once more through the library where that gave
// anything but its bytes. Together they try as often as the library does by itself.
func (s *Store) get(ctx context.Context, in *s3.GetObjectInput) (*s3.GetObjectOutput, error) {
	d := s.straight()
	if d == nil {
		return call(ctx, s, func(c *s3.Client) (*s3.GetObjectOutput, error) { return c.GetObject(ctx, in) })
	}
	out, status := d.get(ctx, in)
	if out != nil {
		s.seen.Store(true)
		return out, nil
	}
	if refused(status) {
		s.forgo(d)
	}
	if status == noAnswer || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError {
		if err := wait(ctx, s.opts.Backoff, 0); err != nil {
			return nil, err
		}
	}
	less := func(o *s3.Options) { o.RetryMaxAttempts = attempts - 1 }
	return call(ctx, s, func(c *s3.Client) (*s3.GetObjectOutput, error) { return c.GetObject(ctx, in, less) })
}

// refused reports whether the server takes offence at the request, rather than
// saying what is with the object: at the time or the region that it was signed for, or
// at its sender. The library may know a way, and does not have to be told each time.
func refused(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable, http.StatusTooManyRequests:
		return false
	}
	return status/100 == 4
}

// forgo leaves all further requests to the library.
func (s *Store) forgo(d *direct) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.direct == d {
		s.direct = nil
	}
}

// Statuses of HTTP have three digits.
const (
	notAsked = 0
	noAnswer = 1
)

// get asks once. Without the bytes that were asked for it gives the status alone.
func (d *direct) get(ctx context.Context, in *s3.GetObjectInput) (out *s3.GetObjectOutput, status int) {
	keys, err := d.options.Credentials.Retrieve(ctx)
	if err != nil || !keys.HasKeys() {
		return nil, notAsked
	}
	req := d.request(ctx, in)
	if err := d.signer.SignHTTP(ctx, keys, req, noBody, d.service, d.region, time.Now()); err != nil {
		return nil, notAsked
	}
	res, err := d.options.HTTPClient.Do(req)
	if err != nil {
		return nil, noAnswer
	}
	want := http.StatusOK
	if in.Range != nil {
		want = http.StatusPartialContent
	}
	if res.StatusCode != want {
		res.Body.Close()
		return nil, res.StatusCode
	}
	return answered(res), want
}

// request is the GET of an object, not signed yet.
func (d *direct) request(ctx context.Context, in *s3.GetObjectInput) *http.Request {
	to, key := d.bucket, aws.ToString(in.Key)
	to.RawPath = strings.TrimSuffix(to.EscapedPath(), "/") + "/" + httpbinding.EscapePath(key, false)
	to.Path = strings.TrimSuffix(to.Path, "/") + "/" + key
	to.RawQuery = "x-id=GetObject"
	if in.VersionId != nil {
		to.RawQuery = "versionId=" + url.QueryEscape(*in.VersionId) + "&" + to.RawQuery
	}
	h := http.Header{"Accept-Encoding": {"identity"}, "User-Agent": {"drkit"}, "X-Amz-Content-Sha256": {noBody}}
	for name, value := range map[string]string{"If-Match": aws.ToString(in.IfMatch), "Range": aws.ToString(in.Range), "X-Amz-Request-Payer": string(in.RequestPayer)} {
		if value != "" {
			h.Set(name, value)
		}
	}
	req := &http.Request{Method: http.MethodGet, URL: &to, Host: to.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return req.WithContext(ctx)
}

// answered is what the reader of a body needs of an answer.
func answered(res *http.Response) *s3.GetObjectOutput {
	out := &s3.GetObjectOutput{Body: res.Body}
	if res.ContentLength >= 0 {
		out.ContentLength = &res.ContentLength
	}
	for name, field := range map[string]**string{"Content-Range": &out.ContentRange, "Etag": &out.ETag, "X-Amz-Version-Id": &out.VersionId} {
		if value := res.Header.Get(name); value != "" {
			*field = &value
		}
	}
	return out
}
