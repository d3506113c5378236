package model

// Quantization is what the repository says of how its weights are packed.
type Quantization struct {
	Method    string   `json:"quant_method"`
	Source    string   `json:"source"` // the file that says it
	Format    string   `json:"format,omitempty"`
	Bits      int      `json:"bits,omitempty"`
	GroupSize int      `json:"group_size,omitempty"`
	DescAct   bool     `json:"desc_act,omitempty"`
	Weights   bool     `json:"weights,omitempty"` // it says that weights, not only activations or the KV cache, are packed
	Ignore    []string `json:"ignore,omitempty"`  // modules left as they are
	SideFiles []string `json:"side_files,omitempty"`
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
	if o := r.inConfig(); o != nil {
		q.fill("config.json", o)
	} else if len(q.SideFiles) > 0 {
		q.fill(q.SideFiles[0], r.object(q.SideFiles[0]))
	}
	if q.Source != "" || len(q.SideFiles) > 0 {
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
	if inner := o.object("quantization"); inner != nil { // ModelOpt's side file
		o = inner
	}
	q.Source = source
	q.Method = firstOf(o.str("quant_method"), o.str("quant_algo"))
	q.Format, q.Bits, q.GroupSize, q.DescAct = o.str("format"), o.integer("bits"), o.integer("group_size"), o.truth("desc_act")
	for _, key := range []string{"ignore", "modules_to_not_convert", "exclude_modules"} {
		q.Ignore = append(q.Ignore, o.strings(key)...)
	}
	groups := o.object("config_groups")
	q.Weights = groups == nil && q.Method != "compressed-tensors"
	for name := range groups {
		q.Weights = q.Weights || groups.object(name).object("weights") != nil
	}
}
