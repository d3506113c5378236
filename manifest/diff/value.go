package diff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// tree is a value as JSON has it: map[string]any, []any, text, json.Number,
// true, false or nil.
func tree(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	out, _ := parseJSON(data)
	return out
}

func parseJSON(data []byte) (any, bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return nil, false
	}
	return v, true
}

// absent stands for a field that one side does not have; null is a value.
type absent struct{}

// leaf is called for each place where two trees differ.
type leaf func(at []string, from, to any)

const maxDepth = 100 // levels that are looked into; below, values are compared whole

// walk compares two trees. Lists of plain values are compared whole; lists of
// objects element by element, by their names where all have one.
func walk(from, to any, at []string, found leaf) {
	if reflect.DeepEqual(from, to) || equalNumbers(from, to, at) {
		return
	}
	switch x := from.(type) {
	case map[string]any:
		if y, ok := to.(map[string]any); ok && len(at) < maxDepth {
			walkMaps(x, y, at, found)
			return
		}
	case []any:
		if y, ok := to.([]any); ok && len(at) < maxDepth && walkLists(x, y, at, found) {
			return
		}
	}
	found(slices.Clone(at), from, to)
}

func walkMaps(from, to map[string]any, at []string, found leaf) {
	keys := slices.Sorted(maps.Keys(from))
	for k := range to {
		if _, both := from[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		walk(valueOf(from, k), valueOf(to, k), append(at, k), found)
	}
}

func valueOf(m map[string]any, key string) any {
	if v, ok := m[key]; ok {
		return v
	}
	return absent{}
}

// walkLists reports false for lists that are compared whole.
func walkLists(from, to []any, at []string, found leaf) bool {
	x, y := byName(from), byName(to)
	if x != nil && y != nil {
		walkMaps(x, y, at, found)
		return true
	}
	if len(from) != len(to) || !objects(from) || !objects(to) {
		return false
	}
	for i := range from {
		walk(from[i], to[i], append(at, strconv.Itoa(i)), found)
	}
	return true
}

func objects(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool { _, ok := v.(map[string]any); return !ok })
}

// byName makes a map of a list of objects that each have a name, as Kubernetes
// and chat templates write them; nil where they do not, or two share one.
func byName(list []any) map[string]any {
	out := map[string]any{}
	for _, v := range list {
		o, _ := v.(map[string]any)
		name, ok := o["name"].(string)
		if _, twice := out[name]; !ok || twice {
			return nil
		}
		out[name] = v
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// equalNumbers treats 1e-05 and 0.00001 as equal, as engines read them. A whole
// number and the same one with a point are equal where only fractions are meant:
// elsewhere 32.0 layers may be refused.
func equalNumbers(a, b any, at []string) bool {
	x, ok := a.(json.Number)
	y, also := b.(json.Number)
	if !ok || !also || whole(x) && whole(y) {
		return false // their text differs
	}
	if whole(x) != whole(y) && !strings.Contains(strings.Join(at, "."), "rope") {
		return false
	}
	f, err := x.Float64()
	g, err2 := y.Float64()
	return err == nil && err2 == nil && f == g
}

func whole(n json.Number) bool { return !strings.ContainsAny(n.String(), ".eE") }

// plain is a value for the JSON of a result: nil where the field is absent, or the
// value too long to be looked at.
func plain(v any) any {
	if _, none := v.(absent); none || len(full(v)) > maxValue {
		return nil
	}
	return v
}

const maxValue = 4 << 10 // bytes of a value in a result

// full is a value as text, whole.
func full(v any) string {
	switch x := v.(type) {
	case absent:
		return ""
	case string:
		return x
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

const shown = 100 // runes of a value in a message

// show is a value in a message.
func show(v any) string {
	var text string
	switch x := v.(type) {
	case absent:
		return "none"
	case string:
		text = x
		if x == "" || strings.ContainsAny(x, " \n\t\"") {
			text = strconv.Quote(x)
		}
	case json.Number:
		text = strings.TrimSuffix(x.String(), ".0")
	default:
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(v)
		text = strings.TrimSpace(b.String())
	}
	if r := []rune(text); len(r) > shown {
		return string(r[:shown-1]) + "…"
	}
	return text
}

const longList = 12 // elements; longer lists are described by what changed in them

// showBoth says how a value changed.
func showBoth(from, to any) string {
	x, ok := from.([]any)
	y, also := to.([]any)
	if !ok || !also || max(len(x), len(y)) <= longList {
		return arrow(from, to)
	}
	gone, more := lostFrom(x, y), lostFrom(y, x)
	switch {
	case gone+more == 0:
		return fmt.Sprintf("%d entries in another order", len(x))
	case len(x) == len(y):
		return fmt.Sprintf("%d of %d entries differ", gone, len(x))
	}
	return fmt.Sprintf("%d → %d entries, %d gone, %d new", len(x), len(y), gone, more)
}

// arrow shows two values; where that shows no difference, as they are written.
func arrow(from, to any) string {
	x, y := show(from), show(to)
	if x == y {
		x, y = full(from), full(to)
	}
	if len(x)+len(y) > 4*shown {
		return "differs" // far behind the beginning
	}
	return x + " → " + y
}

// lostFrom counts the elements of a that b lacks.
func lostFrom(a, b []any) (n int) {
	has := map[string]int{}
	for _, v := range b {
		has[show(v)]++
	}
	for _, v := range a {
		if has[show(v)]--; has[show(v)] < 0 {
			n++
		}
	}
	return n
}
