package engine

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// Python values as the configuration holds them: nil, bool, int64, *big.Int,
// float64, string, []any, *dict, moment (date, datetime) and pyBytes.

// moment is a Python date or datetime.
type moment struct {
	text  string // what str() gives
	class string // "date" or "datetime"
}

// pyBytes is the value of a !!binary node.
type pyBytes string

// dict is a Python dict: ordered by first insertion, the last value of a key wins.
type dict struct {
	items []item
	index map[any]int
}

type item struct {
	key, value any
	line       int // of the key, 0 when unknown
}

func newDict() *dict { return &dict{index: map[any]int{}} }

// set stores value under key and reports whether the key was there before.
func (d *dict) set(key, value any, line int) bool {
	hash := hashable(key)
	if i, ok := d.index[hash]; ok {
		d.items[i].value, d.items[i].line = value, line
		return true
	}
	d.index[hash] = len(d.items)
	d.items = append(d.items, item{key, value, line})
	return false
}

func (d *dict) get(key any) (any, bool) {
	i, ok := d.index[hashable(key)]
	if !ok {
		return nil, false
	}
	return d.items[i].value, true
}

// hashable folds keys that Python holds equal (1, 1.0 and True) into one.
func hashable(key any) any {
	switch k := key.(type) {
	case bool:
		if k {
			return int64(1)
		}
		return int64(0)
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<53 {
			return int64(k)
		}
	case *big.Int:
		return "int:" + k.String()
	case string:
		return "str:" + k
	}
	return key
}

// className is the value's class as Python's messages name it.
func className(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case []any:
		return "list"
	case *dict:
		return "dict"
	case moment:
		return v.class
	case pyBytes:
		return "bytes"
	}
	return "object"
}

// text is Python's str(v).
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case moment:
		return v.text
	}
	return repr(v)
}

// repr is Python's repr(v).
func repr(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int64:
		return strconv.FormatInt(v, 10)
	case *big.Int:
		return v.String()
	case float64:
		return floatText(v)
	case string:
		return quote(v)
	case pyBytes:
		return "b" + quote(string(v))
	case moment:
		return momentRepr(v)
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = repr(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case *dict:
		parts := make([]string, len(v.items))
		for i, it := range v.items {
			parts[i] = repr(it.key) + ": " + repr(it.value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v)
}

func momentRepr(m moment) string {
	numbers := strings.FieldsFunc(m.text, func(r rune) bool { return r < '0' || r > '9' })
	for i, n := range numbers {
		if numbers[i] = strings.TrimLeft(n, "0"); numbers[i] == "" {
			numbers[i] = "0"
		}
	}
	return "datetime." + m.class + "(" + strings.Join(numbers, ", ") + ")"
}

// floatText is Python's repr of a float: the shortest text that reads back
// equal, with an exponent below 1e-4 and from 1e16 on.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	short := strconv.FormatFloat(f, 'e', -1, 64)
	exponent, _ := strconv.Atoi(short[strings.IndexByte(short, 'e')+1:])
	if f != 0 && (exponent < -4 || exponent >= 16) {
		return short // Go writes the exponent with two digits, too
	}
	plain := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(plain, ".") {
		plain += ".0"
	}
	return plain
}

// quote is Python's repr of a string.
func quote(s string) string {
	mark := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		mark = '"'
	}
	var b strings.Builder
	b.WriteByte(mark)
	for _, r := range s {
		switch {
		case r == '\\' || r == rune(mark):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0x7f && !unicode.IsPrint(r):
			writeEscaped(&b, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte(mark)
	return b.String()
}

func writeEscaped(b *strings.Builder, r rune) {
	switch {
	case r <= 0xff:
		fmt.Fprintf(b, `\x%02x`, r)
	case r <= 0xffff:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}

// equal compares as Python's == does, so that 4 equals 4.0.
func equal(a, b any) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case *dict:
		b, ok := b.(*dict)
		if !ok || len(a.items) != len(b.items) {
			return false
		}
		for _, it := range a.items {
			other, ok := b.get(it.key)
			if !ok || !equal(it.value, other) {
				return false
			}
		}
		return true
	case *big.Int:
		b, ok := b.(*big.Int)
		return ok && a.Cmp(b) == 0
	}
	switch b.(type) {
	case []any, *dict:
		return false
	}
	return a == b
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// plain turns a value into what encoding/json writes: map[string]any, []any,
// string, bool, int64, float64, nil.
func plain(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plain(e)
		}
		return out
	case *dict:
		out := make(map[string]any, len(v.items))
		for _, it := range v.items {
			out[text(it.key)] = plain(it.value)
		}
		return out
	case *big.Int:
		return v.String()
	case moment:
		return v.text
	case pyBytes:
		return string(v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return floatText(v)
		}
	}
	return v
}
