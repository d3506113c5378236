package manifest

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"drkit/internal/errext"
	"drkit/manifest/digest"
)

// Encode writes the manifest: two-space JSON, sorted, with a final newline.
// Equal manifests give equal bytes.
func Encode(m *Manifest) ([]byte, error) {
	var b bytes.Buffer
	if err := encode(&b, m, noSum); err != nil {
		return nil, err
	}
	data := b.Bytes()
	sum := sumOf(sha256.Sum256(data))
	copy(data[sumField.FindSubmatchIndex(data)[2]:], sum)
	return data, nil
}

// Write writes what Encode returns, without ever holding it whole: a release of
// 200,000 files has a manifest of 95 MB.
func Write(w io.Writer, m *Manifest) error {
	h := sha256.New()
	if err := encode(h, m, noSum); err != nil {
		return err
	}
	buffered := bufio.NewWriter(w)
	if err := encode(buffered, m, sumOf([sha256.Size]byte(h.Sum(nil)))); err != nil {
		return err
	}
	return buffered.Flush()
}

// noSum stands in the place of a manifest's own checksum while it is computed.
// The release id covers the contents; the sum covers the annotations too, which
// the gate judges by: a rotten byte in them must not turn a finding into none. It
// is no signature.
var noSum = strings.Repeat("0", 64)

func sumOf(sum [sha256.Size]byte) string { return hex.EncodeToString(sum[:]) }

// noFiles is the place of the files in the JSON of a manifest without any. It
// cannot stand before: texts have their quotation marks escaped.
var noFiles = []byte(`"files": []`)

func encode(w io.Writer, m *Manifest, sum string) error {
	c := Contents{Files: slices.Clone(m.Contents.Files), Images: slices.Clone(m.Contents.Images)}
	sortContents(&c)
	frame := *m
	frame.Sum, frame.Contents = sum, Contents{Files: []File{}, Images: c.Images}
	text, err := indented(&frame, "")
	if err != nil {
		return err
	}
	before, after, _ := bytes.Cut(text, noFiles)
	if _, err := w.Write(before); err != nil {
		return err
	}
	if err := encodeFiles(w, c.Files); err != nil {
		return err
	}
	_, err = w.Write(append(after, '\n'))
	return err
}

func encodeFiles(w io.Writer, files []File) error {
	if len(files) == 0 {
		_, err := w.Write(noFiles)
		return err
	}
	next := []byte(`"files": [`)
	for i := range files {
		text, err := indented(&files[i], "      ")
		if err == nil {
			_, err = w.Write(slices.Concat(next, []byte("\n      "), text))
		}
		if err != nil {
			return err
		}
		next = []byte(",")
	}
	_, err := w.Write([]byte("\n    ]"))
	return err
}

// indented is the JSON of a value without a final newline.
func indented(v any, prefix string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, "  ")
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding the manifest: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// sumField is the place of a manifest's own checksum. It stands before anything
// that is read from files, so that its first occurrence is the right one.
var sumField = regexp.MustCompile(`"sum": "([0-9a-f]{64})"`)

// sealed reports whether the bytes are those that were written.
func sealed(data []byte) bool {
	at := sumField.FindSubmatchIndex(data)
	if at == nil {
		return false
	}
	h := sha256.New()
	h.Write(data[:at[2]])
	h.Write([]byte(noSum))
	h.Write(data[at[3]:])
	return string(data[at[2]:at[3]]) == hex.EncodeToString(h.Sum(nil))
}

// headSize is how many bytes of an encoded manifest hold its own checksum, unless
// the service has an uncommonly long name.
const headSize = 4 << 10

// Same reports whether r, read to its end, gives the bytes that m was decoded
// from. It is false where that cannot be told: m was built, or r has no checksum
// where manifests have theirs. Nothing is held in memory, nor encoded anew: m.Sum
// covers every byte but itself.
func Same(r io.Reader, m *Manifest) (bool, error) {
	head := make([]byte, headSize)
	n, err := io.ReadFull(r, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return false, err
	}
	at := sumField.FindSubmatchIndex(head[:n])
	if at == nil || m.Sum == "" || string(head[at[2]:at[3]]) != m.Sum {
		return false, nil
	}
	h := sha256.New()
	h.Write(head[:at[2]])
	h.Write([]byte(noSum))
	h.Write(head[at[3]:n])
	if _, err := io.Copy(h, r); err != nil {
		return false, err
	}
	return sumOf([sha256.Size]byte(h.Sum(nil))) == m.Sum, nil
}

func sortContents(c *Contents) {
	slices.SortFunc(c.Files, func(a, b File) int { return byLocation(&a, &b) })
	slices.SortFunc(c.Images, func(a, b Image) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Reference, b.Reference))
	})
}

// Decode reads a manifest and proves that it is one: a schema that this version
// knows, sound paths, no file named twice, and a release id that is the one of
// its contents.
func Decode(data []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, unreadable(data, err)
	}
	if err := checkSchema(m.Schema); err != nil {
		return nil, err
	}
	if err := checkContents(m.Contents); err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	if id := ReleaseID(m.Contents); id != m.Release {
		return nil, errext.WithHint(fmt.Errorf("reading the manifest: it claims to be release %s, but its contents are release %s", m.Release, id),
			"it was changed after it was built: build it again, or fetch it again from the source region")
	}
	if !sealed(data) {
		return nil, errext.WithHint(fmt.Errorf("reading the manifest of release %.12s: its bytes are not those that were written (sum)", m.Release),
			"it is damaged, or was edited or formatted anew: fetch it again from another region, or build it again")
	}
	return m, nil
}

// unreadable says why data is no manifest: a schema that is not known explains
// more than what else is wrong with it.
func unreadable(data []byte, err error) error {
	var head struct{ Schema string }
	if herr := json.Unmarshal(data, &head); herr != nil {
		return fmt.Errorf("reading the manifest: it is not JSON: %w", herr)
	}
	if serr := checkSchema(head.Schema); serr != nil {
		return serr
	}
	return fmt.Errorf("reading the manifest: %w", err)
}

func checkSchema(schema string) error {
	name, version, _ := strings.Cut(schema, "/")
	wantName, wantVersion, _ := strings.Cut(Schema, "/")
	if name != wantName {
		return fmt.Errorf("reading the manifest: its schema is %q, want %s", schema, Schema)
	}
	major, _, _ := strings.Cut(version, ".")
	if wantMajor, _, _ := strings.Cut(wantVersion, "."); major != wantMajor {
		return errext.WithHint(fmt.Errorf("reading the manifest: its schema %s has another major version than %s", schema, Schema),
			"use the version of drkit that wrote it, or a newer one")
	}
	return nil
}

func checkContents(c Contents) error {
	sorted := make([]*File, 0, len(c.Files))
	for i := range c.Files {
		if err := checkFile(c.Files[i]); err != nil {
			return err
		}
		sorted = append(sorted, &c.Files[i])
	}
	slices.SortFunc(sorted, byLocation)
	for i, f := range sorted {
		if i > 0 && f.location() == sorted[i-1].location() {
			return fmt.Errorf("file %s stands twice", f.Subject())
		}
	}
	seen := map[string]bool{}
	for _, i := range c.Images {
		if i.Reference == "" || strings.ContainsFunc(i.Reference+i.Region, unicode.IsControl) {
			return fmt.Errorf("image %q is no image reference", i.Reference)
		}
		key := "image " + i.Region + " " + i.Reference
		if seen[key] {
			return fmt.Errorf("image %s stands twice", i.Reference)
		}
		seen[key] = true
	}
	return nil
}

func checkFile(f File) error {
	if err := checkFileName(f); err != nil {
		return err
	}
	if f.Size < 0 {
		return fmt.Errorf("file %s has the size %d", f.Subject(), f.Size)
	}
	if err := f.Sums.Check(); err != nil {
		return fmt.Errorf("file %s: %w", f.Subject(), err)
	}
	if _, ok := f.Sums.Get(digest.SHA256); !ok {
		return fmt.Errorf("file %s has no sha256", f.Subject())
	}
	return nil
}

// checkFileName refuses names that would be ambiguous as a subject or in the
// canonical form.
func checkFileName(f File) error {
	if f.Part != Model && f.Part != Engine && f.Part != Deploy {
		return fmt.Errorf("file %q belongs to the unknown part %q", f.Path, f.Part)
	}
	if f.Region != "" {
		if err := CheckPath(f.Region); err != nil || strings.Contains(f.Region, "/") {
			return fmt.Errorf("file %q names the region %q, which is no region name", f.Path, f.Region)
		}
	}
	if err := CheckPath(f.Path); err != nil {
		return err
	}
	if strings.HasPrefix(f.Path, "@") {
		return errors.New("the path " + f.Path + " begins with @, which marks regions")
	}
	return nil
}
