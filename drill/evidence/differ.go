package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// compare finds where two documents differ: in a value, or only in how it is written.
func compare(want, got []byte) (field, what string) {
	var a, b any
	if err := decodeNumbers(want, &a); err != nil {
		return "", err.Error()
	}
	at := firstDifference(want, got)
	if err := decodeNumbers(got, &b); err != nil {
		return "", fmt.Sprintf("from byte %d on it is not what the journal says, and no JSON: %v", at, err)
	}
	if field, what = differ("", a, b); what == "" {
		what = fmt.Sprintf("from byte %d on it is written otherwise than the journal's evidence", at)
	}
	return field, what
}

func decodeNumbers(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(v)
}

func firstDifference(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// differ walks two documents; the pointer of the first difference, "" for none.
func differ(at string, want, got any) (field, what string) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return at, "the journal says an object"
		}
		return differMaps(at, w, g)
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return at, fmt.Sprintf("the journal says %d elements", len(w))
		}
		for i := range w {
			if field, what = differ(at+"/"+strconv.Itoa(i), w[i], g[i]); what != "" {
				return field, what
			}
		}
		return "", ""
	}
	if want != got {
		return at, fmt.Sprintf("the journal says %.80s, it says %.80s", text(want), text(got))
	}
	return "", ""
}

func differMaps(at string, want, got map[string]any) (field, what string) {
	keys := []string{}
	for k := range want {
		keys = append(keys, k)
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	sums := false
	for _, k := range keys {
		w, okW := want[k]
		g, okG := got[k]
		switch {
		case at == "" && k == "sum": // it follows from the rest: told last
			sums = w != g
		case !okW:
			return at + "/" + k, "the journal's evidence has no such field"
		case !okG:
			return at + "/" + k, "the field is missing"
		default:
			if field, what = differ(at+"/"+k, w, g); what != "" {
				return field, what
			}
		}
	}
	if sums {
		return "/sum", "it is not the sum of the journal's evidence"
	}
	return "", ""
}

func text(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}
