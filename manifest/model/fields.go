package model

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Misfit is a value of config.json that the engine does not take.
type Misfit struct {
	Field string `json:"field"` // with the names of the objects around it: text_config.num_hidden_layers
	What  string `json:"what"`
	Seen  string `json:"seen,omitempty"` // the engine's own words
}

// class is what transformers knows of a model type's config.json.
type class struct {
	Fields   map[string]string // the kinds of values that a field may have, one letter each; see kindOf
	Defaults map[string]int    // of the numbers that decide the model's shape, where config.json does not have them
	Names    map[string]string // how this model type calls such a number: n_layer for num_hidden_layers
	Parts    map[string]string // the model types of its parts, such as text_config
}

type fieldTable struct {
	Classes    map[string]*class
	LayerTypes []string `json:"layer_types"`
	MLPTypes   []string `json:"mlp_layer_types"`
}

//go:embed transformers-5.19.0.json.gz
var fieldData []byte

// fieldsOf reads the table; scripts/transformers-fields writes it.
var fieldsOf = sync.OnceValue(func() (t fieldTable) {
	r, err := gzip.NewReader(bytes.NewReader(fieldData))
	if err == nil {
		err = json.NewDecoder(r).Decode(&t)
	}
	if err != nil {
		panic("the embedded table of config.json's fields: " + err.Error())
	}
	return t
})

// noClass is of model types that are not known, such as those with remote code.
var noClass = &class{}

func classOf(modelType string) *class {
	if c := fieldsOf().Classes[modelType]; c != nil {
		return c
	}
	return noClass
}

// number reads a number that decides the model's shape, by the name that the model
// type gives it, and without one its default; assumed says that config.json does
// not state it.
func (c *class) number(o object, name string) (n int, assumed bool) {
	for _, key := range []string{c.Names[name], name} {
		if raw, ok := o[key]; key != "" && ok && string(raw) != "null" {
			return o.integer(key), false
		}
	}
	n, assumed = c.Defaults[name]
	return n, assumed
}

// misfits lists the values that the validator of transformers refuses.
func (c *class) misfits(o object, prefix string, depth int) (out []Misfit) {
	for _, field := range slices.Sorted(maps.Keys(o)) {
		if allowed := c.Fields[c.named(field)]; allowed != "" && !allows(allowed, o[field]) {
			out = append(out, Misfit{Field: prefix + field, Seen: refusal(field, o[field], allowed),
				What: fmt.Sprintf("%s is %s, and must be %s", field, excerpt(o[field]), words(allowed))})
		}
		part := o.object(field)
		if part == nil || depth > 3 || !strings.HasSuffix(field, "_config") || field == "quantization_config" {
			continue
		}
		kind := c.Parts[field]
		if kind == "" {
			kind = part.str("model_type")
		}
		out = append(out, classOf(kind).misfits(part, prefix+field+".", depth+1)...)
	}
	return append(out, c.dimensions(o, prefix)...)
}

// named is the name that the class itself uses for a field.
func (c *class) named(field string) string {
	if n := c.Names[field]; n != "" {
		return n
	}
	return field
}

// absurd bounds the number of layers; real models have some hundred at most.
const absurd = 10_000

// dimensions judges the numbers without which there is no model.
func (c *class) dimensions(o object, prefix string) (out []Misfit) {
	for _, name := range []string{"num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "vocab_size", "max_position_embeddings"} {
		key := c.named(name)
		if _, there := o[key]; !there {
			key = name
		}
		if c.Fields[c.named(name)] == "" || kindOf(o[key]) != 'i' {
			continue
		}
		n := o.integer(key)
		beyond := n < 1 && len(o[key]) > 18 // 64 bits do not hold it, so that it reads as 0
		switch {
		case n < 1 && name == "num_hidden_layers" && prefix == "vision_config.": // only some layers may be used, so it may boot: rule W-15 judges it
		case beyond && name == "max_position_embeddings": // the engine may be told a smaller one
		case beyond:
			out = append(out, Misfit{Field: prefix + key, What: fmt.Sprintf("%s is %s: there is no such model", key, excerpt(o[key]))})
		case n < 1:
			out = append(out, Misfit{Field: prefix + key, What: fmt.Sprintf("%s is %s: there is no such model", key, excerpt(o[key])), Seen: nothing[name]})
		case name == "num_hidden_layers" && n > absurd:
			out = append(out, Misfit{Field: prefix + key, What: fmt.Sprintf("%s is %d: no model has so many layers, and memory runs out while they are made", key, n)})
		}
	}
	return append(out, c.layerTypes(o, prefix)...)
}

// nothing is what the engine says of a number that is not above zero.
var nothing = map[string]string{
	"num_hidden_layers": "There is no module or parameter named 'layers.0' in …", "num_key_value_heads": "ZeroDivisionError: integer modulo by zero",
	"max_position_embeddings": "User-specified max_model_len (…) is greater than the derived max_model_len", "vocab_size": "AssertionError",
}

// layerTypes compares the list of the layers' kinds with their number.
func (c *class) layerTypes(o object, prefix string) (out []Misfit) {
	layers, _ := c.number(o, "num_hidden_layers")
	for _, list := range []struct {
		field   string
		allowed []string
	}{{"layer_types", fieldsOf().LayerTypes}, {"mlp_layer_types", fieldsOf().MLPTypes}} {
		kinds := o.strings(list.field)
		if c.Fields[list.field] == "" || len(kinds) == 0 {
			continue
		}
		for _, k := range kinds {
			if !slices.Contains(list.allowed, k) {
				return append(out, Misfit{Field: prefix + list.field, What: fmt.Sprintf("%s has %.40q, which the engine does not know", list.field, k),
					Seen: fmt.Sprintf("The `%s` entries must be in (…) but got […]", list.field)})
			}
		}
		if layers > 0 && len(kinds) != layers {
			out = append(out, Misfit{Field: prefix + list.field, What: fmt.Sprintf("%s lists %d layers, num_hidden_layers is %d", list.field, len(kinds), layers),
				Seen: fmt.Sprintf("`num_hidden_layers` (%d) must be equal to the number of `%s` (%d)", layers, list.field, len(kinds))})
		}
	}
	return out
}

// kindOf is the letter of a JSON value's kind as Python reads it: i whole number,
// f other number, b truth, s text, n null, d object, L list.
func kindOf(raw json.RawMessage) byte {
	text := bytes.TrimSpace(raw)
	if len(text) == 0 {
		return 0
	}
	switch text[0] {
	case '"':
		return 's'
	case 't', 'f':
		return 'b'
	case 'n':
		return 'n'
	case '{':
		if infinite(text) {
			return 'f'
		}
		return 'd'
	case '[':
		return 'L'
	}
	if bytes.ContainsAny(text, ".eE") {
		return 'f'
	}
	return 'i'
}

// infinite reports whether an object is how transformers 5 writes a number that JSON
// does not have: {"__float__": "Infinity"}.
func infinite(text []byte) bool {
	var o map[string]string
	return len(text) < 64 && json.Unmarshal(text, &o) == nil && len(o) == 1 && o["__float__"] != ""
}

// allows reports whether a value is of one of the kinds; capital letters are lists
// of such values, and e is an empty one.
func allows(kinds string, raw json.RawMessage) bool {
	kind := kindOf(raw)
	if kind != 'L' {
		return strings.IndexByte(kinds, kind) >= 0
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return strings.ContainsAny(kinds, "eIFBSNDL")
	}
	for _, item := range list {
		inner := kindOf(item)
		if inner != 'L' {
			inner -= 'a' - 'A'
		}
		if strings.IndexByte(kinds, inner) < 0 {
			return false
		}
	}
	return true
}

// kindWords are the kinds for people and as Python calls them.
var kindWords = []struct {
	letter         byte
	people, python string
}{
	{'i', "a whole number", "int"}, {'f', "a number with a decimal point", "float"}, {'b', "true or false", "bool"}, {'s', "text", "str"},
	{'d', "an object", "dict"}, {'I', "a list of whole numbers", "list"}, {'F', "a list of numbers", "list"}, {'S', "a list of texts", "list"},
	{'B', "a list of true and false", "list"}, {'D', "a list of objects", "list"}, {'L', "a list of lists", "list"}, {'n', "null", "NoneType"},
}

func words(kinds string) string {
	var all []string
	for _, k := range kindWords {
		if strings.IndexByte(kinds, k.letter) >= 0 {
			all = append(all, k.people)
		}
	}
	return strings.Join(all, " or ")
}

// refusal is the validator's own text.
func refusal(field string, raw json.RawMessage, kinds string) string {
	got := ""
	for _, k := range kindWords {
		if k.letter == kindOf(raw) {
			got = k.python
		}
	}
	for _, k := range kindWords {
		if kinds == string(k.letter) {
			return fmt.Sprintf("TypeError: Field '%s' expected %s, got %s (value: …)", field, k.python, got)
		}
	}
	return fmt.Sprintf("TypeError: Field '%s' with value … doesn't match any type in …", field)
}

// excerpt is the beginning of a value.
func excerpt(raw json.RawMessage) string {
	text := string(bytes.TrimSpace(raw))
	if len(text) > 40 {
		text = strings.ToValidUTF8(text[:40], "") + "…"
	}
	return text
}
