package digest

import (
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strconv"
)

// ring is the arithmetic of a CRC: polynomials over GF(2) modulo its generator,
// in reflected form, where the highest bit is x⁰. All CRCs here begin and end
// with inverted bits, which cancel out when two are combined.
type ring struct {
	generator uint64
	width     int
	powers    [66]uint64 // x^(2^k)
}

var rings = map[string]*ring{
	CRC32:     newRing(crc32.IEEE, 32),
	CRC32C:    newRing(crc32.Castagnoli, 32),
	CRC64NVME: newRing(0x9a6c9329ac4bc9b5, 64),
}

func newRing(generator uint64, width int) *ring {
	r := &ring{generator: generator, width: width}
	p := uint64(1) << (width - 2) // x¹
	for k := range r.powers {
		r.powers[k] = p
		p = r.multiply(p, p)
	}
	return r
}

func (r *ring) multiply(a, b uint64) uint64 {
	var product uint64
	for m := uint64(1) << (r.width - 1); m != 0; m >>= 1 {
		if a&m != 0 {
			product ^= b
		}
		b = b>>1 ^ r.generator*(b&1)
	}
	return product
}

// shift is what becomes of a checksum when size bytes follow.
func (r *ring) shift(sum uint64, size int64) uint64 {
	for k := 3; size != 0; k, size = k+1, size>>1 { // 3: 2³ bits a byte
		if size&1 != 0 {
			sum = r.multiply(r.powers[k], sum)
		}
	}
	return sum
}

// Combines reports whether checksums of an algorithm can be combined: those of
// the CRCs can, those of hash functions cannot.
func Combines(algorithm string) bool { return rings[algorithm] != nil }

// Combine returns the checksum of the bytes of a followed by those of b, of which
// there are sizeB.
func Combine(a, b Digest, sizeB int64) (Digest, error) {
	r := rings[a.Algorithm]
	switch {
	case r == nil || a.Algorithm != b.Algorithm:
		return Digest{}, fmt.Errorf("checksums %s and %s cannot be combined", a, b)
	case sizeB < 0:
		return Digest{}, fmt.Errorf("combining %s and %s: the size %d is negative", a, b, sizeB)
	}
	sumA, err := r.parse(a)
	if err != nil {
		return Digest{}, err
	}
	sumB, err := r.parse(b)
	if err != nil {
		return Digest{}, err
	}
	return Digest{a.Algorithm, fmt.Sprintf("%0*x", r.width/4, r.shift(sumA, sizeB)^sumB)}, nil
}

func (r *ring) parse(d Digest) (uint64, error) {
	if len(d.Hex) != r.width/4 {
		return 0, fmt.Errorf("checksum %s has not %d hexadecimal digits", d, r.width/4)
	}
	sum, err := strconv.ParseUint(d.Hex, 16, r.width)
	if err != nil {
		return 0, fmt.Errorf("checksum %s is not hexadecimal", d)
	}
	return sum, nil
}

// Hashes reports whether a Hasher takes an algorithm of any sequence of bytes.
func Hashes(algorithm string) bool { return newHash(algorithm, 0) != nil && algorithm != GitSHA1 }

// Composite returns the checksum of checksums that object stores keep of an
// upload in parts: that of the raw digests of the parts, joined. The stores write
// it as its base64 form, for MD5 as an ETag in hexadecimal, and "-" with the
// number of parts behind it.
func Composite(algorithm string, parts []string) (Digest, error) {
	if !Hashes(algorithm) {
		return Digest{}, fmt.Errorf("no composite checksums are made with %q", algorithm)
	}
	h := newHash(algorithm, 0)
	for i, part := range parts {
		raw, err := hex.DecodeString(part)
		if err != nil || len(part) != hexLength[algorithm] {
			return Digest{}, fmt.Errorf("the %s of part %d, %q, is malformed", algorithm, i+1, part)
		}
		h.Write(raw)
	}
	return Digest{algorithm, hex.EncodeToString(h.Sum(nil))}, nil
}
