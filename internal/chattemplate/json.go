package chattemplate

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// toJSON is transformers' tojson: Python's json.dumps with ensure_ascii off,
// so ", " and ": " between items, keys in their order and no HTML escapes.
func toJSON(_ *exec.Evaluator, in *exec.Value, params *exec.VarArgs) *exec.Value {
	if in.IsError() {
		return in
	}
	indent := -1
	for k, v := range params.KwArgs {
		if k != "indent" || !v.IsInteger() || v.Integer() < 0 || v.Integer() > 16 {
			return exec.AsValue(fmt.Errorf("tojson: the argument %s is not supported here", k))
		}
		indent = v.Integer()
	}
	if len(params.Args) > 0 {
		return exec.AsValue(fmt.Errorf("tojson takes no unnamed arguments here"))
	}
	var b bytes.Buffer
	if err := writeJSON(&b, in.Interface(), indent, 0); err != nil {
		return exec.AsValue(fmt.Errorf("tojson: %w", err))
	}
	return exec.AsSafeValue(b.String())
}

const maxDepth = 200

func writeJSON(b *bytes.Buffer, v any, indent, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("more than %d levels", maxDepth)
	}
	switch x := v.(type) {
	case *exec.Value:
		return writeJSON(b, x.Interface(), indent, depth)
	case *exec.Dict:
		return writeObject(b, len(x.Pairs), indent, depth, func(i int) (string, any) {
			return x.Pairs[i].Key.String(), x.Pairs[i].Value.Interface()
		})
	case map[string]any:
		keys := slices.Sorted(maps.Keys(x))
		return writeObject(b, len(keys), indent, depth, func(i int) (string, any) { return keys[i], x[keys[i]] })
	case []any:
		return writeList(b, len(x), indent, depth, func(i int) any { return x[i] })
	case exec.ValuesList:
		return writeList(b, len(x), indent, depth, func(i int) any { return x[i].Interface() })
	default:
		return writeScalar(b, v)
	}
}

func writeScalar(b *bytes.Buffer, v any) error {
	switch x := v.(type) {
	case nil:
		b.WriteString("null")
	case bool, int, int64:
		fmt.Fprint(b, x)
	case string:
		writeString(b, x)
	default:
		return fmt.Errorf("a value of type %T is not supported here", v)
	}
	return nil
}

// writeString escapes what Python escapes: quote, backslash and control
// characters. Go's own encoder escapes U+2028 and U+2029 too.
func writeString(b *bytes.Buffer, s string) {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}
	b.WriteByte('"')
	for _, r := range s {
		if e, ok := short[r]; ok {
			b.WriteString(e)
		} else if r < ' ' {
			fmt.Fprintf(b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}

func writeObject(b *bytes.Buffer, n, indent, depth int, at func(int) (string, any)) error {
	b.WriteByte('{')
	for i := range n {
		separate(b, i, indent, depth+1)
		k, v := at(i)
		if err := writeScalar(b, k); err != nil {
			return err
		}
		b.WriteString(": ")
		if err := writeJSON(b, v, indent, depth+1); err != nil {
			return err
		}
	}
	if n > 0 {
		newline(b, indent, depth)
	}
	b.WriteByte('}')
	return nil
}

func writeList(b *bytes.Buffer, n, indent, depth int, at func(int) any) error {
	b.WriteByte('[')
	for i := range n {
		separate(b, i, indent, depth+1)
		if err := writeJSON(b, at(i), indent, depth+1); err != nil {
			return err
		}
	}
	if n > 0 {
		newline(b, indent, depth)
	}
	b.WriteByte(']')
	return nil
}

func separate(b *bytes.Buffer, i, indent, depth int) {
	switch {
	case i > 0 && indent < 0:
		b.WriteString(", ")
	case i > 0:
		b.WriteByte(',')
	}
	newline(b, indent, depth)
}

func newline(b *bytes.Buffer, indent, depth int) {
	if indent >= 0 {
		b.WriteString("\n" + strings.Repeat(" ", indent*depth))
	}
}
