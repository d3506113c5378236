package rules

import (
	"cmp"
	"fmt"
	"math"
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
		case len(a.facts.Misfits) > 0:
			f.Field, f.Message, f.Seen = a.facts.Misfits[0].Field, fmt.Sprintf("adapter %s: %s", a.facts.Name, a.facts.Misfits[0].What), a.facts.Misfits[0].Seen
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
			if strings.Contains(half, ".lora_A.") { // measured: it is loaded, and what is left of it does something else
				f.Severity, f.Seen = manifest.Silent, ""
			}
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
	return slices.MaxFunc(lost, func(x, y string) int { // a lost lora_B is graver
		return cmp.Or(strings.Compare(suffixOf(x), suffixOf(y)), strings.Compare(y, x))
	})
}

// suffixOf is which half a tensor is: lora_A or lora_B.
func suffixOf(name string) string {
	_, end, _ := strings.Cut(name, ".lora_")
	return end
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
		case len(a.facts.Ranks) > 0 && a.facts.Ranks[0] <= 0:
			f.Field, f.Message = "rank_pattern", fmt.Sprintf("adapter %s gives a module a rank that is no whole number above zero", a.facts.Name)
			f.Seen = "LoRA rank for `…` in `rank_pattern` must be a positive integer, got …"
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
		if want, exact := a.rankOf(name); n != want && (exact || !slices.Contains(a.facts.Ranks, n)) && (found == "" || name < found) {
			found, rank = name, n
		}
	}
	return found, rank
}

// rankOf is the rank that the config gives a module, and whether that is certain:
// rank_pattern may hold expressions, and of two names for one module the first one
// in the file counts, whose order is not kept.
func (a *adapter) rankOf(tensor string) (rank int, exact bool) {
	module, _, _ := strings.Cut(tensor, ".lora_")
	rank, exact = a.facts.Rank, true
	named := false
	for name, r := range a.facts.Pattern {
		switch {
		case strings.ContainsAny(name, "^$*+?()[]{}|\\"):
			exact = false
		case module != name && !strings.HasSuffix(module, "."+name):
		case named && r != rank:
			exact = false
		default:
			rank, named = r, true
		}
	}
	return rank, exact
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

func (v *view) adapterPlace(e engineFacts) manifest.Finding {
	f := manifest.Finding{Part: string(manifest.Engine), Field: "lora_modules", Hint: "add NAME=PATH to --lora-modules in every region"}
	if f.Path, f.Line = v.place(e, "enable_lora"); e.Source != "" && e.Where["enable_lora"] == "" {
		f.Part = string(manifest.Deploy)
	}
	return f
}

// engineRegions are the regions with an engine command of their own, or the one
// empty name that stands for all.
func (v *view) engineRegions() []string {
	var names []string
	for _, e := range v.m.Annotations.Engine {
		if e.Region != "" && !slices.Contains(names, e.Region) {
			names = append(names, e.Region)
		}
	}
	if len(names) == 0 {
		names = []string{""}
	}
	return names
}

// lostAdapters are those that none of a region's engine commands serves, with the
// command that is nearest to it. A configuration file and a base image's own
// command are often half of what is started, so that one command that serves an
// adapter is enough; where the release says nothing of the engine's options,
// nothing is known.
func (v *view) lostAdapters(region string) (nearest engineFacts, lost []string) {
	told := false
	for _, e := range v.m.Annotations.Engine {
		if e.Kind != "vllm" || e.Region != "" && e.Region != region || len(e.Options) == 0 {
			continue
		}
		if e.Env["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] != "" || e.Env["VLLM_LORA_RESOLVER_CACHE_DIR"] != "" || e.Env["VLLM_LORA_RESOLVER_HF_REPO_LIST"] != "" {
			return e, nil
		}
		modules, _ := e.Options["lora_modules"].([]any)
		left := v.unserved(modules)
		if told {
			left = slices.DeleteFunc(left, func(name string) bool { return !slices.Contains(lost, name) })
		}
		if _, enables := e.Options["enable_lora"]; !told || enables {
			nearest = e
		}
		lost, told = left, true
	}
	return nearest, lost
}
