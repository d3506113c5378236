package model

import (
	"testing"
)

// TestOriginalLength: the figures are those that the models' own pages give.
func TestOriginalLength(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		want   int
	}{
		"none":                      {`{"max_position_embeddings": 4096}`, 0},
		"Llama 3.1":                 {`{"max_position_embeddings": 131072, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}}`, 8192},
		"Qwen2.5 with YaRN":         {`{"max_position_embeddings": 131072, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}`, 32768},
		"Phi-3 long":                {`{"max_position_embeddings": 131072, "original_max_position_embeddings": 4096, "rope_scaling": {"type": "longrope", "long_factor": [1.0], "short_factor": [1.0]}}`, 4096},
		"linear":                    {`{"max_position_embeddings": 2048, "rope_scaling": {"type": "linear", "factor": 2.0}}`, 2048},
		"default is no scaling":     {`{"max_position_embeddings": 4096, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}`, 0},
		"one block a kind of layer": {`{"max_position_embeddings": 131072, "layer_types": ["full_attention", "sliding_attention"], "rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16384}, "sliding_attention": {"rope_type": "default"}}}`, 16384},
		"a number that is none":     {`{"rope_scaling": {"type": "yarn", "original_max_position_embeddings": -1}}`, 0},
	} {
		f, _ := Read([]File{{Path: "config.json", Size: int64(len(c.config)), Content: []byte(c.config)}})
		if got := f.OriginalLength(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if (*Facts)(nil).OriginalLength() != 0 {
		t.Error("nothing has a length")
	}
}
