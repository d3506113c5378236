package s3test

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxParts is the greatest number of a part.
const maxParts = 10_000

// upload is a multipart upload in progress.
type upload struct {
	id, key   string
	headers   map[string]string
	kmsKey    string
	algorithm string // "" when the client named none
	kind      string
	parts     map[int]*uploaded
	began     time.Time
}

// uploaded is one part that has arrived.
type uploaded struct {
	data []byte
	etag string
	sum  checksum
	at   time.Time
}

// typesOf lists the checksum types that each algorithm allows for an upload in
// parts; the first is the default.
func typesOf(algorithm string) []string {
	switch algorithm {
	case "CRC64NVME":
		return []string{fullObject}
	case "CRC32", "CRC32C":
		return []string{composite, fullObject}
	}
	return []string{composite}
}

func (c *call) createUpload() error {
	h := c.r.Header
	u := &upload{key: c.key, headers: c.headersOf(), kmsKey: c.kmsKey(), parts: map[int]*uploaded{}, began: c.s.now()}
	if !c.s.opts.NoChecksums {
		u.algorithm, u.kind = strings.ToUpper(h.Get("x-amz-checksum-algorithm")), strings.ToUpper(h.Get("x-amz-checksum-type"))
	}
	if err := u.completeType(); err != nil {
		return err
	}
	c.s.mu.Lock()
	c.s.serial++
	u.id = fmt.Sprintf("upload%016x", c.s.serial)
	c.b.uploads[u.id] = u
	c.s.mu.Unlock()
	setNonEmpty(c.w.Header(), "x-amz-checksum-algorithm", u.algorithm)
	setNonEmpty(c.w.Header(), "x-amz-checksum-type", u.kind)
	return c.xml(struct {
		XMLName               xml.Name `xml:"InitiateMultipartUploadResult"`
		Bucket, Key, UploadId string
	}{Bucket: c.bucket, Key: c.key, UploadId: u.id})
}

// completeType fills in the default type of an algorithm and refuses a wrong one.
func (u *upload) completeType() error {
	if u.algorithm == "" {
		if u.kind != "" {
			return fail(400, "InvalidRequest", "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.")
		}
		return nil
	}
	if algorithms[u.algorithm] == nil {
		return fail(400, "InvalidRequest", "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256, SHA512]")
	}
	types := typesOf(u.algorithm)
	if u.kind == "" {
		u.kind = types[0]
	}
	if !slices.Contains(types, u.kind) {
		return fail(400, "InvalidRequest", "The %s checksum type cannot be used with the %s checksum algorithm.", u.kind, strings.ToLower(u.algorithm))
	}
	return nil
}

// upload finds the upload that a request names. The caller holds the lock.
func (c *call) upload() (*upload, error) {
	u, ok := c.b.uploads[c.query.Get("uploadId")]
	if !ok || u.key != c.key {
		return nil, fail(404, "NoSuchUpload", "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.").
			with("UploadId", c.query.Get("uploadId"))
	}
	return u, nil
}

func (c *call) partNumber() (int, error) {
	n, err := strconv.Atoi(c.query.Get("partNumber"))
	if err != nil || n < 1 || n > maxParts {
		return 0, fail(400, "InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive").with("ArgumentName", "partNumber")
	}
	return n, nil
}

func (c *call) uploadPart() error {
	n, err := c.partNumber()
	if err != nil {
		return err
	}
	p, err := c.payload()
	if err != nil {
		return err
	}
	part, err := c.keepPart(n, p.data, func(u *upload) (checksum, error) { return c.s.partSum(u, p) })
	if err != nil {
		return err
	}
	if part.sum.algorithm != "" {
		c.w.Header().Set(part.sum.header(), part.sum.value)
	}
	c.w.Header().Set("ETag", part.etag)
	c.w.WriteHeader(http.StatusOK)
	return nil
}

// keepPart stores a part of the upload that the request names.
func (c *call) keepPart(n int, data []byte, sum func(*upload) (checksum, error)) (*uploaded, error) {
	at := c.s.now()
	c.s.mu.Lock()
	u, err := c.upload()
	c.s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	part := &uploaded{data: data, etag: etagOf(data, u.kmsKey), at: at}
	if part.sum, err = sum(u); err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if _, err := c.upload(); err != nil {
		return nil, err
	}
	u.parts[n] = part
	return part, nil
}

// partSum checks what a client claims of a part against its upload's algorithm.
func (s *Server) partSum(u *upload, p payload) (checksum, error) {
	switch {
	case s.opts.NoChecksums:
		return checksum{}, nil
	case u.algorithm != "" && p.claim.algorithm != u.algorithm && (p.claim.algorithm != "" || u.kind == composite):
		claimed := strings.ToLower(p.claim.algorithm)
		if claimed == "" {
			claimed = "null"
		}
		return checksum{}, fail(400, "InvalidRequest", "Checksum Type mismatch occurred, expected checksum Type: %s, actual checksum Type: %s", strings.ToLower(u.algorithm), claimed)
	case p.claim.algorithm != "":
		return s.proven(p.claim, p.data)
	case u.algorithm != "":
		return sumOf(u.algorithm, p.data), nil
	}
	return checksum{}, nil
}

func (c *call) uploadPartCopy() error {
	n, err := c.partNumber()
	if err != nil {
		return err
	}
	c.s.mu.Lock()
	source, err := c.copySource()
	var data []byte
	if err == nil {
		data = source.data
	}
	c.s.mu.Unlock()
	if err != nil {
		return err
	}
	from, to, err := c.copyRange(int64(len(data)))
	if err != nil {
		return err
	}
	data = data[from:to]
	part, err := c.keepPart(n, data, func(u *upload) (checksum, error) {
		if u.algorithm == "" {
			return checksum{}, nil
		}
		return sumOf(u.algorithm, data), nil
	})
	if err != nil {
		return err
	}
	doc := copyDoc("CopyPartResult", part.etag, part.sum, part.at.Format(stamp))
	doc.ChecksumType = ""
	return c.xml(doc)
}

type completedPart struct {
	PartNumber int
	ETag       string
	sumDoc
}

func (c *call) completeUpload() error {
	var doc struct{ Part []completedPart }
	p, err := c.completeDocument(&doc)
	if err != nil {
		return err
	}
	v, err := c.finish(doc.Part, p)
	if err != nil {
		return err
	}
	return c.xml(struct {
		XMLName                     xml.Name `xml:"CompleteMultipartUploadResult"`
		Location, Bucket, Key, ETag string
		sumDoc
	}{Location: "/" + c.bucket + "/" + c.key, Bucket: c.bucket, Key: c.key, ETag: v.etag, sumDoc: sumDocOf(v.sum)})
}

// finish makes the object of an upload, or leaves the upload as it was. While
// it works nobody else sees the upload.
func (c *call) finish(named []completedPart, whole checksum) (v *version, err error) {
	c.s.mu.Lock()
	u, err := c.upload()
	if err == nil {
		delete(c.b.uploads, u.id)
	}
	c.s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if v, err = c.assemble(u, named); err == nil {
		err = c.checkWhole(v, whole)
	}
	if err == nil {
		err = c.store(v)
	}
	if err != nil {
		c.s.mu.Lock()
		c.b.uploads[u.id] = u
		c.s.mu.Unlock()
	}
	return v, err
}

// completeDocument reads the list of parts. The checksum in the request's
// headers is that of the object, not of the document.
func (c *call) completeDocument(into any) (checksum, error) {
	h := c.r.Header.Clone()
	claim := checksum{}
	for algorithm := range algorithms {
		name := "x-amz-checksum-" + algorithm
		if v := h.Get(name); v != "" {
			claim = checksum{algorithm: algorithm, value: v}
		}
		c.r.Header.Del(name)
	}
	return claim, c.document(into)
}

// assemble puts the named parts together.
func (c *call) assemble(u *upload, named []completedPart) (*version, error) {
	if len(named) == 0 {
		return nil, fail(400, "MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema")
	}
	v := &version{headers: u.headers, kmsKey: u.kmsKey}
	var sums []checksum
	digests := md5.New()
	for i, n := range named {
		part, err := c.named(u, n, i == 0 || named[i-1].PartNumber < n.PartNumber)
		if err != nil {
			return nil, err
		}
		if i < len(named)-1 && int64(len(part.data)) < c.s.opts.MinPartSize {
			return nil, fail(400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size").with("PartNumber", strconv.Itoa(n.PartNumber))
		}
		v.data = append(v.data, part.data...)
		v.parts = append(v.parts, partOf(n.PartNumber, part))
		sums = append(sums, part.sum)
		sum := md5.Sum(part.data)
		digests.Write(sum[:])
	}
	v.etag = fmt.Sprintf(`"%s-%d"`, hex.EncodeToString(digests.Sum(nil)), len(named))
	v.sum = c.s.wholeSum(u, v.data, sums)
	return v, nil
}

func partOf(n int, p *uploaded) part {
	return part{number: n, size: int64(len(p.data)), sum: p.sum}
}

// named finds one part of the list and compares what the client says of it.
func (c *call) named(u *upload, n completedPart, ascending bool) (*uploaded, error) {
	if !ascending {
		return nil, fail(400, "InvalidPartOrder", "The list of parts was not in ascending order. The parts list must be specified in order by part number.")
	}
	part, ok := u.parts[n.PartNumber]
	invalid := fail(400, "InvalidPart", "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.").
		with("PartNumber", strconv.Itoa(n.PartNumber))
	if !ok || !sameETag(n.ETag, part.etag) {
		return nil, invalid
	}
	said := *n.field(part.sum.algorithm)
	if said != "" && said != part.sum.value {
		return nil, invalid
	}
	if said == "" && u.kind == composite {
		return nil, fail(400, "InvalidRequest", "The upload was created using a %s checksum. The complete request must include the checksum for each part. It was missing for part %d in the request.",
			strings.ToLower(u.algorithm), n.PartNumber)
	}
	return part, nil
}

// wholeSum computes the checksum of the assembled object.
func (s *Server) wholeSum(u *upload, data []byte, parts []checksum) checksum {
	switch {
	case s.opts.NoChecksums || (u.algorithm == "" && s.opts.NoDefaultChecksum):
		return checksum{}
	case u.algorithm == "":
		return sumOf(defaultAlgorithm, data)
	case u.kind == composite:
		return compositeOf(u.algorithm, parts)
	}
	return sumOf(u.algorithm, data)
}

// checkWhole compares what the client expects of the whole with what came out.
func (c *call) checkWhole(v *version, claim checksum) error {
	h := c.r.Header
	if size := h.Get("x-amz-mp-object-size"); size != "" && size != strconv.Itoa(len(v.data)) {
		return fail(400, "InvalidRequest", "The provided 'x-amz-mp-object-size' header value %s does not match what was computed: %d", size, len(v.data))
	}
	if c.s.opts.NoChecksums {
		return nil
	}
	if kind := h.Get("x-amz-checksum-type"); kind != "" && kind != v.sum.kind {
		return fail(400, "InvalidRequest", "The upload was created using the %s checksum mode. The complete request must use the same checksum mode.", v.sum.kind)
	}
	switch {
	case claim.value == "":
		return nil
	case claim.algorithm != v.sum.algorithm:
		return fail(400, "InvalidRequest", "Checksum Type mismatch occurred, expected checksum Type: %s, actual checksum Type: %s", strings.ToLower(v.sum.algorithm), strings.ToLower(claim.algorithm))
	case claim.value != v.sum.value && claim.value+fmt.Sprintf("-%d", len(v.parts)) != v.sum.value:
		return fail(400, "BadDigest", "The %s you specified did not match the calculated checksum.", claim.algorithm)
	}
	return nil
}

func (c *call) abortUpload() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	u, err := c.upload()
	if err != nil {
		return err
	}
	delete(c.b.uploads, u.id)
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

type partDoc struct {
	PartNumber   int
	LastModified string `xml:",omitempty"`
	ETag         string `xml:",omitempty"`
	Size         int64
	sumDoc
}

func (c *call) listParts() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	u, err := c.upload()
	if err != nil {
		return err
	}
	most, marker := maxPage, 0
	if n, err := strconv.Atoi(c.query.Get("max-parts")); err == nil {
		most = min(n, maxPage)
	}
	if n, err := strconv.Atoi(c.query.Get("part-number-marker")); err == nil {
		marker = n
	}
	var doc struct {
		XMLName                                          xml.Name `xml:"ListPartsResult"`
		Bucket, Key, UploadId                            string
		PartNumberMarker, NextPartNumberMarker, MaxParts int
		IsTruncated                                      bool
		ChecksumAlgorithm                                string    `xml:",omitempty"`
		ChecksumType                                     string    `xml:",omitempty"`
		Part                                             []partDoc `xml:",omitempty"`
	}
	doc.Bucket, doc.Key, doc.UploadId, doc.PartNumberMarker, doc.MaxParts = c.bucket, c.key, u.id, marker, most
	doc.ChecksumAlgorithm, doc.ChecksumType = u.algorithm, u.kind
	for _, n := range slices.Sorted(maps.Keys(u.parts)) {
		if n <= marker {
			continue
		}
		if doc.IsTruncated = len(doc.Part) == most; doc.IsTruncated {
			break
		}
		p := u.parts[n]
		line := partDoc{PartNumber: n, LastModified: p.at.Format(stamp), ETag: p.etag, Size: int64(len(p.data)), sumDoc: sumDocOf(p.sum)}
		line.ChecksumType = ""
		doc.Part, doc.NextPartNumberMarker = append(doc.Part, line), n
	}
	return c.xml(doc)
}

func (c *call) listUploads() error {
	type line struct{ Key, UploadId, Initiated string }
	var doc struct {
		XMLName     xml.Name `xml:"ListMultipartUploadsResult"`
		Bucket      string
		IsTruncated bool
		Upload      []line `xml:",omitempty"`
	}
	doc.Bucket = c.bucket
	c.s.mu.Lock()
	for _, id := range slices.Sorted(maps.Keys(c.b.uploads)) {
		if u := c.b.uploads[id]; strings.HasPrefix(u.key, c.query.Get("prefix")) {
			doc.Upload = append(doc.Upload, line{u.key, u.id, u.began.Format(stamp)})
		}
	}
	c.s.mu.Unlock()
	return c.xml(doc)
}
