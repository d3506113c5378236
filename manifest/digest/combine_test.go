package digest

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/minio/crc64nvme"
)

// TestCombineRandomSplits compares with the libraries' checksums of the whole.
func TestCombineRandomSplits(t *testing.T) {
	of := map[string]func([]byte) string{
		CRC32: func(b []byte) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE(b)) },
		CRC32C: func(b []byte) string {
			return fmt.Sprintf("%08x", crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
		},
		CRC64NVME: func(b []byte) string { return fmt.Sprintf("%016x", crc64nvme.Checksum(b)) },
	}
	rng := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 1<<16)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	for range 2000 {
		size := rng.IntN(len(data) + 1)
		pieces := 1 + rng.IntN(6)
		for algorithm, sum := range of {
			total, rest := Digest{algorithm, sum(nil)}, data[:size]
			for i := range pieces {
				n := len(rest)
				if i < pieces-1 {
					n = rng.IntN(len(rest) + 1) // 0 bytes too
				}
				var err error
				if total, err = Combine(total, Digest{algorithm, sum(rest[:n])}, int64(n)); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if want := (Digest{algorithm, sum(data[:size])}); total != want {
				t.Fatalf("%d bytes in %d pieces: %s, want %s", size, pieces, total, want)
			}
		}
	}
}

// The parts and wholes of the cases were computed by zlib and the AWS runtime.
func TestCombineOfUploads(t *testing.T) {
	const mib = 1 << 20
	for name, parts := range map[string][]struct {
		base64 string
		size   int64
	}{
		"5 MiB": {{"K+qLIw==", 5 * mib}, {"xsAhjA==", 5 * mib}, {"bzFavA==", 2 * mib}},
		"8 MiB": {{"yB9rag==", 8 * mib}, {"pfdUGA==", 4 * mib}},
	} {
		total := Digest{CRC32, "00000000"}
		for _, p := range parts {
			var err error
			if total, err = Combine(total, Digest{CRC32, fromBase64(p.base64)}, p.size); err != nil {
				t.Fatal(err)
			}
		}
		if total.Hex != fromBase64("LB1vxg==") {
			t.Errorf("%s: %s", name, total)
		}
	}
}

func fromBase64(text string) string {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return hex.EncodeToString(raw)
}

// Lengths beyond memory: that of zeros behind a checksum, split in another place.
func TestCombineHugeLengths(t *testing.T) {
	for algorithm, digits := range map[string]int{CRC32: 8, CRC32C: 8, CRC64NVME: 16} {
		a, b := Digest{algorithm, strings.Repeat("a", digits)}, Digest{algorithm, strings.Repeat("0", digits)}
		once, err := Combine(a, b, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		twice, _ := Combine(a, b, 1<<62)
		if twice, _ = Combine(twice, b, 1<<62-1); once != twice {
			t.Errorf("%s and %s", once, twice)
		}
	}
}

func TestCombineRefuses(t *testing.T) {
	good := Digest{CRC32, "cbf43926"}
	for _, c := range []struct {
		a, b Digest
		size int64
	}{
		{good, Digest{CRC32C, "cbf43926"}, 1}, {good, good, -1}, {good, Digest{CRC32, "cbf4392"}, 1}, {Digest{CRC32, "cbf4392g"}, good, 1},
		{Digest{CRC32, "-bf43926"}, good, 1}, {Digest{SHA256, strings.Repeat("0", 64)}, Digest{SHA256, strings.Repeat("0", 64)}, 1}, {Digest{}, Digest{}, 0},
	} {
		if got, err := Combine(c.a, c.b, c.size); err == nil {
			t.Errorf("%v, %v, %d combine to %v", c.a, c.b, c.size, got)
		}
	}
}

// The composites stand in the cases, made by clients and tools that are not ours.
func TestComposite(t *testing.T) {
	for _, c := range []struct {
		algorithm string
		parts     []string
		want      string
	}{
		{CRC32, []string{fromBase64("K+qLIw=="), fromBase64("xsAhjA=="), fromBase64("bzFavA==")}, fromBase64("fih2mg==")},
		{CRC32, []string{fromBase64("yB9rag=="), fromBase64("pfdUGA==")}, fromBase64("68Nz3Q==")},
		{CRC32, []string{fromBase64("yB9rag=="), fromBase64("PIs/cA==")}, fromBase64("swAXwQ==")},
	} {
		if got, err := Composite(c.algorithm, c.parts); err != nil || got != (Digest{c.algorithm, c.want}) {
			t.Errorf("%v: %v, %v, want %s", c.parts, got, err, c.want)
		}
	}
	for _, c := range []struct {
		algorithm string
		parts     []string
	}{{CRC32, []string{"xx"}}, {CRC32, []string{"cbf4392"}}, {GitSHA1, nil}, {"sha3", nil}} {
		if got, err := Composite(c.algorithm, c.parts); err == nil {
			t.Errorf("%s of %v is %v", c.algorithm, c.parts, got)
		}
	}
}

func BenchmarkCombine(b *testing.B) {
	a := Digest{CRC64NVME, "ae8b14860a799888"}
	for b.Loop() {
		if _, err := Combine(a, a, 256<<20); err != nil {
			b.Fatal(err)
		}
	}
}
