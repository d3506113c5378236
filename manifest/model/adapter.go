package model

import (
	"fmt"
	"slices"
	"strings"
)

// Adapter is what was read out of one LoRA adapter in PEFT's form.
type Adapter struct {
	Name          string            `json:"name"`
	Config        bool              `json:"config"`            // adapter_config.json is there and readable
	Missing       []string          `json:"missing,omitempty"` // required fields that it lacks
	Type          string            `json:"peft_type,omitempty"`
	Rank          int               `json:"rank,omitempty"`
	Ranks         []int             `json:"ranks,omitempty"`        // of rank_pattern
	Pattern       map[string]int    `json:"rank_pattern,omitempty"` // the rank of modules whose names end so
	Misfits       []Misfit          `json:"misfits,omitempty"`      // values of adapter_config.json that the engine does not take
	Alpha         float64           `json:"alpha,omitempty"`
	Base          string            `json:"base,omitempty"`
	Targets       []string          `json:"targets,omitempty"`
	ModulesToSave []string          `json:"modules_to_save,omitempty"`
	Bias          string            `json:"bias,omitempty"`
	DoRA          bool              `json:"dora,omitempty"`
	Unsupported   []string          `json:"unsupported,omitempty"` // further fields of kinds that vLLM refuses
	Partial       bool              `json:"partial,omitempty"`     // it says itself that not every layer is meant
	Tokenizer     []string          `json:"tokenizer,omitempty"`   // tokenizer files, which vLLM does not read
	Weights       string            `json:"weights,omitempty"`     // the file of tensors
	Tensors       map[string]Tensor `json:"tensors,omitempty"`     // of a safetensors file with a sound header
}

// adapterWeights are the files that may hold an adapter's tensors, in the
// order in which vLLM looks.
var adapterWeights = []string{"adapter_model.safetensors", "adapter_model.bin", "adapter_model.pt"}

// ReadAdapter makes facts and problems of the files of one adapter.
func ReadAdapter(name string, files []File) (Adapter, []Problem) {
	r := newRepository(files)
	r.foreign()
	a := Adapter{Name: name}
	if o := r.object("adapter_config.json"); o != nil {
		a.fill(o)
	}
	for _, p := range r.paths {
		if Role(p) == "tokenizer" && !strings.Contains(p, "/") {
			a.Tokenizer = append(a.Tokenizer, p)
		}
	}
	for _, f := range adapterWeights {
		if r.has(f) {
			a.Weights = f
			break
		}
	}
	if strings.HasSuffix(a.Weights, ".safetensors") {
		if s := r.shard(a.Weights); s != nil {
			a.Tensors = s.Tensors
		}
	}
	return a, r.problems
}

func (a *Adapter) fill(o object) {
	a.Config = true
	for _, field := range []string{"lora_alpha", "r", "target_modules"} {
		raw, ok := o[field]
		if !ok || string(raw) == "null" && field != "target_modules" {
			a.Missing = append(a.Missing, field)
		} else if field != "target_modules" && !allows("if", raw) {
			a.Misfits = append(a.Misfits, Misfit{Field: field, What: fmt.Sprintf("%s is %s, and must be a number", field, excerpt(raw)), Seen: "TypeError"})
		}
	}
	a.Type, a.Rank, a.Base, a.Bias = o.str("peft_type"), o.integer("r"), o.str("base_model_name_or_path"), o.str("bias")
	o.get("lora_alpha", &a.Alpha)
	a.Targets, a.ModulesToSave, a.DoRA = o.strings("target_modules"), o.strings("modules_to_save"), o.truth("use_dora")
	slices.Sort(a.Targets)
	pattern := o.object("rank_pattern")
	for module, raw := range pattern {
		if a.Pattern == nil {
			a.Pattern = map[string]int{}
		}
		if a.Pattern[module] = 0; allows("i", raw) { // the engine takes nothing else
			a.Pattern[module] = pattern.integer(module)
		}
		a.Ranks = append(a.Ranks, a.Pattern[module])
	}
	slices.Sort(a.Ranks)
	a.unsupported(o)
	for _, field := range []string{"layers_to_transform", "layers_pattern", "exclude_modules", "target_parameters"} {
		if raw, ok := o[field]; ok && string(raw) != "null" && string(raw) != "[]" {
			a.Partial = true
		}
	}
}

// plainInits are the values of init_lora_weights after which an adapter is
// still a plain one; the others change the base model's weights too.
var plainInits = []string{"", "gaussian", "eva", "orthogonal", "mica", "lora_ga"}

// unsupported lists fields of PEFT that vLLM 0.32 refuses.
func (a *Adapter) unsupported(o object) {
	if init := o.str("init_lora_weights"); !slices.Contains(plainInits, strings.ToLower(init)) {
		a.Unsupported = append(a.Unsupported, "init_lora_weights")
	}
	for _, field := range []string{"lora_bias", "alora_invocation_tokens", "layer_replication", "use_bdlora", "use_qalora"} {
		switch string(o[field]) {
		case "", "null", "false", "[]", "{}":
		default:
			a.Unsupported = append(a.Unsupported, field)
		}
	}
}
