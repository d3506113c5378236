package rules_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"drkit/manifest"
	"drkit/manifest/internal/boottruth"
	"drkit/manifest/rules"
)

func llama() repository {
	return newRepository(causal("StableLmForCausalLM", "stablelm", 4, nil)).shard("model.safetensors", 4, join(attention, dense, outer)...)
}

// lines shows findings as the tests compare them.
func lines(findings []manifest.Finding) (out []string) {
	for _, f := range findings {
		at := f.Path
		if f.Line > 0 {
			at = fmt.Sprintf("%s:%d", f.Path, f.Line)
		}
		out = append(out, fmt.Sprintf("%s %s %s/%s", f.Rule, f.Severity, f.Part, at))
	}
	return out
}

// TestOneCauseOneFinding breaks a repository in one way and wants exactly the
// findings of that cause.
func TestOneCauseOneFinding(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0000000000000000000000000000000000000000000000000000000000000000\nsize 9\n"
	for name, c := range map[string]struct {
		repo   repository
		change func(*manifest.Input)
		want   string
	}{
		"nothing":                      {llama(), nil, ""},
		"a layer that lost a matrix":   {lose(llama(), "model.layers.2.mlp.up_proj.weight"), nil, "W-4 silent model/base/model.safetensors"},
		"a layer that lost a norm":     {lose(llama(), "model.layers.1.input_layernorm.weight"), nil, "W-4 block model/base/model.safetensors"},
		"a layer that is lost":         {loseLayer(llama(), 3), nil, "W-15 block model/base/config.json"},
		"pointer in place of a shard":  {llama().with("model.safetensors", pointer), nil, "W-12 block model/base/model.safetensors"},
		"pointer of a tokenizer":       {llama().with("tokenizer.json", pointer), nil, "W-12 block model/base/tokenizer.json"},
		"pointer of a template":        {llama().with("chat_template.jinja", pointer), nil, "W-12 silent model/base/chat_template.jinja"},
		"pointer of a picture":         {llama().with("a.png", pointer), nil, "W-12 info model/base/a.png"},
		"page in place of config.json": {llama().with("config.json", "\n <!DOCTYPE html><html>"), nil, "W-12 block model/base/config.json"},
		"error in place of a tokenizer": {llama().with("tokenizer.json", `{"error":"Invalid credentials in Authorization header"}`), nil,
			"W-12 block model/base/tokenizer.json"},
		"broken shard that is not loaded": {llama().with("checkpoint-5/model.safetensors", "xxxxxxxxxxxxxxx"), nil, "W-11 degraded model/base/checkpoint-5/model.safetensors"},
		"config.json of another type":     {llama().with("config.json", "[]"), nil, "C-2 block model/base/config.json:1"},
		"config.json that is empty":       {llama().with("config.json", ""), nil, "C-2 block model/base/config.json"},
		"config.json in latin-1":          {llama().with("config.json", "{\"a\":\"\xe9\"}"), nil, "C-2 block model/base/config.json"},
		"generation_config.json cut off":  {llama().with("generation_config.json", "{\n\"eos_token_id\": [5"), nil, "C-2 block model/base/generation_config.json:2"},
		"generation_config.json lost, end token elsewhere": {llama().without("generation_config.json"), nil,
			"C-11 degraded model/base/generation_config.json"},
		"generation_config.json lost, end token only there": {llama().without("generation_config.json").with("tokenizer_config.json", `{"eos_token":"a"}`).
			with("config.json", `{"architectures":["StableLmForCausalLM"],"model_type":"stablelm","num_hidden_layers":4,"eos_token_id":0}`), nil,
			"C-11 silent model/base/generation_config.json"},
		"base model with the template of its chat sibling": {llama().with("generation_config.json", `{"eos_token_id":0}`).with("tokenizer_config.json", `{"eos_token":"a"}`), nil,
			"C-11 degraded model/base/generation_config.json"},
		"no weights": {llama().without("model.safetensors"), nil, "W-1 block model/base"},
		"index that is no JSON": {llama().with("model.safetensors.index.json", "{"), nil,
			"W-2 block model/base/model.safetensors.index.json"},
		"index whose shard has another case": {llama().with("model.safetensors.index.json", `{"weight_map":{"a":"Model.safetensors"}}`), nil,
			"W-2 block model/base/Model.safetensors"},
		"image by tag": {llama(), func(in *manifest.Input) { in.Images = []string{"1.example:5000/vllm:v1"} }, "I-1 degraded deploy/1.example:5000/vllm:v1"},
		"image by latest": {llama(), func(in *manifest.Input) { in.Images = []string{"1.example:5000/vllm:latest"} },
			"I-1 block deploy/1.example:5000/vllm:latest"},
		"image without a tag": {llama(), func(in *manifest.Input) { in.Images = []string{"1.example:5000/vllm"} }, "I-1 block deploy/1.example:5000/vllm"},
		"image by digest":     {llama(), func(in *manifest.Input) { in.Images = []string{"vllm@sha256:" + strings.Repeat("a", 64)} }, ""},
		"option that does not exist": {llama(), func(in *manifest.Input) { in.Engine.Args = []string{"--no-such-option"} },
			"E-2 block engine/drkit-engine.json"},
		"configuration with an equals sign": {llama(), func(in *manifest.Input) { in.Engine.Args = []string{"--config=/etc/vllm.yaml"} },
			"E-3 silent engine/drkit-engine.json"},
		"configuration with a tab":     {llama(), engineFiles("vllm.yaml", "max-model-len: 8\n\tport: 1\n"), "E-2 block engine/vllm.yaml:2"},
		"configuration that is a list": {llama(), engineFiles("vllm.yaml", "- a\n"), "E-2 block engine/vllm.yaml:1"},
		"two configurations":           {llama(), engineFiles("a.yaml", "seed: 1\n", "b.yaml", "seed: 2\n"), "E-4 block engine/drkit-engine.json"},
		"adapter that is not listed": {llama(), func(in *manifest.Input) { in.Engine.Args = []string{"--enable-lora", "--lora-modules", "sql=/a/sql"} },
			"L-7 block engine/drkit-engine.json"},
		"sglang": {llama(), func(in *manifest.Input) { in.Engine.Kind, in.Engine.Version = "sglang", "0.5.23" }, ""},
		"kubernetes": {llama(), deployFile("eu", "k8s.yaml", "kind: Pod\napiVersion: v1\nspec:\n  containers:\n  - name: a\n    image: vllm/vllm-openai\n"),
			"I-1 block deploy/@eu/k8s.yaml:6"},
		"base image of a build": {llama(), deployFile("", "Dockerfile", "FROM vllm/vllm-openai\n"), "I-1 degraded deploy/Dockerfile:1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.repo.check(t, c.change)
			if text := strings.Join(lines(got), "; "); text != c.want {
				t.Errorf("got  %q\nwant %q%s", text, c.want, show(got))
			}
			for _, f := range got {
				if f.Message == "" || f.Severity.FailsGate(true) && f.Hint == "" {
					t.Errorf("%s has no message or no hint: %+v", f.Rule, f)
				}
			}
		})
	}
}

func lose(r repository, tensors ...string) repository {
	all := boottruth.Load([]byte(r["model.safetensors"]))
	for _, name := range tensors {
		if all[name] == nil {
			panic("no tensor " + name)
		}
		delete(all, name)
	}
	r["model.safetensors"] = string(boottruth.Pack(all))
	return r
}

func loseLayer(r repository, layer int) repository {
	var names []string
	for _, n := range join(attention, dense) {
		names = append(names, strings.ReplaceAll(n, "#", fmt.Sprint(layer)))
	}
	return lose(r, names...)
}

// engineFiles makes pairs of names and texts the engine's configuration.
func engineFiles(pairs ...string) func(*manifest.Input) {
	return func(in *manifest.Input) {
		w := &tree{Files: map[string][]byte{}}
		for i := 0; i < len(pairs); i += 2 {
			w.Files[pairs[i]] = []byte(pairs[i+1])
			in.EngineFiles = append(in.EngineFiles, manifest.PartFile{Path: pairs[i], Source: w, Key: pairs[i]})
		}
	}
}

func deployFile(region, name, text string) func(*manifest.Input) {
	return func(in *manifest.Input) {
		w := &tree{Files: map[string][]byte{name: []byte(text)}}
		in.DeployFiles = []manifest.PartFile{{Region: region, Path: name, Source: w, Key: name}}
	}
}

// Two regions that each have their own configuration are no repetition, and a
// finding says which region's it is.
func TestRegionsHaveTheirOwnConfiguration(t *testing.T) {
	w := &tree{Files: map[string][]byte{"us.yaml": []byte("seed: 1\n"), "eu.yaml": []byte("no-such: 1\n")}}
	got := llama().check(t, func(in *manifest.Input) {
		in.EngineFiles = []manifest.PartFile{
			{Region: "us", Path: "vllm.yaml", Source: w, Key: "us.yaml"}, {Region: "eu", Path: "vllm.yaml", Source: w, Key: "eu.yaml"}}
	})
	if want := []string{"E-2 block engine/@eu/vllm.yaml:1"}; !slices.Equal(lines(got), want) {
		t.Errorf("got %v, want %v", lines(got), want)
	}
}

// A region's own configuration takes the place of the one for all regions.
func TestRegionReplacesSharedConfiguration(t *testing.T) {
	w := &tree{Files: map[string][]byte{"all.yaml": []byte("seed: 1\n"), "eu.yaml": []byte("max-model-len: 9\n")}}
	got := llama().check(t, func(in *manifest.Input) {
		in.EngineFiles = []manifest.PartFile{{Path: "engine/vllm.yaml", Source: w, Key: "all.yaml"}, {Region: "eu", Path: "deploy/eu/engine/vllm.yaml", Source: w, Key: "eu.yaml"}}
	})
	if len(got) > 0 {
		t.Errorf("got %v", show(got))
	}
}

// What two regions share is said once.
func TestSharedFlagsAreJudgedOnce(t *testing.T) {
	w := &tree{Files: map[string][]byte{"us.yaml": []byte("seed: 1\n"), "eu.yaml": []byte("seed: 2\n")}}
	got := llama().check(t, func(in *manifest.Input) {
		in.Engine.Args = []string{"--no-such-option"}
		in.EngineFiles = []manifest.PartFile{{Region: "us", Path: "v.yaml", Source: w, Key: "us.yaml"}, {Region: "eu", Path: "v.yaml", Source: w, Key: "eu.yaml"}}
	})
	if want := []string{"E-2 block engine/drkit-engine.json"}; !slices.Equal(lines(got), want) {
		t.Errorf("got %v, want %v", lines(got), want)
	}
}

func TestProbesAreBoundToTheRelease(t *testing.T) {
	withProbes := func(text string) func(*manifest.Input) {
		w := &tree{Files: map[string][]byte{"p": []byte(text)}}
		return func(in *manifest.Input) {
			in.EngineFiles = []manifest.PartFile{{Path: "probes.json", Role: manifest.Probes, Source: w, Key: "p"}}
		}
	}
	recording := func(subject string) string {
		return `{"schema":"drkit.probes/1.0","engine":"vllm 0.32.0","hardware_class":"cpu","tolerance":0.1,"subject":"` + subject + `","probes":[
{"id":"a","kind":"completion","model":"m","request":{},"want":{"token_ids":[1],"logprobs":[-0.5],"top":[{"1":-0.5}]}}]}`
	}
	var m *manifest.Manifest
	llama().check(t, func(in *manifest.Input) {
		own := *in
		var err error
		if m, _, err = manifest.Build(t.Context(), own); err != nil {
			t.Fatal(err)
		}
	})
	for text, want := range map[string]string{
		recording(manifest.SubjectOf(m).String()):      "",
		recording("sha256:" + strings.Repeat("0", 64)): "B-1 request engine/probes.json",
		"{}": "B-1 request engine/probes.json",
	} {
		got := llama().check(t, withProbes(text))
		if strings.Join(lines(got), " ") != want {
			t.Errorf("%s\ngot %v, want %q", text, show(got), want)
		}
	}
}

func TestWaivers(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	later, earlier := now.Add(24*time.Hour), now.Add(-24*time.Hour)
	finding := manifest.Finding{Rule: "T-6", Severity: manifest.Request, Part: "model", Path: "base/chat_template.jinja", Hint: "mend it"}
	for name, c := range map[string]struct {
		waiver manifest.Waiver
		waived bool
		hint   string
	}{
		"by rule":              {manifest.Waiver{Rule: "T-6", Expires: later}, true, "mend it"},
		"by path":              {manifest.Waiver{Path: "base/chat_template.jinja", Expires: later}, true, "mend it"},
		"by path with part":    {manifest.Waiver{Path: "model/base/chat_template.jinja", Expires: later}, true, "mend it"},
		"by pattern":           {manifest.Waiver{Path: "base/*.jinja", Expires: later}, true, "mend it"},
		"by both":              {manifest.Waiver{Rule: "T-6", Path: "base/*", Expires: later}, true, "mend it"},
		"another rule":         {manifest.Waiver{Rule: "T-1", Expires: later}, false, "mend it"},
		"rule, but other path": {manifest.Waiver{Rule: "T-6", Path: "base/config.json", Expires: later}, false, "mend it"},
		"nothing named":        {manifest.Waiver{Expires: later}, false, "mend it"},
		"expired":              {manifest.Waiver{Rule: "T-6", Owner: "ana", Expires: earlier}, false, "mend it (the waiver of ana expired on 2026-05-31)"},
		"expires now":          {manifest.Waiver{Rule: "T-6", Owner: "ana", Expires: now}, false, "mend it (the waiver of ana expired on 2026-06-01)"},
	} {
		t.Run(name, func(t *testing.T) {
			in := []manifest.Finding{finding}
			got := rules.Apply(in, []manifest.Waiver{c.waiver}, now)
			if (got[0].Waived != "") != c.waived || got[0].Hint != c.hint {
				t.Errorf("got waived %q, hint %q", got[0].Waived, got[0].Hint)
			}
			if rules.Fails(got, false) == c.waived {
				t.Errorf("the gate fails: %v", !c.waived)
			}
			if in[0].Waived != "" {
				t.Error("the input was changed")
			}
		})
	}
}

func TestEveryRuleIsExplained(t *testing.T) {
	text, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range append(rules.All(), rules.Settings) {
		if seen[r.ID] {
			t.Errorf("rule %s stands twice", r.ID)
		}
		seen[r.ID] = true
		if r.Title == "" || !strings.HasSuffix(r.Sentence, ".") {
			t.Errorf("rule %s: title %q, sentence %q", r.ID, r.Title, r.Sentence)
		}
		_, section, ok := strings.Cut(string(text), "\n## "+r.ID+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if !ok || !strings.HasSuffix(r.Doc(), "#"+strings.ReplaceAll(strings.ToLower(r.ID), ".", "")) {
			t.Errorf("docs/rules.md has no section for %s", r.ID)
			continue
		}
		for _, part := range []string{"**What.** ", "**Why.** ", "**You would see.** ", "**Mend.** "} {
			if !strings.Contains(section, part) {
				t.Errorf("the section of %s has no %q", r.ID, part)
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^## ([A-Z]-(?:\d+|[A-Z]+))$`).FindAllStringSubmatch(string(text), -1) {
		if !seen[m[1]] {
			t.Errorf("docs/rules.md explains %s, which is no rule", m[1])
		}
	}
}

// The demo's model is whole: nothing at all may be said of it.
func TestSampleModelHasNoFindings(t *testing.T) {
	r := repository{}
	for _, dir := range []string{"support-tiny", "support-tiny-billing"} {
		entries, err := os.ReadDir("../../testdata/models/" + dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			data, err := os.ReadFile("../../testdata/models/" + dir + "/" + e.Name())
			if err != nil {
				t.Fatal(err)
			}
			r[map[string]string{"support-tiny": "base/", "support-tiny-billing": "adapter/"}[dir]+e.Name()] = string(data)
		}
	}
	got := r.check(t, func(in *manifest.Input) {
		source := in.Model.Source
		in.Model = manifest.Tree{Source: source, Prefix: "base/"}
		in.Adapters = []manifest.Tree{{Name: "billing", Source: source, Prefix: "adapter/"}}
		in.Engine.Args = []string{"--enable-lora", "--lora-modules", "billing=/adapters/billing", "--max-model-len", "512"}
	})
	if len(got) > 0 {
		t.Errorf("findings in a whole model:%s", show(got))
	}
}

// A manifest from anywhere must not make the rules panic.
func TestRulesTakeAnyManifest(t *testing.T) {
	for _, m := range []*manifest.Manifest{{}, {Contents: manifest.Contents{
		Files:  []manifest.File{{Part: manifest.Model, Path: "base/model-00001-of-00000.safetensors"}, {Part: manifest.Model, Path: "base/x-00001-of-99999.safetensors"}},
		Images: []manifest.Image{{}, {Reference: ":", Files: []string{"", "a:b"}}},
	}, Annotations: manifest.Annotations{Drafts: []manifest.DraftFacts{{}}, Problems: []manifest.Problem{{}, {Part: manifest.Model, Path: "base/"}}}}} {
		rules.Check(m)
	}
}
