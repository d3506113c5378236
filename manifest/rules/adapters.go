package rules

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"drkit/manifest"
)

var adapterRules = []Rule{
	{"L-1", manifest.Block, "an adapter's configuration is missing or incomplete",
		"Each adapter has adapter_config.json with r, lora_alpha and target_modules.", adapterConfig},
	{"L-2", manifest.Block, "an adapter's tensors are missing",
		"Each adapter has adapter_model.safetensors with both halves of every module.", adapterTensors},
	{"L-3", manifest.Block, "an adapter's rank does not fit",
		"An adapter's rank is at most max-lora-rank, and that of its tensors.", adapterRank},
	{"L-4", manifest.Block, "an adapter uses what the engine does not support",
		"An adapter has no modules_to_save, no DoRA and no bias.", adapterUnsupported},
	{"L-7", manifest.Block, "the engine serves an adapter that is not in the release",
		"Every adapter of --lora-modules is listed under adapters in drkit.yaml.", unlistedAdapter},
	{"D-1", manifest.Block, "the engine needs a draft model that is not in the release",
		"A model that the speculative configuration names is listed under drafts in drkit.yaml.", unlistedDraft},
	{"L-6", manifest.Silent, "an adapter fits no module of the base model",
		"An adapter's tensors name modules of the base model.", adapterMisses},
}

func adapterConfig(v *view) (out []manifest.Finding) {
	for _, a := range v.adapters {
		const name = "adapter_config.json"
		f := manifest.Finding{Path: a.path(name), Hint: "copy the adapter again from its origin"}
		switch p, invalid := a.problem(name, "json-invalid"); {
		case invalid:
			f.Line, f.Message, f.Seen = p.Line, name+" cannot be read: "+p.What, "json.decoder.JSONDecodeError"
		case !a.present(name):
			f.Message, f.Seen = fmt.Sprintf("adapter %s has no %s", a.facts.Name, name), fmt.Sprintf("Loading lora %s failed: No adapter found for …", a.facts.Name)
		case len(a.facts.Missing) > 0:
			f.Message = fmt.Sprintf("adapter %s lacks %s", a.facts.Name, strings.Join(a.facts.Missing, ", "))
			f.Seen = fmt.Sprintf("Missing required configuration fields: {'%s'}", strings.Join(a.facts.Missing, "', '"))
		default:
			continue
		}
		out = append(out, f)
	}
	return out
}

func adapterTensors(v *view) (out []manifest.Finding) {
	for _, a := range v.adapters {
		f := manifest.Finding{Path: a.path("adapter_model.safetensors"), Hint: "copy the adapter again from its origin"}
		half := a.half()
		switch {
		case a.facts.Weights == "" && !a.present("adapter_model.safetensors"):
			f.Message = fmt.Sprintf("adapter %s has no tensors: neither adapter_model.safetensors, .bin nor .pt is there", a.facts.Name)
			f.Seen = "… doesn't contain tensors"
		case half != "":
			f.Field, f.Message = half, fmt.Sprintf("adapter %s lacks %s, the other half of a module", a.facts.Name, half)
			f.Seen = "TypeError: unsupported operand type(s) for *=: 'NoneType' and 'float'"
		default:
			continue
		}
		out = append(out, f)
	}
	return out
}

// half is a lora_A or lora_B tensor whose other half is there and itself not.
func (a *adapter) half() string {
	var lost []string
	for name := range a.facts.Tensors {
		for _, pair := range [][2]string{{".lora_A.", ".lora_B."}, {".lora_B.", ".lora_A."}} {
			if other := strings.Replace(name, pair[0], pair[1], 1); other != name {
				if _, ok := a.facts.Tensors[other]; !ok {
					lost = append(lost, other)
				}
			}
		}
	}
	if len(lost) == 0 {
		return ""
	}
	return slices.Min(lost)
}

// defaultMaxRank is vLLM's max-lora-rank when nothing sets it.
const defaultMaxRank = 16

func adapterRank(v *view) (out []manifest.Finding) {
	limit := defaultMaxRank
	if n, ok := v.integer("max_lora_rank"); ok {
		limit = n
	}
	for _, a := range v.adapters {
		f := manifest.Finding{Path: a.path("adapter_config.json"), Field: "r"}
		tensor, rank := a.otherRank()
		switch {
		case a.facts.Rank > limit:
			f.Message = fmt.Sprintf("adapter %s has rank %d, the engine takes at most %d", a.facts.Name, a.facts.Rank, limit)
			f.Seen = fmt.Sprintf("LoRA rank %d is greater than max_lora_rank %d.", a.facts.Rank, limit)
			f.Hint = "raise --max-lora-rank"
		case tensor != "":
			f.Severity = manifest.Silent
			f.Message = fmt.Sprintf("adapter_config.json says rank %d, %s has rank %d: the adapter is scaled wrongly", a.facts.Rank, tensor, rank)
			f.Hint = "config and tensors belong to different versions of the adapter: copy both from one"
		default:
			continue
		}
		out = append(out, f)
	}
	return out
}

// otherRank is the first tensor whose rank the config does not name.
func (a *adapter) otherRank() (string, int) {
	found, rank := "", 0
	for name, t := range a.facts.Tensors {
		if !strings.HasSuffix(name, ".lora_A.weight") || len(t.Shape) != 2 || a.facts.Rank == 0 {
			continue
		}
		n := int(t.Shape[0])
		if n != a.facts.Rank && !slices.Contains(a.facts.Ranks, n) && (found == "" || name < found) {
			found, rank = name, n
		}
	}
	return found, rank
}

func adapterUnsupported(v *view) (out []manifest.Finding) {
	for _, a := range v.adapters {
		f := manifest.Finding{Path: a.path("adapter_config.json"), Hint: "merge the adapter into its base, or train it again without"}
		switch {
		case len(a.facts.ModulesToSave) > 0:
			f.Field, f.Seen = "modules_to_save", "vLLM only supports modules_to_save being either None or …"
		case a.facts.DoRA:
			f.Field, f.Seen = "use_dora", "vLLM does not yet support DoRA."
		case a.facts.Bias != "" && a.facts.Bias != "none":
			f.Field, f.Seen = "bias", "Adapter bias is not supported."
		default:
			continue
		}
		f.Message = fmt.Sprintf("adapter %s uses %s, which vLLM does not support", a.facts.Name, f.Field)
		out = append(out, f)
	}
	return out
}

// fromLayer is a module's name from its first number's parent on, so that
// prefixes that differ between adapter and base do not matter.
var fromLayer = regexp.MustCompile(`[A-Za-z_]+\.\d+\..*$`)

func moduleKey(module string) string {
	return cmp.Or(fromLayer.FindString(module), module)
}

func adapterMisses(v *view) (out []manifest.Finding) {
	r := v.base
	if !v.findable(r) {
		return nil
	}
	base := map[string]bool{}
	for name := range r.tensors {
		module, _ := split(name)
		base[moduleKey(module)] = true
	}
	for _, a := range v.adapters {
		modules := map[string]bool{}
		for name := range a.facts.Tensors {
			if module, _, ok := strings.Cut(name, ".lora_"); ok {
				modules[moduleKey(module)] = true
			}
		}
		hit := false
		example := ""
		for m := range modules {
			hit = hit || base[m]
			if example == "" || m < example {
				example = m
			}
		}
		if len(modules) > 0 && !hit {
			out = append(out, manifest.Finding{Path: a.path(a.facts.Weights), Field: example,
				Message: fmt.Sprintf("none of the %d modules of adapter %s is in the base model (%s is not): the engine serves the base model's answers under the adapter's name", len(modules), a.facts.Name, example),
				Hint:    "the adapter was trained on another model, or its tensors were renamed"})
		}
	}
	return out
}

func unlistedAdapter(v *view) (out []manifest.Finding) {
	seen := map[string]bool{}
	for _, e := range v.m.Annotations.Engine {
		modules, _ := e.Options["lora_modules"].([]any)
		for _, m := range modules {
			module, _ := m.(map[string]any)
			name, _ := module["name"].(string)
			if name == "" || seen[name] || slices.ContainsFunc(v.adapters, func(a *adapter) bool { return a.facts.Name == name }) {
				continue
			}
			seen[name] = true
			out = append(out, manifest.Finding{Part: string(manifest.Engine), Path: manifest.EngineOptionsPath, Field: "lora_modules",
				Message: fmt.Sprintf("the engine serves the adapter %s from %v, which is no part of the release", name, module["path"]),
				Seen:    fmt.Sprintf("Loading lora %s failed: No adapter found for …", name),
				Hint:    "list it under model.adapters in drkit.yaml, with the folder it comes from"})
		}
	}
	return out
}

func unlistedDraft(v *view) (out []manifest.Finding) {
	for _, e := range v.m.Annotations.Engine {
		config, _ := e.Options["speculative_config"].(map[string]any)
		name, _ := config["model"].(string)
		if name == "" || name == "ngram" || name == "[ngram]" || name == e.Model || len(v.m.Annotations.Drafts) > 0 || len(out) > 0 {
			continue
		}
		out = append(out, manifest.Finding{Part: string(manifest.Engine), Path: manifest.EngineOptionsPath, Field: "speculative_config.model",
			Message: fmt.Sprintf("speculative decoding needs the draft model %s, and the release holds none", name),
			Seen:    "Invalid repository ID or local directory specified",
			Hint:    "list it under model.drafts in drkit.yaml, with the folder it comes from"})
	}
	return out
}
