package lockfile

import (
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// Missing is a manifest of a package manager without its lock.
type Missing struct {
	Manifest string   // path
	Format   string   // of the lock that its tool would write
	Lock     string   // path of that lock
	Others   []string // file names of other locks that would do as well
}

// pythonLocks are the locks that pin what a pyproject.toml requires, whichever
// tool wrote them.
var pythonLocks = []string{"uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "Pipfile.lock", "requirements.txt"}

var nodeLocks = []string{"package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb"}

// Expected lists the manifests that require packages and have no lock, neither
// beside them nor, where a workspace's root may hold it, in a folder above.
func Expected(files []File) []Missing {
	have := map[string]bool{}
	for _, f := range files {
		have[path.Clean(f.Path)] = true
	}
	var out []Missing
	for _, f := range files {
		if m, above, ok := wants(f, have); ok && !locked(m, above, have) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b Missing) int { return strings.Compare(a.Manifest, b.Manifest) })
	return slices.CompactFunc(out, func(a, b Missing) bool { return a.Lock == b.Lock && path.Dir(a.Manifest) == path.Dir(b.Manifest) })
}

// locked reports whether a lock that would do is there.
func locked(m Missing, above bool, have map[string]bool) bool {
	for folder := path.Dir(m.Lock); ; folder = path.Dir(folder) {
		for _, name := range append([]string{path.Base(m.Lock)}, m.Others...) {
			if have[path.Join(folder, name)] {
				return true
			}
		}
		if !above || folder == "." || folder == "/" {
			return false
		}
	}
}

// wants says which lock a manifest should have. above: the root of a workspace
// may hold it.
func wants(f File, have map[string]bool) (m Missing, above, ok bool) {
	base := path.Base(f.Path)
	need := func(format, lock string, others ...string) Missing {
		return Missing{Manifest: f.Path, Format: format, Lock: path.Join(path.Dir(f.Path), lock), Others: others}
	}
	switch {
	case base == "pyproject.toml":
		format, ok := pythonTool(f.Data)
		return need(format, lockNames[format], pythonLocks...), true, ok
	case base == "Pipfile":
		return need("pipenv", "Pipfile.lock"), false, true
	case strings.HasPrefix(base, "requirements") && path.Ext(base) == ".in":
		return need("pip-compile", strings.TrimSuffix(base, ".in")+".txt"), false, true
	case base == "environment.yml" || base == "environment.yaml":
		return need("conda-lock", "conda-lock.yml", "conda-lock.yaml"), false, hasDependencies(f.Data)
	case base == "go.mod":
		return need("gomod", "go.sum"), false, requiresModules(f.Data)
	case base == "Cargo.toml":
		return need("cargo", "Cargo.lock"), true, true
	case base == "package.json":
		format, lock := nodeTool(f, have)
		return need(format, lock, nodeLocks...), true, hasPackages(f.Data)
	case base == "Chart.yaml":
		return need("helm", "Chart.lock", "requirements.lock"), false, hasDependencies(f.Data)
	case path.Ext(base) == ".tf" || path.Ext(base) == ".tofu":
		return need("terraform", ".terraform.lock.hcl"), true, requiresProviders(f)
	}
	return Missing{}, false, false
}

var lockNames = map[string]string{"uv": "uv.lock", "poetry": "poetry.lock", "pdm": "pdm.lock", "pylock": "pylock.toml"}

// pythonTool tells by its settings which tool a pyproject.toml is for; without
// any it is the standard's pylock.toml. ok is false when it requires nothing.
func pythonTool(data []byte) (format string, ok bool) {
	var p pyproject
	if decodeTOML(trimBOM(data), &p) != nil {
		return "", false
	}
	switch {
	case p.Tool.UV != nil:
		format = "uv"
	case p.Tool.Poetry != nil:
		format = "poetry"
	case p.Tool.PDM != nil:
		format = "pdm"
	default:
		format = "pylock"
	}
	poetry := len(table(p.Tool.Poetry, "dependencies")) > 1 // python itself is one
	return format, len(p.required()) > 0 || poetry || len(table(p.Tool.Poetry, "group")) > 0
}

func requiresModules(data []byte) bool {
	mod, err := modfile.ParseLax("go.mod", data, nil)
	return err == nil && len(mod.Require) > 0
}

func nodeTool(f File, have map[string]bool) (format, lock string) {
	var p struct {
		Manager string `json:"packageManager"`
	}
	_ = decodeJSON(f.Data, &p) // hasPackages answers for a file that cannot be read
	folder := path.Dir(path.Clean(f.Path))
	switch {
	case strings.HasPrefix(p.Manager, "pnpm@") || have[path.Join(folder, "pnpm-workspace.yaml")]:
		return "pnpm", "pnpm-lock.yaml"
	case have[path.Join(folder, ".yarnrc.yml")]:
		return "yarn-berry", "yarn.lock"
	case strings.HasPrefix(p.Manager, "yarn@1") || have[path.Join(folder, ".yarnrc")]:
		return "yarn-classic", "yarn.lock"
	case strings.HasPrefix(p.Manager, "yarn@"):
		return "yarn-berry", "yarn.lock"
	}
	return "npm", "package-lock.json"
}

func hasPackages(data []byte) bool {
	var p struct {
		Depends  map[string]any `json:"dependencies"`
		Dev      map[string]any `json:"devDependencies"`
		Optional map[string]any `json:"optionalDependencies"`
	}
	return decodeJSON(trimBOM(data), &p) == nil && len(p.Depends)+len(p.Dev)+len(p.Optional) > 0
}

// hasDependencies reports whether a YAML manifest lists dependencies.
func hasDependencies(data []byte) bool {
	var c struct {
		Depends []any `yaml:"dependencies"`
	}
	return decodeYAML(trimBOM(data), &c) == nil && len(c.Depends) > 0
}

func requiresProviders(f File) bool {
	body, err := parseHCL(f)
	if err != nil {
		return false
	}
	l := newLedger(f, []File{f})
	c := tfConfig{named: map[string]tfNeed{}, mentioned: map[string]bool{}}
	for _, b := range body.Blocks {
		l.terraformBlock(&c, b, "registry.terraform.io")
	}
	delete(c.mentioned, "terraform")
	return len(c.named) > 0 || len(c.mentioned) > 0
}
