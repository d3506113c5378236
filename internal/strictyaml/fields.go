package strictyaml

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// field is a struct field that can be decoded, and its rule.
type field struct {
	index []int
	rule  rule
}

// rule is what the tag strict says of a field.
type rule struct {
	required bool
	enum     []string
	min, max string // as written: numbers or durations
}

// ofElement is what holds for each element of a list or map.
func (r rule) ofElement() rule { r.required = false; return r }

// fieldsOf returns the fields of a struct type that have a yaml tag, by key;
// those of an inlined struct as its own.
func fieldsOf(t reflect.Type) map[string]field {
	out := map[string]field{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case options == "inline":
			for key, in := range fieldsOf(f.Type) {
				out[key] = field{append(slices.Clone(f.Index), in.index...), in.rule}
			}
		case name != "" && name != "-":
			out[name] = field{f.Index, parseRule(f.Tag.Get("strict"))}
		}
	}
	return out
}

func parseRule(tag string) (r rule) {
	for part := range strings.SplitSeq(tag, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "required":
			r.required = true
		case "enum":
			r.enum = strings.Split(value, "|")
		case "min":
			r.min = value
		case "max":
			r.max = value
		}
	}
	return r
}

func names(fields map[string]field) []string { return slices.Sorted(maps.Keys(fields)) }

// empty reports whether a required value says nothing: "", an empty list or map.
// Numbers, durations and structs say something when they are written.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return strings.TrimSpace(v.String()) == ""
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return false
}
