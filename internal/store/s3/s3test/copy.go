package s3test

import (
	"encoding/xml"
	"net/url"
	"strconv"
	"strings"
)

// maxCopy is the greatest object in bytes that CopyObject takes.
const maxCopy = 5 << 30

// copySource finds the object that x-amz-copy-source names. The header is
// decoded like a form: a bare "+" is a space. The caller holds the lock.
func (c *call) copySource() (*version, error) {
	path, id, _ := strings.Cut(c.r.Header.Get("x-amz-copy-source"), "?versionId=")
	decoded, err := url.QueryUnescape(path)
	if err != nil {
		return nil, fail(400, "InvalidArgument", "The x-amz-copy-source header is not percent-encoded").with("ArgumentName", "x-amz-copy-source")
	}
	bucket, key, ok := strings.Cut(strings.TrimPrefix(decoded, "/"), "/")
	if !ok || key == "" {
		return nil, fail(400, "InvalidArgument", "Copy Source must mention the source bucket and key: sourcebucket/sourcekey").with("ArgumentName", "x-amz-copy-source")
	}
	b, ok := c.s.buckets[bucket]
	if !ok {
		return nil, fail(404, "NoSuchBucket", "The specified bucket does not exist").with("BucketName", bucket)
	}
	if b.denies("GetObject", key, "") {
		return nil, fail(403, "AccessDenied", "Access Denied")
	}
	v, err := b.find(key, id)
	if err != nil {
		return nil, err
	}
	return v, c.copyConditions(v)
}

func (c *call) copyConditions(v *version) error {
	match, none := c.r.Header.Get("x-amz-copy-source-if-match"), c.r.Header.Get("x-amz-copy-source-if-none-match")
	if (match != "" && !sameETag(match, v.etag)) || (none != "" && sameETag(none, v.etag)) {
		return unmet("x-amz-copy-source-If-Match")
	}
	return nil
}

func (c *call) copyObject() error {
	c.s.mu.Lock()
	source, err := c.copySource()
	var from version
	if err == nil {
		from = *source
	}
	c.s.mu.Unlock()
	if err != nil {
		return err
	}
	if len(from.data) > maxCopy {
		return fail(400, "InvalidRequest", "The specified copy source is larger than the maximum allowable size for a copy source: 5368709120")
	}
	v := &version{data: from.data, headers: from.headers, kmsKey: c.kmsKey()}
	if c.r.Header.Get("x-amz-metadata-directive") == "REPLACE" {
		v.headers = c.headersOf()
	}
	if v.sum, err = c.copiedSum(from); err != nil {
		return err
	}
	v.etag = etagOf(v.data, v.kmsKey)
	if err := c.store(v); err != nil {
		return err
	}
	return c.xml(copyDoc("CopyObjectResult", v.etag, v.sum, v.modified.Format(stamp)))
}

// copiedSum is the checksum of a copy: by the algorithm asked for, computed; else
// the source's, carried over when it is of the full object and computed when not.
func (c *call) copiedSum(from version) (checksum, error) {
	if c.s.opts.NoChecksums {
		return checksum{}, nil
	}
	asked := strings.ToUpper(c.r.Header.Get("x-amz-checksum-algorithm"))
	switch {
	case asked != "" && algorithms[asked] == nil:
		return checksum{}, fail(400, "InvalidRequest", "Checksum algorithm provided is unsupported.")
	case asked != "":
		return sumOf(asked, from.data), nil
	case from.sum.kind == fullObject:
		return from.sum, nil
	case from.sum.algorithm != "":
		return sumOf(from.sum.algorithm, from.data), nil
	}
	return c.s.proven(checksum{}, from.data)
}

// copyResult is the answer to a copy.
type copyResult struct {
	XMLName            xml.Name
	LastModified, ETag string
	sumDoc
}

func copyDoc(name, etag string, sum checksum, modified string) copyResult {
	return copyResult{XMLName: xml.Name{Local: name}, LastModified: modified, ETag: etag, sumDoc: sumDocOf(sum)}
}

// sumDoc is a checksum as elements of a document.
type sumDoc struct {
	ChecksumCRC32     string `xml:",omitempty"`
	ChecksumCRC32C    string `xml:",omitempty"`
	ChecksumCRC64NVME string `xml:",omitempty"`
	ChecksumSHA1      string `xml:",omitempty"`
	ChecksumSHA256    string `xml:",omitempty"`
	ChecksumSHA512    string `xml:",omitempty"`
	ChecksumType      string `xml:",omitempty"`
}

// field is the element of an algorithm.
func (d *sumDoc) field(algorithm string) *string {
	switch algorithm {
	case "CRC32":
		return &d.ChecksumCRC32
	case "CRC32C":
		return &d.ChecksumCRC32C
	case "CRC64NVME":
		return &d.ChecksumCRC64NVME
	case "SHA1":
		return &d.ChecksumSHA1
	case "SHA256":
		return &d.ChecksumSHA256
	case "SHA512":
		return &d.ChecksumSHA512
	}
	return new(string)
}

func sumDocOf(c checksum) sumDoc {
	var d sumDoc
	*d.field(c.algorithm) = c.value
	if c.algorithm != "" {
		d.ChecksumType = c.kind
	}
	return d
}

// copyRange reads x-amz-copy-source-range.
func (c *call) copyRange(size int64) (from, to int64, err error) {
	value := c.r.Header.Get("x-amz-copy-source-range")
	if value == "" {
		return 0, size, nil
	}
	first, last, ok := strings.Cut(strings.TrimPrefix(value, "bytes="), "-")
	from, err1 := strconv.ParseInt(first, 10, 64)
	end, err2 := strconv.ParseInt(last, 10, 64)
	if !ok || !strings.HasPrefix(value, "bytes=") || err1 != nil || err2 != nil || from < 0 || end < from || end >= size {
		return 0, 0, fail(400, "InvalidArgument", "Range specified is not valid for source object of size: %d", size).with("ArgumentName", "x-amz-copy-source-range")
	}
	return from, end + 1, nil
}
