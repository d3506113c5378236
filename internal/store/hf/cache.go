package hf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/manifest/digest"
)

// Cache is a snapshot in the hub's cache, or a download into a folder, with what
// the records beside it say of its files. It is read only. Local makes one.
type Cache struct {
	files        *dir.Store
	root         string // real path of the folder that is listed
	blobs        string // real path of the blobs, "" for a download
	repo, commit string // "" when not known
	listing      []file // of the commit, sorted, keys as this source has them; nil when there is none
	expected     map[string]file
	defects      []*store.KeyError // found beside the files, sorted by key
	partial      map[string]int64  // bytes of what an interrupted download left, by the blob's name
	download     string            // folder of a download's own records, "" for a snapshot
	refs         []string          // that lead to the commit, as the hub's library resolves them
}

var (
	_ store.Source    = (*Cache)(nil)
	_ store.Stater    = (*Cache)(nil)
	_ store.Expecter  = (*Cache)(nil)
	_ store.Pinned    = (*Cache)(nil)
	_ store.Claimless = (*Cache)(nil)
	_ store.Located   = (*Cache)(nil)
)

// openSnapshot reads the records of a snapshot. at is the snapshot itself or a
// folder in it.
func openSnapshot(snapshot, at string) (*Cache, error) {
	repo := filepath.Dir(filepath.Dir(snapshot))
	c := &Cache{files: plain(at), commit: filepath.Base(snapshot), repo: repoName(filepath.Base(repo))}
	var err error
	if c.root, err = filepath.EvalSymlinks(at); err != nil {
		return nil, fmt.Errorf("opening the snapshot: %w", err)
	}
	c.blobs = filepath.Join(repo, "blobs")
	if real, err := filepath.EvalSymlinks(c.blobs); err == nil {
		c.blobs = real
	}
	c.partial = interrupted(c.blobs)
	below, err := filepath.Rel(snapshot, at)
	if err != nil {
		return nil, err
	}
	c.readListing(filepath.Join(repo, "trees", c.commit+".json"), filepath.ToSlash(below))
	if err := c.checkRefs(repo); err != nil {
		return nil, err
	}
	c.lonelyParts()
	return c, nil
}

// repoName is the repository that a cache folder's name stands for.
func repoName(folder string) string {
	return strings.ReplaceAll(strings.TrimPrefix(folder, repoPrefix), "--", "/")
}

// readListing keeps the part of the commit's listing that lies in the folder below.
func (c *Cache) readListing(name, below string) {
	all, err := readTree(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		c.defect("trees/"+filepath.Base(name), store.DefectListing, "the commit's listing cannot be read, so nobody knows what should be here: "+reason(err))
		return
	}
	prefix := ""
	if below != "." {
		prefix = below + "/"
	}
	c.listing, c.expected = []file{}, map[string]file{}
	for _, f := range all {
		key, inside := strings.CutPrefix(f.key, prefix)
		if !inside {
			continue
		}
		f.key = key
		c.listing = append(c.listing, f)
		c.expected[key] = f
	}
}

// reason is an error without the machine's paths: it becomes part of a manifest.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

func (c *Cache) defect(key, kind, what string) {
	c.defects = append(c.defects, &store.KeyError{Key: key, Err: &store.Defect{Kind: kind, What: what}})
}

// checkRefs keeps the refs of this commit and notes those that the hub's library
// cannot resolve.
func (c *Cache) checkRefs(repo string) error {
	refs, err := readRefs(repo)
	if err != nil {
		return fmt.Errorf("reading the refs of %s: %w", repo, err)
	}
	for _, r := range refs {
		switch err := r.check(); {
		case strings.TrimSpace(r.commit) != c.commit:
		case err != nil:
			c.defect("refs/"+r.name, store.DefectRef, err.Error())
		default:
			c.refs = append(c.refs, r.name)
		}
	}
	return nil
}

// interrupted lists what broken downloads left among the blobs: <name>.incomplete,
// in newer versions with something random between. A blob that was finished later
// is not counted.
func interrupted(blobs string) map[string]int64 {
	all := map[string]int64{}
	names, _ := os.ReadDir(blobs) // none: then every link dangles, which is said
	for _, n := range names {
		tag, rest, _ := strings.Cut(n.Name(), ".")
		info, err := n.Info()
		if err != nil || !strings.HasSuffix(rest, "incomplete") {
			continue
		}
		if _, err := os.Lstat(filepath.Join(blobs, tag)); err != nil {
			all[tag] = info.Size()
		}
	}
	return all
}

// lonelyParts: without a listing, what an interrupted download left behind is the
// only sign that the snapshot is not whole.
func (c *Cache) lonelyParts() {
	if c.listing != nil {
		return
	}
	for tag, n := range c.partial {
		c.defect("blobs/"+tag, store.DefectInterrupted, fmt.Sprintf("an interrupted download left %d bytes of it, and no listing says which file it is", n))
	}
	slices.SortFunc(c.defects, func(a, b *store.KeyError) int { return strings.Compare(a.Key, b.Key) })
}

// checkLink refuses a file that a link brings in from anywhere but the blobs.
func (c *Cache) checkLink(key string) error {
	if c.blobs == "" {
		return nil
	}
	real, err := filepath.EvalSymlinks(filepath.Join(c.root, filepath.FromSlash(key)))
	if err != nil {
		return &store.KeyError{Key: key, Err: err}
	}
	if real == filepath.Join(c.root, filepath.FromSlash(key)) || filepath.Dir(real) == c.blobs {
		return nil
	}
	return &store.KeyError{Key: key, Err: &store.Defect{Kind: store.DefectOutside, What: "its link leads out of the cache's blobs folder: a copy of the cache does not bring it along, and its bytes may be anything"}}
}

// Open reads a file.
func (c *Cache) Open(ctx context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	r, err := c.files.Open(ctx, o, off, n)
	if err != nil {
		return nil, err
	}
	if err := c.checkLink(o.Key); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Stat describes a file as List does.
func (c *Cache) Stat(ctx context.Context, key string) (store.Object, error) {
	o, err := c.files.Stat(ctx, key)
	if err != nil {
		return o, err
	}
	return o, c.checkLink(key)
}

// Expected is what the commit's listing says and what the file's blob is named,
// or for a download what was noted of the file, unless it was edited since.
func (c *Cache) Expected(key string) []digest.Digest {
	var all []digest.Digest
	if store.CheckKey(key) != nil || (c.download != "" && c.edited(key)) {
		return nil
	}
	if f, ok := c.expected[key]; ok {
		all = append(all, f.sum)
	}
	if d, ok := c.noted(key); ok && !slices.Contains(all, d) {
		all = append(all, d)
	}
	return all
}

// noted is what the record of one file says: its blob's name or its metadata.
func (c *Cache) noted(key string) (digest.Digest, bool) {
	if c.blobs == "" {
		return c.metadataSum(key)
	}
	real, err := filepath.EvalSymlinks(filepath.Join(c.root, filepath.FromSlash(key)))
	if err != nil || filepath.Dir(real) != c.blobs {
		return digest.Digest{}, false
	}
	return ofTag(filepath.Base(real))
}

// Pin is the repository and commit that the snapshot is of.
func (c *Cache) Pin(context.Context) (repo, commit string, err error) { return c.repo, c.commit, nil }

// Refs are the names under refs/ that lead to the snapshot's commit, sorted. An
// engine that is started with a hub id finds a commit by such a name only. A
// download into a folder has none.
func (c *Cache) Refs(context.Context) ([]string, error) {
	return slices.Sorted(slices.Values(c.refs)), nil
}

// HoldsNoClaims: names and listings say what the bytes should be; what they are
// can only come from reading them.
func (c *Cache) HoldsNoClaims() {}

// Location is the folder's real path.
func (c *Cache) Location() string { return c.root }
