package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// redactStrings passes every string value inside raw through redact. It works on
// the decoded values: in their JSON form a secret with a quote or a bracket in it
// would not be found. What holds no secret stays byte for byte.
func redactStrings(raw json.RawMessage, redact func([]byte) []byte) (json.RawMessage, error) {
	if redact == nil || len(raw) == 0 {
		return raw, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // nanoseconds do not fit a float
	var data any
	if err := d.Decode(&data); err != nil {
		return nil, fmt.Errorf("bad data: %w", err)
	}
	data, changed := walk(data, redact)
	if !changed {
		return raw, nil
	}
	return json.Marshal(data)
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
