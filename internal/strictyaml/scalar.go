package strictyaml

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// scalar decodes text, numbers, truth values and durations.
func (w *walker) scalar(n *yaml.Node, v reflect.Value, path string, r rule) {
	want, tags := wanted(v)
	if n.Kind != yaml.ScalarNode || !slices.Contains(tags, n.ShortTag()) {
		w.wrongType(n, path, want)
		return
	}
	switch {
	case v.Type() == durationType:
		w.duration(n, v, path, r)
	case v.Kind() == reflect.String:
		w.enum(n, v, path, r)
	default:
		w.number(n, v, path, r)
	}
}

// wanted names what v takes and the YAML types that fit.
func wanted(v reflect.Value) (name string, tags []string) {
	switch {
	case v.Type() == durationType:
		return "a duration such as 30m", []string{"!!str"}
	case v.Kind() == reflect.Bool:
		return "true or false", []string{"!!bool"}
	case v.CanInt() || v.CanUint():
		return "a whole number", []string{"!!int"}
	case v.CanFloat():
		return "a number", []string{"!!int", "!!float"}
	}
	return "text", textTags
}

// textTags are the YAML types of text; a date without quotes is text as well.
var textTags = []string{"!!str", "!!timestamp"}

func (w *walker) duration(n *yaml.Node, v reflect.Value, path string, r rule) {
	d, err := time.ParseDuration(n.Value)
	if err != nil {
		w.report(n, path, fmt.Sprintf("%s is not a duration", quote(n.Value)), "write it as 90s, 30m or 1h30m")
		return
	}
	if low, err := time.ParseDuration(r.min); err == nil && d < low {
		w.report(n, path, fmt.Sprintf("is %s: must be at least %s", n.Value, r.min), "")
		return
	}
	if high, err := time.ParseDuration(r.max); err == nil && d > high {
		w.report(n, path, fmt.Sprintf("is %s: must be at most %s", n.Value, r.max), "")
		return
	}
	v.SetInt(int64(d))
}

func (w *walker) enum(n *yaml.Node, v reflect.Value, path string, r rule) {
	if r.enum != nil && !slices.Contains(r.enum, n.Value) {
		w.report(n, path, fmt.Sprintf("%s is not one of %s", quote(n.Value), strings.Join(r.enum, ", ")), didYouMean(n.Value, r.enum))
		return
	}
	v.SetString(n.Value)
}

// number decodes what yaml.v3 recognised as a number or truth value, so that its
// spellings (0x10, 1_000) stay right, and checks range and size.
func (w *walker) number(n *yaml.Node, v reflect.Value, path string, r rule) {
	to := reflect.New(v.Type())
	if err := n.Decode(to.Interface()); err != nil {
		w.report(n, path, "is too large, or not such a number at all", "")
		return
	}
	got, ok := asFloat(to.Elem())
	switch {
	case ok && (math.IsNaN(got) || math.IsInf(got, 0)):
		w.report(n, path, "is not a finite number", "")
		return
	case ok && r.min != "" && got < number(r.min):
		w.report(n, path, fmt.Sprintf("is %s: must be at least %s", n.Value, r.min), "")
		return
	case ok && r.max != "" && got > number(r.max):
		w.report(n, path, fmt.Sprintf("is %s: must be at most %s", n.Value, r.max), "")
		return
	}
	v.Set(to.Elem())
}

func asFloat(v reflect.Value) (float64, bool) {
	switch {
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanUint():
		return float64(v.Uint()), true
	case v.CanFloat():
		return v.Float(), true
	}
	return 0, false
}

// number reads a bound out of a tag, which this program's own code wrote.
func number(s string) float64 { f, _ := strconv.ParseFloat(s, 64); return f }

// wrongType reports a value of another type. It names the type and not the
// value, which may be a secret in a wrong place.
func (w *walker) wrongType(n *yaml.Node, path, want string) {
	hint := ""
	switch {
	case isPlaceholder(n):
		hint = `put {{…}} in quotes`
	case want == "text" && n.Kind == yaml.ScalarNode:
		hint = "put it in quotes"
	case want == "a list" && n.Kind == yaml.ScalarNode:
		hint = "put it in brackets: [ … ]"
	case strings.HasPrefix(want, "a duration") && n.Kind == yaml.ScalarNode:
		hint = "add the unit: 30s"
	}
	w.report(n, path, fmt.Sprintf("must be %s, not %s", want, kindOf(n)), hint)
}

// isPlaceholder reports whether n is what YAML makes of an unquoted {{port}}: a
// mapping whose key is a mapping.
func isPlaceholder(n *yaml.Node) bool {
	return n.Kind == yaml.MappingNode && len(n.Content) == 2 && n.Content[0].Kind == yaml.MappingNode
}

// kindOf names the type of a value for a person.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!int":
		return "a number"
	case "!!float":
		return "a decimal number"
	case "!!bool":
		return "true or false"
	case "!!null":
		return "nothing"
	}
	return "text"
}

// knownTag refuses tags that ask for a type of their own; a core tag on a value
// that is not of that type makes the type of the value wrong, and is said there.
func knownTag(n *yaml.Node) bool {
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!map", "!!seq":
		return true
	case "!!merge": // "<<" as a value is text
		return n.Kind == yaml.ScalarNode
	}
	return false
}

// quote shortens and quotes a value for a message.
func quote(s string) string {
	if r := []rune(s); len(r) > 40 {
		s = string(r[:40]) + "…"
	}
	return strconv.Quote(s)
}
