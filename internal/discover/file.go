package discover

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"drkit/manifest/deploy"
	"drkit/manifest/engine"
)

// beside are files that a lockfile is made from; they are taken where they lie
// beside one.
var beside = map[string][]string{
	"uv": {"pyproject.toml"}, "poetry": {"pyproject.toml"}, "pdm": {"pyproject.toml"}, "pipenv": {"Pipfile"}, "requirements": {"requirements.in"},
	"gomod": {"go.mod"}, "cargo": {"Cargo.toml"}, "helm": {"Chart.yaml"}, "npm": {"package.json"}, "pnpm": {"package.json"}, "yarn": {"package.json"},
}

// file takes a file that lies in no model repository.
func (w *walker) file(rel string) {
	base := path.Base(rel)
	ext := strings.ToLower(path.Ext(base))
	isYAML := ext == ".yaml" || ext == ".yml"
	if strings.HasPrefix(base, ".") && base != ".terraform.lock.hcl" || base == "drkit.yaml" {
		return
	}
	if ext == ".json" && w.isProbes(rel) {
		w.found.Probes = append(w.found.Probes, rel)
		return
	}
	facts, _ := deploy.Read(rel, nil)
	if facts.Role == deploy.Other && !isYAML && ext != ".json" && ext != ".tpl" {
		return
	}
	data, ok := w.read(rel)
	if !ok {
		if facts.Role != deploy.Other || isYAML {
			w.note(rel, "it is larger than 4 MiB, or cannot be read: not looked into")
		}
		return
	}
	if isYAML {
		if c, ok := engineConfig(rel, data); ok {
			w.found.Engines = append(w.found.Engines, c)
			return
		}
	}
	w.deploy(rel, data)
}

func (w *walker) isProbes(rel string) bool {
	data, ok := w.read(rel)
	return ok && bytes.Contains(data[:min(len(data), 200)], []byte(`"drkit.probes/`))
}

// deploy takes a deployment artifact: one that the readers of the manifest know
// and that has something to say.
func (w *walker) deploy(rel string, data []byte) {
	facts, problems := deploy.Read(rel, data)
	for _, p := range problems {
		if p.Kind == deploy.KindTemplate {
			w.note(rel, "a template that drkit does not render: write what helm template gives into a file")
			return
		}
		if p.Kind == deploy.KindSyntax {
			w.note(rel, "%s", p.What)
			return
		}
	}
	known := facts.Role == deploy.Dockerfile || facts.Role == deploy.Lockfile || slices.Contains([]string{"kubernetes", "kustomization", "compose"}, facts.Format)
	if !known && len(facts.Images) == 0 && len(facts.Engine) == 0 {
		return
	}
	d := DeployFile{Path: rel, Format: facts.Format, Region: regionIn(rel)}
	for _, i := range facts.Images {
		if !i.Frontend {
			d.Images = append(d.Images, i.Reference)
			w.imageVersion(rel, i)
		}
	}
	for _, e := range facts.Engine {
		w.started(&d, e)
	}
	w.found.Deploy = append(w.found.Deploy, d)
	if facts.Role == deploy.Lockfile {
		w.locked(rel, data)
		w.besides(rel, facts.Format)
	}
}

// imageVersion notes the version that the tag of an engine's own image names.
func (w *walker) imageVersion(rel string, i deploy.Image) {
	v := engine.VersionOf(i.Tag)
	kind := map[string]string{"vllm-openai": engine.VLLM, "vllm": engine.VLLM, "sglang": engine.SGLang}[path.Base(i.Repository)]
	if v != "" && kind != "" {
		w.version(kind, v, "the image in "+rel)
	}
}

func (w *walker) version(kind, version, from string) {
	v := Version{kind, version, from}
	if !slices.Contains(w.found.Versions, v) {
		w.found.Versions = append(w.found.Versions, v)
	}
}

// started notes what a container starts its engine with. Its arguments may hold
// secrets: only what names models is kept.
func (w *walker) started(d *DeployFile, e deploy.EngineCommand) {
	r := engine.Parse(engine.Command{Argv: e.Argv, Entry: engine.Entry(e.Entry), Version: e.Version, Env: e.Env, Files: map[string][]byte{}})
	add := func(to *[]string, values ...string) {
		for _, v := range values {
			if v != "" && !slices.Contains(*to, v) {
				*to = append(*to, v)
			}
		}
	}
	add(&d.Starts, r.Engine)
	add(&d.Models, r.Model)
	add(&d.Served, servedNames(r.Options)...)
	if spec, ok := r.Options["speculative_config"].(map[string]any); ok {
		name, _ := spec["model"].(string)
		add(&d.Drafts, name)
	}
	name, _ := r.Options["speculative_draft_model_path"].(string)
	add(&d.Drafts, name)
	for i, word := range e.Argv {
		if word == "--config" && i+1 < len(e.Argv) {
			add(&d.Configs, e.Argv[i+1])
		}
	}
}

func servedNames(options map[string]any) (names []string) {
	switch v := options["served_model_name"].(type) {
	case string:
		names = append(names, v)
	case []any:
		for _, one := range v {
			names = append(names, fmt.Sprint(one))
		}
	case []string:
		names = append(names, v...)
	}
	return names
}

var (
	lockedEngine = regexp.MustCompile(`(?m)^name = "(vllm|sglang)"\r?\nversion = "([^"]+)"`)
	pinnedEngine = regexp.MustCompile(`(?m)^(vllm|sglang)(?:\[[^\]]*\])?==([^\s;\\]+)`)
)

// locked notes the engine's version that a lockfile pins.
func (w *walker) locked(rel string, data []byte) {
	for _, form := range []*regexp.Regexp{lockedEngine, pinnedEngine} {
		for _, m := range form.FindAllSubmatch(data, -1) {
			if v := engine.VersionOf(string(m[2])); v != "" {
				w.version(string(m[1]), v, rel)
			}
		}
	}
}

// besides takes the files that a lockfile is made from.
func (w *walker) besides(rel, format string) {
	for _, name := range beside[format] {
		at := path.Join(path.Dir(rel), name)
		if _, ok := w.read(at); ok && !slices.ContainsFunc(w.found.Deploy, func(d DeployFile) bool { return d.Path == at }) {
			w.found.Deploy = append(w.found.Deploy, DeployFile{Path: at, Format: "what " + path.Base(rel) + " is made from", Region: regionIn(at)})
		}
	}
}

// deployKeys are top level keys that no engine's configuration has.
var deployKeys = []string{"apiVersion", "kind", "services", "image", "replicaCount", "resources", "servingEngineSpec"}

// engineHint matches names of files and folders that hold engine configuration.
var engineHint = regexp.MustCompile(`(?i)(vllm|sglang|engine|serv)`)

// engineConfig recognises an engine's configuration: a mapping whose keys are
// options of one, but for a few that may be typing errors.
func engineConfig(rel string, data []byte) (EngineConfig, bool) {
	var top map[string]yaml.Node
	if yaml.Unmarshal(data, &top) != nil || len(top) == 0 {
		return EngineConfig{}, false
	}
	for _, key := range deployKeys {
		if _, ok := top[key]; ok {
			return EngineConfig{}, false
		}
	}
	best, fewest := EngineConfig{}, len(top)+1
	var unknown []string
	for _, kind := range []string{engine.VLLM, engine.SGLang} {
		r := parseConfig(kind, rel, data)
		ambiguous := slices.ContainsFunc(r.Problems, func(p engine.Problem) bool { return strings.Contains(p.Kind, "ambiguous") })
		if n := len(r.Unknown); !ambiguous && n < fewest {
			best, fewest, unknown = EngineConfig{Path: rel, Kind: kind, Region: regionIn(rel), Served: servedNames(r.Options)}, n, r.Unknown
		}
	}
	known := len(top) - fewest
	enough := known >= 2 && telling(top, unknown) || known >= 1 && engineHint.MatchString(rel)
	return best, enough && 2*fewest <= known
}

// common are options that other programs have, too.
var common = []string{"host", "port", "model", "config", "seed", "revision", "log-level", "root-path", "api-key", "device", "tokenizer", "dtype"}

// telling reports whether a known key is one that only engines have.
func telling(keys map[string]yaml.Node, unknown []string) bool {
	for key := range keys {
		name := strings.ReplaceAll(key, "_", "-")
		if !slices.Contains(common, name) && !slices.Contains(unknown, "--"+name) && !slices.Contains(unknown, "--"+key) {
			return true
		}
	}
	return false
}

func parseConfig(kind, rel string, data []byte) engine.Result {
	cmd := engine.Command{Argv: []string{"serve", "model", "--config", rel}, Files: map[string][]byte{rel: data}}
	if kind == engine.SGLang {
		cmd.Argv, cmd.Entry = []string{"--model-path", "model", "--config", rel}, engine.EntryLaunch
	}
	return engine.Parse(cmd)
}

// regionName matches the names that AWS, Google Cloud and Azure give to regions.
var regionName = regexp.MustCompile(`^(?:(?:us|eu|ap|sa|ca|me|af|il|mx|cn)(?:-gov)?-[a-z]+-\d|(?:us|europe|asia|australia|northamerica|southamerica|me|africa)-[a-z]+\d+|` +
	`(?:eastus|westus|centralus|northcentralus|southcentralus|westcentralus|eastus2|westus2|westus3|northeurope|westeurope|uksouth|ukwest|francecentral|germanywestcentral|` +
	`swedencentral|switzerlandnorth|norwayeast|southeastasia|eastasia|japaneast|japanwest|australiaeast|canadacentral|canadaeast|koreacentral|centralindia|brazilsouth))$`)

var regionSuffix = regexp.MustCompile(`[._-]?((?:us|eu|ap|sa|ca|me|af|il|mx|cn)(?:-gov)?-[a-z]+-\d|(?:us|europe|asia|australia)-[a-z]+\d+)$`)

// regionIn is the region that a path names as a folder, or at the end of the
// file's name; "" when there is none.
func regionIn(rel string) string {
	segments := strings.Split(rel, "/")
	last := len(segments) - 1
	for _, s := range segments[:last] {
		if regionName.MatchString(s) {
			return s
		}
	}
	stem := strings.TrimSuffix(segments[last], path.Ext(segments[last]))
	if regionName.MatchString(stem) {
		return stem
	}
	if m := regionSuffix.FindStringSubmatch(stem); m != nil {
		return m[1]
	}
	return ""
}
