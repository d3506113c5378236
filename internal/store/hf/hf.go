// Package hf reads models where Hugging Face keeps them, as sources that drkit
// never writes to: the cache of huggingface_hub, a download into a folder
// (--local-dir), and the hub itself.
//
//	source, ok, err := hf.Local("/data/hub/models--acme--tiny") // ok: it is a cache or a download
//	source, err := hf.New("acme/tiny@main", hf.FromEnv(os.Getenv))
//
// The cache names each blob by the digest of its content and, since 2.x of the
// library, keeps the commit's full listing in trees/<commit>.json. So it can be
// judged without the hub: what is missing, what was left half downloaded, and,
// by the reader who hashes the files, what is damaged (store.Expecter).
//
// The hub is asked for one commit only: a branch is resolved once, and every
// read names the commit. Sizes and digests come from its listing; a file that is
// read whole is checked against them.
package hf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drkit/internal/errext"
	"drkit/internal/store/dir"
)

// repoPrefix begins the name of a model's folder in the cache: models--org--name.
const repoPrefix = "models--"

// downloadFolder is where a download into a folder keeps its records.
const downloadFolder = ".cache/huggingface/"

// Local recognises a directory: a model's folder in the cache (models--org--name,
// whose refs choose the commit), a snapshot of it or a folder in one, and a
// download into a folder. Any other directory is ok == false and no error.
func Local(path string) (c *Cache, ok bool, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, false, fmt.Errorf("finding %s: %w", path, err)
	}
	if !isDir(abs) {
		return nil, false, nil // the directory store says what is wrong
	}
	places := []string{abs}
	if real, err := filepath.EvalSymlinks(abs); err == nil && real != abs {
		places = append(places, real) // a link such as current -> snapshots/<commit>
	}
	for _, at := range places {
		if c, ok, err := recognise(at); ok || err != nil {
			return c, ok, err
		}
	}
	return nil, false, nil
}

func recognise(at string) (*Cache, bool, error) {
	switch name := filepath.Base(at); {
	case strings.HasPrefix(name, repoPrefix) && isDir(filepath.Join(at, "snapshots")):
		return byRef(at)
	case name == "snapshots" && strings.HasPrefix(filepath.Base(filepath.Dir(at)), repoPrefix):
		return byRef(filepath.Dir(at))
	}
	if snapshot, ok := snapshotOf(at); ok {
		c, err := openSnapshot(snapshot, at)
		return c, err == nil, err
	}
	if isDir(filepath.Join(at, downloadFolder, "trees")) || isDir(filepath.Join(at, downloadFolder, "download")) {
		c, err := openDownload(at)
		return c, err == nil, err
	}
	return nil, false, refuseWholeCache(at)
}

// snapshotOf finds models--…/snapshots/<commit> at or above a path.
func snapshotOf(at string) (string, bool) {
	for up := filepath.Dir(at); up != at; at, up = up, filepath.Dir(up) {
		if filepath.Base(up) == "snapshots" && strings.HasPrefix(filepath.Base(filepath.Dir(up)), repoPrefix) && commitForm.MatchString(filepath.Base(at)) {
			return at, true
		}
	}
	return "", false
}

// byRef opens the snapshot that a model's folder stands for: refs/main, else its
// only ref, else its only snapshot.
func byRef(repo string) (*Cache, bool, error) {
	commit, err := chooseCommit(repo)
	if err == nil && !isDir(filepath.Join(repo, "snapshots", commit)) {
		err = fmt.Errorf("the snapshot %s that its ref names does not exist", commit)
	}
	if err != nil {
		return nil, false, errext.WithHint(fmt.Errorf("%s: %w", repo, err), "name the folder snapshots/<commit> itself, or download the model again")
	}
	at := filepath.Join(repo, "snapshots", commit)
	c, err := openSnapshot(at, at)
	return c, err == nil, err
}

func chooseCommit(repo string) (string, error) {
	refs, err := readRefs(repo)
	if err != nil {
		return "", err
	}
	if i := slices.IndexFunc(refs, func(r ref) bool { return r.name == "main" }); i >= 0 {
		refs = refs[i : i+1]
	}
	if len(refs) == 1 {
		return refs[0].commit, refs[0].check()
	}
	if len(refs) > 1 {
		return "", fmt.Errorf("it has %d refs and none is main", len(refs))
	}
	snapshots, err := os.ReadDir(filepath.Join(repo, "snapshots"))
	if err != nil {
		return "", err
	}
	if len(snapshots) != 1 {
		return "", fmt.Errorf("it has no refs and %d snapshots", len(snapshots))
	}
	return snapshots[0].Name(), nil
}

// ref is one file of refs/, as it was read.
type ref struct{ name, commit string }

// check says why the hub's library cannot resolve the ref: it takes the file's
// bytes as the snapshot's name, without trimming them.
func (r ref) check() error {
	if commitForm.MatchString(r.commit) {
		return nil
	}
	return fmt.Errorf("refs/%s is not exactly the 40 digits of a commit (%.50q): Hugging Face reads it untrimmed and would not find the snapshot", r.name, r.commit)
}

// readRefs reads every ref of a model's folder; the names of some hold slashes.
func readRefs(repo string) (all []ref, err error) {
	root := filepath.Join(repo, "refs")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := readSmall(path, 1<<10)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		all = append(all, ref{filepath.ToSlash(rel), string(data)})
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return all, err
}

// refuseWholeCache keeps a folder of many models from being taken as one.
func refuseWholeCache(at string) error {
	names, err := os.ReadDir(at)
	if err != nil {
		return nil // the directory store says what is wrong
	}
	for _, n := range names {
		if strings.HasPrefix(n.Name(), repoPrefix) && isDir(filepath.Join(at, n.Name(), "snapshots")) {
			return errext.WithStatus(errext.WithHint(fmt.Errorf("%s is a whole Hugging Face cache, not one model", at),
				"name one model of it, such as "+filepath.Join(at, n.Name())), errext.Usage)
		}
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// plain is the directory without its records' meaning, which does the reading.
func plain(root string) *dir.Store { return dir.New(root) }
