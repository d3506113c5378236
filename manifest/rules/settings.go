package rules

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"drkit/manifest"
	"drkit/manifest/model"
)

// wrongSettings finds quantization settings that the engine refuses, or that fit
// other weights.
func wrongSettings(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		q := r.facts.Quantization
		if q == nil || q.Source != "config.json" || !v.judgedVersion() || v.onlySGLang() || v.overridden() {
			continue
		}
		f, wrong := manifest.Finding{}, false
		if asked := v.option("quantization"); asked == "" || r.draft || plainMethod[asked] == plainMethod[q.Method] {
			f, wrong = r.refusedSettings(q)
		}
		if !wrong && q.Method == "compressed-tensors" && v.findable(r) {
			f, wrong = r.groupsOfOthers(q)
		}
		if wrong {
			f.Path, f.Hint = r.path("config.json"), "copy config.json again from the model's origin"
			out = append(out, f)
		}
	}
	return out
}

// refusedSettings are those that vLLM 0.32 ends on, whatever the weights are.
func (r *repo) refusedSettings(q *model.Quantization) (f manifest.Finding, wrong bool) {
	switch {
	case len(q.Lacks) > 0:
		f.Field = "quantization_config." + strings.Fields(q.Lacks[0])[0]
		f.Message = fmt.Sprintf("quantization_config lacks %s, without which the engine does not read %s", strings.Join(q.Lacks, ", "), q.Method)
		f.Seen = fmt.Sprintf("Cannot find any of ['%s'] in the model's quantization config.", strings.Fields(q.Lacks[0])[0])
	case q.Method == "gptq" && q.Asymmetric && !q.Mixed:
		f.Field, f.Message = "quantization_config.sym", "sym is false: the engine has no kernel for GPTQ weights with zero points of their own"
		f.Seen = fmt.Sprintf("Unsupported quantization config: bits=%d, sym=False", q.Bits)
	case q.Method == "gptq" && q.Bits != 4 && q.Bits != 8 && !q.Mixed:
		f.Field, f.Message = "quantization_config.bits", fmt.Sprintf("the engine has kernels for GPTQ weights of 4 and 8 bits, and bits is %d", q.Bits)
		f.Seen = fmt.Sprintf("Unsupported quantization config: bits=%d, sym=True", q.Bits)
	case q.Method == "gptq" && q.DescAct && q.GroupSize > 0:
		f.Field, f.Message = "quantization_config.desc_act", "desc_act is true with groups: this release of the engine no longer reads such weights"
		f.Seen = "GPTQ group activation ordering (desc_act=True) is no longer supported."
	default:
		return r.ordered(q)
	}
	return f, true
}

// ordered finds groups of compressed-tensors with an order of activations that has to
// be looked up while the engine computes. A static one ("static", "weight") needs none.
func (r *repo) ordered(q *model.Quantization) (f manifest.Finding, wrong bool) {
	for _, g := range q.Groups {
		if order := strings.ToLower(g.ActOrder); q.Method == "compressed-tensors" && (order == "group" || order == "dynamic") {
			f.Field, f.Message = "quantization_config.config_groups", fmt.Sprintf("actorder is %s: this release of the engine no longer reads such weights", g.ActOrder)
			f.Seen = "Compressed-tensors group/dynamic activation ordering (actorder=…) is no longer supported."
			return f, true
		}
	}
	return f, false
}

// groupsOfOthers compares the groups of compressed-tensors with the packed weights:
// a packed module that no group targets, or that is left out, has no place for its
// scale.
func (r *repo) groupsOfOthers(q *model.Quantization) (f manifest.Finding, wrong bool) {
	for _, name := range slices.Sorted(maps.Keys(r.tensors)) {
		module, ending := split(name)
		if ending != ".weight_scale" || r.facts.Config == nil || r.facts.Config.Nested {
			continue // names of models with parts differ between the file and the engine
		}
		f.Seen = fmt.Sprintf("There is no module or parameter named '%s' in …", strings.TrimPrefix(name, "model."))
		if entry := matching(module, q.Ignore); entry != "" {
			f.Field, f.Message = "quantization_config.ignore", fmt.Sprintf("ignore leaves out %s (%.60q), and the shards hold %s", module, entry, name)
			return f, true
		}
		g, found := groupOf(module, q.Groups)
		if !found {
			f.Field, f.Message = "quantization_config.config_groups", fmt.Sprintf("no group of config_groups targets %s, and the shards hold %s", module, name)
			return f, true
		}
		if f, wrong := r.otherForm(module, g); wrong {
			return f, true
		}
	}
	return f, false
}

// otherForm compares a module's packed weight and scale with its group.
func (r *repo) otherForm(module string, g model.Group) (f manifest.Finding, wrong bool) {
	w, s := r.tensors[module+".weight"], r.tensors[module+".weight_scale"]
	scales := int64(1)
	for _, n := range s.Shape {
		scales *= n
	}
	switch {
	case len(w.Shape) != 2:
		return f, false
	case g.Strategy == "tensor" && scales > 1:
		f.Field, f.Seen = "quantization_config.config_groups", "AssertionError"
		f.Message = fmt.Sprintf("the strategy of the weights is tensor, with one scale for each, and %s.weight_scale has %d", module, scales)
	case g.Type == "float" && w.DType == "I8", g.Type == "int" && strings.HasPrefix(w.DType, "F8"):
		f.Field, f.Seen = "quantization_config.config_groups", "Failed to find a kernel that can implement the ScaledMM linear layer."
		f.Message = fmt.Sprintf("the type of the weights is %s, and %s.weight is %s", g.Type, module, w.DType)
	default:
		return f, false
	}
	return f, true
}

// groupOf is the group that a module belongs to. Every packed module is of a class
// whose name holds Linear; other words are names or expressions.
func groupOf(module string, groups []model.Group) (model.Group, bool) {
	for _, g := range groups {
		plain := slices.ContainsFunc(g.Targets, func(t string) bool {
			return t != "" && strings.Contains("QKVParallelLinear MergedColumnParallelLinear RowParallelLinear", t) || unread(t)
		})
		if plain || len(g.Targets) == 0 || matching(module, g.Targets) != "" {
			return g, true
		}
	}
	return model.Group{}, false
}

// unread reports whether a target is an expression that Go does not read, such as one
// that looks ahead: what it matches is not judged.
func unread(target string) bool {
	pattern, expression := strings.CutPrefix(target, "re:")
	_, err := regexp.Compile("^(?:" + pattern + ")")
	return expression && err != nil
}

// matching is the entry of a list of names and expressions ("re:…") that a module's
// name matches, "" without one.
func matching(module string, entries []string) string {
	for _, e := range entries {
		pattern, expression := strings.CutPrefix(e, "re:")
		if !expression {
			if e == module {
				return e
			}
			continue
		}
		if re, err := regexp.Compile("^(?:" + pattern + ")"); err == nil && re.MatchString(module) {
			return e
		}
	}
	return ""
}
