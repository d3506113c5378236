package rules_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"drkit/manifest"
	"drkit/manifest/rules"
)

// kinds reads the Kind constants of a reader from its source.
func kinds(t *testing.T, file string) (out []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Kind") {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			kind, _ := strconv.Unquote(lit.Value)
			out = append(out, kind)
		}
		return true
	})
	if len(out) == 0 {
		t.Fatalf("no kinds in %s", file)
	}
	return out
}

// A problem that no rule speaks of would be lost in silence.
func TestEveryProblemBecomesAFinding(t *testing.T) {
	for _, c := range []struct {
		part manifest.Part
		file string
		path string
	}{
		{manifest.Engine, "../engine/engine.go", "vllm.yaml"},
		{manifest.Deploy, "../deploy/deploy.go", "k8s.yaml"},
		{manifest.Deploy, "../engine/engine.go", "k8s.yaml"}, // flags in a deploy file
		{manifest.Model, "../model/model.go", "base/config.json"},
		{manifest.Engine, "../manifest.go", "probes.json"},
	} {
		for _, kind := range kinds(t, c.file) {
			path := map[string]string{"index-invalid": "base/model.safetensors.index.json", "merges-invalid": "base/merges.txt", "text-invalid": "base/chat_template.jinja",
				"safetensors-": "base/model.safetensors"}[kind]
			if path == "" {
				path = c.path
			}
			if kind == "model-missing" { // the release's own model is meant
				continue
			}
			m := &manifest.Manifest{Contents: manifest.Contents{Files: []manifest.File{{Part: manifest.Model, Path: "base/vocab.json"}}}, Annotations: manifest.Annotations{Problems: []manifest.Problem{{Part: c.part, Path: path, Kind: kind, Line: 3, What: "w"}}}}
			found := 0
			for _, f := range rules.Check(m) {
				if f.Part == string(c.part) && f.Path == path && f.Line == 3 || c.part == manifest.Model && f.Path == path {
					found++
				}
			}
			if found != 1 {
				t.Errorf("%s of the %s part: %d findings", kind, c.part, found)
			}
		}
	}
}
