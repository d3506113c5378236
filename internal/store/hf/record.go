package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"drkit/internal/store"
	"drkit/manifest/digest"
)

// maxRecord is the greatest listing in bytes that is read; one of 200,000 files
// has about 40 MiB.
const maxRecord = 256 << 20

var (
	commitForm = regexp.MustCompile(`^[0-9a-f]{40}$`)
	sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// file is what the hub's listing of a commit says of one file.
type file struct {
	key  string
	size int64
	sum  digest.Digest // of the content: SHA-256 of an LFS file, else git's blob SHA-1
}

// ofTag reads a blob's name, which is the ETag that the hub gave: 64 digits are
// the content's SHA-256, 40 its git blob SHA-1. Anything else says nothing.
func ofTag(tag string) (digest.Digest, bool) {
	switch {
	case sha256Form.MatchString(tag):
		return digest.Digest{Algorithm: digest.SHA256, Hex: tag}, true
	case commitForm.MatchString(tag):
		return digest.Digest{Algorithm: digest.GitSHA1, Hex: tag}, true
	}
	return digest.Digest{}, false
}

// listedFile checks what a listing says of a file. blob is git's SHA-1 of what
// git holds, which for an LFS file is a pointer; lfs is then the SHA-256 of the
// content and lfsSize its size. A Xet hash is of another kind and never compared.
func listedFile(key string, size int64, blob, lfs string, lfsSize int64) (file, error) {
	if err := store.CheckKey(key); err != nil {
		return file{}, err
	}
	tag := blob
	if lfs != "" {
		tag, size = lfs, lfsSize
	}
	sum, ok := ofTag(tag)
	switch {
	case size < 0:
		return file{}, fmt.Errorf("%q has %d bytes", key, size)
	case !ok || (lfs != "") != (sum.Algorithm == digest.SHA256):
		return file{}, fmt.Errorf("%q has the digest %.80q, which is neither a SHA-256 of LFS nor a SHA-1 of git", key, tag)
	}
	return file{key, size, sum}, nil
}

// sorted orders a listing by key. A key that is named twice is an error: which
// of the two is meant cannot be known.
func sorted(files []file) ([]file, error) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.key, b.key) })
	for i := 1; i < len(files); i++ {
		if files[i].key == files[i-1].key {
			return nil, fmt.Errorf("%q is listed twice", files[i].key)
		}
	}
	return files, nil
}

// readTree reads trees/<commit>.json, in which huggingface_hub keeps the commit's
// full listing (since 2.x; an older cache has none: fs.ErrNotExist).
func readTree(name string) ([]file, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxRecord {
		return nil, fmt.Errorf("it is larger than %d bytes", maxRecord)
	}
	return parseTree(data)
}

// treeEntry is one file of trees/<commit>.json. lfs_size is absent when it is size.
type treeEntry struct {
	Size    *int64 `json:"size"`
	BlobID  string `json:"blob_id"`
	SHA256  string `json:"lfs_sha256"`
	LFSSize *int64 `json:"lfs_size"`
}

func parseTree(data []byte) ([]file, error) {
	var t struct {
		Version int                  `json:"format_version"`
		Files   map[string]treeEntry `json:"files"`
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, err
	}
	if t.Version != 1 {
		return nil, fmt.Errorf("its format_version is %d: only 1 is known", t.Version)
	}
	if t.Files == nil {
		return nil, errors.New("it has no files")
	}
	files := make([]file, 0, len(t.Files))
	for _, key := range slices.Sorted(maps.Keys(t.Files)) { // in order, so that the first error is always the same
		e := t.Files[key]
		if e.Size == nil {
			return nil, fmt.Errorf("%q has no size", key)
		}
		lfsSize := *e.Size
		if e.LFSSize != nil {
			lfsSize = *e.LFSSize
		}
		f, err := listedFile(key, *e.Size, e.BlobID, e.SHA256, lfsSize)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return sorted(files)
}
