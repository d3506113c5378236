package digest

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

// pattern is the n bytes for which the answers below were computed.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i/251)
	}
	return b
}

// The expected values were computed by sha256sum, md5sum, git hash-object, zlib
// and bitwise CRCs written from the polynomials' definitions.
func TestReadKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
		want Set
	}{
		{"empty", nil, Set{
			SHA256:    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
			CRC64NVME: "0000000000000000", CRC32: "00000000", CRC32C: "00000000",
			MD5: "d41d8cd98f00b204e9800998ecf8427e", GitSHA1: "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"}},
		{"check value", []byte("123456789"), Set{
			SHA256:    "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
			CRC64NVME: "ae8b14860a799888", CRC32: "cbf43926", CRC32C: "e3069283",
			MD5: "25f9e794323b453885f5181f1b624d0b", GitSHA1: "e2e107ac61ac259b87c544f6e7a4eb03422c6c21"}},
		{"pattern", pattern(100003), Set{
			SHA256:    "d21eb61b232e80a6d41416907c7241c95a5e983f6e1dc8d18b6420a7b7d6cda7",
			CRC64NVME: "765f235dd8db50a9", CRC32: "eb903f59", CRC32C: "a6512d09",
			MD5: "c99a845f64dec61f80b3a13ba2da1ada", GitSHA1: "8ca854d192a6db76d0a62021cda23ab7d9cf5845"}},
		{"several reads", pattern(600001), Set{
			SHA256:    "3903444415d815e1b1c4f69c7bee22b2b9d2d1d2cf563bfa222508c4f2f3c3e8",
			CRC64NVME: "d862f2089059b2e4", CRC32: "a8b19af9", CRC32C: "445f507d",
			MD5: "b76343351229e73feb1f1f63b6441ca7", GitSHA1: "f09c83a69c7dcad13913c1a6457095119ac47626"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tee bytes.Buffer
			got, n, err := Read(iotest.HalfReader(bytes.NewReader(c.data)), int64(len(c.data)), Options{Tee: &tee})
			if err != nil || n != int64(len(c.data)) || !maps.Equal(got, c.want) {
				t.Errorf("got %v, %d bytes, %v; want %v", got, n, err, c.want)
			}
			if !bytes.Equal(tee.Bytes(), c.data) {
				t.Error("the tee did not receive every byte")
			}
			if err := got.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A read may give less than asked for, or all at once; the pieces that a Hasher
// makes of it must not matter.
func TestReadWhole(t *testing.T) {
	data := pattern(600001)
	got, n, err := Read(bytes.NewReader(data), int64(len(data)), Options{Algorithms: []string{CRC32, CRC32, "sha3", SHA256}})
	want := Set{CRC32: "a8b19af9", SHA256: "3903444415d815e1b1c4f69c7bee22b2b9d2d1d2cf563bfa222508c4f2f3c3e8"}
	if err != nil || n != 600001 || !maps.Equal(got, want) {
		t.Errorf("got %v, %d bytes, %v; want %v", got, n, err, want)
	}
	h := NewHasher(600001, CRC32, CRC32)
	if n, err := h.Write(data); n != 600001 || err != nil || h.Size() != 600001 || h.Sums()[CRC32] != "a8b19af9" {
		t.Errorf("%d bytes, %v, %v", n, err, h.Sums())
	}
}

func TestLargeFilesHaveNoMD5(t *testing.T) {
	got, _, err := Read(io.LimitReader(zeros{}, SmallFile+1), SmallFile+1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "crc32 crc32c crc64nvme sha256"; strings.Join(got.Algorithms(), " ") != want {
		t.Errorf("got %v, want %s", got.Algorithms(), want)
	}
}

func TestReadPassesErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	_, n, err := Read(io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), 10, Options{})
	if !errors.Is(err, broken) || n != 3 {
		t.Errorf("got %d bytes, %v", n, err)
	}
}

func TestParse(t *testing.T) {
	for text, ok := range map[string]bool{
		"crc32:cbf43926": true, "crc32:CBF43926": false, "crc32:cbf4392": false,
		"cbf43926": false, "sha3:00": false, "": false, "md5:": false,
	} {
		d, err := Parse(text)
		if (err == nil) != ok {
			t.Errorf("Parse(%q): %v", text, err)
		}
		if ok && d.String() != text {
			t.Errorf("Parse(%q) reads back as %q", text, d)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	const size = 64 << 20
	b.SetBytes(size)
	for b.Loop() {
		if _, _, err := Read(io.LimitReader(zeros{}, size), size, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAlgorithm gives the processor time of each digest, which other work on
// the machine hardly changes; docs/benchmarks.md adds them up.
func BenchmarkAlgorithm(b *testing.B) {
	data := pattern(readSize) // as after a read, in a core's own cache
	for _, algorithm := range suited(0) {
		b.Run(algorithm, func(b *testing.B) {
			h, before := NewHasher(0, algorithm), processor(b)
			for b.Loop() {
				for range 64 {
					h.Write(data)
				}
			}
			b.ReportMetric((processor(b)-before).Seconds()*(1<<30)/float64(h.Size()), "cpu-s/GiB")
		})
	}
}

func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
