package engine

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Limits keep foreign input from using up the machine; both lie far above any
// configuration that a person writes.
const (
	maxJSONDepth = 500
	maxJSONBytes = 16 << 20
)

// dumps writes v as Python's json.dumps does with its defaults: ", " and ": "
// as separators, ASCII only. The failure carries Python's exception.
func dumps(v any) (string, *failure) {
	var b strings.Builder
	if f := dump(&b, v, 0); f != nil {
		return "", f
	}
	return b.String(), nil
}

func dump(b *strings.Builder, v any, depth int) *failure {
	if depth > maxJSONDepth || b.Len() > maxJSONBytes {
		return &failure{exit: 1, errorType: "ValueError", text: "Circular reference detected", kind: KindBadValue,
			what: "the value contains itself, or is nested too deeply, and cannot become JSON"}
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case float64:
		b.WriteString(jsonFloat(v))
	case int64, *big.Int:
		b.WriteString(repr(v))
	case string:
		dumpString(b, v)
	case []any:
		return dumpList(b, v, depth)
	case *dict:
		return dumpDict(b, v, depth)
	default:
		return &failure{exit: 1, errorType: "TypeError", kind: KindBadValue,
			text: fmt.Sprintf("Object of type %s is not JSON serializable", className(v)),
			what: fmt.Sprintf("%q is read as a %s, which cannot become JSON; put it in quotation marks", text(v), className(v))}
	}
	return nil
}

func dumpList(b *strings.Builder, list []any, depth int) *failure {
	b.WriteByte('[')
	for i, e := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		if f := dump(b, e, depth+1); f != nil {
			return f
		}
	}
	b.WriteByte(']')
	return nil
}

func dumpDict(b *strings.Builder, d *dict, depth int) *failure {
	b.WriteByte('{')
	for i, it := range d.items {
		if i > 0 {
			b.WriteString(", ")
		}
		key, f := jsonKey(it.key)
		if f != nil {
			return f
		}
		dumpString(b, key)
		b.WriteString(": ")
		if f := dump(b, it.value, depth+1); f != nil {
			return f
		}
	}
	b.WriteByte('}')
	return nil
}

// jsonKey turns a key into text as json.dumps does: 1 is "1", True is "true".
func jsonKey(key any) (string, *failure) {
	switch k := key.(type) {
	case string:
		return k, nil
	case nil:
		return "null", nil
	case bool:
		return strconv.FormatBool(k), nil
	case float64:
		return jsonFloat(k), nil
	case int64, *big.Int:
		return repr(k), nil
	}
	return "", &failure{exit: 1, errorType: "TypeError", kind: KindBadValue,
		text: "keys must be str, int, float, bool or None, not " + className(key),
		what: fmt.Sprintf("the key %q is read as a %s; put it in quotation marks", text(key), className(key))}
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return floatText(f)
}

func dumpString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\b':
			b.WriteString(`\b`)
		case r == '\f':
			b.WriteString(`\f`)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
		case r < 0x20 || r > 0x7e:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}
