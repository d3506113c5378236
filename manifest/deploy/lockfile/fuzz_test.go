package lockfile

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fuzzManifests are the names under which the second input stands beside a lock.
var fuzzManifests = []string{"pyproject.toml", "Pipfile", "requirements.in", "environment.yml", "go.mod", "Cargo.toml", "versions.tf", "Chart.yaml", "base.txt"}

// Each format has a target of its own, so that each gets its share of the time.

func FuzzUV(f *testing.F) {
	f.Add([]byte("version = 1\n[[package]]\nname=\"a\"\nsource={editable=\".\"}\n[package.metadata]\nrequires-dist=[{name=\"b\",marker=\"(((a=='1'\"}]\n"), []byte("[project]\nname=\"a\"\ndependencies=[\"b; a=='2' or (\"]\n"))
	fuzzFormat(f, "uv.lock")
}
func FuzzPoetry(f *testing.F)    { fuzzFormat(f, "poetry.lock") }
func FuzzPDM(f *testing.F)       { fuzzFormat(f, "pdm.lock") }
func FuzzPipfile(f *testing.F)   { fuzzFormat(f, "Pipfile.lock") }
func FuzzPylock(f *testing.F)    { fuzzFormat(f, "pylock.toml") }
func FuzzConda(f *testing.F)     { fuzzFormat(f, "conda-lock.yml") }
func FuzzGoSum(f *testing.F)     { fuzzFormat(f, "go.sum") }
func FuzzCargo(f *testing.F)     { fuzzFormat(f, "Cargo.lock") }
func FuzzTerraform(f *testing.F) { fuzzFormat(f, ".terraform.lock.hcl") }
func FuzzHelm(f *testing.F)      { fuzzFormat(f, "Chart.lock") }
func FuzzRequirements(f *testing.F) {
	f.Add([]byte("-r base.txt\n-r base.txt\nx @ https://a:b@c/d#sha256=0 ; a in b\n"), []byte("-e git+ssh://x@y/z@w#egg=q\n"))
	fuzzFormat(f, "requirements.txt")
}

// fuzzFormat gives any bytes to the reader of a format, with a manifest beside
// them. Whatever comes, Read ends, does not panic, and what it says is consistent.
func fuzzFormat(f *testing.F, name string) {
	seeds, err := filepath.Glob(corpus + "/*/*/" + name)
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range seeds[:min(4, len(seeds))] {
		data, err := os.ReadFile(s)
		if err != nil {
			f.Fatal(err)
		}
		manifest := []byte{}
		for _, m := range fuzzManifests {
			if text, err := os.ReadFile(filepath.Join(filepath.Dir(s), m)); err == nil {
				manifest = text
			}
		}
		f.Add(data[:min(len(data), 4000)], manifest)
	}
	f.Add([]byte("a"), []byte("b"))
	f.Fuzz(func(t *testing.T, lock, manifest []byte) {
		var beside []File
		for _, m := range fuzzManifests {
			beside = append(beside, File{Path: m, Data: manifest})
		}
		got, problems := Read(File{Path: name, Data: lock}, beside)
		if !got.Readable && got.Present && !has(problems, KindSyntax) {
			t.Errorf("unreadable without a problem: %+v", got)
		}
		if got.Hashed < 0 || got.Hashed > got.Pinned+len(lock) || !slices.IsSorted(got.Hosts) {
			t.Errorf("inconsistent: %+v", got)
		}
		Expected(append(beside, File{Path: name, Data: lock}))
	})
}

// TestBombs gives each reader what would overflow a stack or fill the memory.
func TestBombs(t *testing.T) {
	const n = 500 << 10 // below maxHCL; two KB a frame, as the HCL parser takes, would overflow the stack
	bombs := map[string][]byte{
		"arrays":      append([]byte("a = "), bytes.Repeat([]byte("["), n)...),
		"tables":      append([]byte("a = "), bytes.Repeat([]byte("{a="), n/3)...),
		"keys":        append(bytes.Repeat([]byte("a."), n/2), "a = 1"...),
		"header":      []byte("[" + strings.Repeat("a.", n/2) + "a]\n"),
		"objects":     bytes.Repeat([]byte(`{"a":`), n/5),
		"lists":       bytes.Repeat([]byte("["), n),
		"flow":        append([]byte("a: "), bytes.Repeat([]byte("["), n)...),
		"indent":      indented(3000),
		"aliases":     []byte(aliases()),
		"blocks":      bytes.Repeat([]byte("a {\n"), n/4),
		"parentheses": append([]byte("a = "), bytes.Repeat([]byte("("), n)...),
		"templates":   append([]byte(`a = "`), bytes.Repeat([]byte(`${"`), n/3)...),
		"operators":   append([]byte("a = "), bytes.Repeat([]byte("!"), n)...),
		"minus":       append([]byte("a = "), bytes.Repeat([]byte("-"), n)...),
		"condition":   append([]byte("a = "), bytes.Repeat([]byte("b?"), n/2)...),
		"joins":       bytes.Repeat([]byte("\\\n"), n/2),
		"zeros":       make([]byte, n),
		"large":       bytes.Repeat([]byte("["), 10<<20),
		"entries":     bytes.Repeat([]byte("a==1\n"), n),
		"packages":    append([]byte("version=1\n[metadata]\n"), bytes.Repeat([]byte("[[package]]\nname='a'\n"), n/20)...),
		"includes":    []byte(strings.Repeat("-r pyproject.toml\n", 100)),
	}
	forHCL := []string{"blocks", "parentheses", "templates", "operators", "minus", "condition"}
	for _, name := range []string{"uv.lock", "Pipfile.lock", "requirements.txt", "conda-lock.yml", "go.sum", ".terraform.lock.hcl"} { // one a parser
		for kind, data := range bombs {
			if slices.Contains(forHCL, kind) != (name == ".terraform.lock.hcl") {
				continue
			}
			got, problems := Read(File{Path: name, Data: data}, []File{{"pyproject.toml", including(data)}, {"Cargo.toml", data}, {"main.tf", data}, {"Chart.yaml", data}})
			if got.Readable && got.Pinned+got.Hashed > maxEntries || len(problems) > 10 {
				t.Errorf("%s, %s: %+v", name, kind, got)
			}
		}
	}
}

// including leads to ever more files when a requirements file includes it.
func including(data []byte) []byte {
	if bytes.HasPrefix(data, []byte("-r")) {
		return []byte(strings.Repeat("-r Cargo.toml\n", 100))
	}
	return data
}

func indented(depth int) []byte {
	var b bytes.Buffer
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.Bytes()
}

// aliases is the "billion laughs" of YAML.
func aliases() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 12; i++ {
		p := "*a" + digits(i-1)
		b.WriteString("a" + digits(i) + ": &a" + digits(i) + " [" + strings.Repeat(p+",", 9) + p + "]\n")
	}
	return b.String() + "version: 1\nmetadata: {}\ndependencies: *a11\npackage: *a11\n"
}
