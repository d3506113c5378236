package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"drkit/manifest"
	"drkit/manifest/model"
)

// companions says which tensors must stand beside a packed weight. Alternatives of
// one are separated by "|".
type companions struct {
	weight string // ending of the packed weight
	dtypes []string
	beside []string
}

// companionsOf lists, for the repository's method, the packed weights and what
// each needs. Sources: the parameters that vLLM 0.32 creates for each method.
func companionsOf(q *model.Quantization) []companions {
	switch q.Method {
	case "gptq", "auto_gptq", "gptq_marlin", "moe_wna16":
		beside := []string{".scales"}
		if q.Asymmetric { // symmetric weights are computed without: measured
			beside = append(beside, ".qzeros")
		}
		if q.DescAct {
			beside = append(beside, ".g_idx")
		}
		return []companions{{".qweight", nil, beside}}
	case "awq", "auto_awq", "awq_marlin":
		return []companions{{".qweight", nil, []string{".qzeros", ".scales"}}}
	case "fp8":
		return []companions{{".weight", eightBits, fp8Scales(q)}}
	case "fbgemm_fp8":
		return []companions{{".weight", eightBits, []string{".weight_scale"}}}
	case "fp_quant":
		return []companions{{".qweight", nil, []string{".scales", ".weight_global_scale"}}}
	case "compressed-tensors":
		return compressed(q)
	case "mxfp4", "gpt_oss_mxfp4":
		return []companions{{".gate_up_proj_blocks", nil, []string{".gate_up_proj_scales"}}, {".down_proj_blocks", nil, []string{".down_proj_scales"}}}
	case "quark":
		return []companions{{".weight", eightBits, []string{".weight_scale"}}}
	}
	if strings.HasPrefix(q.Method, "modelopt") || q.Source == "hf_quant_config.json" {
		return modelopt(q)
	}
	return nil
}

var eightBits = []string{"I8", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ"}

func fp8Scales(q *model.Quantization) []string {
	scales := []string{".weight_scale|.weight_scale_inv"}
	if q.Block {
		scales = []string{".weight_scale_inv|.weight_scale|.scale"}
	}
	if q.Activation == "static" {
		scales = append(scales, ".input_scale")
	}
	return scales
}

func modelopt(q *model.Quantization) []companions {
	switch strings.ToUpper(q.Format) {
	case "NVFP4":
		return []companions{{".weight", []string{"U8"}, []string{".weight_scale", ".weight_scale_2"}}}
	case "FP8":
		return []companions{{".weight", eightBits, []string{".weight_scale", ".input_scale"}}}
	}
	return nil
}

// compressed are the sets of compressed-tensors. Several groups may store their
// weights in several forms; then only what all have in common is needed.
func compressed(q *model.Quantization) (out []companions) {
	byWeight := map[string]companions{}
	for _, g := range q.Groups {
		c := compressedGroup(q, g)
		old, seen := byWeight[c.weight]
		if seen {
			c.beside = slices.DeleteFunc(c.beside, func(end string) bool { return !slices.Contains(old.beside, end) })
		}
		byWeight[c.weight] = c
	}
	for _, weight := range slices.Sorted(maps.Keys(byWeight)) {
		out = append(out, byWeight[weight])
	}
	return out
}

func compressedGroup(q *model.Quantization, g model.Group) companions {
	format := g.Format
	if format == "" {
		format = q.Format
	}
	c := companions{weight: packedEnding(format), beside: []string{".weight_scale"}}
	switch {
	case format == "pack-quantized":
		c.beside = append(c.beside, ".weight_shape")
	case strings.HasPrefix(format, "nvfp4"):
		c.beside = append(c.beside, ".weight_global_scale")
		if g.Activations {
			c.beside = append(c.beside, ".input_global_scale")
		}
		return c
	case strings.HasPrefix(format, "mxfp"):
		return c
	}
	if c.weight == ".weight" {
		c.dtypes = eightBits
	}
	if g.Asymmetric {
		c.beside = append(c.beside, ".weight_zero_point")
	}
	if g.ActOrder == "group" {
		c.beside = append(c.beside, ".weight_g_idx")
	}
	if g.Static && !g.InputGlobal {
		c.beside = append(c.beside, ".input_scale")
	}
	return c
}

// packedEnding is the ending under which a format of compressed-tensors stores weights.
func packedEnding(format string) string {
	switch format {
	case "int-quantized", "float-quantized", "naive-quantized", "mxfp8-quantized":
		return ".weight"
	}
	return ".weight_packed"
}

func (c companions) packs(ending, dtype string) bool {
	return ending == c.weight && (len(c.dtypes) == 0 || slices.Contains(c.dtypes, dtype))
}

func incompleteModules(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		q := r.facts.Quantization
		if q == nil || q.Method == "" || !v.findable(r) || q.Source != "config.json" && q.Source != "hf_quant_config.json" && v.option("quantization") == "" {
			continue
		}
		sets := companionsOf(q)
		if len(sets) == 0 {
			continue
		}
		lost, any := r.lacking(sets)
		switch {
		case len(lost) > 0:
			out = append(out, manifest.Finding{Path: r.whereLost(lost[0]), Field: lost[0],
				Message: fmt.Sprintf("a packed module lacks %s: the engine boots and answers with garbage", count(lost)),
				Hint:    "copy the shards again from the model's origin"})
		case !any && q.Weights:
			out = append(out, r.notPacked(q, sets))
		default:
			out = append(out, r.otherBits(q)...)
			out = append(out, r.weightsOnly(q)...)
		}
	}
	return out
}

// lacking lists the tensors that packed modules lack, and whether there are any
// such modules.
func (r *repo) lacking(sets []companions) (lost []string, any bool) {
	for name, t := range r.tensors {
		module, ending := split(name)
		for _, set := range sets {
			if !set.packs(ending, t.DType) {
				continue
			}
			any = true
			for _, need := range set.beside {
				if !r.oneOf(module, need) {
					lost = append(lost, module+strings.Split(need, "|")[0])
				}
			}
		}
	}
	slices.Sort(lost)
	return lost, any
}

// notPacked is the finding on a config that speaks of packed weights where there
// are none of its form. Weights in another form do not load at all.
func (r *repo) notPacked(q *model.Quantization, sets []companions) manifest.Finding {
	f := manifest.Finding{Path: r.path("config.json"), Field: "quantization_config",
		Message: fmt.Sprintf("config.json says the weights are packed by %s, but no shard holds a packed tensor: the engine boots and answers with garbage", q.Method),
		Hint:    "config.json and weights belong to different releases of the model: copy both from one"}
	if other := r.firstPacked(); other != "" {
		f.Severity, f.Field = manifest.Block, "quantization_config.format"
		f.Message = fmt.Sprintf("config.json says the weights are packed by %s %s, with tensors that end in %s; the shards hold others, such as %s", q.Method, q.Format, sets[0].weight, other)
		f.Seen = fmt.Sprintf("There is no module or parameter named '%s' in …", strings.TrimPrefix(other, "model."))
	}
	return f
}

// otherBits compares the packed weights' shapes with the bits that the config
// states: a word of 32 bits holds 32/bits weights.
func (r *repo) otherBits(q *model.Quantization) []manifest.Finding {
	if q.Mixed || q.Bits <= 0 || q.Bits > 32 || 32%q.Bits != 0 || q.GroupSize == 0 || q.GroupSize < -1 {
		return nil
	}
	packed, rows := int64(32/q.Bits), slices.Contains([]string{"gptq", "auto_gptq", "gptq_marlin"}, q.Method)
	for _, name := range slices.Sorted(maps.Keys(r.tensors)) {
		module, ending := split(name)
		w, s := r.tensors[name], r.tensors[module+".scales"]
		if ending != ".qweight" || len(w.Shape) != 2 || len(s.Shape) != 2 {
			continue
		}
		have, want := w.Shape[1]*packed, s.Shape[1]
		if rows {
			have, want = w.Shape[0]*packed, s.Shape[0]*int64(q.GroupSize)
			if q.GroupSize == -1 { // one group for all rows
				have, want = s.Shape[0], 1
			}
		}
		// the last group of a matrix may be smaller
		if have == want || rows && have < want && want-have < int64(q.GroupSize) {
			continue
		}
		return []manifest.Finding{{Severity: manifest.Block, Path: r.path("config.json"), Field: "quantization_config.bits",
			Message: fmt.Sprintf("with %d bits and groups of %d, %s holds %d weights a column and its scales are for %d", q.Bits, q.GroupSize, name, have, want),
			Seen:    "the size of a packed tensor does not match the parameter's", Hint: "bits and group_size are those of other weights: copy config.json from the model's origin"}}
	}
	return nil
}

// weightsOnly finds a format for packed weights and inputs whose groups pack
// whole numbers in the weights alone: the engine has no scheme for that.
func (r *repo) weightsOnly(q *model.Quantization) []manifest.Finding {
	lacks := slices.ContainsFunc(q.Groups, func(g model.Group) bool {
		format := cmp.Or(g.Format, q.Format)
		return (format == "int-quantized" || format == "naive-quantized") && g.Type == "int" && !g.Activations
	})
	if !lacks {
		return nil
	}
	return []manifest.Finding{{Severity: manifest.Block, Path: r.path("config.json"), Field: "quantization_config.config_groups",
		Message: fmt.Sprintf("the format %s is for packed weights and inputs, and config_groups has no input_activations: the engine has no scheme for whole-number weights alone in this format", q.Format),
		Seen:    "Assertion failed", Hint: "copy config.json again from the model's origin"}}
}
