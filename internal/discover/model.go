package discover

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"drkit/internal/store/hf"
)

// configJSON is what is looked at in config.json.
type configJSON struct {
	Architectures []string `json:"architectures"`
	ModelType     string   `json:"model_type"`
	NameOrPath    string   `json:"_name_or_path"`
}

// weightEndings are those of files that hold weights.
var weightEndings = []string{".safetensors", ".bin", ".gguf", ".pt", ".pth"}

// model takes a folder that is a model repository: config.json that names a model,
// Mistral's params.json with consolidated weights, or GGUF files alone.
func (w *walker) model(rel string, names []fs.DirEntry) bool {
	m := Model{Path: rel, Name: folderName(w.abs(rel)), Architectures: []string{}}
	has, gguf := map[string]bool{}, 0
	for _, n := range names {
		has[n.Name()] = true
		if slices.Contains(weightEndings, path.Ext(n.Name())) {
			m.WeightFiles++
		}
		if path.Ext(n.Name()) == ".gguf" {
			gguf++
		}
	}
	config := w.config(rel)
	switch {
	case config != nil:
		m.Format, m.NamedAs = "huggingface", config.NameOrPath
		m.Architectures = append(m.Architectures, config.Architectures...)
	case has["params.json"] && (has["consolidated.safetensors"] || has["consolidated.safetensors.index.json"]):
		m.Format = "mistral"
	case gguf > 0 && !has["config.json"]:
		m.Format = "gguf"
	default:
		return false
	}
	if rel == "." && m.WeightFiles == 0 {
		return false // another tool's config.json at the top
	}
	m.Hub, m.Commit = w.pin(rel)
	if m.Hub != "" {
		m.Name = path.Base(m.Hub)
	}
	w.found.Models = append(w.found.Models, m)
	return true
}

// config reads config.json of a model; nil when it is none.
func (w *walker) config(rel string) *configJSON {
	data, ok := w.read(join(rel, "config.json"))
	var c configJSON
	if !ok || json.Unmarshal(data, &c) != nil || len(c.Architectures) == 0 && c.ModelType == "" {
		return nil
	}
	return &c
}

// pin is what a hub's cache or download says of a folder.
func (w *walker) pin(rel string) (repo, commit string) {
	cache, ok, err := hf.Local(w.abs(rel))
	if !ok || err != nil {
		return "", ""
	}
	repo, commit, err = cache.Pin(context.WithoutCancel(w.ctx))
	if err != nil {
		return "", ""
	}
	return repo, commit
}

// hubCache takes the snapshot of a hub's cache that its refs lead to.
func (w *walker) hubCache(rel string) {
	cache, ok, err := hf.Local(w.abs(rel))
	if err != nil || !ok {
		w.note(rel, "a hub's cache whose commit cannot be told: %v", err)
		return
	}
	at, err := filepath.Rel(w.found.Folder, cache.Location())
	if err == nil && strings.HasPrefix(at, "..") { // the folder was reached by a link
		var real string
		if real, err = filepath.EvalSymlinks(w.abs(rel)); err == nil {
			at, err = filepath.Rel(real, cache.Location())
			at = join(rel, filepath.ToSlash(at))
		}
	}
	if err != nil {
		w.note(rel, "a hub's cache whose snapshot cannot be found: %v", err)
		return
	}
	if err := w.folder(filepath.ToSlash(at), 0); err != nil {
		w.note(rel, "%v", err)
	}
}

func folderName(abs string) string {
	name := filepath.Base(abs)
	if filepath.Base(filepath.Dir(abs)) == "snapshots" {
		name = filepath.Base(filepath.Dir(filepath.Dir(abs)))
	}
	if i := strings.LastIndex(name, "--"); strings.HasPrefix(name, "models--") && i > 0 {
		name = name[i+2:]
	}
	return name
}

// draftWords are parts of the names of architectures that only draft.
var draftWords = []string{"eagle", "medusa", "mlpspeculator", "draft", "mtp", "specula"}

// drafts marks the models that draft for another one: by their architecture, or
// because an engine is started with them as one.
func (f *Found) drafts() {
	for i := range f.Models {
		m := &f.Models[i]
		for _, a := range m.Architectures {
			if slices.ContainsFunc(draftWords, func(w string) bool { return strings.Contains(strings.ToLower(a), w) }) {
				m.Draft, m.DraftBy = true, "its architecture is "+a
			}
		}
		for _, d := range f.Deploy {
			for _, name := range d.Drafts {
				if m.isCalled(name) {
					m.Draft, m.DraftBy = true, d.Path+" names it as the draft model"
				}
			}
		}
	}
}

// isCalled reports whether a path or hub id means this model.
func (m Model) isCalled(name string) bool {
	name = strings.TrimRight(name, "/")
	return name != "" && (strings.EqualFold(name, m.Hub) || strings.EqualFold(path.Base(name), m.Name))
}

// describe is a model in words.
func (m Model) describe() string {
	what := m.Format + " repository"
	if len(m.Architectures) > 0 {
		what = m.Architectures[0]
	}
	if m.Hub != "" {
		what += ", " + m.Hub
	}
	if m.WeightFiles == 1 {
		return what + ", 1 weight file"
	}
	return fmt.Sprintf("%s, %d weight files", what, m.WeightFiles)
}
