package model

import "encoding/json"

// OriginalLength is the length that rotary positions were trained to before they were
// scaled, in tokens: beyond it a lost or another scaling shows in the answers. It is 0
// where nothing is scaled, or config.json does not say.
func (f *Facts) OriginalLength() int {
	if f == nil || f.Config == nil {
		return 0
	}
	var block any
	if json.Unmarshal(f.Config.Rope.Effective, &block) != nil { // nothing is there: nothing is scaled
		return 0
	}
	return original(block, f.Config)
}

// original looks into a rope block and, where its blocks are named by kinds of layers,
// into each; the shortest counts.
func original(block any, c *Config) (least int) {
	o, ok := block.(map[string]any)
	if !ok {
		return 0
	}
	take := func(n int) {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	if own := ownOriginal(o, c); own > 0 {
		take(own)
	}
	for _, inner := range o {
		take(original(inner, c))
	}
	return least
}

func ownOriginal(o map[string]any, c *Config) int {
	kind, _ := o["rope_type"].(string)
	if kind == "" {
		kind, _ = o["type"].(string)
	}
	if kind == "" || kind == "default" || kind == "none" {
		return 0
	}
	if n, _ := o["original_max_position_embeddings"].(float64); n >= 1 && n <= 1<<30 {
		return int(n)
	}
	if c.Context.Original > 0 {
		return c.Context.Original
	}
	if kind == "linear" || kind == "dynamic" { // their max_position_embeddings is the unscaled one
		return c.Context.Length
	}
	return 0
}
