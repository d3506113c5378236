package diff

import "maps"

// alike makes two config.json comparable where they say the same in the two forms
// that transformers reads alike: the older rope_scaling with type and an outer
// rope_theta, the newer rope_parameters with rope_type and an inner one; torch_dtype
// and dtype. The second side keeps its form.
func alike(from, to any) (any, any) {
	x, ok := from.(map[string]any)
	y, also := to.(map[string]any)
	if !ok || !also {
		return from, to
	}
	x, y = maps.Clone(x), maps.Clone(y)
	rename(x, y, "torch_dtype", "dtype")
	alikeRope(x, y)
	for _, part := range []string{"text_config", "llm_config", "language_config"} {
		if x[part] != nil && y[part] != nil {
			x[part], y[part] = alike(x[part], y[part])
		}
	}
	return x, y
}

// rename gives x the spelling that y has, where each uses one of the two.
func rename(x, y map[string]any, one, other string) {
	for _, names := range [][2]string{{one, other}, {other, one}} {
		from, to := names[0], names[1]
		if v, ok := x[from]; ok && !has(x, to) && has(y, to) && !has(y, from) {
			x[to] = v
			delete(x, from)
			return
		}
	}
}

func has(m map[string]any, key string) bool { _, ok := m[key]; return ok }

func alikeRope(x, y map[string]any) {
	keyX, keyY := ropeKey(x), ropeKey(y)
	if keyX == "" && keyY == "" {
		return
	}
	if keyX != "" && keyY != "" && !has(x, keyY) && !has(y, keyX) {
		x[keyY] = x[keyX]
		delete(x, keyX)
		keyX = keyY
	}
	blockX, blockY := block(x, keyX), block(y, keyY)
	rename(blockX, blockY, "type", "rope_type")
	outward(x, blockX, y, blockY)
	outward(y, blockY, x, blockX)
	keep(x, keyX, blockX, keyY == "")
	keep(y, keyY, blockY, keyX == "")
}

// ropeKey is the block that transformers takes.
func ropeKey(m map[string]any) string {
	for _, key := range []string{"rope_scaling", "rope_parameters"} {
		if b, ok := m[key].(map[string]any); ok && len(b) > 0 {
			return key
		}
	}
	return ""
}

func block(m map[string]any, key string) map[string]any {
	b, _ := m[key].(map[string]any)
	if b == nil {
		return map[string]any{}
	}
	return maps.Clone(b)
}

// outward moves rope_theta out of a block where the other side has it outside.
func outward(m, block, other, otherBlock map[string]any) {
	theta, inside := block["rope_theta"]
	if inside && !has(m, "rope_theta") && !has(otherBlock, "rope_theta") && has(other, "rope_theta") {
		m["rope_theta"] = theta
		delete(block, "rope_theta")
	}
}

// keep puts a block back. One that only says default is none, where the other
// side has none.
func keep(m map[string]any, key string, block map[string]any, alone bool) {
	if key == "" {
		return
	}
	if m[key] = block; alone && len(block) <= 1 && (len(block) == 0 || block["rope_type"] == "default") {
		delete(m, key)
	}
}
