package discover

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"drkit/internal/safetensors"
)

// Adapter is a LoRA adapter.
type Adapter struct {
	Path string `json:"path"`
	Name string `json:"name"`
	Rank int    `json:"rank"`
	Base string `json:"base"` // base_model_name_or_path, as it states it
}

func (w *walker) adapter(rel string) {
	data, _ := w.read(join(rel, "adapter_config.json"))
	var c struct {
		R    int
		Base string `json:"base_model_name_or_path"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		w.note(rel, "adapter_config.json is not readable JSON: %v", err)
		return
	}
	name := folderName(w.abs(rel))
	if hub, _ := w.pin(rel); hub != "" {
		name = path.Base(hub)
	}
	w.found.Adapters = append(w.found.Adapters, Adapter{Path: rel, Name: name, Rank: c.R, Base: c.Base})
}

// Fit says whether an adapter was made for a model.
type Fit struct {
	Fits string `json:"fits"` // yes, no, unknown
	Why  string `json:"why"`
}

// fit compares the modules that an adapter changes with those of the model, by
// the headers of their weights; where these do not say it, by names.
func (f *Found) fit(a Adapter, m *Model) Fit {
	if m == nil {
		return Fit{"unknown", "the model's files are not here to compare it with"}
	}
	base, wanted := f.shapes(m.Path), f.shapes(a.Path)
	named := a.Base != "" && (m.isCalled(a.Base) || m.NamedAs != "" && strings.EqualFold(a.Base, m.NamedAs))
	modules := loraModules(wanted)
	there, wrong := 0, ""
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		shape, ok := base[name+".weight"]
		if !ok {
			continue
		}
		there++
		if got := modules[name]; len(shape) == 2 && (got[0] > 0 && got[0] != shape[0] || got[1] > 0 && got[1] != shape[1]) {
			wrong = fmt.Sprintf("%s is %d × %d in the model, and %d × %d for the adapter", name, shape[0], shape[1], got[0], got[1])
		}
	}
	switch {
	case wrong != "":
		return Fit{"no", wrong}
	case len(modules) > 0 && there == len(modules):
		return Fit{"yes", fmt.Sprintf("all %d modules that it changes are in the model, in the same shapes", there)}
	case there > 0:
		return Fit{"no", fmt.Sprintf("%d of the %d modules that it changes are not in the model", len(modules)-there, len(modules))}
	case named:
		return Fit{"yes", fmt.Sprintf("it names %s as its base; the weights' headers do not show it", a.Base)}
	}
	return Fit{"unknown", fmt.Sprintf("it names %q as its base, and its modules do not have the names of the model's", a.Base)}
}

// shapes are the shapes of all tensors in a folder's safetensors files, as far as
// their headers can be read.
func (f *Found) shapes(rel string) map[string][]int64 {
	all := map[string][]int64{}
	files, _ := filepath.Glob(filepath.Join(escape(f.Folder), escape(filepath.FromSlash(rel)), "*.safetensors"))
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
			continue
		}
		h, err := safetensors.ReadFile(file)
		if err != nil {
			continue // drkit manifest check says what is wrong with it
		}
		for _, t := range h.Tensors {
			all[t.Name] = t.Shape
		}
	}
	return all
}

// escape keeps a path from being read as a pattern.
func escape(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

// loraModules are the modules that an adapter's tensors belong to, each with the
// rows and columns that its base must have; 0 where the tensors do not say.
func loraModules(tensors map[string][]int64) map[string][2]int64 {
	out := map[string][2]int64{}
	for name, shape := range tensors {
		name = strings.TrimPrefix(name, "base_model.model.")
		if len(shape) != 2 {
			continue
		}
		if module, ok := strings.CutSuffix(name, ".lora_A.weight"); ok {
			out[module] = [2]int64{out[module][0], shape[1]}
		} else if module, ok := strings.CutSuffix(name, ".lora_B.weight"); ok {
			out[module] = [2]int64{shape[0], out[module][1]}
		}
	}
	return out
}
