package s3

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"drkit/internal/store"
	"drkit/manifest/digest"
)

// stated are the checksums of an answer, as S3 writes them: base64, "-N" behind
// a composite of N parts.
type stated struct {
	CRC32, CRC32C, CRC64NVME, SHA256, SHA512, MD5 *string
	Type                                          types.ChecksumType
}

// sums are the checksums that drkit can compare. One that cannot be read is left
// out: it says nothing.
func (s stated) sums() (all []store.Sum) {
	for _, c := range []struct {
		algorithm string
		value     *string
	}{{digest.SHA256, s.SHA256}, {digest.CRC64NVME, s.CRC64NVME}, {digest.CRC32, s.CRC32}, {digest.CRC32C, s.CRC32C}, {digest.SHA512, s.SHA512}, {digest.MD5, s.MD5}} {
		if sum, ok := sumOf(c.algorithm, aws.ToString(c.value), s.Type); ok {
			all = append(all, sum)
		}
	}
	return all
}

func sumOf(algorithm, value string, kind types.ChecksumType) (store.Sum, bool) {
	text, count, composite := strings.Cut(value, "-")
	d, ok := fromBase64(algorithm, text)
	if !ok {
		return store.Sum{}, false
	}
	sum := store.Sum{Digest: d, Evidence: store.Claimed}
	switch {
	case composite:
		n, err := strconv.Atoi(count)
		sum.Parts = n
		return sum, err == nil && n > 0
	case kind == types.ChecksumTypeComposite: // of how many parts is not told
		return store.Sum{}, false
	}
	return sum, true
}

// fromBase64 reads a checksum as S3 writes it.
func fromBase64(algorithm, text string) (digest.Digest, bool) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) == 0 {
		return digest.Digest{}, false
	}
	d, err := digest.Parse(algorithm + ":" + hex.EncodeToString(raw))
	return d, err == nil
}

// toBase64 writes a checksum for S3; "" has none.
func toBase64(hexText string) *string {
	raw, err := hex.DecodeString(hexText)
	if err != nil || len(raw) == 0 {
		return nil
	}
	return aws.String(base64.StdEncoding.EncodeToString(raw))
}

// etagOf is an ETag without its quotes.
func etagOf(e *string) string { return strings.Trim(aws.ToString(e), `"`) }

// quoted is an ETag as conditions take it.
func quoted(etag string) *string { return aws.String(`"` + strings.Trim(etag, `"`) + `"`) }

// md5Of is the MD5 that an ETag is when it is one: of a single part, and not
// encrypted with a key that changes it. From a list, where the encryption is not
// told, only equality proves anything.
func md5Of(etag, encryption string, listed bool) (store.Sum, bool) {
	if encryption != "" && encryption != string(types.ServerSideEncryptionAes256) {
		return store.Sum{}, false
	}
	d, err := digest.Parse(digest.MD5 + ":" + etag)
	return store.Sum{Digest: d, Evidence: store.Claimed, EqualityOnly: listed}, err == nil
}

// partsOf is the number of parts that an ETag tells, 0 for none.
func partsOf(etag string) int {
	_, count, ok := strings.Cut(etag, "-")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 1 {
		return 0
	}
	return n
}

// set are the checksums of one part.
func (s stated) set() digest.Set {
	set := digest.Set{}
	for _, sum := range s.sums() {
		if sum.Parts == 0 {
			set[sum.Algorithm] = sum.Hex
		}
	}
	if len(set) == 0 {
		return nil
	}
	return set
}
