package discover

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Place is where the file is written, and what a person said of it.
type Place struct {
	Dir  string // absolute folder of drkit.yaml: its paths start from there
	Name string // of the service; "": the name that is served, else the model's
}

// text writes lines of YAML. Every value passes scalar, every comment comment.
type text struct {
	strings.Builder
	f     *Found
	place Place
	kind  string
}

// Render writes a drkit.yaml of what was found. What the files do not say stands
// in a comment that begins with "set".
func Render(f *Found, c *Choice, p Place) []byte {
	t := &text{f: f, place: p, kind: f.Kind()}
	t.line("# Written by drkit init from what it found in %s. What it could not", comment(filepath.Base(f.Folder)))
	t.line(`# find out stands in comments that begin with "set". docs/drkit-yaml.md explains every key.`)
	t.line("apiVersion: drkit/v1")
	t.line("kind: Service")
	t.line("metadata: {name: %s}  # the service's folder in every store", scalar(serviceName(f, c, p)))
	t.model(c)
	t.engine()
	t.deploy()
	t.regions()
	t.rest()
	return []byte(t.String())
}

func (t *text) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

// serviceName is a name that can be a folder, a label and a host name.
func serviceName(f *Found, c *Choice, p Place) string {
	name := p.Name
	if name == "" {
		name = f.Served()
	}
	if name == "" && c.Model != nil {
		name = c.Model.Name
	}
	if name == "" {
		name = strings.TrimPrefix(c.Source, "hf://")
		name, _, _ = strings.Cut(name, "@")
	}
	name = strings.ToLower(name[strings.LastIndex(name, "/")+1:])
	name = regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(name, "-")
	if name = strings.Trim(name[:min(len(name), 63)], "-"); name == "" {
		return "service"
	}
	return name
}

func (t *text) model(c *Choice) {
	t.line("model:")
	if c.Model == nil {
		t.line("  source: %s", scalar(c.Source))
	} else {
		t.line("  source: %s  # %s; %s", scalar(t.source(c.Model.Path)), comment(c.Model.describe()), comment(c.Why))
	}
	t.adapters(c)
	names := map[string]bool{}
	for i, d := range c.Drafts {
		if i == 0 {
			t.line("  drafts:")
		}
		t.line("    - {name: %s, source: %s}  # %s", scalar(unique(d.Name, names)), scalar(t.source(d.Path)), comment(d.DraftBy))
	}
}

func (t *text) adapters(c *Choice) {
	names, head := map[string]bool{}, false
	for _, a := range c.Adapters {
		if a.Taken {
			if !head {
				t.line("  adapters:")
				head = true
			}
			t.line("    - {name: %s, source: %s}  # rank %d; %s", scalar(unique(a.Name, names)), scalar(t.source(a.Path)), a.Rank, comment(a.Why))
		}
	}
	for _, a := range c.Adapters {
		if !a.Taken {
			t.line("  # not taken: the adapter %s. %s", comment(t.source(a.Path)), comment(sentence(a.Why)))
			if a.Fits == "unknown" {
				t.line("  # set it under adapters: {name: %s, source: %s} if it belongs to this model", comment(scalar(folderElement(a.Name))), comment(scalar(t.source(a.Path))))
			}
		}
	}
}

// unique makes a name that is a folder of the release and that no other has.
func unique(name string, taken map[string]bool) string {
	base := folderElement(name)
	for n, out := 2, base; ; n++ {
		if !taken[out] {
			taken[out] = true
			return out
		}
		out = fmt.Sprintf("%s-%d", base, n)
	}
}

func folderElement(name string) string {
	name = regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(name, "-")
	name = strings.TrimLeft(name[:min(len(name), 100)], "._-")
	if name == "" {
		return "adapter"
	}
	return name
}

func (t *text) engine() {
	t.line("engine:")
	kind := t.kind
	if kind == "" {
		kind = "vllm"
		t.line("  kind: vllm  # set sglang if that is what serves the model: no file says it alone")
	} else {
		t.line("  kind: %s", kind)
	}
	switch versions := t.f.VersionsOf(kind); len(versions) {
	case 0:
		t.line("  # version: set the engine's version, such as %s: rules depend on it", map[string]string{"vllm": "0.32.0", "sglang": "0.5.9"}[kind])
	case 1:
		t.line("  version: %s  # from %s", scalar(versions[0].Version), comment(versions[0].From))
	default:
		t.line("  # version: set the one that is served; the files disagree:")
		for _, v := range versions {
			t.line("  #   %s in %s", comment(v.Version), comment(v.From))
		}
	}
	chosen, candidates := t.f.Config(kind)
	switch at, inside := t.inside(chosen); {
	case chosen != "" && inside:
		t.line("  configs: [%s]", pattern(at))
	case chosen != "":
		t.line("  # configs: %s lies outside of this file's folder; set it once it lies beneath", comment(t.source(chosen)))
	case len(candidates) > 1:
		t.line("  # configs: set the one that the engine is started with: %s", comment(strings.Join(candidates, ", ")))
	default:
		t.line("  # configs: set the engine's YAML files here, or its flags under args, unless a deploy file has them")
	}
	probes := "engine/probes.json"
	if len(t.f.Probes) == 1 {
		if at, inside := t.inside(t.f.Probes[0]); inside {
			probes = at
		}
	}
	t.line("  probes: %s  # drkit probe record writes it from a live engine", scalar(probes))
}

// deploy lists the files of every region.
func (t *text) deploy() {
	var inside []string
	outside := 0
	for _, d := range t.f.Deploy {
		if d.Region != "" {
			continue
		}
		if at, ok := t.inside(d.Path); ok {
			inside = append(inside, fmt.Sprintf("    - %s  # %s", pattern(at), comment(d.describe())))
		} else {
			outside++
		}
	}
	t.line("deploy:")
	if len(inside) == 0 {
		t.line("  files: []  # set the Kubernetes YAML, Compose files, Helm values, Dockerfiles and lockfiles of every region")
	} else {
		t.line("  files:  # patterns such as deploy/** are taken, too")
		t.line("%s", strings.Join(inside, "\n"))
	}
	if outside > 0 {
		t.line("  # %d more lie outside of this file's folder and cannot be part of a release: set this file above them", outside)
	}
}

func (d DeployFile) describe() string {
	what := d.Format
	if len(d.Starts) > 0 {
		what += ", starts " + strings.Join(d.Starts, " and ")
	}
	return what
}

// regions writes two folders as regions, or those that the paths name.
func (t *text) regions() {
	names := t.f.RegionNames()
	t.line("regions:")
	switch len(names) {
	case 0:
		names = []string{"region-a", "region-b"}
		t.line("  # set the regions' names, and where each keeps its copy: the folders below are a beginning to try it with")
	case 1:
		names = append(names, "region-b")
		t.line("  # set the second region's name, and where each keeps its copy: no path names another one")
	default:
		t.line("  # set the role of each (exactly one is the source), and where each keeps its copy")
	}
	for i, name := range names {
		role := "target"
		if i == 0 {
			role = "source"
		}
		t.line("  - name: %s", scalar(name))
		t.line("    role: %s", role)
		t.line("    # residency: set the border that it lies within, such as us: traffic is only sent where it may go")
		t.line("    store: %s", scalar("./regions/"+name))
		t.line("    # registry: set where this region's own registry holds the images, such as registry.example/llm: they are then looked for there")
		t.regionFiles(name)
		t.line(`    # canary: set how an engine is booted from this copy: {launcher: process, command: [%s]}`, t.command())
	}
}

func (t *text) command() string {
	if t.kind == "sglang" {
		return `python, -m, sglang.launch_server, --model-path, "{{model}}", --port, "{{port}}"`
	}
	return `vllm, serve, "{{model}}", --port, "{{port}}"`
}

func (t *text) regionFiles(name string) {
	var files []string
	for _, e := range t.f.Engines {
		if at, inside := t.inside(e.Path); e.Region == name && inside {
			files = append(files, pattern(at))
			if !slices.Contains(strings.Split(filepath.ToSlash(filepath.Dir(at)), "/"), "engine") {
				t.line("    # %s configures the engine: it counts as that only in a folder named engine", comment(at))
			}
		}
	}
	for _, d := range t.f.Deploy {
		if at, inside := t.inside(d.Path); d.Region == name && inside {
			files = append(files, pattern(at))
		}
	}
	if len(files) > 0 {
		t.line("    files: [%s]", strings.Join(files, ", "))
	}
}

func (t *text) rest() {
	t.line("# objectives: set what a recovery promises, such as {rto: 30m, ttft_p99: 2s}")
	t.line("# traffic: set the classes of requests, and where each may be answered: [{name: chat, residency: [us, eu]}]")
	t.line("# rehearsal: set the router that a drill starts: {router: {driver: vllm-router}}")
}

// inside is a path of the folder as drkit.yaml has it; false when it does not lie
// beneath drkit.yaml.
func (t *text) inside(rel string) (string, bool) {
	r, err := filepath.Rel(t.place.Dir, filepath.Join(t.f.Folder, filepath.FromSlash(rel)))
	r = filepath.ToSlash(r)
	return r, err == nil && r != ".." && !strings.HasPrefix(r, "../")
}

// source is a place: relative where it lies near, else absolute.
func (t *text) source(rel string) string {
	abs := filepath.Join(t.f.Folder, filepath.FromSlash(rel))
	r, err := filepath.Rel(t.place.Dir, abs)
	r = filepath.ToSlash(r)
	switch {
	case err != nil || strings.HasPrefix(r, "../../"):
		return filepath.ToSlash(abs)
	case r == ".." || strings.HasPrefix(r, "../") || r == ".":
		return r
	}
	return "./" + r
}

// special are the characters that a pattern gives a meaning to.
var special = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`, `}`, `\}`)

// pattern is a path that matches itself alone.
func pattern(p string) string { return scalar(special.Replace(p)) }

var (
	plainText = regexp.MustCompile(`^[A-Za-z./][A-Za-z0-9_./@+-]*(://[A-Za-z0-9_./@+-]+)?$`)
	version   = regexp.MustCompile(`^\d+\.\d+\.\d+[a-z0-9.]*$`)
	words     = []string{"true", "false", "yes", "no", "on", "off", "null", "y", "n", ".inf", ".nan", "."}
)

// scalar is a text value of YAML, in quotes where it needs them.
func scalar(s string) string {
	if (plainText.MatchString(s) || version.MatchString(s)) && !slices.Contains(words, strings.ToLower(s)) {
		return s
	}
	quoted, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(quoted)
}

// comment keeps foreign text in its line.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\ufeff' {
			return ' '
		}
		return r
	}, s)
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
