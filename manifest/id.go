package manifest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
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
	h := newForm("drkit-release/1")
	h.files(c.Files, func(*File) bool { return true })
	images := slices.SortedFunc(slices.Values(c.Images), func(a, b Image) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Reference, b.Reference), cmp.Compare(a.Digest.String(), b.Digest.String()))
	})
	for _, i := range images {
		fmt.Fprintf(h, "image\t%s\t%s\t%s\n", i.Region, i.Reference, i.Digest)
	}
	return h.sum()
}

// SubjectOf binds recorded probes to what answered them: the SHA-256 over the
// files of the model and engine parts, without the probes themselves, in the
// form of ReleaseID under the header drkit-subject/1.
func SubjectOf(m *Manifest) digest.Digest {
	h := newForm("drkit-subject/1")
	h.files(m.Contents.Files, func(f *File) bool { return (f.Part == Model || f.Part == Engine) && f.Role != Probes })
	return digest.Digest{Algorithm: digest.SHA256, Hex: h.sum()}
}

// form hashes lines of the canonical form as they are written.
type form struct{ hash.Hash }

func newForm(header string) form {
	f := form{sha256.New()}
	io.WriteString(f, header+"\n")
	return f
}

// files writes the lines of the files that are wanted. A tab is less than any
// character of a part, region or path, so sorting by these is sorting the lines.
func (h form) files(files []File, wanted func(*File) bool) {
	var sorted []*File
	for i := range files {
		if f := &files[i]; wanted(f) {
			sorted = append(sorted, f)
		}
	}
	slices.SortFunc(sorted, byLocation)
	for _, f := range sorted {
		fmt.Fprintf(h, "file\t%s\t%s\t%s\t%d\t%s\n", f.Part, f.Region, f.Path, f.Size, f.Sums[digest.SHA256])
	}
}

func (h form) sum() string { return hex.EncodeToString(h.Sum(nil)) }
