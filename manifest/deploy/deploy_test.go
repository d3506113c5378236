package deploy

import (
	"strings"
	"testing"

	"drkit/manifest/digest"
)

func TestImageReference(t *testing.T) {
	sha := digest.Digest{Algorithm: digest.SHA256, Hex: strings.Repeat("ab", 32)}
	sha512 := digest.Digest{Algorithm: digest.SHA512, Hex: strings.Repeat("ab", 64)}
	tests := []struct {
		reference, registry, repository, tag string
		digest                               digest.Digest
	}{
		{"busybox", "index.docker.io", "library/busybox", "latest", digest.Digest{}},
		{"vllm/vllm-openai", "index.docker.io", "vllm/vllm-openai", "latest", digest.Digest{}},
		{"vllm/vllm-openai:v1", "index.docker.io", "vllm/vllm-openai", "v1", digest.Digest{}},
		{"localhost:5000/a", "localhost:5000", "a", "latest", digest.Digest{}},
		{"ghcr.io/a/b@" + sha.String(), "ghcr.io", "a/b", "", sha},
		{"ghcr.io:443/a/b:v2@" + sha.String(), "ghcr.io:443", "a/b", "v2", sha},
		{"ghcr.io/a/b@" + sha512.String(), "ghcr.io", "a/b", "", sha512},
	}
	for _, test := range tests {
		got, err := parseImage(test.reference)
		if err != nil {
			t.Errorf("%s: %v", test.reference, err)
			continue
		}
		if got.Registry != test.registry || got.Repository != test.repository || got.Tag != test.tag || got.Digest != test.digest {
			t.Errorf("%s: %+v", test.reference, got)
		}
	}
	for _, bad := range []string{"", "Upper/case", "a@sha256:abcd", "a@", "a:b:c", "a b", "a@" + sha.String() + "@" + sha.String(), "a@md5:" + strings.Repeat("a", 32)} {
		if got, err := parseImage(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, got)
		}
	}
}

func TestLockfiles(t *testing.T) {
	for file, format := range map[string]string{
		"uv.lock": "uv", "a/poetry.lock": "poetry", "requirements.txt": "requirements", "requirements-dev.txt": "requirements",
		"pylock.prod.toml": "pylock", "package-lock.json": "npm", "pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "Cargo.lock": "cargo",
		"go.sum": "gomod", ".terraform.lock.hcl": "terraform", "conda-lock.yml": "conda-lock", "Pipfile.lock": "pipenv", "charts/Chart.lock": "helm",
	} {
		facts, problems := Read(file, []byte("image: [broken"))
		if facts.Role != Lockfile || facts.Format != format || len(problems) > 0 {
			t.Errorf("%s: %+v %+v", file, facts, problems)
		}
	}
	for file, role := range map[string]Role{"README.md": Other, "Dockerfile.gpu": Dockerfile, "gpu.Dockerfile": Dockerfile, "Containerfile": Dockerfile, "run.sh": Other} {
		if facts, _ := Read(file, []byte("FROM a:1\n")); facts.Role != role {
			t.Errorf("%s: %s, want %s", file, facts.Role, role)
		}
	}
	if _, problems := Read("templates/_helpers.tpl", nil); !has(problems, KindTemplate) {
		t.Error("a template without a problem")
	}
}

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "x", "EMPTY": ""}
	value := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	tests := []struct {
		in, out string
		whole   bool
	}{
		{"$A-${A}", "x-x", true},
		{"${B:-d}/${B-e}", "d/e", true},
		{"${EMPTY:-d}${EMPTY-e}", "d", true},
		{"${A:+y}${B:+z}", "y", true},
		{"${B:-${A}}", "x", true},
		{"$B", "$B", false},
		{"${B:?needed}", "${B:?needed}", false},
		{`\$A`, "$A", true},
		{"$", "$", false},
		{"${A", "${A", false},
	}
	for _, test := range tests {
		if out, _, whole := expand(test.in, value); out != test.out || whole != test.whole {
			t.Errorf("%s: %q %v, want %q %v", test.in, out, whole, test.out, test.whole)
		}
	}
}

func TestDockerfileText(t *testing.T) {
	tests := []struct {
		name, text string
		images     []string
	}{
		{"continued with comments", "FROM \\\n# note\n\n  a:1 \\\n  AS b\nFROM b\n", []string{"1 a:1"}},
		{"escape directive", "# escape=`\nFROM a:1\nRUN dir C:\\\nFROM b:2\n", []string{"2 a:1", "4 b:2"}},
		{"here-document", "FROM a:1\nRUN <<EOF\nFROM never:1\nEOF\nCOPY <<-\"X\" /f\n\tFROM never:2\n\tX\nFROM c:3\n", []string{"1 a:1", "8 c:3"}},
		{"no here-document", "FROM a:1\nRUN a<<EOF\nFROM b:2\nRUN echo '<<X' \"<<X\"\nFROM c:3\n", []string{"1 a:1", "3 b:2", "5 c:3"}},
		{"here-document of ONBUILD", "FROM a:1\nONBUILD RUN 3<<\"E\"\nFROM never:1\nE\nFROM b:2\n", []string{"1 a:1", "5 b:2"}},
		{"windows line ends", "FROM a:1\r\nFROM b:2\r\n", []string{"1 a:1", "2 b:2"}},
		{"byte order mark", "\ufeffFROM a:1\n", []string{"1 a:1"}},
		{"quoted default", "ARG B=\"a:1\"\nFROM ${B}\n", []string{"2 a:1"}},
		{"later ARG does not count", "FROM a:1\nARG B=never\nFROM x:${B:-2}\n", []string{"1 a:1", "3 x:2"}},
	}
	for _, test := range tests {
		facts, problems := Read("Dockerfile", []byte(test.text))
		if got := strings.Join(lines(facts.Images), ", "); got != strings.Join(test.images, ", ") {
			t.Errorf("%s: %s, want %s (%+v)", test.name, got, test.images, problems)
		}
	}
}

// FuzzRead hands foreign bytes to both readers: they must not panic, and a line
// must lie inside the file.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"FROM a:${B:-1} AS c\nCOPY --from=c / /\n", "image: a:1\n---\nimage: {repository: b}\n", "a: &a [*a]\nimage: *a\n",
		"services: {a: {image: \"${A:-b}\", command: vllm serve $X}}", "{{ a }}: b\n", "command: [sh, -c, \"vllm serve '\"]\n", "RUN <<A <<B\n\\\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, file := range []string{"Dockerfile", "a.yaml", "docker-compose.yml", "a.json"} {
			facts, problems := Read(file, data)
			last := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + strings.Count(string(data), "\u0085") +
				strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029") + 2
			for _, i := range facts.Images {
				if i.Line < 1 || i.Line > last {
					t.Errorf("%s: image in line %d of %d", file, i.Line, last)
				}
			}
			for _, p := range problems {
				if p.Line < 0 || p.Line > last || p.Kind == "" || p.What == "" {
					t.Errorf("%s: problem %+v", file, p)
				}
			}
		}
	})
}

// FuzzDockerfile gives any bytes to the reader of Dockerfiles alone.
func FuzzDockerfile(f *testing.F) {
	for _, seed := range []string{"# syntax=a\n# escape=`\nARG A=1\nFROM --platform=$B x:${A:+y}@sha256:0 AS c\nFROM c\n", "FROM a\nCMD [\"vllm\", \"serve\", \"$M\"]\nENTRYPOINT vllm serve \\\n# x\n a\n",
		"FROM a\nRUN <<-'E' cat\nx\nE\nENV A=\"b\\\"c\" D='e' F g\nCOPY --from=0 --link a b\n", "ARG A\nFROM ${A%%:*}${A#*/}${A/b/c}\n", "FROM \\\n\\\n", "ONBUILD FROM a\nSHELL [\"a\"]\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		facts, problems := Read("Dockerfile", data)
		for _, e := range facts.Engine {
			if len(e.Places) != len(e.Argv) {
				t.Errorf("%d places for %q", len(e.Places), e.Argv)
			}
		}
		for _, p := range problems {
			if p.Kind == "" || p.What == "" {
				t.Errorf("problem %+v", p)
			}
		}
	})
}
