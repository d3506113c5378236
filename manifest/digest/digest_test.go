package digest

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/iotest"
)

// pattern is the 100003 bytes for which the answers below were computed.
func pattern() []byte {
	b := make([]byte, 100003)
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
		{"pattern", pattern(), Set{
			SHA256:    "d21eb61b232e80a6d41416907c7241c95a5e983f6e1dc8d18b6420a7b7d6cda7",
			CRC64NVME: "765f235dd8db50a9", CRC32: "eb903f59", CRC32C: "a6512d09",
			MD5: "c99a845f64dec61f80b3a13ba2da1ada", GitSHA1: "8ca854d192a6db76d0a62021cda23ab7d9cf5845"}},
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

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
