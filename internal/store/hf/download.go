package hf

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"drkit/manifest/digest"
)

// metadataEnd is the ending of a record of one downloaded file, which lies in
// .cache/huggingface/download/ under the file's own path.
const metadataEnd = ".metadata"

// openDownload reads the records of a download into a folder. The commit is the
// one of the newest record: a later download of another revision leaves records
// of files that it no longer had.
func openDownload(at string) (*Cache, error) {
	c := &Cache{files: plain(at), download: filepath.Join(at, filepath.FromSlash(downloadFolder), "download"), partial: map[string]int64{}}
	var err error
	if c.root, err = filepath.EvalSymlinks(at); err != nil {
		return nil, fmt.Errorf("opening the download: %w", err)
	}
	newest := time.Time{}
	err = filepath.WalkDir(c.download, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && path == c.download:
			return fs.SkipAll // there are none
		case err != nil:
			return err
		case strings.HasSuffix(path, ".incomplete"):
			c.notePart(d)
		case strings.HasSuffix(path, metadataEnd):
			if m, ok := readMetadata(path); ok && m.at.After(newest) {
				newest, c.commit = m.at, m.commit
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the records of the download: %w", err)
	}
	trees := filepath.Join(at, filepath.FromSlash(downloadFolder), "trees")
	if c.commit == "" { // nothing was finished: the listing came first
		c.commit = onlyTree(trees)
	}
	c.readListing(filepath.Join(trees, c.commit+".json"), ".")
	return c, nil
}

// notePart keeps the size of an interrupted file: SHORT.<etag>.incomplete, since
// 2.4 with something random behind the ETag.
func (c *Cache) notePart(d fs.DirEntry) {
	for part := range strings.SplitSeq(d.Name(), ".") {
		_, isTag := ofTag(part)
		if info, err := d.Info(); isTag && err == nil {
			c.partial[part] = info.Size()
		}
	}
}

func onlyTree(trees string) string {
	names, err := os.ReadDir(trees)
	if err != nil || len(names) != 1 {
		return ""
	}
	return strings.TrimSuffix(names[0].Name(), ".json")
}

// metadata is what a download noted of one file: three lines, the commit, the
// ETag, and when, in seconds since 1970 with a fraction.
type metadata struct {
	commit, tag string
	at          time.Time
}

func readMetadata(name string) (metadata, bool) {
	data, err := readSmall(name, 4<<10)
	if err != nil {
		return metadata{}, false
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(lines) != 3 || !commitForm.MatchString(strings.TrimSpace(lines[0])) {
		return metadata{}, false
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(lines[2]), 64)
	if err != nil || !(math.Abs(seconds) < 1<<40) {
		return metadata{}, false
	}
	return metadata{strings.TrimSpace(lines[0]), strings.TrimSpace(lines[1]), time.UnixMicro(int64(seconds * 1e6))}, true
}

// metadataSum is the digest that was noted of a file.
func (c *Cache) metadataSum(key string) (digest.Digest, bool) {
	m, ok := readMetadata(filepath.Join(c.download, filepath.FromSlash(key)+metadataEnd))
	if !ok {
		return digest.Digest{}, false
	}
	return ofTag(m.tag)
}

// edited reports whether a downloaded file was written after it was noted: then
// it was edited on purpose, and the hub's library too takes the note as outdated.
func (c *Cache) edited(key string) bool {
	m, ok := readMetadata(filepath.Join(c.download, filepath.FromSlash(key)+metadataEnd))
	info, err := os.Stat(filepath.Join(c.root, filepath.FromSlash(key)))
	return ok && err == nil && info.ModTime().After(m.at.Add(time.Second))
}

// readSmall reads a small record; a longer one is cut, and so malformed.
func readSmall(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}
