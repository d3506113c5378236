package model_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"drkit/manifest/model"
)

// capture runs contents through captures, in pieces of odd size.
func capture(files map[string]string) []model.File {
	var out []model.File
	for name, text := range files {
		c := model.NewCapture(name, int64(len(text)))
		for piece := range slices.Chunk([]byte(text), 7) {
			c.Write(piece)
		}
		out = append(out, model.File{Path: name, Size: int64(len(text)), Content: c.Bytes()})
	}
	slices.SortFunc(out, func(a, b model.File) int { return strings.Compare(a.Path, b.Path) })
	return out
}

func base(t *testing.T, name string) map[string]string {
	t.Helper()
	root := "../../testdata/boot-truth/bases/" + name
	files := map[string]string{}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

// The values are those of the files, read by eye.
func TestReadLlama(t *testing.T) {
	f, problems := model.Read(capture(base(t, "llama-sharded")))
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	c := f.Config
	if c.ModelType != "llama" || c.Layers != 3 || c.Hidden != 64 || c.Heads != 2 || c.KVHeads != 1 || c.HeadDim != 32 || c.Vocab != 384 ||
		c.Context.Length != 2048 || c.Tied == nil || *c.Tied || !slices.Equal(c.EOS, []int{1}) || c.DType != "bfloat16" {
		t.Errorf("config: %+v", c)
	}
	if !slices.Equal(f.Generation.EOS, []int{1, 5}) {
		t.Errorf("generation: %+v", f.Generation)
	}
	tok := f.Tokenizer
	if tok.File != "tokenizer.json" || tok.Model != "BPE" || tok.MaxID != 383 || tok.EOS != "</s>" || tok.EOSID == nil || *tok.EOSID != 1 {
		t.Errorf("tokenizer: %+v", tok)
	}
	if want := (model.Template{Source: "chat_template.jinja", Default: true, Ends: []model.Token{{Text: "<|eot|>", ID: 5}}, Rendered: &model.Rendered{}}); !reflect.DeepEqual(f.Template, want) {
		t.Errorf("template: %+v", f.Template)
	}
	if len(f.Weights.Shards) != 3 || f.Weights.Index == nil || len(f.Weights.Index.Elsewhere) != 0 || f.Weights.Index.Tensors != 30 {
		t.Errorf("weights: %+v", f.Weights.Index)
	}
	tensors := 0
	for _, s := range f.Weights.Shards {
		tensors += len(s.Tensors)
	}
	if got := f.Weights.Shards[0].Tensors["model.embed_tokens.weight"]; tensors != 30 || got.DType != "BF16" || !slices.Equal(got.Shape, []int64{384, 64}) {
		t.Errorf("%d tensors, embedding %v", tensors, got)
	}
}

func TestReadOthers(t *testing.T) {
	qwen, _ := model.Read(capture(base(t, "qwen3-bpe")))
	if qwen.Template.Source != "tokenizer_config.json" || !*qwen.Config.Tied || !strings.Contains(string(qwen.Config.Rope.Effective), "yarn") {
		t.Errorf("qwen: %+v %+v", qwen.Template, qwen.Config)
	}
	gptq, _ := model.Read(capture(base(t, "llama-gptq")))
	if q := gptq.Quantization; q.Method != "gptq" || q.Source != "config.json" || q.Bits != 4 || q.GroupSize != 32 || q.DescAct || !q.Weights {
		t.Errorf("gptq: %+v", q)
	}
	w8a8, _ := model.Read(capture(base(t, "llama-w8a8")))
	if q := w8a8.Quantization; q.Method != "compressed-tensors" || q.Format != "int-quantized" || !q.Weights || !slices.Equal(q.Ignore, []string{"lm_head"}) {
		t.Errorf("w8a8: %+v", q)
	}
	llava, _ := model.Read(capture(base(t, "llava-tiny")))
	if c := llava.Config; !c.Nested || !c.Vision || c.TextType != "llama" || c.Layers != 2 || !llava.Processor.Image {
		t.Errorf("llava: %+v %+v", c, llava.Processor)
	}
	bert, _ := model.Read(capture(base(t, "bert-st")))
	if m := bert.Config.Modules; len(m) != 3 || m[1].Path != "1_Pooling" || bert.Template.Source != "" {
		t.Errorf("bert: %+v", m)
	}
	lora, problems := model.ReadAdapter("sql", capture(base(t, "llama-lora")))
	if len(problems) > 0 || !lora.Config || lora.Rank != 8 || lora.Alpha != 16 || len(lora.Tensors) != 12 || lora.Weights != "adapter_model.safetensors" || !slices.Equal(lora.Targets, []string{"q_proj", "v_proj"}) {
		t.Errorf("lora: %+v %v", lora, problems)
	}
}

// The order is vLLM's: a processor's template, chat_template.jinja, the
// tokenizer's; chat_template.json counts for processors only.
func TestTemplateOrder(t *testing.T) {
	const text, vision = `{"model_type":"llama"}`, `{"model_type":"llava","vision_config":{}}`
	const inTokenizer = `{"chat_template":"t"}`
	for name, c := range map[string]struct {
		files  map[string]string
		source string
	}{
		"jinja before the tokenizer's": {map[string]string{"config.json": text, "chat_template.jinja": "j", "tokenizer_config.json": inTokenizer}, "chat_template.jinja"},
		"the tokenizer's":              {map[string]string{"config.json": text, "tokenizer_config.json": inTokenizer}, "tokenizer_config.json"},
		"older file, text model":       {map[string]string{"config.json": text, "chat_template.json": inTokenizer}, ""},
		"older file, vision model":     {map[string]string{"config.json": vision, "chat_template.json": inTokenizer, "tokenizer_config.json": inTokenizer}, "chat_template.json"},
		"processor's":                  {map[string]string{"config.json": vision, "processor_config.json": inTokenizer}, "processor_config.json"},
		"additional default":           {map[string]string{"config.json": text, "additional_chat_templates/default.jinja": "d"}, "additional_chat_templates/default.jinja"},
		"list":                         {map[string]string{"config.json": text, "tokenizer_config.json": `{"chat_template":[{"name":"rag","template":"x"}]}`}, "tokenizer_config.json"},
		"null":                         {map[string]string{"config.json": text, "tokenizer_config.json": `{"chat_template":null}`}, ""},
	} {
		f, _ := model.Read(capture(c.files))
		if f.Template.Source != c.source {
			t.Errorf("%s: got %q, want %q", name, f.Template.Source, c.source)
		}
	}
}

func TestTemplateEndsAndFilters(t *testing.T) {
	const tokenizer = `{"model":{"vocab":{"a":0}},"added_tokens":[{"id":1,"content":"<|end|>"},{"id":2,"content":"<|end|>x"},{"id":3,"content":"</s>"}]}`
	for text, want := range map[string]struct{ ends, filters string }{
		`{{ m['content'] }}<|end|>`:                                      {"<|end|>", ""},
		`{{ m.content }}<|end|>x`:                                        {"<|end|>x", ""},
		`{{ '<' + m["content"] | trim + '</s>' }}`:                       {"</s>", "trim"},
		`{{- m['content'] -}}</s>`:                                       {"</s>", ""},
		`{{ m['content'] }} and then <|end|>`:                            {"", ""},
		`{% if m.content is string %}<|end|>{% endif %}`:                 {"", ""},
		`{{ a | map(attribute='x|y') | join("|z") }} b | c`:              {"", "join map"},
		`it's {{ a | upper }} isn't {# | none #}{% set x = y | first %}`: {"", "first upper"},
		`{% raw %}{{ a | none }}{% endraw %}{{ b|last }}`:                {"", "last"},
		`{{ "unclosed | none`:                                            {"", ""},
	} {
		f, _ := model.Read(capture(map[string]string{"config.json": `{"model_type":"x"}`, "tokenizer.json": tokenizer, "chat_template.jinja": text}))
		var ends []string
		for _, e := range f.Template.Ends {
			ends = append(ends, e.Text)
		}
		if strings.Join(ends, " ") != want.ends || strings.Join(f.Template.Filters, " ") != want.filters {
			t.Errorf("%s\n got ends %v, filters %v\nwant %q, %q", text, ends, f.Template.Filters, want.ends, want.filters)
		}
	}
}

func TestProblems(t *testing.T) {
	for name, c := range map[string]struct {
		file, text, kind string
		line             int
	}{
		"cut off":             {"config.json", "{\n\"a\": 1,\n", model.KindInvalidJSON, 3},
		"empty":               {"config.json", "", model.KindInvalidJSON, 0},
		"byte order mark":     {"config.json", "\ufeff{}", model.KindInvalidJSON, 1},
		"list":                {"config.json", "[1]", model.KindInvalidJSON, 1},
		"null":                {"config.json", "null", model.KindInvalidJSON, 1},
		"not UTF-8":           {"config.json", "{\"a\":\"\xff\"}", model.KindInvalidJSON, 0},
		"no vocabulary":       {"tokenizer.json", "{}", model.KindInvalidJSON, 0},
		"pointer":             {"tokenizer.model", "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0", 64) + "\nsize 5\n", model.KindLFSPointer, 0},
		"page":                {"vocab.txt", "<!doctype html>", model.KindErrorPage, 0},
		"store's error":       {"merges.txt", "<?xml version=\"1.0\"?><Error/>", model.KindErrorPage, 0},
		"hub's error":         {"config.json", `{"error":"Repository not found"}`, model.KindErrorPage, 0},
		"hub's error, binary": {"pytorch_model.bin", `{"error":"x"}`, model.KindErrorPage, 0},
		"short safetensors":   {"model.safetensors", "abc", model.KindSafetensors + "too-short", 0},
		"index":               {model.IndexName, "{}", model.KindInvalidIndex, 0},
	} {
		_, problems := model.Read(capture(map[string]string{c.file: c.text}))
		if len(problems) != 1 || problems[0].Kind != c.kind || problems[0].Path != c.file || problems[0].Line != c.line || problems[0].What == "" {
			t.Errorf("%s: got %+v, want %s at line %d", name, problems, c.kind, c.line)
		}
	}
}

// Python writes these numbers, and reads them again.
func TestNumbersThatOnlyPythonReads(t *testing.T) {
	f, problems := model.Read(capture(map[string]string{"config.json": `{"a": [0.0, Infinity, -Infinity, NaN], "model_type": "NaN \" Infinity", "vocab_size": 7}`}))
	if len(problems) > 0 || f.Config.ModelType != `NaN " Infinity` || f.Config.Vocab != 7 {
		t.Errorf("%v %+v", problems, f.Config)
	}
}

func TestCaptureKeepsWhatIsNeeded(t *testing.T) {
	header := append(binary.LittleEndian.AppendUint64(nil, 1000), bytes.Repeat([]byte(" "), 5000)...)
	for name, c := range map[string]struct {
		file string
		data []byte
		kept int
	}{
		"text":                    {"a.json", bytes.Repeat([]byte("x"), 5000), 5000},
		"weights":                 {"a.bin", bytes.Repeat([]byte("x"), 5000), 0},
		"an error in its place":   {"a.bin", append([]byte("<html>"), bytes.Repeat([]byte("x"), 5000)...), 512},
		"safetensors":             {"a.safetensors", header, 1008},
		"safetensors, small head": {"a.safetensors", append(binary.LittleEndian.AppendUint64(nil, 2), make([]byte, 5000)...), 512},
		"safetensors, absurd":     {"a.safetensors", bytes.Repeat([]byte{255}, 5000), 512},
		"safetensors, short":      {"a.safetensors", []byte("abc"), 3},
	} {
		for _, piece := range []int{1, 8, 600, 10000} {
			k := model.NewCapture(c.file, int64(len(c.data)))
			for p := range slices.Chunk(c.data, piece) {
				if n, err := k.Write(p); n != len(p) || err != nil {
					t.Fatalf("%s: wrote %d, %v", name, n, err)
				}
			}
			if len(k.Bytes()) != c.kept || !bytes.HasPrefix(c.data, k.Bytes()) {
				t.Errorf("%s in pieces of %d: kept %d bytes, want %d", name, piece, len(k.Bytes()), c.kept)
			}
		}
	}
}

func TestTensorText(t *testing.T) {
	for text, want := range map[string]model.Tensor{
		"BF16[384,64]": {DType: "BF16", Shape: []int64{384, 64}}, "F32[]": {DType: "F32", Shape: []int64{}}, "I32[7]": {DType: "I32", Shape: []int64{7}},
	} {
		var got model.Tensor
		if err := got.UnmarshalText([]byte(text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
		if back, _ := got.MarshalText(); string(back) != text {
			t.Errorf("%s is written as %s", text, back)
		}
	}
	for _, bad := range []string{"", "BF16", "BF16[", "BF16[1", "BF16[a]", "BF16[1,]", "BF16[1]x"} {
		if new(model.Tensor).UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q was taken for a tensor", bad)
		}
	}
}

// FuzzRead: no bytes may make the reader panic, and its facts must pass through
// JSON unchanged.
func FuzzRead(f *testing.F) {
	names := []string{"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja", "merges.txt",
		"model.safetensors", model.IndexName, "modules.json", "processor_config.json", "quantize_config.json", "configuration_x.py", "adapter_config.json"}
	for i := range names {
		f.Add(i, []byte(`{"a":1}`))
	}
	f.Add(4, []byte("{{ m['content'] | x }}{% raw %}{#"))
	f.Add(4, []byte("{{\x00\x80['content']@| x\x12}}{2"))
	f.Add(11, []byte("from .\xffx import y"))
	f.Add(5, []byte("a \xff\n"))
	f.Add(6, append(binary.LittleEndian.AppendUint64(nil, 2), "{}"...))
	f.Add(1, []byte(`{"model":{"vocab":[["a",0]]},"added_tokens":[{"id":-1}]}`))
	f.Add(0, []byte(`{"vocab_size":1e300,"eos_token_id":[1.5],"auto_map":3,"text_config":[],"num_hidden_layers":-1}`))
	f.Fuzz(func(t *testing.T, i int, data []byte) {
		name := names[uint(i)%uint(len(names))]
		files := capture(map[string]string{name: string(data), "vocab.json": "{}"})
		facts, _ := model.Read(files)
		first, err := json.Marshal(facts)
		if err != nil {
			t.Fatal(err)
		}
		var back model.Facts
		if err := json.Unmarshal(first, &back); err != nil {
			t.Fatal(err)
		}
		if second, _ := json.Marshal(&back); !bytes.Equal(first, second) {
			t.Errorf("facts change when they are read back:\n%s\n%s", first, second)
		}
		model.ReadAdapter("a", files)
	})
}
