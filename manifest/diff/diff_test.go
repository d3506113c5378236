package diff_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"drkit/internal/store"
	"drkit/internal/store/mem"
	"drkit/manifest"
	"drkit/manifest/diff"
)

// files are those of one release: model/…, engine/… and deploy/…; a deploy or
// engine file of one region begins with @region.
type files map[string]string

// tensors is a safetensors file with zeros for data.
func tensors(dtype string, width int, shapes map[string][]int) string {
	header, end := map[string]any{}, 0
	for _, name := range sortedNames(shapes) {
		size := width
		for _, n := range shapes[name] {
			size *= n
		}
		header[name] = map[string]any{"dtype": dtype, "shape": shapes[name], "data_offsets": []int{end, end + size}}
		end += size
	}
	text, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(text)))) + string(text) + strings.Repeat("\x00", end)
}

func sortedNames(m map[string][]int) (names []string) {
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func basis() files {
	return files{
		"model/config.json": `{"architectures":["LlamaForCausalLM"],"model_type":"llama","max_position_embeddings":8192,"hidden_size":8,"num_hidden_layers":1,"vocab_size":4,
"rope_scaling":{"rope_type":"llama3","factor":8.0},"eos_token_id":[1,2],"quantization_config":{"quant_method":"gptq","bits":4},"rms_norm_eps":1e-05}`,
		"model/generation_config.json":         `{"eos_token_id":[1,2]}`,
		"model/tokenizer.json":                 `{"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2},"merges":[]},"added_tokens":[]}`,
		"model/chat_template.jinja":            "a\nb\nc\nd\ne\n",
		"model/model.safetensors":              tensors("BF16", 2, map[string][]int{"lm_head.weight": {4, 8}, "norm.weight": {8}}),
		"model/README.md":                      "one",
		"adapters/billing/adapter_config.json": `{"peft_type":"LORA","r":16,"lora_alpha":32,"target_modules":["q_proj"]}`,
		"engine/vllm.yaml":                     "max-model-len: 4096\nport: 8000\n",
		"deploy/vllm.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm}
spec:
  replicas: 2
  template:
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.32.0@sha256:` + strings.Repeat("1", 64) + `
          env: [{name: API_KEY, value: first-sesame}]
`,
		"deploy/uv.lock": "[[package]]\nname = \"vllm\"\nversion = \"0.32.0\"\n",
	}
}

// side builds a release; with texts, its bytes are at hand.
func (f files) side(t *testing.T, texts bool, change ...string) diff.Side {
	t.Helper()
	for i := 0; i < len(change); i += 3 {
		if !strings.Contains(f[change[i]], change[i+1]) {
			t.Fatalf("%s does not hold %q", change[i], change[i+1])
		}
		f[change[i]] = strings.Replace(f[change[i]], change[i+1], change[i+2], 1)
	}
	s := mem.New()
	in := manifest.Input{Service: "s", Model: manifest.Tree{Source: s, Prefix: "model/"}, Engine: manifest.EngineInput{Kind: "vllm", Version: "0.32.0"}}
	for key, text := range f {
		put(t, s, key, text)
		part, rest, _ := strings.Cut(key, "/")
		pf := manifest.PartFile{Path: rest, Source: s, Key: key}
		if region, p, ok := strings.Cut(strings.TrimPrefix(rest, "@"), "/"); ok && rest[0] == '@' {
			pf.Region, pf.Path = region, p
		}
		switch part {
		case "engine":
			pf.Role = manifest.EngineConfig
			in.EngineFiles = append(in.EngineFiles, pf)
		case "deploy":
			in.DeployFiles = append(in.DeployFiles, pf)
		case "adapters":
			in.Adapters = []manifest.Tree{{Name: "billing", Source: s, Prefix: "adapters/billing/"}}
		}
	}
	m, opened, err := manifest.Build(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return built{m: m, files: opened}.side(t, texts)
}

func put(t *testing.T, s store.Sink, key, text string) {
	t.Helper()
	b := store.BytesBody([]byte(text))
	if _, err := s.Put(context.Background(), key, b, store.Cond{}); err != nil {
		t.Fatal(err)
	}
}

// message is what one difference says, with its severity.
func messages(r diff.Result) (all []string) {
	for _, d := range r.Differences {
		all = append(all, fmt.Sprintf("%s: %s", d.Severity, d.Message))
	}
	for _, f := range r.Files {
		all = append(all, fmt.Sprintf("%s: %s %s/%s", f.Severity, f.Change, f.Part, f.Path))
	}
	return all
}

func TestSemanticDifferences(t *testing.T) {
	for _, c := range []struct {
		name           string
		change         []string
		facts, withTxt string // what must be said, without and with texts; "" for the same
	}{
		{"rope", []string{"model/config.json", `"factor":8.0`, `"factor":1.0`}, "silent: rope factor 8 → 1", ""},
		{"length", []string{"model/config.json", "8192", "4096"}, "request: max_position_embeddings 8192 → 4096", ""},
		{"quantization", []string{"model/config.json", `"quantization_config":{"quant_method":"gptq","bits":4},`, ""}, "block: quantization gptq → none", ""},
		{"end tokens", []string{"model/generation_config.json", "[1,2]", "[1]"}, "silent: eos_token_id [1,2] → [1]", ""},
		{"template", []string{"model/chat_template.jinja", "b\nc\nd\n", "B\nC\nD\n"}, "silent: the chat template differs", "silent: the chat template differs in 3 lines"},
		{"vocabulary", []string{"model/tokenizer.json", `,"c":2`, ""}, "silent: vocabulary size 3 → 2", ""},
		{"rank", []string{"adapters/billing/adapter_config.json", `"r":16`, `"r":64`}, "silent: LoRA r 16 → 64", ""},
		{"option", []string{"engine/vllm.yaml", "4096", "8192"}, "request: engine option max_model_len 4096 → 8192", ""},
		{"image", []string{"deploy/vllm.yaml", strings.Repeat("1", 64), strings.Repeat("2", 64)},
			"silent: image vllm/vllm-openai:v0.32.0@sha256:" + strings.Repeat("1", 64) + " → vllm/vllm-openai:v0.32.0@sha256:" + strings.Repeat("2", 64), ""},
		{"unread field", []string{"model/config.json", "1e-05", "1e-06"}, "silent: changed model/base/config.json", "silent: rms_norm_eps 1e-05 → 1e-06"},
		{"package", []string{"deploy/uv.lock", "0.32.0", "0.33.0"}, "silent: changed deploy/uv.lock", "silent: package vllm 0.32.0 → 0.33.0"},
		{"tensor type", []string{"model/model.safetensors", basis()["model/model.safetensors"], tensors("F32", 4, map[string][]int{"lm_head.weight": {4, 8}, "norm.weight": {8}})},
			"silent: 2 tensors dtype BF16 → F32: lm_head.weight, norm.weight", ""},
		{"tensor gone", []string{"model/model.safetensors", basis()["model/model.safetensors"], tensors("BF16", 2, map[string][]int{"lm_head.weight": {4, 8}})},
			"block: tensor gone: norm.weight", ""},
		{"values", []string{"model/model.safetensors", "\x00\x00", "\x00\x01"}, "silent: changed model/base/model.safetensors", ""},
		{"secret", []string{"deploy/vllm.yaml", "first-sesame", "other-sesame"}, "block: changed deploy/vllm.yaml",
			"block: spec.template.spec.containers.vllm.env.API_KEY.value differs; its values are not shown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, texts := range []bool{false, true} {
				r := diff.Compare(basis().side(t, texts), basis().side(t, texts, c.change...))
				want := c.facts
				if texts && c.withTxt != "" {
					want = c.withTxt
				}
				if got := messages(r); !slices.Contains(got, want) || !r.Matters(false) {
					t.Errorf("texts %v: %q is not among\n%s", texts, want, strings.Join(got, "\n"))
				}
				if strings.Contains(fmt.Sprint(r), "sesame") {
					t.Errorf("a secret is shown: %+v", r)
				}
			}
		})
	}
}

// TestNothingThatMatters: what no engine reads, and other spellings of the same.
func TestNothingThatMatters(t *testing.T) {
	for _, c := range [][]string{
		{"model/README.md", "one", "two"},
		{"engine/vllm.yaml", "port: 8000", "port: 9000"},
		{"engine/vllm.yaml", "max-model-len: 4096", "max-model-len: 4096 # tokens"},
		{"model/config.json", `"rope_scaling":{"rope_type":"llama3","factor":8.0}`, `"rope_parameters":{"factor":8,"rope_type":"llama3"}`},
		{"deploy/vllm.yaml", "replicas: 2", "replicas: 3"},
	} {
		r := diff.Compare(basis().side(t, true), basis().side(t, true, c...))
		if len(r.Files) != 1 || r.Matters(false) {
			t.Errorf("%q: %s", c, show(r))
		}
	}
	if r := diff.Compare(basis().side(t, false), basis().side(t, false)); len(r.Files)+len(r.Differences) > 0 || r.Equal != len(basis())+1 {
		t.Errorf("equal releases: %+v", r)
	}
}

// TestStrict: replicas change how many requests are served, not the answers.
func TestStrict(t *testing.T) {
	r := diff.Compare(basis().side(t, true), basis().side(t, true, "deploy/vllm.yaml", "replicas: 2", "replicas: 3"))
	if !r.Matters(true) {
		t.Errorf("nothing is degraded: %s", show(r))
	}
}

func TestAddedRemovedRenamed(t *testing.T) {
	b := basis()
	delete(b, "model/tokenizer.json")
	b["model/chat.jinja"] = b["model/chat_template.jinja"]
	delete(b, "model/chat_template.jinja")
	b["model/added_tokens.json"] = "{}"
	got := messages(diff.Compare(basis().side(t, false), b.side(t, false)))
	for _, want := range []string{"block: removed model/base/tokenizer.json", "request: renamed model/base/chat.jinja", "silent: added model/base/added_tokens.json"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among\n%s", want, strings.Join(got, "\n"))
		}
	}
}

// regional gives two regions their own renderings.
func regional() files {
	f := basis()
	manifestOf := f["deploy/vllm.yaml"]
	delete(f, "deploy/vllm.yaml")
	delete(f, "engine/vllm.yaml")
	f["deploy/@us-east-1/k8s/us-east-1/vllm.yaml"] = manifestOf
	f["deploy/@eu-west-1/k8s/eu-west-1/vllm.yaml"] = strings.Replace(manifestOf, "vllm/vllm-openai", "registry.eu.example/vllm/vllm-openai", 1)
	f["engine/@us-east-1/us-east-1/vllm.yaml"] = "max-model-len: 4096\n"
	f["engine/@eu-west-1/eu-west-1/vllm.yaml"] = "max-model-len: 8192\n"
	return f
}

func TestRegions(t *testing.T) {
	us, eu := regional().side(t, true), regional().side(t, true)
	us.Region, eu.Region = "us-east-1", "eu-west-1"
	r := diff.Compare(us, eu)
	if len(r.Files) != 2 {
		t.Errorf("%d files differ, not the two that are rendered by region: %s", len(r.Files), show(r))
	}
	got := messages(r)
	for _, want := range []string{"request: engine option max_model_len 4096 → 8192", "request: changed engine/eu-west-1/vllm.yaml"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among\n%s", want, strings.Join(got, "\n"))
		}
	}
	if !slices.ContainsFunc(got, func(m string) bool {
		return strings.HasPrefix(m, "info: image ") && strings.HasSuffix(m, "the same digest")
	}) {
		t.Errorf("the registry of the other region is not told as such:\n%s", strings.Join(got, "\n"))
	}
	r.Allow([]string{"max_model_len", "deploy/k8s/**", "image"})
	if r.Matters(true) {
		t.Errorf("what is allowed matters: %+v", r)
	}
}

// TestRegionNamesInSharedPaths: a short name of a region in a path that all
// regions share is no region.
func TestRegionNamesInSharedPaths(t *testing.T) {
	f := basis()
	f["deploy/us/usage-us.yaml"] = "apiVersion: v1\nkind: X\n"
	f["deploy/@us/k8s/us/status-us.yaml"] = "apiVersion: v1\nkind: X\n"
	f["deploy/@eu/k8s/eu/status-eu.yaml"] = "apiVersion: v1\nkind: X\n"
	us, eu := f.side(t, true), f.side(t, true)
	us.Region, eu.Region = "us", "eu"
	if r := diff.Compare(us, eu); len(r.Files)+len(r.Differences) > 0 {
		t.Error(show(r))
	}
}

// TestNamedTemplates: the default template is the same, another one is not.
func TestNamedTemplates(t *testing.T) {
	with := func(tools string) files {
		f := basis()
		delete(f, "model/chat_template.jinja")
		f["model/tokenizer_config.json"] = `{"chat_template":[{"name":"default","template":"a"},{"name":"tool_use","template":"` + tools + `"}]}`
		return f
	}
	r := diff.Compare(with("b").side(t, true), with("c").side(t, true))
	if got := messages(r); !r.Matters(false) || !slices.Contains(got, "silent: chat_template.tool_use.template b → c") {
		t.Errorf("%q", got)
	}
}

// TestAllowNeedsAll: a file with one allowed difference and another one is not allowed.
func TestAllowNeedsAll(t *testing.T) {
	f := regional()
	f["engine/@eu-west-1/eu-west-1/vllm.yaml"] += "dtype: float16\n"
	us, eu := regional().side(t, true), f.side(t, true)
	us.Region, eu.Region = "us-east-1", "eu-west-1"
	r := diff.Compare(us, eu)
	r.Allow([]string{"max_model_len", "deploy/k8s/**", "image"})
	i := slices.IndexFunc(r.Files, func(f diff.File) bool { return f.Path == "eu-west-1/vllm.yaml" })
	if !r.Matters(false) || r.Files[i].Allowed != "" {
		t.Errorf("float16 passes as allowed: %+v", r)
	}
}

// TestNumbers: a fraction may be written in two ways; a whole number of layers may not.
func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		from, to string
		matters  bool
	}{{"1e-05", "0.00001", false}, {`"num_hidden_layers":1`, `"num_hidden_layers":1.0`, true}, {`"factor":8.0`, `"factor":8`, false}, {"8192", "8193", true}} {
		r := diff.Compare(basis().side(t, true), basis().side(t, true, "model/config.json", c.from, c.to))
		if r.Matters(false) != c.matters {
			t.Errorf("%s → %s: %s", c.from, c.to, show(r))
		}
	}
}

// TestYAMLOfAnyKind: keys that are no text and values that JSON cannot hold are
// compared, not taken for equal.
func TestYAMLOfAnyKind(t *testing.T) {
	for _, c := range [][2]string{{"{1: a}", "{1: b}"}, {"{x: .nan}", "{x: .inf}"}, {"{x: {true: 1}}", "{x: {true: 2}}"}, {"{d: 2026-01-01}", "{d: 2026-01-02}"}, {"[1, {2: 3}]", "[1, {2: 4}]"}} {
		a, b := basis(), basis()
		a["deploy/x.yaml"], b["deploy/x.yaml"] = "apiVersion: v1\nkind: X\nspec: "+c[0]+"\n", "apiVersion: v1\nkind: X\nspec: "+c[1]+"\n"
		if r := diff.Compare(a.side(t, true), b.side(t, true)); !r.Matters(false) || len(r.Differences) != 1 {
			t.Errorf("%q: %s", c, show(r))
		}
	}
}

// TestSecretsFarBehind: a secret behind the beginning of a long list, and one of a
// Secret in a list of resources, are not shown either.
func TestSecretsFarBehind(t *testing.T) {
	long := "args: [" + strings.Repeat("aaaaaaaaaa, ", 40) + "--api-key, %s-sesame]"
	list := "items: [{kind: Secret, data: {a: %s-sesame}}]"
	secret := "kind: Secret\nmetadata: {name: s}\ndata: {a: %s-sesame}"
	for _, text := range []string{long, list, secret} {
		a, b := basis(), basis()
		a["deploy/x.yaml"], b["deploy/x.yaml"] = "apiVersion: v1\n"+fmt.Sprintf(text, "one"), "apiVersion: v1\n"+fmt.Sprintf(text, "two")
		r := diff.Compare(a.side(t, true), b.side(t, true))
		if data, err := json.Marshal(r); err != nil || strings.Contains(string(data), "sesame") || len(r.Differences) != 1 {
			t.Errorf("%s: %s %v", text, data, err)
		}
	}
}

// FuzzCompareTexts: any two texts compare without a panic, equal ones as equal.
func FuzzCompareTexts(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[1,{"name":"x"}]}`, "a: &x [*x]", "a: {1: 2}\n---\nb: .nan", "[[[[", "{\"rope_scaling\":{\"type\":\"yarn\"}}", "a\nb\nc", "\xff\x00"} {
		f.Add(seed, seed+" ", "config.json", true)
		f.Add(seed, "{}", "x.yaml", false)
	}
	f.Fuzz(func(t *testing.T, from, to, name string, model bool) {
		part := manifest.Deploy
		if model {
			part = manifest.Model
			name = "base/" + name
		}
		side := func(text string) diff.Side {
			sum := sha256.Sum256([]byte(text))
			file := manifest.File{Part: part, Path: name, Size: int64(len(text)), Role: manifest.Other, Sums: map[string]string{"sha256": hex.EncodeToString(sum[:])}}
			return diff.Side{Manifest: &manifest.Manifest{Contents: manifest.Contents{Files: []manifest.File{file}}}, Text: func(manifest.File) ([]byte, bool) { return []byte(text), true }}
		}
		if r := diff.Compare(side(from), side(to)); from == to && len(r.Files)+len(r.Differences) > 0 || from != to && len(r.Files) != 1 {
			t.Errorf("%q %q: %+v", from, to, r)
		}
	})
}
