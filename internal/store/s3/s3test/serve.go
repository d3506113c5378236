package s3test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// call is one request on its way through the server.
type call struct {
	s           *Server
	w           http.ResponseWriter
	r           *http.Request
	query       url.Values
	bucket, key string
	b           *bucket
	sig         signature
	began       uint64 // the server's serial when the request came
	in          int64
}

// counter counts what is written to a client.
type counter struct {
	http.ResponseWriter
	status int
	out    int64
}

func (c *counter) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *counter) Write(p []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	n, err := c.ResponseWriter.Write(p)
	c.out += int64(n)
	return n, err
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := &counter{ResponseWriter: w}
	c := &call{s: s, w: out, r: r, query: r.URL.Query()}
	c.bucket, c.key = s.address(r)
	name, do := c.operation()
	err := c.admit(name)
	if err == nil {
		err = do(c)
	}
	c.answerError(err)
	if out.status == 0 {
		out.status = http.StatusOK
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, Request{Operation: name, Method: r.Method, Bucket: c.bucket, Key: c.key, Query: r.URL.RawQuery,
		Status: out.status, BytesIn: c.in, BytesOut: out.out})
}

func (c *call) answerError(err error) {
	var f *failure
	switch {
	case err == nil:
	case errors.As(err, &f):
		f.write(c.w, c.r)
	default:
		fail(500, "InternalError", "%v", err).write(c.w, c.r)
	}
}

// address finds bucket and key in the host and the path, which stays as it was
// sent: "//" and "." are part of keys.
func (s *Server) address(r *http.Request) (bucket, key string) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	if sub, ok := strings.CutSuffix(r.Host, "."+s.opts.Domain); ok && s.opts.Domain != "" {
		return sub, path
	}
	bucket, key, _ = strings.Cut(path, "/")
	return bucket, key
}

// admit checks the signature, the bucket's region and what is denied.
func (c *call) admit(operation string) error {
	sig, err := c.s.authenticate(c.r)
	if err != nil {
		return err
	}
	c.sig = sig
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.began = c.s.serial
	if c.bucket == "" || operation == "CreateBucket" {
		return c.rightRegion(c.s.opts.Region)
	}
	b, ok := c.s.buckets[c.bucket]
	if !ok {
		return fail(404, "NoSuchBucket", "The specified bucket does not exist").with("BucketName", c.bucket)
	}
	c.b = b
	if operation != "GetBucketLocation" {
		if err := c.rightRegion(b.opts.Region); err != nil {
			return err
		}
	}
	if b.denies(operation, c.key, c.query.Get("prefix")) || (b.opts.RequesterPays && c.r.Header.Get("x-amz-request-payer") != "requester") {
		return fail(403, "AccessDenied", "Access Denied")
	}
	return nil
}

// rightRegion refuses a request that was signed for another region than the bucket's.
func (c *call) rightRegion(region string) error {
	switch {
	case c.sig.region == region:
		return nil
	case c.s.opts.PermanentRedirect:
		return fail(301, "PermanentRedirect", "The bucket you are attempting to access must be addressed using the specified endpoint. Please send all future requests to this endpoint.").
			with("Bucket", c.bucket).with("Endpoint", c.bucket+".s3."+region+".amazonaws.com").header("x-amz-bucket-region", region)
	}
	return fail(400, "AuthorizationHeaderMalformed", "The authorization header is malformed; the region '%s' is wrong; expecting '%s'", c.sig.region, region).
		with("Region", region).header("x-amz-bucket-region", region)
}

// operation names what a request asks for and how it is done.
func (c *call) operation() (string, func(*call) error) {
	switch {
	case c.bucket == "" && c.r.Method == http.MethodGet:
		return "ListBuckets", (*call).listBuckets
	case c.key == "":
		return c.bucketOperation()
	}
	return c.objectOperation()
}

func (c *call) bucketOperation() (string, func(*call) error) {
	has := c.query.Has
	switch c.r.Method + " " + subresource(c.query) {
	case "HEAD ":
		return "HeadBucket", (*call).headBucket
	case "PUT ":
		return "CreateBucket", (*call).createBucket
	case "GET location":
		return "GetBucketLocation", (*call).bucketLocation
	case "GET versioning":
		return "GetBucketVersioning", (*call).getVersioning
	case "PUT versioning":
		return "PutBucketVersioning", (*call).putVersioning
	case "GET replication":
		return "GetBucketReplication", (*call).getReplication
	case "PUT replication":
		return "PutBucketReplication", (*call).putReplication
	case "DELETE replication":
		return "DeleteBucketReplication", (*call).deleteReplication
	case "GET object-lock":
		return "GetObjectLockConfiguration", (*call).getLockConfiguration
	case "GET versions":
		return "ListObjectVersions", (*call).listVersions
	case "GET uploads":
		return "ListMultipartUploads", (*call).listUploads
	case "POST delete":
		return "DeleteObjects", (*call).deleteObjects
	case "GET ":
		if has("list-type") {
			return "ListObjectsV2", (*call).listObjects
		}
		return "ListObjects", (*call).listObjectsV1
	}
	return "Unknown", (*call).unknown
}

func (c *call) objectOperation() (string, func(*call) error) {
	copies := c.r.Header.Get("x-amz-copy-source") != ""
	switch c.r.Method + " " + subresource(c.query) {
	case "GET ":
		return "GetObject", (*call).getObject
	case "HEAD ":
		return "HeadObject", (*call).headObject
	case "PUT ":
		if copies {
			return "CopyObject", (*call).copyObject
		}
		return "PutObject", (*call).putObject
	case "DELETE ":
		return "DeleteObject", (*call).deleteObject
	case "GET attributes":
		return "GetObjectAttributes", (*call).attributes
	case "GET retention":
		return "GetObjectRetention", (*call).getRetention
	case "PUT retention":
		return "PutObjectRetention", (*call).putRetention
	case "PUT legal-hold":
		return "PutObjectLegalHold", (*call).putLegalHold
	case "POST uploads":
		return "CreateMultipartUpload", (*call).createUpload
	case "PUT uploadId":
		if copies {
			return "UploadPartCopy", (*call).uploadPartCopy
		}
		return "UploadPart", (*call).uploadPart
	case "POST uploadId":
		return "CompleteMultipartUpload", (*call).completeUpload
	case "DELETE uploadId":
		return "AbortMultipartUpload", (*call).abortUpload
	case "GET uploadId":
		return "ListParts", (*call).listParts
	}
	return "Unknown", (*call).unknown
}

// subresource is the query parameter that chooses the operation.
func subresource(q url.Values) string {
	for _, name := range []string{"location", "versioning", "replication", "object-lock", "versions", "uploads", "delete",
		"attributes", "retention", "legal-hold", "uploadId", "acl", "tagging", "policy", "encryption", "lifecycle", "cors"} {
		if q.Has(name) {
			return name
		}
	}
	return ""
}

func (c *call) unknown() error {
	return notImplemented(c.r.Method + " ?" + subresource(c.query))
}

// xml answers 200 with a document.
func (c *call) xml(document any) error {
	data, err := xml.Marshal(document)
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	c.w.Header().Set("Content-Type", "application/xml")
	c.w.WriteHeader(http.StatusOK)
	fmt.Fprint(c.w, xml.Header)
	c.w.Write(data)
	return nil
}

// document reads the request's XML.
func (c *call) document(into any) error {
	p, err := c.payload()
	if err != nil {
		return err
	}
	if xml.Unmarshal(p.data, into) != nil {
		return fail(400, "MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema")
	}
	return nil
}
