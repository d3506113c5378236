package oms

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"drkit/internal/errext"
	"drkit/manifest/digest"
)

// Result is what a comparison of a model with a statement found. Each list is in
// the order of path components.
type Result struct {
	Matched    int       `json:"matched"`    // files whose bytes are the signed ones
	Mismatch   []Reason  `json:"mismatch"`   // files whose bytes are others
	Missing    []string  `json:"missing"`    // signed files that are not there
	Extra      []string  `json:"extra"`      // files that were not signed
	Refused    []Reason  `json:"refused"`    // links and other things that are not read
	Unverified []Reason  `json:"unverified"` // files of which nothing could be proven
	Ignored    []Ignored `json:"ignored"`    // what the signer left out
}

// Reason is a path and what was found of it.
type Reason struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Ignored is a path that the signature says nothing of, and how many files of
// the model lie there.
type Ignored struct {
	Path  string `json:"path"`
	Files int    `json:"files"`
}

// Tampered reports whether the model is not the signed one. With ignoreUnsigned,
// extra files are no fault.
func (r *Result) Tampered(ignoreUnsigned bool) bool {
	return len(r.Mismatch)+len(r.Missing)+len(r.Refused) > 0 || (len(r.Extra) > 0 && !ignoreUnsigned)
}

// Check compares a folder with the statement and reads every signed file.
// Options.Ignore adds to what the signer left out.
func (s *Statement) Check(ctx context.Context, folder fs.FS, o Options) (*Result, error) {
	want, err := s.files()
	if err != nil {
		return nil, err
	}
	all, err := walk(folder, o.AllowSymlinks)
	if err != nil {
		return nil, err
	}
	res, here := s.sort(want, all, o)
	return res, s.compare(ctx, folder, o, here, res)
}

// pair is a signed file that is there.
type pair struct {
	signed
	found
}

// sort says of each file whether it is signed, and returns the signed ones.
func (s *Statement) sort(want []signed, all []found, o Options) (*Result, []pair) {
	res := newResult()
	there := map[string]found{}
	for _, f := range all {
		there[f.path] = f
	}
	var here []pair
	for _, w := range want {
		f, ok := there[w.path]
		switch {
		case !ok:
			res.Missing = append(res.Missing, w.path)
		case f.refused != "":
			res.Refused = append(res.Refused, Reason{w.path, f.refused})
		default:
			here = append(here, pair{w, f})
		}
		delete(there, w.path)
	}
	s.unsigned(there, o, res)
	return res, here
}

// unsigned judges the files that the statement does not name.
func (s *Statement) unsigned(there map[string]found, o Options, res *Result) {
	counts := map[string]int{}
	ignore := slices.Concat(s.Serialization.IgnorePaths, o.Ignore)
	for path, f := range there {
		ignored := ignoredBy(path, ignore)
		switch {
		case f.refused != "" && !o.IgnoreUnsigned: // wherever it lies
			res.Refused = append(res.Refused, Reason{path, f.refused})
		case ignored != "":
			counts[ignored]++
		case f.size == 0 && f.refused == "" && s.Serialization.Method == methodShards && !o.IgnoreUnsigned:
			res.Unverified = append(res.Unverified, Reason{path, "it is empty, and the method shards names no empty files"})
		default:
			res.Extra = append(res.Extra, path)
		}
	}
	for _, p := range s.Serialization.IgnorePaths {
		res.Ignored = append(res.Ignored, Ignored{p, counts[p]})
	}
	slices.SortFunc(res.Ignored, func(a, b Ignored) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(res.Extra, comparePaths)
	byPath := func(a, b Reason) int { return comparePaths(a.Path, b.Path) }
	slices.SortFunc(res.Refused, byPath)
	slices.SortFunc(res.Unverified, byPath)
}

func newResult() *Result {
	return &Result{Mismatch: []Reason{}, Missing: []string{}, Extra: []string{}, Refused: []Reason{}, Unverified: []Reason{}, Ignored: []Ignored{}}
}

// compare reads the signed files that are there.
func (s *Statement) compare(ctx context.Context, folder fs.FS, o Options, here []pair, res *Result) error {
	if s.Serialization.HashType != digest.SHA256 {
		for _, h := range here {
			res.Unverified = append(res.Unverified, Reason{h.signed.path, "it was signed by its " + s.Serialization.HashType + " digest, which this version does not compute"})
		}
		return nil
	}
	files := make([]found, len(here))
	for i, h := range here {
		files[i] = h.found
	}
	why := make([]string, len(here))
	err := eachFile(ctx, folder, o.Progress, files, func(i int, r io.Reader) (err error) {
		why[i], err = comparePieces(r, here[i].pieces)
		return err
	})
	if err != nil {
		return err
	}
	for i, h := range here {
		if why[i] == "" {
			res.Matched++
		} else {
			res.Mismatch = append(res.Mismatch, Reason{h.signed.path, why[i]})
		}
	}
	return nil
}

// comparePieces hashes a file piece by piece and says where it first differs.
func comparePieces(r io.Reader, pieces []piece) (why string, err error) {
	for _, p := range pieces {
		h := sha256.New()
		if _, err := io.Copy(h, io.LimitReader(r, p.end-p.start)); err != nil {
			return "", err
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != p.digest {
			where := ""
			if len(pieces) > 1 {
				where = fmt.Sprintf("bytes %d to %d: ", p.start, p.end)
			}
			return fmt.Sprintf("%ssha256 is %s, signed was %s", where, got, p.digest), nil
		}
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(r, 1)); n > 0 || err != nil {
		return "it is longer than what was signed", err
	}
	return "", nil
}

// CheckDigests compares known digests, such as those of a manifest, with the
// statement, without reading a file. Only a statement of the method files with
// sha256 can be compared so; for another the error has the status Evidence. The
// list of digests says nothing of the unknown paths: a signed file there is
// neither missing nor proven.
func (s *Statement) CheckDigests(files []Resource, unknown []string, o Options) (*Result, error) {
	if s.Serialization.Method != methodFiles || s.Serialization.HashType != digest.SHA256 {
		return nil, errext.WithStatus(errext.WithHint(fmt.Errorf("the signature holds, but it has the method %s with %s, and the known digests are sha256 of whole files", s.Serialization.Method, s.Serialization.HashType),
			"name the model's folder, so that its files are read"), errext.Evidence)
	}
	want, err := s.files()
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	all := make([]found, 0, len(files))
	for _, f := range files {
		if f.Algorithm != digest.SHA256 {
			return nil, errors.New("the digest of " + f.Name + " is no sha256")
		}
		sums[f.Name] = strings.ToLower(f.Digest)
		all = append(all, found{path: f.Name})
	}
	res, here := s.sort(want, all, o)
	res.Missing = slices.DeleteFunc(res.Missing, func(path string) bool {
		if ignoredBy(path, unknown) == "" {
			return false
		}
		res.Unverified = append(res.Unverified, Reason{path, "it was signed, and a manifest leaves such files out"})
		return true
	})
	for _, h := range here {
		if got, want := sums[h.signed.path], h.pieces[0].digest; got == want {
			res.Matched++
		} else {
			res.Mismatch = append(res.Mismatch, Reason{h.signed.path, fmt.Sprintf("sha256 is %s, signed was %s", got, want)})
		}
	}
	return res, nil
}
