package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"drkit/manifest"
)

func unlistedAdapter(v *view) (out []manifest.Finding) {
	seen := map[string]bool{}
	for _, e := range v.m.Annotations.Engine {
		modules, _ := e.Options["lora_modules"].([]any)
		for _, m := range modules {
			module, _ := m.(map[string]any)
			name, _ := module["name"].(string)
			if from, _ := module["path"].(string); name != "" && !seen[name] && looksUp(from) {
				seen[name] = true
				f := v.at("lora_modules")
				f.Message = fmt.Sprintf("the adapter %s is given by the relative path %s: the engine looks below its working directory and then takes it for a hub id", name, from)
				f.Seen = fmt.Sprintf("Loading lora %s failed: No adapter found for %s", name, from)
				f.Hint = "give the absolute path of the adapter in its region"
				out = append(out, f)
				continue
			}
			if name == "" || seen[name] || slices.ContainsFunc(v.adapters, func(a *adapter) bool { return a.facts.Name == name }) {
				continue
			}
			if from, _ := module["path"].(string); v.adapterAt(from) {
				continue // under another name
			}
			seen[name] = true
			f := v.at("lora_modules")
			f.Message = fmt.Sprintf("the engine serves the adapter %s from %v, which is no part of the release", name, module["path"])
			f.Seen = fmt.Sprintf("Loading lora %s failed: No adapter found for …", name)
			f.Hint = "list it under model.adapters in drkit.yaml, with the folder it comes from"
			out = append(out, f)
		}
	}
	return out
}

// looksUp reports whether the engine would look a path up in its working
// directory or on a hub.
func looksUp(from string) bool {
	return from != "" && !strings.HasPrefix(from, "/") && !strings.HasPrefix(from, "~") && !strings.Contains(from, "://")
}

// adapterAt reports whether a path ends in the name of an adapter of the release.
func (v *view) adapterAt(from string) bool {
	return from != "" && slices.ContainsFunc(v.adapters, func(a *adapter) bool { return a.facts.Name == path.Base(path.Clean(from)) })
}

func otherBase(v *view) (out []manifest.Finding) {
	resolver := v.env("VLLM_LORA_RESOLVER_CACHE_DIR") != ""
	for _, a := range v.adapters {
		for _, e := range v.m.Annotations.Engine {
			if a.facts.Base == "" || e.Model == "" || e.Model == defaultModel || path.Base(path.Clean(a.facts.Base)) == path.Base(path.Clean(e.Model)) {
				continue
			}
			f := manifest.Finding{Path: a.path("adapter_config.json"), Field: "base_model_name_or_path",
				Message: fmt.Sprintf("adapter %s was trained on %s, the engine serves %s", a.facts.Name, a.facts.Base, e.Model)}
			if resolver {
				f.Severity = manifest.Request
				f.Message += ": the engine that looks for adapters by their base does not find it"
				f.Hint = "name the base as the engine's model is named"
			}
			out = append(out, f)
			break
		}
	}
	return out
}

// adapterNotServed judges engines whose command line is known whole. Resources
// that load adapters by themselves name them elsewhere in a deploy file.
func adapterNotServed(v *view) (out []manifest.Finding) {
	for _, e := range v.m.Annotations.Engine {
		enabled, _ := e.Options["enable_lora"].(bool)
		if modules, _ := e.Options["lora_modules"].([]any); e.Kind == "vllm" && len(modules) > 0 && !enabled {
			f := v.adapterPlace(e)
			f.Severity, f.Field, f.Hint = manifest.Block, "enable_lora", "give --enable-lora"
			f.Message, f.Seen = "the engine is told --lora-modules without --enable-lora", "LoRA is not enabled. Use --enable-lora to enable LoRA."
			out = append(out, f)
		}
	}
	for _, region := range v.engineRegions() {
		e, lost := v.lostAdapters(region)
		if len(lost) == 0 {
			continue
		}
		f := v.adapterPlace(e)
		f.Message = fmt.Sprintf("the release holds %s, which the engine is not told to serve: requests for it answer 404", adapterNames(lost))
		f.Seen = fmt.Sprintf("The model `%s` does not exist.", lost[0])
		if !slices.Contains(out, f) { // regions that share a configuration share its fault
			out = append(out, f)
		}
	}
	return out
}

// unserved lists the adapters that no module means, by name or path.
func (v *view) unserved(modules []any) (lost []string) {
	for _, a := range v.adapters {
		served := slices.Contains(v.m.Annotations.Named, a.facts.Name) || slices.ContainsFunc(modules, func(m any) bool {
			module, _ := m.(map[string]any)
			from, _ := module["path"].(string)
			return module["name"] == a.facts.Name || path.Base(path.Clean(from)) == a.facts.Name
		})
		if !served {
			lost = append(lost, a.facts.Name)
		}
	}
	return lost
}

func adapterNames(names []string) string {
	if len(names) == 1 {
		return "the adapter " + names[0]
	}
	return "the adapters " + strings.Join(names, ", ")
}

func adapterTokenizer(v *view) (out []manifest.Finding) {
	for _, a := range v.adapters {
		for _, name := range a.facts.Tokenizer {
			if name != "tokenizer.json" && name != "added_tokens.json" {
				continue
			}
			own, ok := v.base.files[name]
			if ok && own.Sums["sha256"] == a.files[name].Sums["sha256"] {
				continue
			}
			out = append(out, manifest.Finding{Path: a.path(name),
				Message: fmt.Sprintf("adapter %s brings a %s that differs from the base model's; the engine reads the base model's only", a.facts.Name, name),
				Hint:    "when the adapter was trained with tokens of its own, merge it into its base"})
			break
		}
	}
	return out
}
