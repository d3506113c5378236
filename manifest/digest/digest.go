// Package digest holds checksums as values: one digest with its algorithm, and
// the set of digests that one read of a file yields.
package digest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Algorithm names, as they stand in manifests and reports.
const (
	SHA256    = "sha256"
	SHA512    = "sha512" // image references may use it; files are not hashed with it
	CRC64NVME = "crc64nvme"
	CRC32     = "crc32"
	CRC32C    = "crc32c"
	MD5       = "md5"
	GitSHA1   = "gitsha1"
)

// hexLength is the number of hexadecimal digits of each algorithm's digest.
var hexLength = map[string]int{SHA256: 64, SHA512: 128, CRC64NVME: 16, CRC32: 8, CRC32C: 8, MD5: 32, GitSHA1: 40}

// Digest is one checksum. Its text form is "algorithm:hex". It is comparable
// and so can be a map key; the zero value means "none".
type Digest struct{ Algorithm, Hex string }

// String is the text form, or "" for the zero value.
func (d Digest) String() string {
	if d == (Digest{}) {
		return ""
	}
	return d.Algorithm + ":" + d.Hex
}

// Parse reads the text form. The algorithm must be known and the hexadecimal
// digits complete and lower case.
func Parse(text string) (Digest, error) {
	algorithm, hex, ok := strings.Cut(text, ":")
	if !ok {
		return Digest{}, fmt.Errorf("parsing digest %q: no algorithm before a colon", text)
	}
	want, known := hexLength[algorithm]
	if !known {
		return Digest{}, fmt.Errorf("parsing digest %q: unknown algorithm %q", text, algorithm)
	}
	if !wellFormed(algorithm, hex) {
		return Digest{}, fmt.Errorf("parsing digest %q: want %d lower-case hexadecimal digits", text, want)
	}
	return Digest{algorithm, hex}, nil
}

// wellFormed reports whether an algorithm is known and hex has its length and is
// lower-case hexadecimal.
func wellFormed(algorithm, hex string) bool {
	want, known := hexLength[algorithm]
	if !known || len(hex) != want {
		return false
	}
	for i := range len(hex) {
		if c := hex[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// MarshalText makes a Digest a JSON string.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = Digest{}
		return nil
	}
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// Set holds the digests of one sequence of bytes by algorithm, in hexadecimal.
type Set map[string]string

// Get returns the digest of the given algorithm and whether the set has it.
func (s Set) Get(algorithm string) (Digest, bool) {
	hex, ok := s[algorithm]
	return Digest{algorithm, hex}, ok
}

// names holds the known algorithms as map keys share them.
var names = map[string]string{SHA256: SHA256, SHA512: SHA512, CRC64NVME: CRC64NVME, CRC32: CRC32, CRC32C: CRC32C, MD5: MD5, GitSHA1: GitSHA1}

// UnmarshalJSON reads a set. The names of algorithms are shared between sets:
// manifests hold hundreds of thousands of them.
func (s *Set) UnmarshalJSON(data []byte) error {
	var m map[string]string
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	for a, hex := range m {
		if name, known := names[a]; known {
			m[name] = hex // the key's text is replaced, too
		}
	}
	*s = m
	return nil
}
