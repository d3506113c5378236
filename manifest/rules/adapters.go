package rules

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
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
	{"L-5", manifest.Info, "an adapter names another base model",
		"An adapter's base_model_name_or_path is the model that is served, where the engine finds adapters by it.", otherBase},
	{"L-8", manifest.Request, "an adapter of the release is not served",
		"Every adapter is loaded by --lora-modules with --enable-lora, or the engine may load it later.", adapterNotServed},
	{"L-9", manifest.Info, "an adapter's own tokenizer is not read",
		"Tokens that an adapter was trained with are those of the base model.", adapterTokenizer},
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
	} else if v.onlySGLang() {
		limit = math.MaxInt // it takes the greatest rank of its adapters
	}
	for _, a := range v.adapters {
		f := manifest.Finding{Path: a.path("adapter_config.json"), Field: "r"}
		tensor, rank := a.otherRank()
		switch {
		case a.facts.Config && !slices.Contains(a.facts.Missing, "r") && a.facts.Rank <= 0:
			f.Message = fmt.Sprintf("adapter %s has rank %d", a.facts.Name, a.facts.Rank)
			f.Seen = fmt.Sprintf("LoRA rank `r` must be a positive integer, got %d.", a.facts.Rank)
			f.Hint = "copy the adapter again from its origin"
		case a.maxRank() > limit:
			f.Message = fmt.Sprintf("adapter %s has rank %d, the engine takes at most %d", a.facts.Name, a.maxRank(), limit)
			f.Seen = fmt.Sprintf("LoRA rank %d is greater than max_lora_rank %d.", a.maxRank(), limit)
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

// maxRank is the greatest rank that the configuration names.
func (a *adapter) maxRank() int { return max(a.facts.Rank, slices.Max(append(a.facts.Ranks, 0))) }

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
		case slices.ContainsFunc(a.facts.ModulesToSave, func(m string) bool { return m != "classifier" && m != "score" }):
			f.Field, f.Seen = "modules_to_save", "vLLM only supports modules_to_save being either None or …"
		case len(a.facts.Unsupported) > 0:
			f.Field, f.Seen = a.facts.Unsupported[0], fmt.Sprintf("vLLM does not support %s", a.facts.Unsupported[0])
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
		modules := a.modules()
		inert := slices.DeleteFunc(slices.Clone(modules), func(m string) bool { return base[m] || fusedInto(m, base) })
		switch strange := strangeModule(inert, base); {
		case strange != "":
			out = append(out, manifest.Finding{Severity: manifest.Block, Path: a.path(a.facts.Weights), Field: strange,
				Message: fmt.Sprintf("adapter %s has tensors for %s, and the base model has no module of that name in any layer", a.facts.Name, strange),
				Seen:    fmt.Sprintf("While loading …, expected target modules in {…} but received ['%s'].", strange),
				Hint:    "the adapter was trained on another model, or its tensors were renamed"})
		case len(modules) > 0 && len(inert) == len(modules):
			out = append(out, manifest.Finding{Path: a.path(a.facts.Weights), Field: inert[0],
				Message: fmt.Sprintf("none of the %d modules of adapter %s is in the base model (%s is not): the engine serves the base model's answers under the adapter's name", len(modules), a.facts.Name, inert[0]),
				Hint:    "the adapter was trained on another model, or its tensors were renamed"})
		case len(modules) > 0:
			if lost := a.lostLayers(modules, base); len(lost) > 0 {
				out = append(out, manifest.Finding{Path: a.path(a.facts.Weights), Field: lost[0],
					Message: fmt.Sprintf("adapter %s changes this kind of module in other layers, and has nothing for %s: a part of it is lost", a.facts.Name, count(lost)),
					Hint:    "copy the adapter again from its origin"})
			}
		}
	}
	return out
}

// modules lists the modules that the adapter's tensors change, by key, sorted.
func (a *adapter) modules() (out []string) {
	set := map[string]bool{}
	for name := range a.facts.Tensors {
		if module, _, ok := strings.Cut(name, ".lora_"); ok {
			set[moduleKey(strings.TrimPrefix(module, "base_model.model."))] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// strangeModule is a module whose last name no module of the base has: the engine
// refuses such an adapter. One whose path alone is wrong it takes in silence.
func strangeModule(inert []string, base map[string]bool) string {
	names := map[string]bool{"lm_head": true, "embed_tokens": true}
	for m := range base {
		name := m[strings.LastIndexByte(m, '.')+1:]
		names[name] = true
		for part, joint := range fused {
			names[part] = names[part] || name == joint
		}
	}
	for _, m := range inert {
		if name := m[strings.LastIndexByte(m, '.')+1:]; !names[name] && !strings.Contains(m, "experts") {
			return m
		}
	}
	return ""
}

// fusedInto reports whether a module stands in the base under the name of a
// fused one, or is the part of an expert that the base stores in one.
func fusedInto(module string, base map[string]bool) bool {
	at := strings.LastIndexByte(module, '.') + 1
	return fused[module[at:]] != "" && base[module[:at]+fused[module[at:]]] || strings.Contains(module, ".experts")
}

// lostLayers lists the modules of the base that an adapter changes in most
// layers but not in these. PEFT writes every layer, unless the configuration
// says otherwise.
func (a *adapter) lostLayers(modules []string, base map[string]bool) (lost []string) {
	if a.facts.Partial {
		return nil
	}
	suffixes := map[string]bool{}
	for _, m := range modules {
		if k := layerName.FindStringSubmatch(m); k != nil {
			suffixes[k[2]+".#."+k[4]] = true
		}
	}
	have, want := 0, 0
	for module := range base {
		k := layerName.FindStringSubmatch(module)
		if k == nil || !suffixes[k[2]+".#."+k[4]] {
			continue
		}
		want++
		if slices.Contains(modules, module) {
			have++
		} else {
			lost = append(lost, module)
		}
	}
	if 2*have <= want {
		return nil // it was trained on some layers only
	}
	slices.Sort(lost)
	return lost
}

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
		if e.Kind != "vllm" {
			continue
		}
		enabled, _ := e.Options["enable_lora"].(bool)
		modules, _ := e.Options["lora_modules"].([]any)
		f := manifest.Finding{Part: string(manifest.Engine), Field: "lora_modules", Hint: "add NAME=PATH to --lora-modules in every region"}
		if f.Path, f.Line = v.place(e, "enable_lora"); e.Source != "" && e.Where["enable_lora"] == "" {
			f.Part = string(manifest.Deploy)
		}
		if len(modules) > 0 && !enabled {
			f.Severity, f.Field = manifest.Block, "enable_lora"
			f.Message, f.Seen = "the engine is told --lora-modules without --enable-lora", "LoRA is not enabled. Use --enable-lora to enable LoRA."
			f.Hint = "give --enable-lora"
			out = append(out, f)
			continue
		}
		lost := v.unserved(modules)
		if len(lost) == 0 || e.Env["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] != "" || e.Env["VLLM_LORA_RESOLVER_CACHE_DIR"] != "" || e.Env["VLLM_LORA_RESOLVER_HF_REPO_LIST"] != "" {
			continue
		}
		f.Message = fmt.Sprintf("the release holds %s, which the engine is not told to serve: requests for it answer 404", adapterNames(lost))
		f.Seen = fmt.Sprintf("The model `%s` does not exist.", lost[0])
		out = append(out, f)
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
