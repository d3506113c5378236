package kubernetes

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A strategic merge patch as Kubernetes defines it for its own types: maps are merged,
// a list is merged where the type says by which key (patchStrategy and patchMergeKey in
// the tags of k8s.io/api), and replaced elsewhere; null takes a field away; "$patch"
// says replace or delete. The library for it (apimachinery's strategicpatch) brings the
// OpenAPI parsers along, 7 MB of memory in every command; a test holds this against it.
// Further directives are for programs that write patches, and are refused.

const directive = "$patch"

// merged is a map of type t with a patch applied. Neither is changed.
func merged(before, patch map[string]any, t reflect.Type, at string) (map[string]any, error) {
	if err := directed(patch, at); err != nil {
		return nil, err
	}
	switch patch[directive] {
	case "replace":
		return bare(patch, at)
	case "delete":
		return map[string]any{}, nil
	}
	after := maps.Clone(before)
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		if key == directive {
			continue
		}
		field := strings.TrimPrefix(at+"."+key, ".")
		value, err := mergedValue(after[key], patch[key], fieldOf(t, key), field)
		if err != nil {
			return nil, err
		}
		if after[key] = value; value == nil {
			delete(after, key)
		}
	}
	return after, nil
}

// directed refuses directives that are not taken.
func directed(patch map[string]any, at string) error {
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		how := patch[key]
		switch {
		case key == directive && how != "merge" && how != "replace" && how != "delete":
			return fmt.Errorf("%s: $patch is %v: want merge, replace or delete", at, how)
		case key != directive && strings.HasPrefix(key, "$"):
			return fmt.Errorf("%s: the directive %s is not taken here: use a JSON patch", at, key)
		}
	}
	return nil
}

// slot is where a value stands: its type, nil when it is not known, and how a list is
// merged.
type slot struct {
	reflect.Type
	strategy, key string
}

func mergedValue(before, patch any, s slot, at string) (any, error) {
	replaces := s.Type == nil || s.strategy != "" && slices.Contains(strings.Split(s.strategy, ","), "replace")
	switch p := patch.(type) {
	case map[string]any:
		old, ok := before.(map[string]any)
		if !ok || replaces && s.Type != nil {
			return bare(p, at)
		}
		return merged(old, p, s.Type, at)
	case []any:
		old, ok := before.([]any)
		if !ok || !slices.Contains(strings.Split(s.strategy, ","), "merge") {
			return bareList(p, at)
		}
		return mergedList(old, p, s, at)
	}
	return patch, nil
}

// mergedList merges by key, or unites where the entries have none.
func mergedList(before, patch []any, s slot, at string) (any, error) {
	element := s.Type
	if element.Kind() == reflect.Slice {
		element = element.Elem()
	}
	after, whole := slices.Clone(before), []any{}
	replaced := false
	for i, raw := range patch {
		here := fmt.Sprintf("%s[%d]", at, i)
		entry, ok := raw.(map[string]any)
		if !ok {
			if whole = append(whole, raw); !slices.ContainsFunc(after, func(a any) bool { return reflect.DeepEqual(a, raw) }) {
				after = append(after, raw)
			}
			continue
		}
		if entry[directive] == "replace" {
			replaced = true
			continue
		}
		id, named := entry[s.key]
		if !named {
			return nil, fmt.Errorf("%s: it has no %s, by which %s is merged", here, s.key, at)
		}
		same := func(a any) bool {
			m, ok := a.(map[string]any)
			return ok && reflect.DeepEqual(m[s.key], id)
		}
		if entry[directive] == "delete" {
			after = slices.DeleteFunc(after, same)
			continue
		}
		old := map[string]any{}
		j := slices.IndexFunc(after, same)
		if j >= 0 {
			old = after[j].(map[string]any)
		}
		now, err := merged(old, entry, element, here)
		if err != nil {
			return nil, err
		}
		if whole = append(whole, now); j < 0 {
			after = append(after, now)
			continue
		}
		after[j] = now
	}
	if replaced {
		return whole, nil
	}
	return after, nil
}

// bare is a value that is new: nulls in it are nothing to take away, and directives have
// nothing to act on.
func bare(m map[string]any, at string) (map[string]any, error) {
	if err := directed(m, at); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for key, value := range m {
		if key == directive || value == nil {
			continue
		}
		now, err := bareValue(value, at+"."+key)
		if err != nil {
			return nil, err
		}
		out[key] = now
	}
	return out, nil
}

func bareList(list []any, at string) (any, error) {
	out := []any{}
	for i, value := range list {
		if m, ok := value.(map[string]any); ok && m[directive] != nil {
			continue
		}
		now, err := bareValue(value, fmt.Sprintf("%s[%d]", at, i))
		if err != nil {
			return nil, err
		}
		out = append(out, now)
	}
	return out, nil
}

func bareValue(value any, at string) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		return bare(v, at)
	case []any:
		return bareList(v, at)
	}
	return value, nil
}

// fieldOf finds a field by its name in JSON; the zero slot where the type has none, such
// as the entries of a map.
func fieldOf(t reflect.Type, name string) slot {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return slot{}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name {
			return slot{f.Type, f.Tag.Get("patchStrategy"), f.Tag.Get("patchMergeKey")}
		}
		if f.Anonymous && tag == "" {
			if s := fieldOf(f.Type, name); s.Type != nil {
				return s
			}
		}
	}
	return slot{}
}
