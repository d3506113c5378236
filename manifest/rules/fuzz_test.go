package rules_test

import (
	"encoding/json"
	"testing"
	"time"

	"drkit/manifest"
	"drkit/manifest/rules"
)

// FuzzCheck: no manifest, however odd, may make the rules panic or hang.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"annotations":{"model":{"config":{"architectures":["LlamaForCausalLM"],"num_hidden_layers":999999999},"weights":{"shards":[{"path":"m.safetensors","tensors":{"x":"F32[]","layers.1":"F32[1]","lm_head":"F32[]"}}]}}},
"contents":{"files":[{"part":"model","path":"base/m.safetensors"},{"part":"model","path":"base/%d%s-00001-of-99999.safetensors"}]}}`))
	f.Add([]byte(`{"annotations":{"model":{"config":{"architectures":["BertModel"],"num_hidden_layers":-3,"num_attention_heads":-1},"quantization":{"quant_method":"gptq","source":"config.json"}},"adapters":[{"name":""}],"drafts":[{"name":"d","facts":{}}],
"engine":[{"options":{"lora_modules":[{"name":"a"},1],"tensor_parallel_size":0,"max_model_len":-1,"speculative_config":{"model":3}}}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m manifest.Manifest
		if json.Unmarshal(data, &m) != nil {
			return
		}
		began := time.Now()
		rules.Fails(rules.Apply(rules.Check(&m), []manifest.Waiver{{Path: "["}}, began), true)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
