package lockfile

import (
	"bytes"
	"strings"
	"testing"
)

// edit changes one file of a folder in testdata.
type edit struct {
	name, file, old, new string
	step                 string // the tool's own verdict
}

// TestToolVerdicts edits a manifest or lock that a tool made, and expects the
// verdict that the tool itself gave on the edited files: uv 0.13.9 (uv lock
// --check), cargo 1.95.0 (cargo metadata --locked), pipenv 2026.10.3 (pipenv
// verify). "broken": the tool calls the lock unreadable.
func TestToolVerdicts(t *testing.T) {
	t.Run("uv", func(t *testing.T) {
		verdicts(t, "uv-markers", "uv.lock", []edit{
			{"good", "pyproject.toml", "", "", "yes"},
			{"marker", "pyproject.toml", "python_version < '3.11' and", "python_version < '3.12' and", "no"},
			{"marker reordered", "pyproject.toml", "python_version < '3.11' and sys_platform != 'win32'", "sys_platform != 'win32' and python_version<'3.11'", "yes"},
			{"or becomes and", "pyproject.toml", `"win32\" or os_name`, `"win32\" and os_name`, "no"},
			{"group", "pyproject.toml", "ruff>=0.6", "ruff>=0.5", "no"},
			{"extra renamed", "pyproject.toml", "Fast =", "Quick =", "no"},
			{"constraint", "pyproject.toml", "anyio<5", "anyio<6", "no"},
			{"override", "pyproject.toml", "click==8.1.7", "click==8.1.6", "no"},
			{"python", "pyproject.toml", ">=3.10", ">=3.9", "no"},
			{"extras", "pyproject.toml", "uvicorn[standard]", "uvicorn", "no"},
			{"include-group written out", "pyproject.toml", `{include-group = "lint_x"}`, `"ruff>=0.6"`, "yes"},
			{"name spelling", "pyproject.toml", "My_App", "my.app", "yes"},
			{"range order", "pyproject.toml", ">= 4 , < 5", "<5,>=4", "yes"},
			{"trailing zero", "pyproject.toml", ">=0.30;", ">=0.30.0;", "yes"},
			{"version zero", "pyproject.toml", "1.0.0", "1.0", "yes"},
			{"CRLF", "*", "\n", "\r\n", "yes"},
			{"BOM", "uv.lock", "version = 1\n", "\ufeffversion = 1\n", "yes"},
			{"cut between entries", "uv.lock", "[[package]]\nname = \"pytest\"\n", cut, "broken"},
			{"empty", "uv.lock", "version = 1\n", cut, "broken"},
		})
	})
	t.Run("cargo", func(t *testing.T) {
		verdicts(t, "cargo-workspace", "Cargo.lock", []edit{
			{"good", "Cargo.toml", "", "", "yes"},
			{"member's bound", "libs/metrics/Cargo.toml", `fnv = "1"`, `fnv = "2"`, "no"},
			{"member's version", "libs/metrics/Cargo.toml", "0.1.0", "0.2.0", "no"},
			{"workspace's version", "Cargo.toml", "0.4.1", "0.5.0", "no"},
			{"dev-dependency removed", "Cargo.toml", "itoa = \">=1.0, <2\"\n", "", "no"},
			{"no longer optional", "Cargo.toml", ", optional = true", "", "yes"},
			{"bound within", "Cargo.toml", `libc = "0.2"`, `libc = "0.2.1"`, "yes"},
			{"any version", "Cargo.toml", `libc = "0.2"`, `libc = "*"`, "yes"},
			{"CRLF", "*", "\n", "\r\n", "yes"},
			{"cut between entries", "Cargo.lock", "[[package]]\nname = \"serde\"\n", cut, "no"},
		})
	})
	t.Run("pipenv", func(t *testing.T) {
		verdicts(t, "pipenv-categories", "Pipfile.lock", []edit{
			{"good", "Pipfile", "", "", "yes"},
			{"spelling", "Pipfile", "Typing_Extensions", "typing-extensions", "yes"},
			{"spaces", "Pipfile", `">=0.27"`, `">= 0.27"`, "no"},
			{"category", "Pipfile", `pluggy = "*"`, `pluggy = ">=1"`, "no"},
			{"CRLF", "*", "\n", "\r\n", "yes"},
			{"BOM", "Pipfile.lock", "{\n", "\ufeff{\n", "yes"},
		})
	})
}

// cut as the new text drops everything from the old text on.
const cut = "\x00cut"

func verdicts(t *testing.T, folder, lockfile string, edits []edit) {
	for _, e := range edits {
		t.Run(e.name, func(t *testing.T) {
			lock, beside := load(t, "testdata/"+folder, lockfile)
			changed := e.old == ""
			for i, f := range beside {
				if e.file != "*" && e.file != f.Path {
					continue
				}
				data := e.apply(f.Data)
				changed = changed || !bytes.Equal(data, f.Data)
				beside[i].Data = data
				if f.Path == lockfile {
					lock.Data = data
				}
			}
			if !changed {
				t.Fatalf("%q is not in %s", e.old, e.file)
			}
			got, problems := Read(lock, beside)
			step := word(got.InStep)
			if !got.Readable {
				step = "broken"
			}
			if step != e.step {
				t.Errorf("%s, want %s: %s\n%s", step, e.step, got.Note, whats(problems))
			}
		})
	}
}

func (e edit) apply(data []byte) []byte {
	text := string(data)
	switch {
	case e.old == "":
	case e.new == cut:
		text, _, _ = strings.Cut(text, e.old)
	case strings.HasPrefix(e.new, "\ufeff"):
		text = strings.Replace(text, e.old, e.new, 1)
	default:
		text = strings.ReplaceAll(text, e.old, e.new)
	}
	return []byte(text)
}
