// Package discover looks into a folder for what a release is made of: model
// repositories, adapters, drafts, engine configuration, deployment artifacts. It
// reads and guesses nothing: what the files do not say is left open, and what was
// seen and not taken is told with the reason.
//
//	found, err := discover.Look(ctx, "/srv/support")
//	choice, err := found.Choose("")              // which model is the base
//	text := discover.Render(found, choice, discover.Place{…})
package discover

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drkit/internal/errext"
)

// Found is what a folder holds. Paths are relative to it, with slashes; "." is the
// folder itself.
type Found struct {
	Folder   string         `json:"folder"` // absolute
	Models   []Model        `json:"models"`
	Adapters []Adapter      `json:"adapters"`
	Engines  []EngineConfig `json:"engine_configs"`
	Deploy   []DeployFile   `json:"deploy_files"`
	Probes   []string       `json:"probes"`
	Versions []Version      `json:"engine_versions"` // every place that names one
	Notes    []Note         `json:"notes"`           // what was seen and not taken
}

// Note says of a file or folder why it was not taken.
type Note struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Model is a model repository.
type Model struct {
	Path          string   `json:"path"`
	Name          string   `json:"name"`               // of the folder, or of the repository in a hub's cache
	Hub           string   `json:"hub,omitempty"`      // org/name, where the cache says so
	Commit        string   `json:"commit,omitempty"`   // of a hub's cache
	Format        string   `json:"format"`             // huggingface, mistral or gguf
	Architectures []string `json:"architectures"`      // as config.json states them
	WeightFiles   int      `json:"weight_files"`       // 0: config.json stands alone
	NamedAs       string   `json:"name_or_path"`       // _name_or_path of config.json
	Draft         bool     `json:"draft,omitempty"`    // it only drafts for another model
	DraftBy       string   `json:"draft_by,omitempty"` // what says so
}

// EngineConfig is a configuration file of an engine.
type EngineConfig struct {
	Path   string   `json:"path"`
	Kind   string   `json:"kind"` // vllm or sglang
	Region string   `json:"region,omitempty"`
	Served []string `json:"served_model_name,omitempty"`
}

// DeployFile is a deployment artifact.
type DeployFile struct {
	Path    string   `json:"path"`
	Format  string   `json:"format"` // kubernetes, kustomization, compose, yaml (such as Helm values), dockerfile, or a lockfile's
	Region  string   `json:"region,omitempty"`
	Images  []string `json:"images,omitempty"`
	Starts  []string `json:"starts,omitempty"` // the engines whose start it describes: vllm, sglang
	Served  []string `json:"served_model_name,omitempty"`
	Models  []string `json:"models,omitempty"`  // what those engines are started with
	Drafts  []string `json:"drafts,omitempty"`  // and their draft models
	Configs []string `json:"configs,omitempty"` // and their configuration files
}

// Version is an engine's version with the place that names it.
type Version struct {
	Kind    string `json:"kind"`
	Version string `json:"version"`
	From    string `json:"from"`
}

const (
	maxDepth   = 12
	maxEntries = 200_000
	maxRead    = 4 << 20 // bytes of a file that is looked into
)

// skipped are folders that hold no source of a release.
var skipped = []string{"node_modules", "__pycache__", "site-packages", "venv", "refs", "blobs"}

// Look walks through a folder. Links to folders are followed once.
func Look(ctx context.Context, folder string) (*Found, error) {
	abs, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(abs)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is a file", folder)
	}
	if err != nil {
		return nil, errext.WithStatus(errext.WithHint(fmt.Errorf("looking into the folder: %w", err), "name the folder that holds the model and what deploys it"), errext.Usage)
	}
	w := &walker{ctx: ctx, seen: map[string]bool{}, found: &Found{Folder: abs, Models: []Model{}, Adapters: []Adapter{}, Engines: []EngineConfig{},
		Deploy: []DeployFile{}, Probes: []string{}, Versions: []Version{}, Notes: []Note{}}}
	if err := w.folder(".", 0); err != nil {
		return nil, err
	}
	w.found.drafts()
	w.found.sort()
	return w.found, nil
}

type walker struct {
	ctx     context.Context
	found   *Found
	seen    map[string]bool // real paths of folders
	entries int
}

func (w *walker) abs(rel string) string {
	return filepath.Join(w.found.Folder, filepath.FromSlash(rel))
}

func (w *walker) note(rel, format string, args ...any) {
	w.found.Notes = append(w.found.Notes, Note{rel, fmt.Sprintf(format, args...)})
}

// folder looks into one folder. A model repository and an adapter are taken as a
// whole: what lies in them belongs to them.
func (w *walker) folder(rel string, depth int) error {
	if err := w.ctx.Err(); err != nil {
		return context.Cause(w.ctx)
	}
	real, err := filepath.EvalSymlinks(w.abs(rel))
	if err != nil || w.seen[real] {
		return nil // a link in a circle, or to nowhere
	}
	w.seen[real] = true
	names, err := os.ReadDir(w.abs(rel))
	if err != nil {
		w.note(rel, "it cannot be read: %v", reason(err))
		return nil
	}
	if w.entries += len(names); w.entries > maxEntries {
		return errext.WithStatus(errext.WithHint(fmt.Errorf("%s holds more than %d files", w.found.Folder, maxEntries), "name a folder nearer to the service"), errext.Usage)
	}
	if depth > maxDepth {
		w.note(rel, "it lies too deep: not looked into")
		return nil
	}
	if w.whole(rel, names) {
		return nil
	}
	for _, n := range names {
		below := join(rel, n.Name())
		isDir := n.IsDir() || n.Type()&fs.ModeSymlink != 0 && w.isDir(below)
		switch {
		case isDir && (strings.HasPrefix(n.Name(), ".") || slices.Contains(skipped, n.Name())):
		case isDir:
			if err := w.folder(below, depth+1); err != nil {
				return err
			}
		default:
			w.file(below)
		}
	}
	return nil
}

func (w *walker) isDir(rel string) bool {
	info, err := os.Stat(w.abs(rel))
	return err == nil && info.IsDir()
}

// whole takes a folder that is one thing.
func (w *walker) whole(rel string, names []fs.DirEntry) bool {
	has := func(name string) bool {
		return slices.ContainsFunc(names, func(n fs.DirEntry) bool { return n.Name() == name })
	}
	switch {
	case has("manifest.json") && w.isRelease(rel):
		return true // a copy in a region's store, no source
	case has("snapshots") && strings.HasPrefix(filepath.Base(w.abs(rel)), "models--"):
		w.hubCache(rel)
		return true
	case has("adapter_config.json"):
		w.adapter(rel)
		return true
	}
	return w.model(rel, names)
}

func (w *walker) isRelease(rel string) bool {
	f, err := os.Open(w.abs(join(rel, "manifest.json")))
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := f.Read(head)
	return strings.Contains(string(head[:n]), `"drkit.manifest/`)
}

// read returns a regular file of moderate size.
func (w *walker) read(rel string) ([]byte, bool) {
	info, err := os.Stat(w.abs(rel))
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRead {
		return nil, false
	}
	data, err := os.ReadFile(w.abs(rel))
	return data, err == nil
}

func join(rel, name string) string {
	if rel == "." {
		return name
	}
	return rel + "/" + name
}

// reason is an error without its path, which is told beside it.
func reason(err error) error {
	if p, ok := err.(*fs.PathError); ok {
		return p.Err
	}
	return err
}

func (f *Found) sort() {
	slices.SortFunc(f.Models, func(a, b Model) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(f.Adapters, func(a, b Adapter) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(f.Engines, func(a, b EngineConfig) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(f.Deploy, func(a, b DeployFile) int { return strings.Compare(a.Path, b.Path) })
	slices.SortStableFunc(f.Notes, func(a, b Note) int { return strings.Compare(a.Path, b.Path) })
}
