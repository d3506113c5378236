package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "drkit/"

// TestImportsFollowTheTable walks every Go file of the module, tests included.
// Folders with a go.mod of their own are other modules and left out.
func TestImportsFollowTheTable(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(root, path, d.Name())
		}
		if strings.HasSuffix(path, ".go") {
			files++
			checkFile(t, root, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Errorf("only %d Go files seen: the walk does not reach the module", files)
	}
}

func enter(root, path, name string) error {
	if path == root {
		return nil
	}
	if name == "testdata" || strings.HasPrefix(name, ".") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

func checkFile(t *testing.T, root, path string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	rel, _ := filepath.Rel(root, filepath.Dir(path))
	from := filepath.ToSlash(rel)
	for _, spec := range file.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		to, ours := strings.CutPrefix(name, module)
		if ours && !allowed(from, to, strings.HasSuffix(path, "_test.go")) {
			t.Errorf("%s imports %s: the import table does not allow it for %s", path, to, from)
		}
	}
}

// TestTheTableCanRefuse shows arrows that must never pass.
func TestTheTableCanRefuse(t *testing.T) {
	for _, c := range [][2]string{
		{"manifest", "verify"},
		{"manifest/model", "manifest"},
		{"internal/standin", "manifest/model"},
		{"drill", "drill/step"},
		{"drill/tui", "drill/step"},
		{"verify", "internal/store/s3"},
		{"replicate", "cmd/drkit"},
		{"internal/demo", "drill"},
		{"playbooks", "drill"},
		{"a/package/without/a/row", "manifest"},
	} {
		if allowed(c[0], c[1], false) {
			t.Errorf("%s may import %s: it must not", c[0], c[1])
		}
	}
	if !allowed("cmd/drkit", "drill/router/vllmrouter", false) || !allowed("verify", "manifest", false) {
		t.Error("the table refuses what it must allow")
	}
}
