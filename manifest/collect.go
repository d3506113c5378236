package manifest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest/model"
)

// EngineOptionsPath is the generated file of the engine part that holds what
// drkit.yaml itself says of the engine.
const EngineOptionsPath = "drkit-engine.json"

// item is a file on its way into the manifest. A release may have hundreds of
// thousands of them, so it is small.
type item struct {
	File
	*listing
	key     string         // at its source
	modTime time.Time      // when it was listed
	more    *store.Object  // what its source said of it beyond that; nil: nothing
	capture *model.Capture // what the readers need of its content
	byName  bool           // nobody said its role
}

// listing is what the items of one folder have in common.
type listing struct {
	tree   string // the folder below the model part: base, adapters/NAME, drafts/NAME, repos/ORG/NAME
	source store.Source
	data   []byte // content of a generated file, which has no source
}

// listed makes an item of what a source lists.
func (l *listing) listed(f File, o store.Object, c *model.Capture) *item {
	it := &item{File: f, listing: l, key: o.Key, modTime: o.ModTime, capture: c}
	if strings.HasSuffix(f.Path, o.Key) {
		it.key = f.Path[len(f.Path)-len(o.Key):] // one string for both
	}
	if o.Version != "" || o.ETag != "" || o.Encryption != "" || o.Replication != "" || o.Sums != nil || o.Parts != nil {
		it.more = &o
	}
	return it
}

// object is the item as its source listed it.
func (it *item) object() store.Object {
	if it.more != nil {
		return *it.more
	}
	return store.Object{Key: it.key, Size: it.Size, ModTime: it.modTime}
}

// inTree is the path inside the item's folder.
func (it *item) inTree() string { return strings.TrimPrefix(it.Path, it.tree+"/") }

// collector gathers items and the problems of listing them.
type collector struct {
	items    []*item
	problems []Problem
	images   []Image
	origins  []Origin
}

func collect(ctx context.Context, in Input) (*collector, error) {
	c := &collector{}
	if err := c.tree(ctx, "base", in.Model); err != nil {
		return nil, err
	}
	for _, t := range slices.Concat(in.Adapters, in.Drafts) {
		if CheckPath(t.Name) != nil || strings.Contains(t.Name, "/") {
			return nil, errext.WithStatus(fmt.Errorf("%q is no name for an adapter or a draft: it becomes a folder", t.Name), errext.Usage)
		}
	}
	for _, a := range in.Adapters {
		if err := c.tree(ctx, "adapters/"+a.Name, a); err != nil {
			return nil, err
		}
	}
	for _, d := range in.Drafts {
		if err := c.tree(ctx, "drafts/"+d.Name, d); err != nil {
			return nil, err
		}
	}
	for _, r := range in.Repositories {
		if CheckPath(r.Name) != nil || strings.Count(r.Name, "/") > 1 {
			return nil, errext.WithStatus(fmt.Errorf("%q is no name of a repository: it becomes a folder, and is org/name as on its hub", r.Name), errext.Usage)
		}
		if err := c.tree(ctx, "repos/"+r.Name, r); err != nil {
			return nil, err
		}
	}
	if err := c.files(ctx, Engine, in.EngineFiles); err != nil {
		return nil, err
	}
	if err := c.files(ctx, Deploy, in.DeployFiles); err != nil {
		return nil, err
	}
	if err := c.engineOptions(in.Engine); err != nil {
		return nil, err
	}
	return c, c.unique()
}

// tree adds every file of a folder. A link that leads nowhere is a problem of
// the content: the engine would not find the file either.
func (c *collector) tree(ctx context.Context, name string, t Tree) error {
	if t.Source == nil {
		return errext.WithStatus(fmt.Errorf("model/%s has no source", name), errext.Usage)
	}
	found, from := false, &listing{tree: name, source: t.Source}
	for o, err := range t.Source.List(ctx, t.Prefix) {
		var link *store.LinkError
		var key *store.KeyError
		var defect *store.Defect
		switch {
		case errors.As(err, &link):
			c.link(name, strings.TrimPrefix(link.Key, t.Prefix), link)
			found = true
		case errors.As(err, &key) && errors.As(err, &defect):
			c.problems = append(c.problems, Problem{Part: Model, Path: name + "/" + strings.TrimPrefix(key.Key, t.Prefix), Kind: defect.Kind, What: defect.What})
			found = true
		case err != nil:
			return advise(fmt.Errorf("listing model/%s: %w", name, err), "check the path in drkit.yaml, and that it can be read")
		default:
			added, err := c.treeFile(from, t.Prefix, o)
			if err != nil {
				return err
			}
			found = found || added
		}
	}
	if !found {
		return errext.WithHint(fmt.Errorf("the source of model/%s holds no file", name),
			"check the path in drkit.yaml; a download may have gone to another folder")
	}
	return c.origin(ctx, name, t.Source)
}

// origin notes which commit of a hub a folder is.
func (c *collector) origin(ctx context.Context, tree string, s store.Source) error {
	pinned, ok := s.(store.Pinned)
	if !ok {
		return nil
	}
	repo, commit, err := pinned.Pin(ctx)
	if err != nil || commit == "" {
		return err
	}
	o := Origin{Tree: tree, Repo: repo, Commit: commit}
	if cache, ok := s.(Referrer); ok {
		names, err := cache.Refs(ctx)
		if err != nil {
			return err
		}
		names = append([]string{}, names...) // an empty list says something else than none
		o.Refs = &names
	}
	c.origins = append(c.origins, o)
	return nil
}

// Referrer is implemented by hub caches: Refs lists the names under refs/ that
// lead to the commit that the source holds. An engine that is started with a hub
// id finds the commit by such a name only.
type Referrer interface {
	Refs(ctx context.Context) ([]string, error)
}

func (c *collector) treeFile(from *listing, prefix string, o store.Object) (added bool, err error) {
	path := strings.TrimPrefix(o.Key, prefix)
	if leftOut(path) || (o.Size == 0 && strings.HasSuffix(path, "/")) { // the latter marks a folder in a bucket
		return false, nil
	}
	f := File{Part: Model, Path: from.tree + "/" + path, Size: o.Size, Role: treeRole(from.tree, path)}
	return true, c.add(from.listed(f, o, model.NewCapture(path, o.Size)))
}

// treeRole is the role of a file by its folder and name.
func treeRole(tree, path string) Role {
	switch {
	case strings.HasPrefix(tree, "adapters/"):
		return AdapterFile
	case strings.HasPrefix(tree, "drafts/"):
		return Draft
	}
	return Role(model.Role(path))
}

func (c *collector) link(tree, path string, e *store.LinkError) {
	if leftOut(path) {
		return
	}
	p := Problem{Part: Model, Path: tree + "/" + path, Kind: "dangling-symlink",
		What: fmt.Sprintf("the symbolic link points to %s, which does not exist", e.Target)}
	if e.Loop {
		p.Kind, p.What = "symlink-loop", fmt.Sprintf("the symbolic link to %s leads back to itself", e.Target)
	}
	c.problems = append(c.problems, p)
}

func (c *collector) files(ctx context.Context, part Part, files []PartFile) error {
	for _, f := range files {
		o, err := find(ctx, f.Source, f.Key)
		if err != nil {
			return errext.WithHint(fmt.Errorf("finding %s file %s: %w", part, f.Path, err),
				"check that the path in drkit.yaml exists and can be read")
		}
		from := &listing{source: f.Source}
		it := from.listed(File{Part: part, Region: f.Region, Path: f.Path, Size: o.Size, Role: f.Role}, o, model.NewWholeCapture())
		if it.Role == "" {
			it.Role, it.byName = roleByName(part, f.Path), true
		}
		if err := c.add(it); err != nil {
			return err
		}
	}
	return nil
}

// find asks a source for one key; a source that cannot be asked is listed.
func find(ctx context.Context, s store.Source, key string) (store.Object, error) {
	if stater, ok := s.(store.Stater); ok {
		return stater.Stat(ctx, key)
	}
	for o, err := range s.List(ctx, key) {
		if err != nil || o.Key == key {
			return o, err
		}
	}
	return store.Object{}, store.ErrNotFound
}

// engineOptions adds the generated file, so that flags and environment are part
// of the release like any other engine configuration.
func (c *collector) engineOptions(e EngineInput) error {
	if e.Kind == "" && e.Version == "" && len(e.Args) == 0 && len(e.Env) == 0 {
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(e); err != nil {
		return fmt.Errorf("writing %s: %w", EngineOptionsPath, err)
	}
	it := &item{listing: &listing{data: b.Bytes()}, capture: model.NewWholeCapture()}
	it.File = File{Part: Engine, Path: EngineOptionsPath, Size: int64(b.Len()), Role: EngineOptions}
	return c.add(it)
}

func (c *collector) add(it *item) error {
	if err := checkFileName(it.File); err != nil {
		return errext.WithHint(fmt.Errorf("adding a file to the %s part: %w", it.Part, err),
			"rename the file: not every store and system can hold such a name")
	}
	if n := normal(it.Path); n != it.Path {
		c.problems = append(c.problems, Problem{Part: it.Part, Region: it.Region, Path: it.Path, Kind: "path-not-nfc",
			What: fmt.Sprintf("the name is not in Unicode's composed form (NFC): some systems will store it as %q and then not find it", n)})
	}
	c.items = append(c.items, it)
	return nil
}

func (c *collector) unique() error {
	sorted := slices.SortedFunc(slices.Values(c.items), func(a, b *item) int { return a.location().compare(b.location()) })
	for i, it := range sorted {
		if i > 0 && it.location() == sorted[i-1].location() {
			return errext.WithStatus(errext.WithHint(fmt.Errorf("two files claim the place %s", it.Subject()),
				"name it once in drkit.yaml, or give each region its own"), errext.Usage)
		}
	}
	return nil
}
