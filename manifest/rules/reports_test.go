package rules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drkit/internal/store/dir"
	"drkit/manifest"
	"drkit/manifest/rules"
)

// report describes a tree of testdata/reports as drkit.yaml would: its model,
// adapters, further repositories, and engine and deploy files.
func report(t *testing.T, tree string) manifest.Input {
	t.Helper()
	root := filepath.Join("testdata/reports", tree)
	in := manifest.Input{Service: "support", Engine: manifest.EngineInput{Kind: "vllm", Version: "0.32.0"},
		Model: manifest.Tree{Source: llama().source()}}
	if _, err := os.Stat(filepath.Join(root, "model")); err == nil {
		in.Model = manifest.Tree{Source: dir.New(filepath.Join(root, "model"))}
	}
	for _, part := range []string{"engine", "deploy"} {
		entries, _ := os.ReadDir(filepath.Join(root, part))
		for _, e := range entries {
			f := manifest.PartFile{Path: e.Name(), Source: dir.New(filepath.Join(root, part)), Key: e.Name()}
			if part == "engine" {
				in.EngineFiles = append(in.EngineFiles, f)
			} else {
				in.DeployFiles = append(in.DeployFiles, f)
			}
		}
	}
	repos, _ := filepath.Glob(filepath.Join(root, "repos/*/*"))
	for _, r := range repos {
		name, err := filepath.Rel(filepath.Join(root, "repos"), r)
		if err != nil {
			t.Fatal(err)
		}
		rev, _ := os.ReadFile(filepath.Join(r, "REVISION"))
		in.Repositories = append(in.Repositories, manifest.Tree{Name: filepath.ToSlash(name), Source: dir.New(r), Revision: strings.TrimSpace(string(rev))})
	}
	adapters, _ := filepath.Glob(filepath.Join(root, "adapters/*"))
	for _, a := range adapters {
		in.Adapters = append(in.Adapters, manifest.Tree{Name: filepath.Base(a), Source: dir.New(a)})
	}
	return in
}

// TestReports holds the gate against releases that people reported as broken,
// each beside one that is whole. Texts are parts of what a finding must say.
func TestReports(t *testing.T) {
	for _, c := range []struct {
		tree  string
		want  string   // the findings of degraded and above
		texts []string // in the first one's message, path, field or hint
	}{
		{"01-shard-missing-no-index/bad", "W-3 silent model/base/model-00002-of-00003.safetensors", []string{"1 of 3 missing", "no index is there"}},
		{"01-shard-missing-no-index/good", "", nil},
		{"02-merges-missing/bad", "T-2 block model/base/merges.txt", []string{"merges.txt", "tokenizer.json"}},
		{"02-merges-missing/good", "", nil},
		{"02-merges-missing/good-tokenizer-json", "", nil},
		{"03-code-in-other-repo/bad", "C-5 block model/base/config.json", []string{"acme/impl", "configuration_acme.py", "modeling_acme.py", "auto_map"}},
		{"03-code-in-other-repo/good", "", nil},
		{"04-processor-missing/bad", "T-11 block model/base/processor_config.json", []string{"preprocessor_config.json", "processor_config.json with image_processor"}},
		{"04-processor-missing/good-processor", "", nil},
		{"04-processor-missing/good-preprocessor", "", nil},
		{"05-lfs-pointer/bad", "W-12 block model/base/model-00001-of-00002.safetensors", []string{"Git LFS pointer of 130 bytes"}},
		{"05-lfs-pointer/good", "", nil},
		{"06-gptq-flag-without-config/bad", "Q-3 block engine/vllm.yaml:4", []string{"quantize_config.json", "quantization"}},
		{"06-gptq-flag-without-config/bad-two-configs", "Q-3 block engine/vllm.yaml:4", []string{"old_quantize_config.json and quantize_config.json"}},
		{"06-gptq-flag-without-config/good", "", nil},
		{"13-user-without-name/bad", "K-UID degraded deploy/deployment.yaml:16", []string{"container engine", "1000650000", "USER", "HOME"}},
		{"13-user-without-name/good", "", nil},
		{"14-probe-budget/good", "", nil},
		{"15-adapter-not-loaded", "", nil},
	} {
		t.Run(c.tree, func(t *testing.T) {
			m, _, err := manifest.Build(t.Context(), report(t, c.tree))
			if err != nil {
				t.Fatal(err)
			}
			all := slices.DeleteFunc(rules.Check(m), func(f manifest.Finding) bool { return f.Severity == manifest.Info })
			if got := strings.Join(lines(all), "; "); got != c.want {
				t.Fatalf("got  %q\nwant %q%s", got, c.want, show(all))
			}
			for _, text := range c.texts {
				if f := all[0]; !strings.Contains(strings.Join([]string{f.Message, f.Path, f.Field, f.Hint}, "\n"), text) {
					t.Errorf("it does not say %q: %s", text, show(all))
				}
			}
		})
	}
}

// The limits are added up by hand in the files' comments of the reports.
func TestStartLimits(t *testing.T) {
	for tree, want := range map[string]int{"bad": 150, "bad-liveness-only": 150, "bad-engine-timeout": 120, "good": 600} {
		m, _, err := manifest.Build(t.Context(), report(t, "14-probe-budget/"+tree))
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Annotations.Pods) != 1 || m.Annotations.Pods[0].Limits[0].Seconds != want || len(m.Annotations.Pods[0].Limits) != 3 {
			t.Errorf("%s: %+v, want the smallest of three limits to be %d s", tree, m.Annotations.Pods, want)
		}
		found := slices.IndexFunc(rules.Check(m), func(f manifest.Finding) bool { return f.Rule == "K-PROBE" && f.Severity == manifest.Info })
		if found < 0 {
			t.Errorf("%s: the limits are not listed", tree)
		}
	}
}

// TestMeasuredStart: this release took 159 s. What is shorter is a block at the
// smallest limit's own line; a start of 500 s leaves no margin in 600 s.
func TestMeasuredStart(t *testing.T) {
	for _, c := range []struct {
		tree string
		took time.Duration
		want string
	}{
		{"bad", 159 * time.Second, "K-PROBE block deploy/deployment.yaml:22 startupProbe"},
		{"bad-liveness-only", 159 * time.Second, "K-PROBE block deploy/deployment.yaml:22 livenessProbe"},
		{"bad-engine-timeout", 159 * time.Second, "K-PROBE block deploy/deployment.yaml:22 VLLM_ENGINE_READY_TIMEOUT_S"},
		{"good", 159 * time.Second, ""},
		{"good", 500 * time.Second, "K-PROBE degraded deploy/deployment.yaml:22 startupProbe"},
		{"bad", 100 * time.Second, ""},
	} {
		m, _, err := manifest.Build(t.Context(), report(t, "14-probe-budget/"+c.tree))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, f := range rules.WithStart(rules.Check(m), m, rules.Start{Took: c.took, From: "a test"}) {
			if f.Severity != manifest.Info {
				got = fmt.Sprintf("%s %s %s/%s:%d %s", f.Rule, f.Severity, f.Part, f.Path, f.Line, f.Field)
			}
		}
		if got != c.want {
			t.Errorf("%s, %v: got %q, want %q", c.tree, c.took, got, c.want)
		}
	}
}

// TestAContainerWithoutAName: a note on it says which one it is, by its line in the file.
func TestAContainerWithoutAName(t *testing.T) {
	m, _, err := manifest.Build(t.Context(), report(t, "14-probe-budget/good"))
	if err != nil {
		t.Fatal(err)
	}
	m.Annotations.Pods[0].Container.Name = ""
	for _, f := range append(rules.Check(m), rules.JudgeStart(m, "", rules.Start{Took: time.Second, From: "a test"})...) {
		if f.Rule == "K-PROBE" && (strings.Contains(f.Message, "container  ") || !strings.Contains(f.Message, "the container without a name at line 15 of Deployment support-vllm is")) {
			t.Errorf("%s", f.Message)
		}
	}
}

// TestMeasuredPull: a rollout's deadline, 600 s unless written, runs while images are
// pulled; a probe and the engine's own limit begin with the engine. 159 s after a pull of
// 440 s leave one second, after 442 s none; after 300 s they take less than 80 % of it.
func TestMeasuredPull(t *testing.T) {
	for pull, want := range map[time.Duration]string{
		0:                 "",
		300 * time.Second: "",
		440 * time.Second: "K-PROBE degraded progressDeadlineSeconds",
		442 * time.Second: "K-PROBE block progressDeadlineSeconds",
	} {
		m, _, err := manifest.Build(t.Context(), report(t, "14-probe-budget/good"))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, f := range rules.JudgeStart(m, "", rules.Start{Took: 159 * time.Second, Pull: pull, From: "a test"}) {
			if f.Severity != manifest.Info {
				got = fmt.Sprintf("%s %s %s", f.Rule, f.Severity, f.Field)
			}
		}
		if got != want {
			t.Errorf("a pull of %v: %q, want %q", pull, got, want)
		}
	}
}

// Two regions whose pods read one configuration lack the adapter for one reason:
// it is said once.
func TestAnAdapterThatNoRegionServesIsOneFinding(t *testing.T) {
	in := report(t, "15-adapter-not-loaded")
	pod := []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: vllm, image: vllm/vllm-openai:v0.32.0, args: [--model, /models/base, --config, /etc/vllm.yaml]}]}\n")
	w := &tree{Files: map[string][]byte{"pod.yaml": pod, "vllm.yaml": []byte("enable-lora: true\n")}}
	in.Engine.Args, in.DeployFiles = nil, []manifest.PartFile{{Region: "us", Path: "pod.yaml", Source: w, Key: "pod.yaml"}, {Region: "eu", Path: "pod.yaml", Source: w, Key: "pod.yaml"}}
	in.EngineFiles = []manifest.PartFile{{Path: "vllm.yaml", Source: w, Key: "vllm.yaml", Role: manifest.EngineConfig}}
	m, _, err := manifest.Build(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if got := lines(failing(rules.Check(m))); !slices.Equal(got, []string{"L-8 request engine/vllm.yaml:1"}) {
		t.Errorf("got %v", got)
	}
}

// The adapter of the report is whole: only an engine that is not told to serve
// it is at fault.
func TestAdapterIsAskedFor(t *testing.T) {
	in := report(t, "15-adapter-not-loaded")
	in.DeployFiles, in.Engine.Args = nil, []string{"--enable-lora"}
	m, _, err := manifest.Build(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if got := lines(failing(rules.Check(m))); !slices.Equal(got, []string{"L-8 request engine/drkit-engine.json"}) {
		t.Errorf("got %v", got)
	}
}
