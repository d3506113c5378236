package diff

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// parseYAML reads all documents. Several are told apart by kind and name.
func parseYAML(data []byte) (any, bool) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	docs := map[string]any{}
	for n := 0; ; n++ {
		var v any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || n > 10_000 {
			return nil, false
		}
		docs[document(v, n)] = fromYAML(v)
	}
	if len(docs) == 1 {
		for key, v := range docs {
			if !strings.HasPrefix(key, "Secret") {
				return v, true
			}
		}
	}
	return docs, true
}

// fromYAML makes of a value what parseJSON would.
func fromYAML(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, one := range x {
			x[k] = fromYAML(one)
		}
	case map[any]any:
		out := map[string]any{}
		for k, one := range x {
			out[fmt.Sprint(k)] = fromYAML(one)
		}
		return out
	case []any:
		for i, one := range x {
			x[i] = fromYAML(one)
		}
	case int, int64, uint64:
		return json.Number(fmt.Sprint(x))
	case float64:
		if text := strconv.FormatFloat(x, 'g', -1, 64); !strings.ContainsAny(text, "nN") { // NaN and infinity stay as they are
			return json.Number(text)
		}
		return fmt.Sprint(x)
	case time.Time:
		return x.Format(time.RFC3339Nano)
	}
	return v
}

func document(v any, n int) string {
	o, _ := v.(map[string]any)
	meta, _ := o["metadata"].(map[string]any)
	kind, _ := o["kind"].(string)
	name, _ := meta["name"].(string)
	if kind == "Secret" {
		return fmt.Sprintf("Secret %s stringData", name) // a name that keeps its values from being shown
	}
	if kind == "" && name == "" {
		return fmt.Sprint(n)
	}
	return kind + " " + name
}
