package rules

import (
	"fmt"
	"slices"
	"strings"

	"drkit/manifest"
	"drkit/manifest/model"
)

var sentenceRules = []Rule{
	{"C-12", manifest.Degraded, "the sparse attention's configuration is missing",
		"A model with dual chunk attention has sparse_attention_config.json.", noSparseConfig},
	{"C-13", manifest.Silent, "a module of an embedding model is missing",
		"modules.json is there where its folders are, and each pooling and dense module that it names has its files.", missingModule},
	{"C-14", manifest.Block, "the extra layers of an embedding model are missing",
		"A BGE-M3 model served with all its outputs has sparse_linear.pt and colbert_linear.pt.", noExtraLayers},
}

func noSparseConfig(v *view) []manifest.Finding {
	c := v.base.facts.Config
	if c == nil || !c.DualChunk || v.base.present("sparse_attention_config.json") {
		return nil
	}
	return []manifest.Finding{{Path: v.base.path("sparse_attention_config.json"),
		Message: "config.json has dual_chunk_attention_config, and sparse_attention_config.json is missing: long prompts are computed without sparse attention",
		Hint:    "copy the file from the model's origin"}}
}

func missingModule(v *view) (out []manifest.Finding) {
	r := v.base
	c := r.facts.Config
	if c == nil {
		return nil
	}
	if folder := r.moduleFolder(); folder != "" && !r.present("modules.json") {
		return []manifest.Finding{{Path: r.path("modules.json"),
			Message: fmt.Sprintf("%s is there, and modules.json, which says what it is for, is missing: the engine falls back to another pooling and gives other vectors", folder),
			Hint:    "copy modules.json from the model's origin"}}
	}
	if f, lost := r.noPooling(); lost {
		out = append(out, f)
	}
	for _, m := range c.Modules {
		for _, file := range r.moduleLacks(m) {
			out = append(out, manifest.Finding{Path: r.path(file),
				Message: fmt.Sprintf("modules.json names the module %s, whose %s is missing: the engine goes on without it and gives other vectors", m.Path, strings.TrimPrefix(file, m.Path+"/")),
				Hint:    "copy the whole folder " + m.Path + " from the model's origin"})
		}
	}
	return out
}

// noPooling finds a pooling that is configured and not used, or that chooses nothing.
func (r *repo) noPooling() (f manifest.Finding, lost bool) {
	c, folder := r.facts.Config, r.moduleFolder()
	pools := slices.ContainsFunc(c.Modules, func(m model.Module) bool { return strings.HasSuffix(m.Type, "Pooling") })
	switch {
	case folder != "" && strings.Contains(folder, "_Pooling/") && !pools && !r.broken("modules.json"):
		return manifest.Finding{Path: r.path("modules.json"), Message: fmt.Sprintf("%s is there, and modules.json lists no pooling: the engine falls back to another one and gives other vectors", folder),
			Hint: "copy modules.json again from the model's origin"}, true
	case pools && c.NoPooling != "":
		return manifest.Finding{Path: r.path(c.NoPooling), Field: "pooling_mode_mean_tokens", Message: c.NoPooling + " chooses no kind of pooling: the engine falls back to another one and gives other vectors",
			Hint: "copy the file again from the model's origin"}, true
	}
	return f, false
}

// moduleFolder is a configuration of a pooling or dense module, "" when there is none.
func (r *repo) moduleFolder() string {
	var found []string
	for p := range r.files {
		folder, file, ok := strings.Cut(p, "/")
		if ok && file == "config.json" && len(folder) > 2 && folder[0] >= '0' && folder[0] <= '9' && (strings.HasSuffix(folder, "_Pooling") || strings.HasSuffix(folder, "_Dense")) {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}

// moduleLacks lists the files that a module needs and does not have.
func (r *repo) moduleLacks(m model.Module) (lost []string) {
	kind := m.Type[strings.LastIndexByte(m.Type, '.')+1:]
	folder := strings.TrimSuffix(m.Path, "/")
	if folder == "" || kind != "Pooling" && kind != "Dense" {
		return nil
	}
	if !r.present(folder + "/config.json") {
		lost = append(lost, folder+"/config.json")
	}
	if kind == "Dense" && !r.present(folder+"/model.safetensors") && !r.present(folder+"/pytorch_model.bin") {
		lost = append(lost, folder+"/model.safetensors")
	}
	return lost
}

func noExtraLayers(v *view) (out []manifest.Finding) {
	c := v.base.facts.Config
	wanted, _ := v.object("hf_overrides")["architectures"].([]any)
	if c == nil || !slices.Contains(c.Architectures, "BgeM3EmbeddingModel") && !slices.Contains(wanted, any("BgeM3EmbeddingModel")) {
		return nil
	}
	for _, name := range []string{"sparse_linear.pt", "colbert_linear.pt"} {
		if !v.base.present(name) {
			out = append(out, manifest.Finding{Path: v.base.path(name), Message: "the architecture BgeM3EmbeddingModel loads " + name + ", which is missing",
				Seen: "Cannot find any model weights with `…`", Hint: "copy the file from the model's origin"})
		}
	}
	return out
}
