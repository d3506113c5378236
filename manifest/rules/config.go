package rules

import (
	"fmt"
	"maps"
	"path"
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
	{"C-17", manifest.Block, "a value of config.json is none that the engine takes",
		"Each field of config.json has the kind of value that its model type needs, and the numbers make a model.", misfitting},
	{"C-18", manifest.Request, "a sampling default makes every request fail",
		"The sampling defaults of generation_config.json are within the engine's bounds.", badDefaults},
	{"C-11", manifest.Silent, "an end token is lost",
		"The tokens that end a message in the chat template are end tokens of the model.", endTokens},
}

func noConfig(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		if v.option("config_format") == "mistral" && !r.draft && !r.present("params.json") {
			f := v.at("config_format")
			f.Message, f.Seen = "the engine is told --config-format mistral, and params.json is not there", "Failed to load mistral 'params.json' config for model …"
			f.Hint = "copy params.json from the model's origin, or remove the flag"
			out = append(out, f)
			continue
		}
		if r.present("config.json") || r.ggufOnly() || (r.present("params.json") && r.consolidated() != "") {
			continue
		}
		name := "config.json"
		if r.consolidated() != "" {
			name = "params.json"
		}
		out = append(out, manifest.Finding{Path: r.path(name),
			Message: fmt.Sprintf("%s is missing from a repository of %d files", name, len(r.files)),
			Seen:    "Invalid repository ID or local directory specified",
			Hint:    "copy " + name + " from the model's origin"})
	}
	return out
}

// ggufOnly reports whether the weights are GGUF files and no others.
func (r *repo) ggufOnly() bool {
	return r.format == "" && slices.ContainsFunc(r.names(), func(n string) bool { return strings.HasSuffix(n, ".gguf") })
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
			seen := damagedStops[name]
			if ok, _ := path.Match("sentence_*_config.json", name); ok || r.sentenceModule(name) {
				seen = "json.decoder.JSONDecodeError"
			}
			f := manifest.Finding{Path: p.Path, Line: p.Line, Message: fmt.Sprintf("%s cannot be read: %s", name, p.What), Seen: seen,
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

func endTokens(v *view) []manifest.Finding {
	facts := v.base.facts
	c, t := facts.Config, facts.Template
	if c == nil || !generative(c) {
		return nil
	}
	if name := v.option("generation_config"); name != "" && name != "auto" && name != "vllm" && !v.holdsGeneration(name) {
		f := v.at("generation_config")
		f.Message = fmt.Sprintf("the engine takes its end tokens and sampling defaults from %s, which is in no part of the release: where it is missing the engine goes on without", name)
		f.Hint = "put generation_config.json into the model's folder, and remove the flag"
		return []manifest.Finding{f}
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

// holdsGeneration reports whether a folder that the engine is given holds
// generation_config.json in the release.
func (v *view) holdsGeneration(folder string) bool {
	for _, e := range v.m.Annotations.Engine {
		if e.Model != "" && path.Clean(folder) == path.Clean(e.Model) {
			return v.base.present("generation_config.json")
		}
	}
	return v.inRelease(path.Join(folder, "generation_config.json"))
}

// badDefaults finds sampling defaults that the engine takes from the model and then
// refuses in each request that does not state its own.
func badDefaults(v *view) []manifest.Finding {
	g := v.base.facts.Generation
	if name := v.option("generation_config"); g == nil || len(g.Misfits) == 0 || name != "" && name != "auto" {
		return nil
	}
	m := g.Misfits[0]
	return []manifest.Finding{{Path: v.base.path("generation_config.json"), Field: m.Field, Message: m.What, Seen: m.Seen, Hint: "copy generation_config.json again from the model's origin, or start the engine with --generation-config vllm"}}
}
