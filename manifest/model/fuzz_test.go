package model_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"drkit/manifest/model"
)

// readOne puts one file through a Capture in pieces and reads the repository.
func readOne(name string, data []byte, others map[string]string) (*model.Facts, []model.Problem) {
	files := map[string]string{}
	for k, v := range others {
		files[k] = v
	}
	files[name] = string(data)
	return model.Read(capture(files))
}

func fuzz(f *testing.F, name string, others map[string]string, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		began := time.Now()
		readOne(name, data, others)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func FuzzConfig(f *testing.F) {
	seed, err := os.ReadFile("../../testdata/boot-truth/bases/llava-tiny/config.json")
	if err != nil {
		f.Fatal(err)
	}
	fuzz(f, "config.json", nil, string(seed), `{"num_hidden_layers":9223372036854775808,"vocab_size":1e300,"rope_scaling":[],"auto_map":{"AutoConfig":[null,3]}}`,
		`{"text_config":{"rope_parameters":{"full_attention":{"type":null}}},"quantization_config":{"config_groups":{"a":[]}}}`)
}

func FuzzIndex(f *testing.F) {
	fuzz(f, "model.safetensors.index.json", nil, `{"metadata":{"total_size":9223372036854775808},"weight_map":{"a":"b","a":"c"}}`, `{"weight_map":{"a":""}}`, `{"weight_map":[]}`)
}

func FuzzTokenizer(f *testing.F) {
	fuzz(f, "tokenizer.json", map[string]string{"chat_template.jinja": "{{ messages[0]['content'] }}<|a|>"},
		`{"model":{"type":"BPE","vocab":{"a":9223372036854775807}},"added_tokens":[{"id":-1,"content":""},{"id":1,"content":"<|a|>"}]}`,
		`{"model":{"vocab":[["a",1],2,null]}}`)
}

func FuzzTemplate(f *testing.F) {
	fuzz(f, "chat_template.jinja", nil, "{% for m in messages %}{{ m['content'] }}{% endfor %}", "{{ ((( }}", "{% raw %}{{", "{#", "{% set x %}{% endset %}{{ x is foo }}", "{{ '\\", "{% if a %}{% else %}{% elif b %}{% endif %}")
}

func FuzzGGUF(f *testing.F) {
	u64 := func(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }
	fuzz(f, "m.gguf", nil, "GGUF\x03\x00\x00\x00"+u64(1)+u64(1)+u64(3)+"abc\x09\x00\x00\x00\x08\x00\x00\x00"+u64(1<<63), "GGUF\x03\x00\x00\x00"+u64(1<<63)+u64(0), "GGUF\x02\x00\x00\x00"+u64(0)+u64(0),
		"GGUF\x03\x00\x00\x00"+u64(1)+u64(0)+u64(1)+"x\x02\x00\x00\x00"+u64(1<<62)+u64(4)+"\x00\x00\x00\x00"+u64(0))
}

// The other families of tokenizers, and the configurations of processors and
// adapters.

func FuzzMerges(f *testing.F) {
	fuzz(f, "merges.txt", map[string]string{"vocab.json": `{"a":0,"b":1,"ab":2}`}, "#version: 0.2\na b\n", "a\nb c d\n", "\xff \xfe\r\n")
}

func FuzzVocabulary(f *testing.F) {
	fuzz(f, "vocab.json", map[string]string{"merges.txt": "#version: 0.2\na b\n"}, `{"a":0,"a":1}`, `{"a":-1,"b":1e99,"c":null}`, `["a"]`)
}

func FuzzTekken(f *testing.F) {
	fuzz(f, "tekken.json", nil, `{"config":{"default_vocab_size":131072,"default_num_special_tokens":1000,"version":"v3"},"vocab":[{"rank":0,"token_bytes":"AA==","token_str":null}]}`, `{"vocab":{},"config":[]}`)
}

func FuzzTokenizerConfig(f *testing.F) {
	fuzz(f, "tokenizer_config.json", map[string]string{"tokenizer.json": `{"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`},
		`{"chat_template":[{"name":"default","template":"{{ a"}],"added_tokens_decoder":{"x":{"content":3},"-1":null},"eos_token":{"content":[]},"model_max_length":1e30}`,
		`{"auto_map":{"AutoTokenizer":["a/b--c.D",null]},"fast_tokenizer_files":["tokenizer.9.9.9.json"]}`)
}

func FuzzProcessor(f *testing.F) {
	fuzz(f, "processor_config.json", map[string]string{"config.json": `{"model_type":"llava","vision_config":{}}`}, `{"image_processor":null,"chat_template":3}`, `{"image_processor":{"auto_map":{"AutoImageProcessor":"a--b.C"}}}`)
}

func FuzzQuantization(f *testing.F) {
	fuzz(f, "quantize_config.json", map[string]string{"config.json": `{"model_type":"llama"}`}, `{"bits":4,"group_size":-1,"quant_method":"gptq","dynamic":{"+:a":{}}}`, `{"bits":"four"}`)
}

func FuzzCode(f *testing.F) {
	fuzz(f, "modeling_x.py", map[string]string{"config.json": `{"auto_map":{"AutoModel":"modeling_x.X"}}`}, "from .a import b\nimport c\n", "from . import (a,\n b)\ntry:\n  from .x import *\n", "from .\\\na import b")
}

func FuzzAdapter(f *testing.F) {
	for _, s := range []string{`{"r":8,"lora_alpha":16,"target_modules":["q_proj"],"peft_type":"LORA"}`, `{"r":"8","target_modules":"all-linear","rank_pattern":{"a":1e99}}`, `{"modules_to_save":{},"bias":3}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		model.ReadAdapter("a", capture(map[string]string{"adapter_config.json": string(data), "adapter_model.bin": "x"}))
	})
}

// TestHostileFiles reads files that are made to hurt: each is a problem or says
// nothing, in bounded time and memory.
func TestHostileFiles(t *testing.T) {
	deep := strings.Repeat("[", 5<<20) + strings.Repeat("]", 5<<20)
	objects := strings.Repeat(`{"a":`, 2<<20)
	length := string(binary.LittleEndian.AppendUint64(nil, 1<<63))
	for name, data := range map[string]string{
		"config.json": deep, "tokenizer.json": objects, "tokenizer_config.json": deep, "model.safetensors.index.json": objects, "generation_config.json": deep,
		"modules.json": deep, "processor_config.json": objects, "adapter_config.json": deep, "quantize_config.json": objects, "tekken.json": deep,
		"model.safetensors": length + strings.Repeat("{", 1000), "a.safetensors": string(binary.LittleEndian.AppendUint64(nil, 4<<20)) + strings.Repeat("[", 4<<20),
		"m.gguf": "GGUF\x03\x00\x00\x00" + length + length, "chat_template.jinja": strings.Repeat("{{ (", 1<<20), "merges.txt": strings.Repeat("a b c\n", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			debug.FreeOSMemory()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			facts, problems := readOne(name, []byte(data), map[string]string{"vocab.json": "{}", "config.json": "{}"})
			runtime.ReadMemStats(&after)
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
			if grown := after.Sys - min(after.Sys, before.Sys); grown > 400<<20 {
				t.Errorf("took %d MiB from the system for %d MiB of file", grown>>20, len(data)>>20)
			}
			broken := slices.ContainsFunc(problems, func(p model.Problem) bool { return p.Path == name })
			if name != "adapter_config.json" && !broken && facts.Template.Fault == nil && facts.Template.Rendered == nil {
				t.Errorf("nothing is said of it")
			}
		})
	}
}

// BenchmarkRead reads repositories of a growing number of shards of 100 tensors.
func BenchmarkRead(b *testing.B) {
	for _, shards := range []int{100, 1000} {
		files := map[string]string{"config.json": `{"model_type":"llama"}`}
		for i := range shards {
			var header bytes.Buffer
			header.WriteString("{")
			for j := range 100 {
				if j > 0 {
					header.WriteString(",")
				}
				fmt.Fprintf(&header, `"model.layers.%d.mlp.experts.%d.up_proj.weight":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}`, i, j, j, j+1)
			}
			header.WriteString("}")
			files[fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, shards)] = string(binary.LittleEndian.AppendUint64(nil, uint64(header.Len()))) + header.String() + strings.Repeat("\x00", 100)
		}
		captured := capture(files)
		b.Run(fmt.Sprintf("%d shards", shards), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if facts, _ := model.Read(captured); len(facts.Weights.Shards) != shards {
					b.Fatal("shards are lost")
				}
			}
		})
	}
}
