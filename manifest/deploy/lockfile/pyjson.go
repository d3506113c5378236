package lockfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// errNoJSON says that a value has no form in Python's json module.
var errNoJSON = errors.New("a value that Python's json module cannot write")

// pythonJSON writes a value as Python's json.dumps(v, sort_keys=True) does:
// poetry, pdm, pipenv and conda-lock hash that text. item and key separate items
// and keys: ", " and ": " unless a tool asks for others.
func pythonJSON(v any, item, key string) (string, error) {
	w := pyWriter{item: item, key: key}
	err := w.value(v)
	return w.b.String(), err
}

type pyWriter struct {
	b         strings.Builder
	item, key string
}

func (w *pyWriter) value(v any) error {
	switch v := v.(type) {
	case nil:
		w.b.WriteString("null")
	case bool:
		w.b.WriteString(strconv.FormatBool(v))
	case int:
		w.b.WriteString(strconv.Itoa(v))
	case int64:
		w.b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		w.b.WriteString(pythonFloat(v))
	case string:
		w.text(v)
	case []string:
		return list(w, v)
	case []any:
		return list(w, v)
	case []map[string]any:
		return list(w, v)
	case map[string]any:
		return w.object(v)
	default:
		return fmt.Errorf("%w: %T", errNoJSON, v)
	}
	return nil
}

func list[T any](w *pyWriter, items []T) error {
	w.b.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			w.b.WriteString(w.item)
		}
		if err := w.value(item); err != nil {
			return err
		}
	}
	w.b.WriteByte(']')
	return nil
}

func (w *pyWriter) object(m map[string]any) error {
	w.b.WriteByte('{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			w.b.WriteString(w.item)
		}
		w.text(k)
		w.b.WriteString(w.key)
		if err := w.value(m[k]); err != nil {
			return err
		}
	}
	w.b.WriteByte('}')
	return nil
}

// text writes ASCII only, as ensure_ascii does.
func (w *pyWriter) text(s string) {
	w.b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			w.b.WriteByte('\\')
			w.b.WriteRune(r)
		case r == '\n':
			w.b.WriteString(`\n`)
		case r == '\r':
			w.b.WriteString(`\r`)
		case r == '\t':
			w.b.WriteString(`\t`)
		case r == '\b':
			w.b.WriteString(`\b`)
		case r == '\f':
			w.b.WriteString(`\f`)
		case r < ' ' || r >= 0x7f && r <= 0xffff:
			w.escape(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			w.escape(high)
			w.escape(low)
		default:
			w.b.WriteRune(r)
		}
	}
	w.b.WriteByte('"')
}

func (w *pyWriter) escape(r rune) { fmt.Fprintf(&w.b, `\u%04x`, r) }

// pythonFloat writes a float as Python's repr does.
func pythonFloat(f float64) string {
	exp := strconv.FormatFloat(f, 'e', -1, 64)
	_, digits, _ := strings.Cut(exp, "e")
	if n, err := strconv.Atoi(digits); err == nil && (n < -4 || n >= 16) {
		return exp
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.ContainsAny(s, ".IN") {
		s += ".0"
	}
	return s
}
