package ledger

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// redactStrings passes every string value inside raw through redact. It works on
// the decoded values: in their JSON form a secret with a quote or a bracket in it
// would not be found. What holds no secret stays byte for byte.
func redactStrings(raw json.RawMessage, redact func([]byte) []byte) (json.RawMessage, error) {
	if redact == nil || len(raw) == 0 {
		return raw, nil
	}
	data, err := decode(raw)
	if err != nil {
		return nil, err
	}
	data, changed := walk(data, redact)
	if !changed {
		return raw, nil
	}
	return json.Marshal(data)
}

func decode(raw json.RawMessage) (data any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // nanoseconds do not fit a float
	if err := d.Decode(&data); err != nil {
		return nil, fmt.Errorf("bad data: %w", err)
	}
	return data, nil
}

// secretsIn are the places inside raw, such as set.PASSWORD or add[0].url, whose strings
// redact would change; sorted.
func secretsIn(raw json.RawMessage, redact func([]byte) []byte) ([]string, error) {
	if redact == nil || len(raw) == 0 {
		return nil, nil
	}
	data, err := decode(raw)
	if err != nil {
		return nil, err
	}
	return places(data, "", redact), nil
}

func places(data any, at string, redact func([]byte) []byte) (all []string) {
	switch v := data.(type) {
	case string:
		if string(redact([]byte(v))) != v {
			return []string{cmp.Or(at, "text")}
		}
	case []any:
		for i := range v {
			all = append(all, places(v[i], fmt.Sprintf("%s[%d]", at, i), redact)...)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			all = append(all, places(v[k], strings.TrimPrefix(at+"."+k, "."), redact)...)
		}
	}
	return all
}

func walk(data any, redact func([]byte) []byte) (clean any, changed bool) {
	switch v := data.(type) {
	case string:
		s := string(redact([]byte(v)))
		return s, s != v
	case []any:
		for i := range v {
			c, ch := walk(v[i], redact)
			v[i], changed = c, changed || ch
		}
	case map[string]any:
		for k := range v {
			c, ch := walk(v[k], redact)
			v[k], changed = c, changed || ch
		}
	}
	return data, changed
}
