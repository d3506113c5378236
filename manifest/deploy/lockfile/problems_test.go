package lockfile

import (
	"strings"
	"testing"
)

// A secret in a lock or manifest is told, and stands in no fact or problem.
func TestSecretsAreNotKept(t *testing.T) {
	const secret = "hunter2hunter2"
	tests := []struct {
		name, lock string
		told       bool
		files      map[string]string
	}{
		{"index", "requirements.txt", true, map[string]string{"requirements.txt": "-i https://deploy:" + secret + "@pkgs.internal.example/simple\nidna==3.10\n"}},
		{"broken line", "requirements.txt", false, map[string]string{"requirements.txt": "idna = https://deploy:" + secret + "@pkgs.internal.example/simple\n"}},
		{"source", "Pipfile.lock", true, map[string]string{"Pipfile.lock": `{"_meta":{"sources":[{"url":"https://u:` + secret + `@pkgs.internal.example"}]}}`}},
		{"manifest", "poetry.lock", true, map[string]string{"poetry.lock": poetryTail, "pyproject.toml": "[[tool.poetry.source]]\nname=\"i\"\nurl=\"https://u:" + secret + "@pkgs.internal.example\"\n"}},
		{"broken TOML", "uv.lock", false, map[string]string{"uv.lock": "version = https://u:" + secret + "@pkgs.internal.example\n"}},
		{"chart", "Chart.lock", true, map[string]string{"Chart.lock": "dependencies: [{name: a, version: 1.0.0, repository: 'https://u:" + secret + "@h.example'}]\n", "Chart.yaml": "dependencies: []\n"}},
	}
	for _, test := range tests {
		lock := File{Path: test.lock, Data: []byte(test.files[test.lock])}
		var beside []File
		for name, text := range test.files {
			beside = append(beside, File{Path: name, Data: []byte(text)})
		}
		got, problems := Read(lock, beside)
		if has(problems, KindSecret) != test.told {
			t.Errorf("%s: told %v\n%s", test.name, !test.told, whats(problems))
		}
		if all := summary(got) + got.Note + whats(problems); strings.Contains(all, secret) {
			t.Errorf("%s: the secret was kept: %s", test.name, all)
		}
	}
}

// Problems point at the line that a person has to look at.
func TestProblemLines(t *testing.T) {
	tests := []struct {
		lock, text, kind string
		line             int
	}{
		{"requirements.txt", "# httpx\nanyio==4.9.0\nhttpx\n", KindUnpinned, 1}, // the first mention
		{"requirements.txt", "anyio==4.9.0\nprometheus-client=0.22.1\n", KindSyntax, 2},
		{"uv.lock", "version = 1\n\n[[package]]\nname = \"a\"\nversion = \n", KindSyntax, 5},
		{"Pipfile.lock", "{\n \"_meta\": {},\n \"default\": {\n}\n", KindSyntax, 5},
		{"go.sum", "a.b/c v1.0.0 h1:" + strings.Repeat("A", 43) + "=\nbroken\n", KindSyntax, 2},
		{".terraform.lock.hcl", "# x\nprovider \"a\" {\n}\n", KindSyntax, 2},
		{".terraform.lock.hcl", "provider \"a/b/c\" {\n version = \n}\n", KindSyntax, 2},
		{"Chart.lock", "dependencies:\n- a: [\n", KindSyntax, 2},
	}
	for _, test := range tests {
		_, problems := Read(File{Path: test.lock, Data: []byte(test.text)}, nil)
		if !has(problems, test.kind) {
			t.Errorf("%s %q: %s", test.lock, test.text, whats(problems))
		}
		for _, p := range problems {
			if p.Kind == test.kind && p.Line != test.line {
				t.Errorf("%s %q: line %d, want %d", test.lock, test.text, p.Line, test.line)
			}
		}
	}
}

func TestFormat(t *testing.T) {
	for name, want := range map[string]string{
		"uv.lock": "uv", "a/poetry.lock": "poetry", "requirements-dev.txt": "requirements", "dev-requirements.txt": "requirements", "pylock.prod.toml": "pylock",
		"package-lock.json": "npm", "pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "gpu.conda-lock.yml": "conda-lock",
		"README.md": "", "lock": "", "Uv.lock": "", "requirements.in": "",
	} {
		if got, ok := Format(name); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
	if _, problems := Read(File{Path: "README.md", Data: []byte("x")}, nil); !has(problems, KindUnread) {
		t.Error("a file that is no lock has no problem")
	}
}

func TestExpected(t *testing.T) {
	files := func(pairs ...string) []File {
		var out []File
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, File{Path: pairs[i], Data: []byte(pairs[i+1])})
		}
		return out
	}
	const uv = "[project]\nname=\"a\"\ndependencies=[\"x\"]\n[tool.uv]\n"
	tests := []struct {
		name  string
		files []File
		want  string
	}{
		{"nothing", nil, ""},
		{"no dependencies", files("pyproject.toml", "[project]\nname=\"a\"\n", "package.json", "{}", "go.mod", "module a\n", "Chart.yaml", "name: a\n", "main.tf", "locals {}\n"), ""},
		{"uv", files("a/pyproject.toml", uv), "a/uv.lock"},
		{"another Python lock", files("pyproject.toml", uv, "pylock.toml", ""), ""},
		{"a workspace's root holds it", files("a/libs/b/pyproject.toml", uv, "a/uv.lock", ""), ""},
		{"no tool named", files("pyproject.toml", "[project]\nname=\"a\"\ndependencies=[\"x\"]\n"), "pylock.toml"},
		{"poetry without project", files("pyproject.toml", "[tool.poetry.dependencies]\npython=\"^3\"\nx=\"*\"\n"), "poetry.lock"},
		{"pnpm", files("package.json", `{"packageManager":"pnpm@9.0.0","dependencies":{"a":"1"}}`), "pnpm-lock.yaml"},
		{"npm", files("package.json", `{"devDependencies":{"a":"1"}}`), "package-lock.json"},
		{"helm in another folder", files("x/Chart.yaml", "dependencies: [{name: a}]\n", "Chart.lock", ""), "x/Chart.lock"},
		{"terraform, one for a folder", files("a.tf", "resource \"aws_x\" \"y\" {}\n", "b.tf", "provider \"aws\" {}\n"), ".terraform.lock.hcl"},
		{"go", files("go.mod", "module a\nrequire b.c/d v1.0.0\n"), "go.sum"},
		{"broken manifests", files("pyproject.toml", "[", "package.json", "{", "go.mod", "(", "Chart.yaml", "[", "a.tf", "{"), ""},
		{"requirements.in", files("requirements-gpu.in", "x\n", "requirements.txt", ""), "requirements-gpu.txt"},
	}
	for _, test := range tests {
		var got []string
		for _, m := range Expected(test.files) {
			got = append(got, m.Lock)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %q", test.name, got, test.want)
		}
	}
}
