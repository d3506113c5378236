// Package oms signs models and checks signatures in the format of OpenSSF Model
// Signing 1.0: an in-toto statement with the digest of every file, in a DSSE
// envelope, in a Sigstore bundle, signed with a local key. The program
// model_signing reads what Sign writes (ECDSA keys; it knows no Ed25519), and
// ReadBundle reads what it writes.
//
//	resources, err := oms.Hash(ctx, os.DirFS(dir), oms.Options{Ignore: oms.GitPaths})
//	st, err := oms.New("llama", resources, false, oms.GitPaths)
//	bundle, err := oms.Sign(st, key)
//
//	b, err := oms.ReadBundle(bundle)
//	st, err := b.Verify(public)                    // is the statement the key's?
//	res, err := st.Check(ctx, os.DirFS(dir), o)    // is the folder the statement's?
//
// What is written has the method files with sha256. Read are the methods files
// and shards; other digests than sha256 are not compared, and Check says so.
package oms

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"drkit/manifest/digest"
)

// The names that the format fixes.
const (
	mediaType     = "application/vnd.dev.sigstore.bundle.v0.3+json"
	payloadType   = "application/vnd.in-toto+json"
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://model_signing/signature/v1.0"
	predicateOld  = "https://model_signing/Digests/v0.1"
	methodFiles   = "files"
	methodShards  = "shards"
)

// GitPaths are left out of a signature by default, at the top of the model only:
// they say how the model is kept, not what it is.
var GitPaths = []string{".git", ".gitattributes", ".github", ".gitignore"}

// Statement is what a signature says of a model.
type Statement struct {
	Name          string        `json:"name"` // of the folder; informative, never checked
	Root          string        `json:"root"` // SHA-256 over the resources' digests, in hexadecimal
	Serialization Serialization `json:"serialization"`
	Resources     []Resource    `json:"-"`
}

// Serialization says how the signer made the list of resources.
type Serialization struct {
	Method        string   `json:"method"`                 // files or shards
	HashType      string   `json:"hash_type"`              // sha256, blake2b or blake3
	ShardSize     float64  `json:"shard_size,omitempty"`   // bytes; model_signing writes 64.0
	AllowSymlinks bool     `json:"allow_symlinks"`         // the signer followed links; a verifier decides for itself
	IgnorePaths   []string `json:"ignore_paths,omitempty"` // files and folders that the signature says nothing of
}

// Resource is one signed file, or one shard of it ("path:start:end").
type Resource struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Digest    string `json:"digest"` // hexadecimal
}

// New makes the statement of a model's files, whose digests are sha256.
func New(name string, files []Resource, allowSymlinks bool, ignore []string) (*Statement, error) {
	if len(files) == 0 {
		return nil, errors.New("there is no file to sign")
	}
	s := &Statement{Name: name, Resources: slices.Clone(files)}
	slices.SortFunc(s.Resources, func(a, b Resource) int { return comparePaths(a.Name, b.Name) })
	ignored := slices.Clone(ignore)
	slices.Sort(ignored)
	s.Serialization = Serialization{Method: methodFiles, HashType: digest.SHA256, AllowSymlinks: allowSymlinks, IgnorePaths: slices.Compact(ignored)}
	root, err := rootOf(s.Resources)
	if err != nil {
		return nil, err
	}
	s.Root = root
	return s, s.check()
}

// File is the resource of a whole file with its SHA-256.
func File(path, sha256 string) Resource { return Resource{path, digest.SHA256, sha256} }

// Without leaves out what lies at ignored paths.
func Without(files []Resource, ignore []string) []Resource {
	return slices.DeleteFunc(slices.Clone(files), func(r Resource) bool { return ignoredBy(r.Name, ignore) != "" })
}

// comparePaths orders by path components, so that a folder's files stand
// together: "a/b" before "a-b".
func comparePaths(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}

// rootOf hashes the raw digests in the order in which they stand.
func rootOf(resources []Resource) (string, error) {
	h := sha256.New()
	for _, r := range resources {
		raw, err := hex.DecodeString(r.Digest)
		if err != nil {
			return "", fmt.Errorf("the digest of %q is not hexadecimal", r.Name)
		}
		h.Write(raw)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// check proves that the statement is sound in itself: it signs something, names
// nothing twice or outside the model, and its digests give its root.
func (s *Statement) check() error {
	if len(s.Resources) == 0 {
		return errors.New("the statement names no file: it would hold for any folder")
	}
	if root, err := rootOf(s.Resources); err != nil || !strings.EqualFold(root, s.Root) {
		return errors.Join(err, fmt.Errorf("the statement contradicts itself: its root is %.80q, but its resources give %s", s.Root, root))
	}
	want, length, err := s.Serialization.algorithm()
	if err != nil {
		return err
	}
	for _, r := range s.Resources {
		if r.Algorithm != want || len(r.Digest) != length {
			return fmt.Errorf("the statement contradicts itself: %q has a digest %.80q of %d digits, announced was %s with %d", r.Name, r.Algorithm, len(r.Digest), want, length)
		}
	}
	_, err = s.files()
	return err
}

// algorithm is what every resource must name, and the digits of its digest.
func (s Serialization) algorithm() (name string, digits int, err error) {
	digits, known := map[string]int{digest.SHA256: 64, "blake2b": 128, "blake3": 64}[s.HashType]
	switch {
	case !known:
		return "", 0, fmt.Errorf("the statement's digests are %.80q: known are sha256, blake2b and blake3", s.HashType)
	case s.Method == methodFiles:
		return s.HashType, digits, nil
	case s.Method != methodShards:
		return "", 0, fmt.Errorf("the statement's method is %.80q: known are files and shards", s.Method)
	case s.ShardSize < 1 || s.ShardSize > 1<<52 || s.ShardSize != float64(int64(s.ShardSize)):
		return "", 0, fmt.Errorf("the statement's shard size %g is no number of bytes", s.ShardSize)
	}
	return fmt.Sprintf("%s-sharded-%d", s.HashType, int64(s.ShardSize)), digits, nil
}

// Covers reports whether the signature says something of a path: the signer may
// have left it out. An ignored path that does not lie below the model ignores
// nothing.
func (s *Statement) Covers(path string) bool {
	return ignoredBy(path, s.Serialization.IgnorePaths) == ""
}

// ignoredBy returns the first of the paths that is the given one or a folder above it.
func ignoredBy(path string, ignore []string) string {
	for _, i := range ignore {
		if c := strings.TrimSuffix(strings.TrimPrefix(i, "./"), "/"); fs.ValidPath(c) && c != "." && (path == c || strings.HasPrefix(path, c+"/")) {
			return i
		}
	}
	return ""
}

// The in-toto statement as JSON.
type statementJSON struct {
	Type          string        `json:"_type"`
	Subject       []subjectJSON `json:"subject"`
	PredicateType string        `json:"predicateType"`
	Predicate     predicateJSON `json:"predicate"`
}

type subjectJSON struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type predicateJSON struct {
	Serialization Serialization `json:"serialization"`
	Resources     []Resource    `json:"resources"`
}

// Encode writes the statement; equal statements give equal bytes.
func (s *Statement) Encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(statementJSON{
		Type: statementType, Subject: []subjectJSON{{s.Name, map[string]string{digest.SHA256: s.Root}}},
		PredicateType: predicateType, Predicate: predicateJSON{s.Serialization, s.Resources},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the statement: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// decode reads a statement and proves that it is sound. Whether anybody signed
// it is for Bundle.Verify to say.
func decode(payload []byte) (*Statement, error) {
	var j statementJSON
	if err := json.Unmarshal(payload, &j); err != nil {
		return nil, fmt.Errorf("the signed payload is no statement: %w", err)
	}
	switch {
	case j.Type != statementType:
		return nil, fmt.Errorf("the signed payload has the type %.80q, want %s", j.Type, statementType)
	case j.PredicateType == predicateOld:
		return nil, errors.New("the statement is of model_signing before 1.0, which this version does not read: sign the model again with a newer one")
	case j.PredicateType != predicateType:
		return nil, fmt.Errorf("the statement has the predicate %.80q, want %s", j.PredicateType, predicateType)
	case len(j.Subject) != 1:
		return nil, fmt.Errorf("the statement has %d subjects, want one", len(j.Subject))
	}
	s := &Statement{Name: j.Subject[0].Name, Root: j.Subject[0].Digest[digest.SHA256], Serialization: j.Predicate.Serialization, Resources: j.Predicate.Resources}
	return s, s.check()
}
