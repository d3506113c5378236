package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// object is a JSON object whose members are read one by one, so that one odd
// member does not hide the others.
type object map[string]json.RawMessage

// object reads a JSON object from a file; what is wrong with it becomes a
// problem. It is nil when the file is absent or unreadable.
func (r *repository) object(path string) object {
	f, ok := r.files[path]
	if !ok || r.broken(path) {
		return nil
	}
	o, line, err := parseObject(f.Content)
	switch {
	case !f.whole():
		r.problem(path, KindInvalidJSON, 0, fmt.Sprintf("it has %d bytes, more than drkit reads of such a file", f.Size))
		return nil
	case err != nil:
		r.problem(path, KindInvalidJSON, line, err.Error())
		return nil
	}
	return o
}

// quietly reads an object without noting what is wrong with it.
func (r *repository) quietly(path string) object {
	o, _, err := parseObject(r.files[path].Content)
	if err != nil {
		return nil
	}
	return o
}

// parseObject reads what Python's json module reads: the numbers NaN and
// Infinity too, but no other encoding than UTF-8.
func parseObject(text []byte) (object, int, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, 0, fmt.Errorf("it is empty (%d bytes)", len(text))
	}
	if !utf8.Valid(text) {
		return nil, 0, errors.New("it is not UTF-8 text")
	}
	var o object
	err := json.Unmarshal(text, &o)
	if err != nil && (bytes.Contains(text, []byte("NaN")) || bytes.Contains(text, []byte("Infinity"))) {
		err = json.Unmarshal(withoutNaN(text), &o)
	}
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return nil, 1 + bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n")), fmt.Errorf("it is not valid JSON: %w", err)
	case errors.As(err, &typ):
		return nil, 1, fmt.Errorf("it is JSON, but a %s instead of an object", typ.Value)
	case err != nil:
		return nil, 0, err
	case o == nil:
		return nil, 1, errors.New("it is JSON, but null instead of an object")
	}
	return o, 0, nil
}

// withoutNaN replaces the bare words NaN and Infinity by 0.0 of the same length.
func withoutNaN(text []byte) []byte {
	out := bytes.Clone(text)
	quoted := false
	for i := 0; i < len(out); i++ {
		switch {
		case quoted && out[i] == '\\':
			i++
		case out[i] == '"':
			quoted = !quoted
		case !quoted:
			for _, word := range []string{"NaN", "Infinity"} {
				if bytes.HasPrefix(out[i:], []byte(word)) {
					copy(out[i:], "0.0     "[:len(word)])
				}
			}
		}
	}
	return out
}

// get decodes a member into v and reports whether it was there, not null and of
// v's type.
func (o object) get(key string, v any) bool {
	raw, ok := o[key]
	return ok && string(raw) != "null" && json.Unmarshal(raw, v) == nil
}

func (o object) str(key string) (s string) { o.get(key, &s); return s }

// integer is 0 when the member is absent or no whole number.
func (o object) integer(key string) int {
	var n float64
	if o.get(key, &n) && n == float64(int(n)) {
		return int(n)
	}
	return 0
}

func (o object) truth(key string) (b bool) { o.get(key, &b); return b }

// strings reads a list of strings, or one string as a list of one.
func (o object) strings(key string) []string {
	var list []string
	if o.get(key, &list) {
		return list
	}
	if s := o.str(key); s != "" {
		return []string{s}
	}
	return nil
}

// integers reads a list of whole numbers, or one number as a list of one.
func (o object) integers(key string) []int {
	var list []int
	if o.get(key, &list) {
		return list
	}
	var n int
	if o.get(key, &n) {
		return []int{n}
	}
	return nil
}

// object is the member as an object, or nil.
func (o object) object(key string) object {
	var m object
	o.get(key, &m)
	return m
}

// sortedKeys are the names of an object's members in order.
func sortedKeys(o object) []string { return slices.Sorted(maps.Keys(o)) }
