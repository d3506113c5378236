package service

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

const schemaFile = "../../docs/drkit.schema.json"

func readSchema(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var s map[string]any
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchemaHasEveryKey walks schema and structs side by side: equal keys, equal
// required keys, equal enumerations, equal types, nothing beside them.
func TestSchemaHasEveryKey(t *testing.T) {
	root := readSchema(t)
	compare(t, root, root, reflect.TypeFor[Service](), "")
}

func compare(t *testing.T, root, s map[string]any, typ reflect.Type, at string) {
	t.Helper()
	if name, ok := s["$ref"].(string); ok {
		s = root["$defs"].(map[string]any)[strings.TrimPrefix(name, "#/$defs/")].(map[string]any)
	}
	if typ == reflect.TypeFor[Location]() || typ == reflect.TypeFor[Date]() {
		if s["type"] != "string" {
			t.Errorf("%s: the schema says %v, the decoder text", at, s["type"])
		}
		return
	}
	switch typ.Kind() {
	case reflect.Struct:
		compareStruct(t, root, s, typ, at)
	case reflect.Slice:
		if s["type"] != "array" {
			t.Errorf("%s: the schema says %v, the decoder a list", at, s["type"])
			return
		}
		compare(t, root, s["items"].(map[string]any), typ.Elem(), at+"[]")
	}
}

func compareStruct(t *testing.T, root, s map[string]any, typ reflect.Type, at string) {
	t.Helper()
	props, _ := s["properties"].(map[string]any)
	props = maps.Clone(props)
	if s["additionalProperties"] != false {
		t.Errorf("%s: the schema allows unknown keys", at)
	}
	for i := range typ.NumField() {
		f := typ.Field(i)
		key := f.Tag.Get("yaml")
		if key == "" {
			continue
		}
		path := strings.TrimPrefix(at+"."+key, ".")
		prop, ok := props[key].(map[string]any)
		if !ok {
			t.Errorf("%s decodes, but is not in the schema", path)
			continue
		}
		delete(props, key)
		required, _ := s["required"].([]any)
		strict := strings.Split(f.Tag.Get("strict"), ",")
		if got, want := slices.Contains(required, any(key)), slices.Contains(strict, "required"); got != want {
			t.Errorf("%s: required is %v in the schema, %v in the decoder", path, got, want)
		}
		compareEnum(t, prop, strict, path)
		compare(t, root, prop, f.Type, path)
	}
	for key := range props {
		t.Errorf("%s.%s is in the schema, but does not decode", at, key)
	}
}

func compareEnum(t *testing.T, prop map[string]any, strict []string, path string) {
	t.Helper()
	if items, ok := prop["items"].(map[string]any); ok && prop["type"] == "array" {
		prop = items
	}
	if prop["properties"] != nil {
		return
	}
	var got, want []string
	list, _ := prop["enum"].([]any)
	for _, v := range list {
		got = append(got, v.(string))
	}
	for _, rule := range strict {
		if values, ok := strings.CutPrefix(rule, "enum="); ok {
			want = strings.Split(values, "|")
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: the schema's values are %v, the decoder's %v", path, got, want)
	}
}

// TestSchemaAndDecoderAgree validates fixtures with an independent validator.
// What the schema refuses the decoder must refuse; the decoder refuses more
// (duplicate keys, references, sums), and those fixtures say so in a comment.
func TestSchemaAndDecoderAgree(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range fixtures(t, "*/*.yaml") {
		t.Run(filepath.ToSlash(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var doc yaml.Node
			if yaml.Unmarshal(data, &doc) != nil || strings.Contains(string(data), "# beyond the schema") {
				t.Skip("beyond a schema")
			}
			valid := strings.Contains(filepath.ToSlash(file), "/valid/")
			if err := schema.Validate(plain(&doc)); (err == nil) != valid {
				t.Errorf("the schema says %v", err)
			}
		})
	}
}

// plain turns YAML into what a JSON reader would give; dates stay text.
func plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.DocumentNode:
		return plain(n.Content[0])
	case yaml.AliasNode:
		return plain(n.Alias)
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = plain(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			list = append(list, plain(item))
		}
		return list
	}
	if tag := n.ShortTag(); tag == "!!str" || tag == "!!timestamp" {
		return n.Value
	}
	var v any
	if n.Decode(&v) != nil {
		return nil
	}
	if i, ok := v.(int); ok {
		return float64(i)
	}
	return v
}

// TestSchemaRefuses sees one mistake at a time, each in an else valid file.
func TestSchemaRefuses(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.ReadFile("testdata/valid/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new string }{
		{"unknown key", "tier: 1", "teir: 1"},
		{"unsupported place", "source: ./models/llama", "source: oci://registry.example/llm"},
		{"unsafe adapter name", "name: billing", "name: ../billing"},
		{"number for text", "version: 0.32.0", "version: 0.32"},
		{"file outside", "configs: [engine/vllm.yaml]", "configs: [../vllm.yaml]"},
		{"no store", "store: s3://prod-use1/llm, ", ""},
		{"other role", "role: target", "role: standby"},
		{"share above 1", "share: 0.8", "share: 8"},
		{"not a duration", "rto: 30m", "rto: 30 minutes"},
		{"nothing to prove", "must_prove: [copy, boot, behaviour, router]", "must_prove: []"},
		{"waiver without owner", ", owner: mei", ""},
		{"credentials in a URL", "http://vllm-0:8000", "http://user:word@vllm-0:8000"},
		{"reserved kind", "kind: Service", "kind: Fleet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			broken := strings.Replace(string(full), c.old, c.new, 1)
			if broken == string(full) {
				t.Fatal("the fixture no longer holds what is replaced")
			}
			var doc yaml.Node
			if err := yaml.Unmarshal([]byte(broken), &doc); err != nil {
				t.Fatal(err)
			}
			if schema.Validate(plain(&doc)) == nil {
				t.Error("the schema accepts it")
			}
			if _, err := Parse([]byte(broken), "drkit.yaml"); err == nil {
				t.Error("the decoder accepts it")
			}
		})
	}
}

// TestDocsNameEveryKey looks for each key of the schema in docs/drkit-yaml.md,
// and for keys there that are not in the schema.
func TestDocsNameEveryKey(t *testing.T) {
	page, err := os.ReadFile("../../docs/drkit-yaml.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for line := range strings.SplitSeq(string(page), "\n") {
		if cell, ok := strings.CutPrefix(line, "| `"); ok {
			key, _, _ := strings.Cut(cell, "`")
			documented[key] = true
		}
	}
	for _, key := range keysOf(reflect.TypeFor[Service](), "") {
		if !documented[key] {
			t.Errorf("%s is not in docs/drkit-yaml.md", key)
		}
		delete(documented, key)
	}
	for key := range documented {
		t.Errorf("docs/drkit-yaml.md has %s, which does not decode", key)
	}
}

// TestDocsMarkUnused holds the page's ○ against the table of what is unused.
func TestDocsMarkUnused(t *testing.T) {
	page, err := os.ReadFile("../../docs/drkit-yaml.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, u := range unused {
		known[u.path] = true
		row := "| `" + strings.TrimSuffix(u.path, "[]") + "` "
		_, rest, found := strings.Cut(string(page), row)
		line, _, _ := strings.Cut(rest, "\n")
		switch {
		case !found:
			t.Errorf("%s is not in docs/drkit-yaml.md", u.path)
		case u.is == "" && !strings.HasPrefix(line, "○"):
			t.Errorf("%s is not marked as unused", u.path)
		case u.is != "" && !strings.HasSuffix(u.path, "[]") && !strings.Contains(line, "`"+u.is+"` ○"):
			t.Errorf("%s: %s is not marked as unused", u.path, u.is)
		}
	}
	for line := range strings.SplitSeq(string(page), "\n") {
		cell, _ := strings.CutPrefix(line, "| `")
		if key, rest, ok := strings.Cut(cell, "`"); ok && strings.HasPrefix(rest, " ○ |") && !known[key] {
			t.Errorf("%s is marked as unused, but the table does not have it", key)
		}
	}
}

// keysOf lists the paths that decode: "regions[].name".
func keysOf(typ reflect.Type, at string) (keys []string) {
	for typ.Kind() == reflect.Slice {
		typ, at = typ.Elem(), at+"[]"
	}
	if typ.Kind() != reflect.Struct {
		return nil
	}
	for i := range typ.NumField() {
		if key := typ.Field(i).Tag.Get("yaml"); key != "" {
			path := strings.TrimPrefix(at+"."+key, ".")
			keys = append(append(keys, path), keysOf(typ.Field(i).Type, path)...)
		}
	}
	return keys
}

func fixtures(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/" + pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	return files
}
