package manifest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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
	sorted := *m
	sorted.Sum = noSum
	sorted.Contents = Contents{Files: slices.Clone(m.Contents.Files), Images: slices.Clone(m.Contents.Images)}
	sortContents(&sorted.Contents)
	if sorted.Contents.Files == nil {
		sorted.Contents.Files = []File{}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(&sorted); err != nil {
		return nil, fmt.Errorf("encoding the manifest: %w", err)
	}
	return seal(b.Bytes()), nil
}

// sumField is the place of a manifest's own checksum. It stands before anything
// that is read from files, so that its first occurrence is the right one.
var sumField = regexp.MustCompile(`"sum": "([0-9a-f]{64})"`)

var noSum = strings.Repeat("0", 64)

// seal writes the checksum of the manifest into it. The release id covers the
// contents; this covers the annotations too, which the gate judges by: a rotten
// byte in them must not turn a finding into none. It is no signature.
func seal(data []byte) []byte {
	sum := sha256.Sum256(data)
	return bytes.Replace(data, []byte(noSum), []byte(hex.EncodeToString(sum[:])), 1)
}

// sealed reports whether the bytes are those that were sealed.
func sealed(data []byte) bool {
	at := sumField.FindSubmatchIndex(data)
	if at == nil {
		return false
	}
	open := slices.Clone(data)
	stated := string(open[at[2]:at[3]])
	copy(open[at[2]:at[3]], noSum)
	sum := sha256.Sum256(open)
	return stated == hex.EncodeToString(sum[:])
}

func sortContents(c *Contents) {
	slices.SortFunc(c.Files, func(a, b File) int {
		return cmp.Or(cmp.Compare(a.Part, b.Part), cmp.Compare(a.Region, b.Region), cmp.Compare(a.Path, b.Path))
	})
	slices.SortFunc(c.Images, func(a, b Image) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Reference, b.Reference))
	})
}

// Decode reads a manifest and proves that it is one: a schema that this version
// knows, sound paths, no file named twice, and a release id that is the one of
// its contents.
func Decode(data []byte) (*Manifest, error) {
	var head struct{ Schema string }
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("reading the manifest: it is not JSON: %w", err)
	}
	if err := checkSchema(head.Schema); err != nil {
		return nil, err
	}
	m := &Manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
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
	seen := map[string]bool{}
	for _, f := range c.Files {
		if err := checkFile(f); err != nil {
			return err
		}
		if seen[f.Subject()] {
			return fmt.Errorf("file %s stands twice", f.Subject())
		}
		seen[f.Subject()] = true
	}
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
