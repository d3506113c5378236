package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"

	"drkit/manifest/digest"
)

// ReleaseID is the SHA-256 of the canonical form of the contents, in
// hexadecimal. The form is a header line and then one line a file and a line an
// image, tab separated, sorted by bytes:
//
//	drkit-release/1
//	file	PART	REGION	PATH	SIZE	SHA256
//	image	REGION	REFERENCE	DIGEST
//
// Every line ends in a newline. docs/formats.md shows how to recompute it.
func ReleaseID(c Contents) string {
	lines := make([]string, 0, len(c.Files)+len(c.Images))
	for _, f := range c.Files {
		lines = append(lines, fileLine(f))
	}
	for _, i := range c.Images {
		lines = append(lines, fmt.Sprintf("image\t%s\t%s\t%s\n", i.Region, i.Reference, i.Digest))
	}
	return hashLines("drkit-release/1\n", lines)
}

// SubjectOf binds recorded probes to what answered them: the SHA-256 over the
// files of the model and engine parts, without the probes themselves, in the
// form of ReleaseID under the header drkit-subject/1.
func SubjectOf(m *Manifest) digest.Digest {
	var lines []string
	for _, f := range m.Contents.Files {
		if (f.Part == Model || f.Part == Engine) && f.Role != Probes {
			lines = append(lines, fileLine(f))
		}
	}
	return digest.Digest{Algorithm: digest.SHA256, Hex: hashLines("drkit-subject/1\n", lines)}
}

func fileLine(f File) string {
	return fmt.Sprintf("file\t%s\t%s\t%s\t%d\t%s\n", f.Part, f.Region, f.Path, f.Size, f.Sums[digest.SHA256])
}

func hashLines(header string, lines []string) string {
	slices.Sort(lines)
	h := sha256.New()
	io.WriteString(h, header)
	for _, l := range lines {
		io.WriteString(h, l)
	}
	return hex.EncodeToString(h.Sum(nil))
}
