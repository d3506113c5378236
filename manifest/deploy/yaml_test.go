package deploy

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

func read(t *testing.T, name string) (Facts, []Problem) {
	t.Helper()
	data, err := os.ReadFile("testdata/yaml/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return Read(name, data)
}

// lines is each image as "line reference".
func lines(images []Image) []string {
	out := []string{}
	for _, i := range images {
		out = append(out, fmt.Sprintf("%d %s", i.Line, i.Reference))
	}
	return out
}

// kinds is each problem as "line kind".
func kinds(problems []Problem) []string {
	out := []string{}
	for _, p := range problems {
		out = append(out, fmt.Sprintf("%d %s", p.Line, p.Kind))
	}
	return out
}

const hash = "sha256:3f57d9401f8d42f986df300f0c69192fc41da28ccc8d797829467780db3dd741"

func TestYAML(t *testing.T) {
	tests := []struct {
		file, format string
		role         Role
		images       []string
		problems     []string
	}{
		{"deployment.yaml", "kubernetes", Kubernetes,
			[]string{"11 busybox", "14 registry.internal.example:5000/llm/vllm-openai:v0.32.0@" + hash, "32 envoyproxy/envoy:v1.35.0",
				"35 envoyproxy/envoy:v1.35.0", "38 ghcr.io/llm/weights:1", "46 docker.io/vllm/vllm-openai"},
			[]string{"16 engine-env", "26 plain-secret"}},
		{"list.json", "kubernetes", Kubernetes, []string{"5 quay.io/llm/a:2"}, []string{"6 plain-secret", "6 plain-secret"}},
		{"compose.yaml", "compose", Other, []string{"3 docker.io/vllm/vllm-openai:v0.32.0", "14 example/engine:1"},
			[]string{"6 plain-secret", "9 image-unresolved", "11 plain-secret", "16 engine-shell"}},
		{"values.yaml", "yaml", Other, []string{"3 ghcr.io/llm/engine:1.2.3@" + hash, "8 llm/side"}, []string{}},
		{"kustomization.yaml", "kustomization", Kubernetes,
			[]string{"3 mirror.internal.example/vllm-openai:v0.32.0", "6 busybox@" + hash}, []string{}},
		{"template.yaml", "template", Other, []string{}, []string{"4 yaml-template"}},
		{"quoted-template.yaml", "kubernetes", Kubernetes, []string{"10 nginx:1.29"}, []string{"4 yaml-template", "8 yaml-template"}},
		{"tab.yaml", "yaml", Other, []string{}, []string{"4 yaml-syntax"}},
		{"configmap.yaml", "kubernetes", Kubernetes, []string{}, []string{"7 plain-secret"}},
	}
	for _, test := range tests {
		t.Run(test.file, func(t *testing.T) {
			facts, problems := read(t, test.file)
			if facts.Role != test.role || facts.Format != test.format {
				t.Errorf("role %s, format %s", facts.Role, facts.Format)
			}
			if got := lines(facts.Images); !reflect.DeepEqual(got, test.images) {
				t.Errorf("images\n %q\nwant\n %q", got, test.images)
			}
			if got := kinds(problems); !reflect.DeepEqual(got, test.problems) {
				t.Errorf("problems\n %q\nwant\n %q", got, test.problems)
			}
		})
	}
}

// TestNoSecretIsShown reads the fixtures that hold secrets and looks for them in
// every problem.
func TestNoSecretIsShown(t *testing.T) {
	secrets := []string{"s3cr3t-Value-42", "aGlkZGVuLXZhbHVl", "hidden-value-7", "plain-Value-7", "sk-abcdef", "build-Secret-1"}
	for _, file := range []string{"deployment.yaml", "list.json", "compose.yaml", "configmap.yaml"} {
		facts, problems := read(t, file)
		if !has(problems, KindPlainSecret) {
			t.Errorf("%s: the secret was not reported", file)
		}
		for _, s := range secrets {
			if strings.Contains(fmt.Sprintf("%+v %+v", problems, facts.Images), s) {
				t.Errorf("%s: %q is shown in %+v", file, s, problems)
			}
		}
	}
	_, problems := Read("Dockerfile", []byte("FROM a:1\nENV HF_TOKEN=build-Secret-1\nARG API_KEY\nENV PASSWORD build-Secret-1\nENV MAX_TOKENS=5\n"))
	if got := kinds(problems); !reflect.DeepEqual(got, []string{"2 plain-secret", "4 plain-secret"}) || strings.Contains(fmt.Sprint(problems), "build-Secret-1") {
		t.Errorf("%+v", problems)
	}
}

func TestEngineCommands(t *testing.T) {
	facts, _ := read(t, "deployment.yaml")
	want := []EngineCommand{
		{Path: "deployment.yaml", Line: 16, Container: "vllm", Entry: "vllm", EntryAssumed: true, Exact: false,
			Argv: []string{"serve", "/models/llama", "--config=/etc/vllm/engine.yaml", "--served-model-name", "chat", "--revision=$(REVISION)"}},
		{Path: "deployment.yaml", Line: 48, Entry: "vllm", Exact: true, Argv: []string{"serve", "/mnt/models", "--max-model-len", "32k"}},
	}
	compareCommands(t, facts.Engine, want)
	if facts.Engine[0].Env["NAME"] != "chat" {
		t.Errorf("env %v", facts.Engine[0].Env)
	}
	facts, _ = read(t, "compose.yaml")
	compareCommands(t, facts.Engine, []EngineCommand{
		{Path: "compose.yaml", Line: 4, Entry: "vllm", EntryAssumed: true, Exact: true,
			Argv: []string{"serve", "--model", "/models/a", "--served-model-name", "my chat", "--port", "9000"}},
		{Path: "compose.yaml", Line: 16, Entry: "vllm", Exact: false, Argv: []string{"serve", "/m", "--config", "e.yaml"}},
	})
}

func compareCommands(t *testing.T, got, want []EngineCommand) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d commands, want %d: %+v", len(got), len(want), got)
	}
	for i, g := range got {
		if len(g.Places) != len(g.Argv) {
			t.Errorf("%d places for %q", len(g.Places), g.Argv)
		}
		g.Image, g.Version, g.Env, g.Places, g.shell, g.envLines = "", "", nil, nil, false, nil
		if !reflect.DeepEqual(g, want[i]) {
			t.Errorf("got  %+v\nwant %+v", g, want[i])
		}
	}
}

func TestContainerForms(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - %s\n"
	tests := []struct {
		container, entry string
		argv             []string
		kind             string // of a problem that is expected
	}{
		{`{image: a/b, command: [python3, -m, vllm.entrypoints.openai.api_server], args: [--model, /m]}`, "api_server", []string{"--model", "/m"}, ""},
		{`{image: a/b, command: [/opt/venv/bin/vllm], args: [serve, /m]}`, "vllm", []string{"serve", "/m"}, ""},
		{`{image: a/b, command: [sh, -c, "vllm serve $M --port 1"], env: [{name: M, value: /m}]}`, "vllm", []string{"serve", "/m", "--port", "1"}, ""},
		{`{image: a/b, command: [sh, -c, "vllm serve $M"]}`, "vllm", []string{"serve", "$M"}, KindEngineEnv},
		{`{image: a/b, command: [sh, -ec], args: ["sleep 1 && VLLM_X=1 exec vllm serve '/m m'"]}`, "vllm", []string{"serve", "/m m"}, KindShellCommand},
		{`{image: a/b, command: [sh, -c, "run.sh 'vllm serve /m'"]}`, "", nil, KindShellCommand},
		{`{image: a/b, args: [/m, --max_model_len=4k]}`, "vllm", []string{"serve", "/m", "--max_model_len=4k"}, ""},
		{`{image: lmsysorg/sglang, args: [--served-model-name, x]}`, "", nil, ""},
		{`{image: nginx, args: [-g, daemon off]}`, "", nil, ""},
		{`{image: vllm/vllm-openai:v0.32.0, args: [serve, /m, $$(X)]}`, "vllm", []string{"serve", "/m", "$(X)"}, ""},
	}
	for _, test := range tests {
		facts, problems := Read("p.yaml", fmt.Appendf(nil, pod, test.container))
		if test.kind != "" && !has(problems, test.kind) || test.kind == "" && len(problems) > 0 {
			t.Errorf("%s: problems %+v, want %q", test.container, problems, test.kind)
		}
		if test.argv == nil {
			if len(facts.Engine) > 0 {
				t.Errorf("%s: %+v", test.container, facts.Engine)
			}
			continue
		}
		if len(facts.Engine) != 1 || facts.Engine[0].Entry != test.entry || !reflect.DeepEqual(facts.Engine[0].Argv, test.argv) {
			t.Errorf("%s: %+v", test.container, facts.Engine)
		}
	}
}

func TestDockerfileStartsEngine(t *testing.T) {
	facts, problems := Read("engine.Dockerfile", []byte("FROM base:1 AS b\nCMD [\"vllm\", \"serve\", \"/never\"]\nFROM vllm/vllm-openai:v0.32.0\nENV M=/m\nENTRYPOINT [\"vllm\", \"serve\"]\nCMD [\"/m\", \"--config=e.yaml\"]\n"))
	compareCommands(t, facts.Engine, []EngineCommand{{Path: "engine.Dockerfile", Line: 5, Entry: "vllm", Exact: true, Argv: []string{"serve", "/m", "--config=e.yaml"}}})
	if len(problems) > 0 {
		t.Errorf("%+v", problems)
	}
	facts, _ = Read("Dockerfile", []byte("FROM a:1\nENV M=/m\nCMD exec vllm serve $M\n"))
	compareCommands(t, facts.Engine, []EngineCommand{{Path: "Dockerfile", Line: 3, Entry: "vllm", Exact: true, Argv: []string{"serve", "/m"}}})
}
