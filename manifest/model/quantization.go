package model

import (
	"slices"
	"strings"
)

// Quantization is what the repository says of how its weights are packed.
type Quantization struct {
	Method     string   `json:"quant_method"`
	Source     string   `json:"source"` // the file that says it
	Format     string   `json:"format,omitempty"`
	Bits       int      `json:"bits,omitempty"`
	GroupSize  int      `json:"group_size,omitempty"`
	DescAct    bool     `json:"desc_act,omitempty"`
	Activation string   `json:"activation_scheme,omitempty"` // fp8: static or dynamic
	Block      bool     `json:"block,omitempty"`             // fp8: one scale a block of weights
	Weights    bool     `json:"weights,omitempty"`           // it says that weights, not only activations or the KV cache, are packed
	KVCache    bool     `json:"kv_cache,omitempty"`          // it says that the KV cache is
	Layers     bool     `json:"quantized_layers,omitempty"`  // it lists a method by layer
	Lacks      []string `json:"lacks,omitempty"`             // settings that the method needs and that are not there
	Asymmetric bool     `json:"asymmetric,omitempty"`        // gptq: sym is false
	Mixed      bool     `json:"mixed,omitempty"`             // modules may have other bits than Bits
	Producer   string   `json:"producer,omitempty"`
	Groups     []Group  `json:"groups,omitempty"`
	Ignore     []string `json:"ignore,omitempty"` // modules left as they are
	SideFiles  []string `json:"side_files,omitempty"`
	// Named are side files of the methods that --quantization can name: every
	// JSON file in the root whose name ends like one.
	Named []string `json:"named,omitempty"`
}

// Group is one group of modules of compressed-tensors.
type Group struct {
	Format      string   `json:"format,omitempty"` // of this group; empty: the one for all
	Bits        int      `json:"num_bits,omitempty"`
	Type        string   `json:"type,omitempty"` // int or float
	Strategy    string   `json:"strategy,omitempty"`
	GroupSize   int      `json:"group_size,omitempty"`
	Asymmetric  bool     `json:"asymmetric,omitempty"`
	ActOrder    string   `json:"actorder,omitempty"`
	Activations bool     `json:"input_activations,omitempty"`
	Static      bool     `json:"static,omitempty"` // the inputs' scales stand in the checkpoint
	InputGlobal bool     `json:"input_global,omitempty"`
	Targets     []string `json:"targets,omitempty"`
}

// sideFiles may hold the quantization instead of config.json; engines read them
// by method, and only when told which method it is (hf_quant_config.json excepted).
var sideFiles = []string{"hf_quant_config.json", "quantize_config.json", "quant_config.json", "quantization_config.json"}

// quantization finds the quantization config.
func (r *repository) quantization() {
	q := &Quantization{}
	for _, name := range sideFiles {
		if r.has(name) {
			q.SideFiles = append(q.SideFiles, name)
		}
	}
	for _, name := range r.inRoot("*.json") {
		if slices.ContainsFunc(sideFiles, func(side string) bool { return strings.HasSuffix(name, side) }) {
			q.Named = append(q.Named, name)
		}
	}
	if o := r.inConfig(); o != nil {
		q.fill("config.json", o)
	} else if len(q.SideFiles) > 0 {
		q.fill(q.SideFiles[0], r.object(q.SideFiles[0]))
	}
	if q.Source != "" || len(q.Named) > 0 {
		r.facts.Quantization = q
	}
}

// inConfig is the quantization block of config.json; an empty one says nothing.
func (r *repository) inConfig() object {
	if !r.has("config.json") || r.broken("config.json") {
		return nil
	}
	o := r.object("config.json")
	text, _ := textConfig(o)
	for _, from := range []object{o, text} {
		for _, key := range []string{"quantization_config", "compression_config"} {
			if q := from.object(key); len(q) > 0 {
				return q
			}
		}
	}
	return nil
}

func (q *Quantization) fill(source string, o object) {
	q.Producer = o.object("producer").str("name")
	if inner := o.object("quantization"); inner != nil { // ModelOpt's side file
		o = inner
	}
	q.Source = source
	q.Method = firstOf(o.str("quant_method"), o.str("quant_algo"))
	q.Format, q.Bits, q.GroupSize, q.DescAct = firstOf(o.str("format"), o.str("quant_algo")), firstInt(o, "bits", "w_bit"), firstInt(o, "group_size", "q_group_size"), o.truth("desc_act")
	q.Activation, q.Block = o.str("activation_scheme"), len(o.integers("weight_block_size")) > 0
	q.lacks(o)
	kv := o.object("kv_cache_scheme")
	q.KVCache = kv != nil && !kv.truth("dynamic") || o.str("kv_cache_quant_algo") != ""
	q.Layers = o.object("quantized_layers") != nil
	q.Mixed = len(o.object("dynamic")) > 0 || len(o.object("extra_config")) > 0
	for _, key := range []string{"ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers"} {
		q.Ignore = append(q.Ignore, o.strings(key)...)
	}
	groups := o.object("config_groups")
	q.Weights = groups == nil && q.Method != "compressed-tensors"
	for _, name := range sortedKeys(groups) {
		g := groups.object(name)
		q.Weights = q.Weights || g.object("weights") != nil
		if g.object("weights") != nil {
			q.Groups = append(q.Groups, group(g))
		}
	}
}

// settings are those that vLLM reads without a default, by method; the alternatives
// of one are separated by "|".
var settings = map[string][]string{
	"gptq": {"bits", "group_size", "desc_act", "sym"}, "awq": {"w_bit|bits", "q_group_size|group_size", "zero_point"}, "fp8": {"activation_scheme"},
}

func (q *Quantization) lacks(o object) {
	for _, names := range settings[q.Method] {
		if !slices.ContainsFunc(strings.Split(names, "|"), func(n string) bool { return o[n] != nil }) {
			q.Lacks = append(q.Lacks, strings.ReplaceAll(names, "|", " or "))
		}
	}
	q.Asymmetric = q.Method == "gptq" && o["sym"] != nil && !o.truth("sym")
}

func group(g object) Group {
	w, in := g.object("weights"), g.object("input_activations")
	out := Group{Format: g.str("format"), Bits: w.integer("num_bits"), Type: w.str("type"), Strategy: w.str("strategy"), GroupSize: w.integer("group_size"),
		ActOrder: w.str("actorder"), Activations: in != nil, Targets: g.strings("targets")}
	if w.truth("actorder") {
		out.ActOrder = "group" // what compressed-tensors makes of true
	}
	symmetric, dynamic := true, true
	w.get("symmetric", &symmetric)
	if in != nil && !in.get("dynamic", &dynamic) {
		dynamic = in["dynamic"] != nil && string(in["dynamic"]) != "null" // "local" is a word
	}
	out.Asymmetric, out.Static = !symmetric, in != nil && !dynamic
	out.InputGlobal = in.str("strategy") == "tensor_group"
	return out
}

func firstInt(o object, keys ...string) int {
	for _, k := range keys {
		if n := o.integer(k); n != 0 {
			return n
		}
	}
	return 0
}
