package rules

import (
	"encoding/json"
	"fmt"
	"slices"

	"drkit/manifest"
	"drkit/manifest/model"
)

// rope is the position scaling of config.json.
type rope struct {
	Type       string  `json:"rope_type"`
	LegacyType string  `json:"type"`
	Factor     float64 `json:"factor"`
}

// derivedLength is the context length that vLLM 0.32 derives, and whether that
// is known: linear and dynamic scaling multiply, yarn's and llama3's maximum
// counts as already scaled.
func derivedLength(c *model.Config) (int, bool) {
	if len(c.Rope) == 0 {
		return c.MaxPosition, true
	}
	var r rope
	if json.Unmarshal(c.Rope, &r) != nil {
		return 0, false
	}
	kind := r.Type
	if kind == "" {
		kind = r.LegacyType
	}
	switch kind {
	case "", "default", "yarn", "llama3":
		return c.MaxPosition, true
	case "linear", "dynamic":
		return int(float64(c.MaxPosition) * max(r.Factor, 1)), true
	}
	return 0, false
}

// renamed are pairs of an older and a newer name for one scaling, which the
// engine brings together.
var renamed = [][2]string{{"su", "longrope"}, {"mrope", "default"}}

func ropeConflict(v *view) []manifest.Finding {
	c := v.base.facts.Config
	var r rope
	if c == nil || json.Unmarshal(c.Rope, &r) != nil || r.Type == "" || r.LegacyType == "" || r.Type == r.LegacyType ||
		slices.Contains(renamed, [2]string{r.LegacyType, r.Type}) {
		return nil
	}
	return []manifest.Finding{{Path: v.base.path("config.json"), Field: "rope_parameters",
		Message: fmt.Sprintf("rope_type is %s, the older field type is %s", r.Type, r.LegacyType),
		Seen:    fmt.Sprintf("Found conflicts between 'rope_type=%s' (modern field) and 'type=%s' (legacy field). You should only specify one of them.", r.Type, r.LegacyType),
		Hint:    "keep the one that the model's origin has"}}
}
