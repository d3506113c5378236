package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drkit/internal/demo"
	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/manifest"
)

// folder is a layout to be found: files by path, and copies of the test models.
type folder struct {
	files map[string]string
	trees map[string]string // where a model of testdata/models goes, by its name there
}

const (
	tiny    = "support-tiny"
	billing = "support-tiny-billing"
	sglang  = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: sg}\nspec: {template: {spec: {containers: [{name: sg, image: 'lmsysorg/sglang:v0.5.9', " +
		"command: [python, -m, sglang.launch_server], args: [--model-path, /models/llama, --served-model-name, Chat_Bot]}]}}}\n"
	vllm = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: v}\nspec: {template: {spec: {containers: [{name: v, image: 'vllm/vllm-openai:v0.32.0', " +
		"args: [/models/two, --config, /etc/large.yaml]}]}}}\n"
)

func (f folder) write(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "My Service")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for at, name := range f.trees {
		if err := os.CopyFS(filepath.Join(root, at), os.DirFS(filepath.Join("..", "..", "testdata", "models", name))); err != nil {
			t.Fatal(err)
		}
	}
	for at, text := range f.files {
		path := filepath.Join(root, at)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const commit = "0123456789abcdef0123456789abcdef01234567"

// TestInitBuildsAtOnce: what init writes for each layout is read, and builds.
func TestInitBuildsAtOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		folder folder
		args   []string
		want   []string // regular expressions for drkit.yaml
		not    []string
		roles  map[string]manifest.Role // files of the manifest, by subject
	}{
		{"model alone", folder{trees: map[string]string{"llama": tiny}}, nil,
			[]string{`source: ./llama  # LlamaForCausalLM, 2 weight files`, `name: llama}`, `name: region-a\n    role: source`, `name: region-b\n    role: target`, `# version: set `},
			[]string{`(?m)^  version`, `adapters:`}, map[string]manifest.Role{"model/base/config.json": manifest.Config}},
		{"adapters", folder{trees: map[string]string{"models/llama": tiny, "adapters/billing (v2)": billing},
			files: map[string]string{"adapters/stranger/adapter_config.json": `{"r":8,"base_model_name_or_path":"other/model"}`}}, nil,
			[]string{`\{name: billing-v2-, source: "./adapters/billing \(v2\)"\}  # rank 16; all \d+ modules`, `# not taken: the adapter ./adapters/stranger.*other/model`},
			[]string{`(?m)^ +- .*stranger`}, map[string]manifest.Role{"model/adapters/billing-v2-/adapter_config.json": manifest.AdapterFile}},
		{"sglang in Kubernetes", folder{trees: map[string]string{"llama": tiny}, files: map[string]string{"k8s/sg.yaml": sglang, "pyproject.toml": "[project]\nname = \"x\"\n",
			"uv.lock": "version = 1\n\n[[package]]\nname = \"sglang\"\nversion = \"0.5.9\"\n", "README.md": "x", "chart/templates/x.yaml": "a: {{ .Values.b }}\n"}}, nil,
			[]string{`kind: sglang`, `version: 0.5.9  # from the image in k8s/sg.yaml`, `name: chat-bot}`, `- k8s/sg.yaml  # kubernetes, starts sglang`, `- uv.lock  # uv`, `- pyproject.toml`, `sglang.launch_server`},
			[]string{`README`, `templates`}, map[string]manifest.Role{"deploy/k8s/sg.yaml": manifest.Kubernetes, "deploy/uv.lock": manifest.Lockfile}},
		{"regions", folder{trees: map[string]string{"llama": tiny}, files: map[string]string{
			"deploy/us-east-1/values.yaml": "image: {repository: vllm/vllm-openai, tag: v0.32.0}\n", "deploy/eu-west-1/values.yaml": "image: {repository: vllm/vllm-openai, tag: v0.31.0}\n",
			"deploy/eu-west-1/engine/vllm.yaml": "max-model-len: 512\nserved-model-name: chat\n", "deploy/us-east-1/engine/vllm.yaml": "max-model-len: 1024\nserved-model-name: chat\n"}}, nil,
			[]string{`name: eu-west-1\n    role: source`, `name: us-east-1\n    role: target`, `files: \[deploy/eu-west-1/engine/vllm.yaml, deploy/eu-west-1/values.yaml\]`, `name: chat}`,
				`# version: set the one that is served; the files disagree`},
			[]string{`region-a`, `(?m)^  version`}, map[string]manifest.Role{"engine/@eu-west-1/deploy/eu-west-1/engine/vllm.yaml": manifest.EngineConfig}},
		{"chosen by what is started", folder{trees: map[string]string{"models/one": tiny, "models/two": tiny}, files: map[string]string{"k8s/v.yaml": vllm,
			"engine/small.yaml": "max-model-len: 512\n", "engine/large.yaml": "max-model-len: 1024\n"}}, nil,
			[]string{`source: ./models/two  # .*an engine is started with it`, `configs: \[engine/large.yaml\]`, `version: 0.32.0`}, []string{`models/one`}, nil},
		{"chosen by a person", folder{trees: map[string]string{"models/one": tiny, "models/two": tiny}}, []string{"--model", "models/one", "--name", "Chat Eins"},
			[]string{`source: ./models/one`, `name: chat-eins}`}, nil, nil},
		{"hub cache", folder{trees: map[string]string{"hub/models--acme--tiny/snapshots/" + commit: tiny},
			files: map[string]string{"hub/models--acme--tiny/refs/main": commit, "hub/models--acme--tiny/blobs/x": ""}}, nil,
			[]string{`source: ./hub/models--acme--tiny/snapshots/` + commit + `  # LlamaForCausalLM, acme/tiny`, `name: tiny}`}, nil, nil},
		{"names that need quotes", folder{trees: map[string]string{"no": tiny}, files: map[string]string{"d/a: #[x].yaml": sglang, "engine/{b}*.yaml": "tp-size: 1\nmodel-path: /m\n"}}, nil,
			[]string{`"d/a: #\\\\\[x\].yaml"`}, nil, map[string]manifest.Role{"deploy/d/a: #[x].yaml": manifest.Kubernetes, "engine/engine/{b}*.yaml": manifest.EngineConfig}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := c.folder.write(t)
			status, out, errText := execute(t, append([]string{"init", root}, c.args...)...)
			if status != errext.Holds {
				t.Fatalf("init: status %d\n%s%s", status, out, errText)
			}
			data, err := os.ReadFile(filepath.Join(root, "drkit.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !regexp.MustCompile(want).Match(data) {
					t.Errorf("no %s in\n%s", want, data)
				}
			}
			for _, not := range c.not {
				if regexp.MustCompile(not).Match(data) {
					t.Errorf("%s in\n%s", not, data)
				}
			}
			built(t, root, c.roles)
		})
	}
}

// built runs manifest build on what init wrote.
func built(t *testing.T, root string, roles map[string]manifest.Role) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "m.json")
	status, out, errText := execute(t, "manifest", "build", "-f", filepath.Join(root, "drkit.yaml"), "-o", file, "--progress", "quiet")
	if status != errext.Holds {
		t.Fatalf("build: status %d\n%s%s", status, out, errText)
	}
	m, err := readManifest(file)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]manifest.Role{}
	for _, f := range m.Contents.Files {
		got[f.Subject()] = f.Role
	}
	for subject, role := range roles {
		if got[subject] != role {
			t.Errorf("%s is %q in the manifest, not %q", subject, got[subject], role)
		}
	}
}

// TestInitFindsTheDemonstration: the service of the demonstration, without its
// drkit.yaml, is found as its own drkit.yaml describes it.
func TestInitFindsTheDemonstration(t *testing.T) {
	root := t.TempDir()
	if err := demo.Write(root, demo.StandIn("drkit")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "drkit.yaml")
	want, err := service.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if status, out, errText := execute(t, "init", root); status != errext.Holds {
		t.Fatalf("status %d\n%s%s", status, out, errText)
	}
	got, err := service.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.Metadata.Name != want.Metadata.Name || got.Model.Source.Path != want.Model.Source.Path || len(got.Model.Adapters) != 1 ||
		got.Model.Adapters[0].Name != "billing" || got.Engine.Configs[0] != want.Engine.Configs[0] || got.Engine.Probes.Path != want.Engine.Probes.Path {
		t.Errorf("found %+v %+v, want %+v %+v", got.Model, got.Engine, want.Model, want.Engine)
	}
	built(t, root, map[string]manifest.Role{"deploy/deploy/base/deployment.yaml": manifest.Kubernetes, "deploy/deploy/Dockerfile": manifest.Dockerfile,
		"deploy/deploy/uv.lock": manifest.Lockfile, "engine/engine/vllm.yaml": manifest.EngineConfig, "model/adapters/billing/adapter_config.json": manifest.AdapterFile})
}

func TestInitRefuses(t *testing.T) {
	two := folder{trees: map[string]string{"models/one": tiny, "models/two": tiny}}
	for _, c := range []struct {
		name   string
		folder folder
		args   []string
		status errext.Status
		says   []string
	}{
		{"empty", folder{}, nil, errext.Usage, []string{"holds nothing that a release is made of", "hint: name the folder that holds the model"}},
		{"no model", folder{files: map[string]string{"v.yaml": strings.ReplaceAll(vllm, "/models/two", "acme/tiny")}}, nil, errext.Usage,
			[]string{"holds no model repository", "hint: v.yaml starts an engine with acme/tiny", "--model hf://acme/tiny@REVISION"}},
		{"two models", two, nil, errext.Usage, []string{"holds 2 model repositories: models/one, models/two", "hint: choose the one that is served with --model PATH"}},
		{"unknown model", two, []string{"--model", "models/three"}, errext.Usage, []string{"--model models/three is none of", "they are models/one, models/two"}},
		{"a bucket", two, []string{"--model", "s3://b/m"}, errext.Usage, []string{"s3://b/m is no place that can be read"}},
		{"already there", folder{trees: map[string]string{"m": tiny}, files: map[string]string{"drkit.yaml": "mine"}}, nil, errext.Refused, []string{"drkit.yaml is there already", "hint: give --force"}},
		{"the model itself", folder{trees: map[string]string{".": tiny}}, nil, errext.Usage, []string{"would lie in the model repository", "hint: write it elsewhere with -o"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := c.folder.write(t)
			status, out, errText := execute(t, append([]string{"init", root}, c.args...)...)
			if status != c.status || out != "" {
				t.Errorf("status %d, stdout %q", status, out)
			}
			for _, want := range c.says {
				if !strings.Contains(errText, want) {
					t.Errorf("%q is not in %q", want, errText)
				}
			}
			data, err := os.ReadFile(filepath.Join(root, "drkit.yaml"))
			if c.folder.files["drkit.yaml"] != string(data) {
				t.Errorf("drkit.yaml holds %q (%v)", data, err)
			}
		})
	}
}

func TestInitForceAndJSON(t *testing.T) {
	root := folder{trees: map[string]string{"m": tiny, "a": billing}, files: map[string]string{"drkit.yaml": "mine"}}.write(t)
	status, out, errText := execute(t, "init", root, "--force", "--output", "json")
	var got initiated
	if err := json.Unmarshal([]byte(out), &got); status != errext.Holds || err != nil {
		t.Fatalf("status %d, %v: %s%s", status, err, out, errText)
	}
	if got.Schema != "drkit.init/1.0" || got.Choice.Model.Path != "m" || len(got.Choice.Adapters) != 1 || !got.Choice.Adapters[0].Taken || got.Choice.Adapters[0].Fits != "yes" {
		t.Errorf("%+v", got)
	}
	built(t, root, nil)
}

// TestInitBesideASnapshot: a model elsewhere, its drkit.yaml here.
func TestInitBesideASnapshot(t *testing.T) {
	cache := folder{trees: map[string]string{"models--acme--tiny/snapshots/" + commit: tiny}, files: map[string]string{"models--acme--tiny/refs/main": commit}}.write(t)
	for _, at := range []string{"models--acme--tiny/snapshots/" + commit, "models--acme--tiny", "."} {
		here := t.TempDir()
		status, out, errText := execute(t, "init", filepath.Join(cache, at), "-o", filepath.Join(here, "drkit.yaml"))
		if status != errext.Holds {
			t.Fatalf("%s: status %d\n%s%s", at, status, out, errText)
		}
		svc, err := service.Load(filepath.Join(here, "drkit.yaml"))
		if err != nil || filepath.Base(svc.Model.Source.Path) != commit || svc.Metadata.Name != "tiny" {
			t.Errorf("%s: %+v, %v", at, svc, err)
		}
		built(t, here, map[string]manifest.Role{"model/base/config.json": manifest.Config})
	}
}

// TestInitRefusesAnAdapterOfAnotherModel: an adapter whose matrices do not fit is told.
func TestInitRefusesAnAdapterOfAnotherModel(t *testing.T) {
	f := folder{trees: map[string]string{"m": tiny, "a": "../boot-truth/bases/llama-lora"}}
	root := f.write(t)
	if status, out, errText := execute(t, "init", root); status != errext.Holds {
		t.Fatalf("status %d\n%s%s", status, out, errText)
	}
	data, err := os.ReadFile(filepath.Join(root, "drkit.yaml"))
	if err != nil || strings.Contains(string(data), "\n  adapters:") || !regexp.MustCompile(`# not taken: the adapter ./a\. .*(in the model|are not in)`).Match(data) {
		t.Errorf("%v\n%s", err, data)
	}
	built(t, root, nil)
}
