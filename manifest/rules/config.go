package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"drkit/manifest"
	"drkit/manifest/model"
)

var configRules = []Rule{
	{"C-1", manifest.Block, "config.json is missing",
		"A model repository holds config.json.", noConfig},
	{"C-2", manifest.Block, "a configuration file is not valid JSON",
		"config.json, generation_config.json and the other JSON files that the engine reads are UTF-8 JSON objects.", invalidJSON},
	{"C-3", manifest.Block, "config.json names no model type",
		"config.json has a model_type.", noModelType},
	{"C-4", manifest.Block, "code that config.json names is missing",
		"With trust-remote-code, the files and repositories that auto_map names are part of the release.", missingCode},
	{"C-8", manifest.Block, "the position scaling contradicts itself",
		"type and rope_type agree.", ropeConflict},
	{"C-9", manifest.Block, "the engine asks for a longer context than the model has",
		"max-model-len is at most the length that config.json gives.", contextTooLong},
	{"C-13", manifest.Silent, "a module of an embedding model is missing",
		"Each pooling and dense module that modules.json names has its folder.", missingModule},
	{"C-11", manifest.Silent, "an end token is lost",
		"The tokens that end a message in the chat template are end tokens of the model.", endTokens},
}

func noConfig(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		if r.present("config.json") || r.ggufOnly() || (r.present("params.json") && r.consolidated() != "") {
			continue
		}
		out = append(out, manifest.Finding{Path: r.path("config.json"),
			Message: fmt.Sprintf("config.json is missing from a repository of %d files", len(r.files)),
			Seen:    "Invalid repository ID or local directory specified",
			Hint:    "copy config.json from the model's origin"})
	}
	return out
}

func (r *repo) ggufOnly() bool {
	return slices.ContainsFunc(r.names(), func(n string) bool { return strings.HasSuffix(n, ".gguf") })
}

// damagedStops are the JSON files whose damage stops the engine, with what it
// then prints. Those of the base model's tokenizer are T-1's.
var damagedStops = map[string]string{
	"config.json":                    "It looks like the config file at '…/config.json' is not a valid JSON file.",
	"generation_config.json":         "It looks like the config file at '…/generation_config.json' is not a valid JSON file.",
	"processor_config.json":          "json.decoder.JSONDecodeError",
	"preprocessor_config.json":       "json.decoder.JSONDecodeError",
	"video_preprocessor_config.json": "json.decoder.JSONDecodeError",
	"modules.json":                   "json.decoder.JSONDecodeError",
}

func invalidJSON(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		for _, name := range slices.Sorted(maps.Keys(r.problems)) {
			p, ok := r.problem(name, model.KindInvalidJSON)
			if !ok || !r.draft && slices.Contains(tokenizerJSON, name) {
				continue
			}
			f := manifest.Finding{Path: p.Path, Line: p.Line, Message: fmt.Sprintf("%s cannot be read: %s", name, p.What), Seen: damagedStops[name],
				Hint: "copy the file again from the model's origin; a copy that broke off leaves half a file"}
			if f.Seen == "" && !r.decidesQuantization(name) {
				f.Severity = manifest.Degraded // the engine may never read it
			}
			out = append(out, f)
		}
	}
	return out
}

// decidesQuantization reports whether the only word on quantization is in a
// side file.
func (r *repo) decidesQuantization(name string) bool {
	q := r.facts.Quantization
	return model.Role(name) == "quantization" && (q == nil || q.Source != "config.json")
}

func noModelType(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		c := r.facts.Config
		if c == nil || c.ModelType != "" || v.option("config_format") == "mistral" || r.present("params.json") && r.consolidated() != "" {
			continue
		}
		if _, overridden := v.optionValue("hf_overrides"); overridden || len(c.AutoMap) > 0 {
			continue
		}
		out = append(out, manifest.Finding{Path: r.path("config.json"), Field: "model_type",
			Message: "config.json has no model_type", Seen: "Unrecognized model in …. Should have a `model_type` key in its config.json.",
			Hint: "copy config.json again from the model's origin"})
	}
	return out
}

// missingCode looks for the code that makes the configuration. Without
// trust-remote-code the engine does not load it; model code it needs only for
// architectures that it does not have, which the manifest cannot tell.
func missingCode(v *view) []manifest.Finding {
	c := v.base.facts.Config
	if c == nil || !v.truth("trust_remote_code") || c.AutoMap["AutoConfig"] == "" {
		return nil
	}
	class := c.AutoMap["AutoConfig"]
	if repository, _, foreign := strings.Cut(class, "--"); foreign {
		return []manifest.Finding{{Path: v.base.path("config.json"), Field: "auto_map.AutoConfig",
			Message: fmt.Sprintf("auto_map takes code from the repository %s, which is no part of the release: offline the engine does not boot", repository),
			Seen:    "We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.",
			Hint:    "copy the code beside config.json and name it in auto_map without the repository"}}
	}
	module, _, _ := strings.Cut(class, ".")
	file, by := v.base.missingImport(module+".py", "auto_map in config.json", map[string]bool{})
	if file == "" {
		return nil
	}
	return []manifest.Finding{{Path: v.base.path(file), Message: fmt.Sprintf("%s names %s, which is missing", by, file),
		Seen: "… does not appear to have a file named " + file, Hint: "copy the Python files from the model's origin"}}
}

// missingImport follows a Python file's imports beside it to the first file that
// is missing, and says which file names that one.
func (r *repo) missingImport(file, by string, seen map[string]bool) (missing, namedBy string) {
	if !r.present(file) {
		return file, by
	}
	seen[file] = true
	for _, code := range r.facts.Code {
		if code.Path != file {
			continue
		}
		for _, next := range code.Imports {
			if seen[next] {
				continue
			}
			if missing, namedBy = r.missingImport(next, file, seen); missing != "" {
				return missing, namedBy
			}
		}
	}
	return "", ""
}

func missingModule(v *view) (out []manifest.Finding) {
	c := v.base.facts.Config
	if c == nil {
		return nil
	}
	for _, m := range c.Modules {
		kind := m.Type[strings.LastIndexByte(m.Type, '.')+1:]
		file := strings.TrimSuffix(m.Path, "/") + "/config.json"
		if m.Path == "" || (kind != "Pooling" && kind != "Dense") || v.base.present(file) {
			continue
		}
		out = append(out, manifest.Finding{Path: v.base.path(file),
			Message: fmt.Sprintf("modules.json names the %s module %s, whose config.json is missing: the engine falls back to another pooling and gives other vectors", kind, m.Path),
			Hint:    "copy the whole folder " + m.Path + " from the model's origin"})
	}
	return out
}

// contextTooLong compares max-model-len with what vLLM 0.32 derives. Only the
// scalings whose effect was measured are judged: yarn counts as already scaled.
func contextTooLong(v *view) []manifest.Finding {
	c := v.base.facts.Config
	if c == nil || c.MaxPosition == 0 || c.Nested {
		return nil
	}
	asked, ok := v.integer("max_model_len")
	derived, known := derivedLength(c)
	if !ok || !known || asked <= derived {
		return nil
	}
	return []manifest.Finding{{Path: v.base.path("config.json"), Field: "max_position_embeddings",
		Message: fmt.Sprintf("the engine asks for max-model-len %d, the model gives %d", asked, derived),
		Seen:    fmt.Sprintf("User-specified max_model_len (%d) is greater than the derived max_model_len (max_position_embeddings=%d …", asked, derived),
		Hint:    "lower max-model-len, or restore the rope block and max_position_embeddings of the model's origin"}}
}

func endTokens(v *view) []manifest.Finding {
	facts := v.base.facts
	c, t := facts.Config, facts.Template
	if c == nil || !generative(c) {
		return nil
	}
	ends, stated := c.EOS, false
	if g := facts.Generation; g != nil && len(g.EOS) > 0 {
		ends, stated = g.EOS, true
	}
	// The engine always stops at the tokenizer's own end token too.
	stops := func(k model.Token) bool { return slices.Contains(ends, k.ID) || k.Text == facts.Tokenizer.EOS }
	if len(t.Ends) > 0 && !t.UsesEOS && !slices.ContainsFunc(t.Ends, stops) && !v.base.broken("generation_config.json") {
		f := manifest.Finding{Path: v.base.path("generation_config.json"), Field: "eos_token_id",
			Message: fmt.Sprintf("the chat template ends messages with %s (id %d), but the end tokens are %v", t.Ends[0].Text, t.Ends[0].ID, ends),
			Hint:    "restore generation_config.json with its whole eos_token_id list; without it answers run on until max_tokens"}
		if stated { // as base models do, whose template is for their chat siblings
			f.Severity = manifest.Degraded
		}
		return []manifest.Finding{f}
	}
	if facts.Generation == nil && !v.base.present("generation_config.json") {
		return []manifest.Finding{{Severity: manifest.Degraded, Path: v.base.path("generation_config.json"),
			Message: fmt.Sprintf("generation_config.json is missing: the engine takes the end token %v and its own sampling defaults", ends),
			Hint:    "if the model's origin has the file, copy it: it may hold further end tokens, without which answers run on"}}
	}
	return nil
}

// generative reports whether the model answers with text.
func generative(c *model.Config) bool {
	return slices.ContainsFunc(c.Architectures, func(a string) bool {
		return strings.HasSuffix(a, "ForCausalLM") || strings.HasSuffix(a, "ForConditionalGeneration") || strings.HasSuffix(a, "LMHeadModel")
	})
}
