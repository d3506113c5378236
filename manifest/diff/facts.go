package diff

import (
	"path"
	"slices"
	"strings"

	"drkit/manifest"
	"drkit/manifest/model"
)

// This file knows where the facts of package model lie in their JSON form: a
// fact that moves is mended here. A fact that is not named here is compared all
// the same, under its own name.

// leftOut are facts that follow from others, or that are compared elsewhere:
// tensors by tensors, templates by their text.
var leftOut = []string{"weights", "template", "config.context.field", "config.rope.theta", "tokenizer.max_token", "tokenizer.files", "quantization.source",
	"quantization.weights", "quantization.side_files", "quantization.named", "config.nested", "tensors", "name", "code", "missing"}

// home is the file that a section of the facts is read from, and how its fields
// begin there.
var home = []struct{ section, file, field string }{
	{"config.rope.effective", "config.json", "rope_parameters"},
	{"config.rope.ignored", "config.json", "rope_parameters (not used)"},
	{"config.rope", "config.json", ""},
	{"config.context.length", "config.json", "max_position_embeddings"},
	{"config.context", "config.json", ""},
	{"config.modules", "modules.json", ""},
	{"config", "config.json", ""},
	{"generation", "generation_config.json", ""},
	{"quantization", "config.json", "quantization_config"},
	{"tokenizer.entries", "tokenizer.json", "vocabulary size"},
	{"tokenizer.max_id", "tokenizer.json", "greatest token id"},
	{"tokenizer.model", "tokenizer.json", "model.type"},
	{"tokenizer.eos_token_id", "tokenizer.json", "eos_token_id"},
	{"tokenizer.file", "tokenizer.json", "file that makes the tokenizer"},
	{"tokenizer", "tokenizer_config.json", ""},
	{"processor", "preprocessor_config.json", ""},
}

// always are facts that are told even where the file was compared field by
// field: they say in one number what a long list of fields means.
var always = []string{"tokenizer.entries", "tokenizer.max_id", "tokenizer.file"}

// models compares the facts of all repositories and adapters.
func (c *comparison) models() {
	a, b := c.from.Manifest.Annotations, c.to.Manifest.Annotations
	c.repository("base", a.Model, b.Model)
	eachPair(a.Drafts, b.Drafts, func(d manifest.DraftFacts) string { return d.Name }, func(name string, x, y *manifest.DraftFacts) {
		if c.present("drafts/"+name, "draft "+name, manifest.Degraded, manifest.Block, x != nil, y != nil) {
			c.repository("drafts/"+name, x.Facts, y.Facts)
		}
	})
	eachPair(a.Further, b.Further, func(f manifest.FurtherFacts) string { return f.Name }, func(name string, x, y *manifest.FurtherFacts) {
		if c.present("repos/"+name, "repository "+name, manifest.Silent, manifest.Block, x != nil, y != nil) {
			c.repository("repos/"+name, x.Facts, y.Facts)
		}
	})
	eachPair(a.Adapters, b.Adapters, func(d model.Adapter) string { return d.Name }, func(name string, x, y *model.Adapter) {
		if c.present("adapters/"+name, "adapter "+name, manifest.Silent, manifest.Request, x != nil, y != nil) {
			c.adapter("adapters/"+name, *x, *y)
		}
	})
}

// eachPair matches the elements of two lists by a name.
func eachPair[T any](from, to []T, name func(T) string, found func(string, *T, *T)) {
	at := func(list []T, key string) *T {
		for i := range list {
			if name(list[i]) == key {
				return &list[i]
			}
		}
		return nil
	}
	var names []string
	for _, v := range slices.Concat(from, to) {
		if !slices.Contains(names, name(v)) {
			names = append(names, name(v))
		}
	}
	for _, n := range names {
		found(n, at(from, n), at(to, n))
	}
}

// present tells of what only one side has, and reports whether both have it.
func (c *comparison) present(at, what string, added, removed manifest.Severity, from, to bool) bool {
	d := Difference{Severity: added, Kind: KindModel, Part: manifest.Model, Path: at, To: at, Message: what + " is new"}
	if !to {
		d.Severity, d.From, d.To, d.Message = removed, at, nil, what+" is gone"
	}
	if from != to {
		c.add(d)
	}
	return from && to
}

func (c *comparison) repository(root string, from, to *model.Facts) {
	c.tensors(root, tensorsOf(from), tensorsOf(to))
	names := spelling{length: lengths[0], quantization: "config.json"}
	names.read(from)
	names.read(to)
	walk(tree(lean(from)), tree(lean(to)), nil, func(at []string, v, w any) {
		if len(at) > 0 {
			c.fact(root, at, v, w, names)
		}
	})
	eachPair(ggufsOf(from), ggufsOf(to), func(g model.GGUF) string { return g.Path }, func(name string, x, y *model.GGUF) {
		if x != nil && y != nil {
			walk(tree(x), tree(y), nil, func(at []string, v, w any) { c.add(field(pair{to: c.fileAt(root, name)}, at, v, w)) })
		}
	})
}

// lean leaves out the weights, of which there may be much, and which tensors
// compares.
func lean(f *model.Facts) *model.Facts {
	if f == nil {
		return nil
	}
	out := *f
	out.Weights = model.Weights{}
	return &out
}

func ggufsOf(f *model.Facts) []model.GGUF {
	if f == nil {
		return nil
	}
	return f.Weights.GGUF
}

// spelling is what the facts that have several possible homes are called in this
// repository.
type spelling struct {
	length       string // the field of config.json that bounds prompts
	quantization string // the file that says how weights are packed
}

func (s *spelling) read(f *model.Facts) {
	if f != nil && f.Config != nil && f.Config.Context.Field != "" {
		s.length = f.Config.Context.Field
	}
	if f != nil && f.Quantization != nil && f.Quantization.Source != "" {
		s.quantization = f.Quantization.Source
	}
}

// fact tells of one fact under the name that it has in its file.
func (c *comparison) fact(root string, at []string, from, to any, names spelling) {
	full := strings.Join(at, ".")
	if slices.ContainsFunc(leftOut, func(s string) bool { return beneath(full, s) }) {
		return
	}
	if full == "generation" { // the file came or went: its values say what that does
		walk(members(from), members(to), at, func(at []string, v, w any) { c.fact(root, at, v, w, names) })
		return
	}
	file, fields := names.place(at, full)
	if c.covered(root+"/"+file) && !slices.Contains(always, full) {
		return
	}
	c.add(field(pair{to: c.fileAt(root, file)}, fields, from, to))
}

// members are the fields of an object; those of nothing are none.
func members(v any) any {
	if _, none := v.(absent); none {
		return map[string]any{}
	}
	return v
}

// place is the file and the field that a fact is read from.
func (s spelling) place(at []string, full string) (file string, fields []string) {
	for _, h := range home {
		if !beneath(full, h.section) {
			continue
		}
		rest := at[strings.Count(h.section, ".")+1:]
		switch {
		case h.section == "config.context.length":
			return h.file, []string{s.length}
		case h.section == "quantization":
			return s.quantization, append([]string{h.field}, rest...)
		case h.field != "":
			return h.file, append([]string{h.field}, rest...)
		case len(rest) > 0:
			return h.file, rest
		}
		return h.file, at
	}
	return "config.json", at
}

func beneath(full, section string) bool {
	return full == section || strings.HasPrefix(full, section+".")
}

// covered reports whether a file was compared field by field.
func (c *comparison) covered(p string) bool { return c.read[string(manifest.Model)+"/"+p] }

// fileAt is the file of the model part that a fact is told of, which a side may
// lack.
func (c *comparison) fileAt(root, name string) *manifest.File {
	p := root + "/" + name
	for _, s := range []Side{c.to, c.from} {
		if f := s.file(p); f != nil {
			return f
		}
	}
	return &manifest.File{Part: manifest.Model, Path: p, Role: manifest.Role(model.Role(name))}
}

// adapter compares two adapters of one name.
func (c *comparison) adapter(root string, from, to model.Adapter) {
	c.tensors(root, from.Tensors, to.Tensors)
	if c.covered(root + "/adapter_config.json") {
		return
	}
	walk(tree(from), tree(to), nil, func(at []string, v, w any) {
		full := strings.Join(at, ".")
		if slices.ContainsFunc(leftOut, func(s string) bool { return beneath(full, s) }) {
			return
		}
		if name := map[string]string{"rank": "r", "alpha": "lora_alpha", "base": "base_model_name_or_path", "targets": "target_modules", "ranks": "rank_pattern", "dora": "use_dora"}[at[0]]; name != "" {
			at = append([]string{name}, at[1:]...)
		}
		c.add(field(pair{to: c.fileAt(root, "adapter_config.json")}, at, v, w))
	})
}

// named is what a field is called in a message.
func named(f *manifest.File, at []string) string {
	name := strings.Join(at, ".")
	for i, s := range at {
		if s == "rope_scaling" || s == "rope_parameters" {
			if rest := strings.Join(at[i+1:], "."); rest != "" {
				return "rope " + strings.TrimPrefix(rest, "rope_")
			}
			return "rope scaling"
		}
	}
	switch {
	case name == "":
		return path.Base(f.Path)
	case path.Base(f.Path) == "adapter_config.json":
		return "LoRA " + strings.TrimPrefix(name, "lora_")
	case f.Part == manifest.Engine && f.Role == manifest.EngineConfig:
		return "engine option " + name
	}
	return name
}

// isQuantization reports whether a field is the quantization itself.
func isQuantization(at []string) bool {
	last := len(at) - 1
	if last < 0 {
		return false
	}
	if at[last] == "quant_method" {
		last--
	}
	return last >= 0 && (at[last] == "quantization_config" || at[last] == "compression_config")
}

// method is the name of a quantization, given as its block or as its name.
func method(v any) string {
	if o, ok := v.(map[string]any); ok {
		v = valueOf(o, "quant_method")
	}
	return show(v)
}
