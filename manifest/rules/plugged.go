package rules

import (
	"fmt"
	"slices"
	"strings"

	"drkit/manifest"
)

// connectors are those for the key-value cache that vLLM 0.32 has by itself.
var connectors = strings.Fields(`ExampleConnector ExampleHiddenStatesConnector LMCacheConnectorV1 LMCacheMPConnector NixlConnector NixlPullConnector NixlPushConnector
	MultiConnector HiSparseConnector MoRIIOConnector OffloadingConnector DecodeBenchConnector MooncakeConnector MooncakeStoreConnector FlexKVConnectorV1
	SimpleCPUOffloadConnector HF3FSKVConnector`)

// pluggedIn judges options that name code: a connector by its name, a processor of
// logits by module and class.
func pluggedIn(v *view) []manifest.Finding {
	return append(v.connectors(v.object("kv_transfer_config"), 0), v.processors()...)
}

// connectors judges a connector and those that it is made of.
func (v *view) connectors(config map[string]any, depth int) (out []manifest.Finding) {
	name, _ := config["kv_connector"].(string)
	module, _ := config["kv_connector_module_path"].(string)
	f := v.at("kv_transfer_config")
	f.Field = "kv_transfer_config.kv_connector"
	switch {
	case name == "" || depth > 3:
		return nil
	case module == "" && !slices.Contains(connectors, name):
		f.Message = fmt.Sprintf("the connector %.60s is none that vLLM 0.32 has by itself, and no kv_connector_module_path says where it is", name)
		f.Seen = fmt.Sprintf("ValueError: Unsupported connector type: %.60s", name)
		f.Hint = "correct kv_connector; with a plugin in the image that brings it, waive this rule"
		return []manifest.Finding{f}
	case module != "" && !strings.HasPrefix(module, "vllm."):
		f.Severity = manifest.Degraded
		f.Message = fmt.Sprintf("the connector %.60s comes from the module %.80s, which the image of each region has to hold: a manifest does not see it", name, module)
		f.Seen, f.Hint = "ModuleNotFoundError: No module named '…'", "prove it by a drill that boots the region's own image"
		return []manifest.Finding{f}
	}
	extra, _ := config["kv_connector_extra_config"].(map[string]any)
	children, _ := extra["connectors"].([]any)
	for _, child := range children {
		if c, ok := child.(map[string]any); ok && name == "MultiConnector" {
			out = append(out, v.connectors(c, depth+1)...)
		}
	}
	return out
}

// processors judges --logits-processors: the form of each, and whether it is of vLLM.
func (v *view) processors() []manifest.Finding {
	value, _ := v.optionValue("logits_processors")
	list, _ := value.([]any)
	for _, one := range list {
		name, _ := one.(string)
		f := v.at("logits_processors")
		switch module, _, _ := strings.Cut(name, ":"); {
		case strings.Count(name, ":") != 1:
			f.Message = fmt.Sprintf("--logits-processors names %.80q, and the form is module:class", name)
			f.Seen = fmt.Sprintf("ValueError: Invalid logits processor FQCN '%.80s'. Expected format: '<module>:<type>'", name)
			f.Hint = "correct the option, or leave it out"
		case !strings.HasPrefix(module, "vllm."):
			f.Severity = manifest.Degraded
			f.Message = fmt.Sprintf("the processor of logits %.80s is code that the image of each region has to hold: a manifest does not see it", name)
			f.Seen = fmt.Sprintf("RuntimeError: Failed to load 0th LogitsProcessor plugin %.80s", name)
			f.Hint = "prove it by a drill that boots the region's own image"
		default:
			continue
		}
		return []manifest.Finding{f}
	}
	return nil
}
