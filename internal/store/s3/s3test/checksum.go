package s3test

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/crc32"
	"net/http"
	"slices"
	"strings"

	"github.com/minio/crc64nvme"
)

// The types of a checksum: over the whole object, or over its parts' digests.
const (
	fullObject = "FULL_OBJECT"
	composite  = "COMPOSITE"
)

// defaultAlgorithm is what S3 computes when a client sends nothing.
const defaultAlgorithm = "CRC64NVME"

// algorithms are those that this server computes.
var algorithms = map[string]func() hash.Hash{
	"CRC32":     func() hash.Hash { return crc32.NewIEEE() },
	"CRC32C":    func() hash.Hash { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) },
	"CRC64NVME": func() hash.Hash { return crc64nvme.New() },
	"SHA1":      sha1.New,
	"SHA256":    sha256.New,
	"SHA512":    sha512.New,
}

// checksum is what is stored of an object. The zero value is none.
type checksum struct {
	algorithm string
	value     string // base64, with "-N" when composite
	kind      string // fullObject or composite
}

// sumOf computes a checksum over data.
func sumOf(algorithm string, data []byte) checksum {
	h := algorithms[algorithm]()
	h.Write(data)
	return checksum{algorithm, base64.StdEncoding.EncodeToString(h.Sum(nil)), fullObject}
}

// compositeOf computes the checksum of the parts' digests, in order.
func compositeOf(algorithm string, parts []checksum) checksum {
	h := algorithms[algorithm]()
	for _, p := range parts {
		raw, _ := base64.StdEncoding.DecodeString(p.value)
		h.Write(raw)
	}
	value := fmt.Sprintf("%s-%d", base64.StdEncoding.EncodeToString(h.Sum(nil)), len(parts))
	return checksum{algorithm, value, composite}
}

func (c checksum) header() string { return "x-amz-checksum-" + strings.ToLower(c.algorithm) }

// set adds what a response says of a checksum.
func (c checksum) set(h http.Header) {
	if c.algorithm != "" {
		h.Set(c.header(), c.value)
		h.Set("x-amz-checksum-type", c.kind)
	}
}

// claimOf reads the one checksum that a client sent, in a header or a trailer.
func claimOf(h, trailer http.Header) (checksum, error) {
	var claim checksum
	for _, from := range []http.Header{h, trailer} {
		for algorithm, make := range algorithms {
			value := from.Get("x-amz-checksum-" + algorithm)
			if value == "" {
				continue
			}
			if claim.value != "" {
				return claim, fail(400, "InvalidRequest", "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.")
			}
			claim = checksum{algorithm, value, fullObject}
			if raw, err := base64.StdEncoding.DecodeString(value); err != nil || len(raw) != make().Size() {
				return claim, fail(400, "InvalidRequest", "Value for %s header is invalid.", claim.header())
			}
		}
	}
	return claim, announced(h, trailer, claim)
}

// announced checks that an algorithm which the client names comes with a value.
func announced(h, trailer http.Header, claim checksum) error {
	named := strings.ToUpper(h.Get("x-amz-sdk-checksum-algorithm"))
	switch {
	case named != "" && claim.value == "":
		return fail(400, "InvalidRequest", "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found.")
	case named != "" && named != claim.algorithm:
		return fail(400, "InvalidRequest", "Value for x-amz-sdk-checksum-algorithm header is invalid.")
	case h.Get("x-amz-trailer") != "" && trailer.Get(h.Get("x-amz-trailer")) == "":
		return fail(400, "MalformedTrailerError", "The request contained trailing data that was not well-formed or did not conform to our published schema.")
	}
	return nil
}

// proven computes what the client claimed and refuses a difference. Without a
// claim it computes the default, and gives none where the server has none.
func (s *Server) proven(claim checksum, data []byte) (checksum, error) {
	switch {
	case claim.algorithm == "" && s.opts.NoDefaultChecksum:
		return checksum{}, nil
	case claim.algorithm == "":
		return sumOf(defaultAlgorithm, data), nil
	}
	got := sumOf(claim.algorithm, data)
	if got.value != claim.value {
		return got, fail(400, "BadDigest", "The %s you specified did not match the calculated checksum.", claim.algorithm)
	}
	return got, nil
}

// checkMD5 compares a Content-MD5 header.
func checkMD5(h http.Header, data []byte) error {
	want := h.Get("Content-MD5")
	if want == "" {
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(want)
	if err != nil || len(raw) != md5.Size {
		return fail(400, "InvalidDigest", "The Content-MD5 you specified was invalid.")
	}
	if got := md5.Sum(data); !slices.Equal(got[:], raw) {
		return fail(400, "BadDigest", "The Content-MD5 you specified did not match what we received.")
	}
	return nil
}

// etagOf is the ETag of an object in one part: its MD5, unless a key of the key
// service encrypts it.
func etagOf(data []byte, kmsKey string) string {
	sum := md5.Sum(data)
	if kmsKey != "" {
		sum = md5.Sum(append([]byte("encrypted with "+kmsKey), sum[:]...))
	}
	return `"` + hex.EncodeToString(sum[:]) + `"`
}
