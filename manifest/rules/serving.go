package rules

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"drkit/manifest"
)

var servingRules = []Rule{
	{"E-8", manifest.Block, "the engine does not have a parser",
		"--reasoning-parser and --tool-call-parser name parsers that the engine has, or a plugin brings them.", unknownParser},
	{"E-9", manifest.Request, "the model is served under another name than is asked for",
		"The engine serves the names that recorded probes ask for, the same in every region.", otherName},
	{"E-10", manifest.Silent, "regions are told to compute differently",
		"Options that change answers, such as dtype and quantization, are the same in every region.", otherAnswers},
	{"E-12", manifest.Block, "a value passes the engine's parser and ends it afterwards",
		"Numbers are within the engine's bounds, and words are those that it has.", refusedValue},
	{"E-11", manifest.Info, "not every engine has a kernel for the head size",
		"head_dim is one that the attention kernels of the engine's hardware have.", oddHeads},
}

// parsers are the options that name a parser, with the option that may bring
// others and the list of those of vLLM 0.32.0.
var parsers = []struct{ option, plugin, list, seen string }{
	{"reasoning_parser", "reasoning_parser_plugin", "reasoning-parsers", "KeyError: \"Reasoning parser '%s' not found."},
	{"tool_call_parser", "tool_parser_plugin", "tool-parsers", "KeyError: invalid tool call parser: %s"},
}

func unknownParser(v *view) (out []manifest.Finding) {
	for _, p := range parsers {
		name := v.option(p.option)
		if name == "" || isKnown(p.list, name) || v.option(p.plugin) != "" {
			continue
		}
		f := v.at(p.option)
		f.Message = fmt.Sprintf("%s is %s, which vLLM 0.32 does not have", p.option, name)
		f.Seen = fmt.Sprintf(p.seen, name)
		f.Hint = fmt.Sprintf("name one that the engine's version has, or give --%s", strings.ReplaceAll(p.plugin, "_", "-"))
		if !v.judgedVersion() {
			f.Severity = manifest.Degraded
		}
		out = append(out, f)
	}
	return out
}

// served are the names that an engine answers to; nil when they are not known.
func served(v *view, e engineFacts) (names []string) {
	switch given := e.Options["served_model_name"].(type) {
	case string:
		names = []string{given}
	case []any:
		for _, n := range given {
			if s, ok := n.(string); ok {
				names = append(names, s)
			}
		}
	default:
		if e.Model == "" || e.Model == defaultModel {
			return nil
		}
		names = []string{e.Model}
	}
	modules, _ := e.Options["lora_modules"].([]any)
	for _, m := range modules {
		if module, _ := m.(map[string]any); module != nil {
			names = append(names, fmt.Sprint(module["name"]))
		}
	}
	for _, a := range v.adapters {
		names = append(names, a.facts.Name) // whether it is served is L-8's
	}
	return names
}

func otherName(v *view) (out []manifest.Finding) {
	byRegion, first := map[string][]string{}, ""
	for _, e := range v.m.Annotations.Engine {
		names := served(v, e)
		if e.Kind != "vllm" || names == nil {
			continue
		}
		f := v.nameFinding(e)
		if lost := v.askedBut(e, names); lost != "" {
			f.Message = fmt.Sprintf("the recorded probes ask for the model %s, the engine serves %s", lost, strings.Join(names, ", "))
			f.Seen = fmt.Sprintf("The model `%s` does not exist.", lost)
			out = append(out, f)
			continue
		}
		if e.Region == "" || e.Options["served_model_name"] == nil {
			continue
		}
		if first == "" {
			first = e.Region
		}
		byRegion[e.Region] = append(byRegion[e.Region], names...)
		if all := byRegion[first]; e.Region != first && !sameNames(all, names) && !v.allows("served_model_name", first, e.Region) {
			f.Message = fmt.Sprintf("%s serves the model as %s, %s as %s: clients that are moved over ask for a name that is not there", first, strings.Join(all, ", "), e.Region, strings.Join(names, ", "))
			f.Seen = fmt.Sprintf("The model `%s` does not exist.", all[0])
			out = append(out, f)
		}
	}
	return out
}

// nameFinding begins a finding on the names that an engine serves.
func (v *view) nameFinding(e engineFacts) manifest.Finding {
	f := manifest.Finding{Part: string(manifest.Engine), Field: "served_model_name", Hint: "serve the same name in every region: --served-model-name takes several"}
	if f.Path, f.Line = v.place(e, "served_model_name"); e.Source != "" && e.Where["served_model_name"] == "" {
		f.Part = string(manifest.Deploy)
	}
	return f
}

// askedBut is a model that the probes of the engine's region ask for and that
// it does not serve.
func (v *view) askedBut(e engineFacts, names []string) string {
	for _, p := range v.m.Annotations.Probes {
		if p.Region != "" && e.Region != "" && p.Region != e.Region {
			continue
		}
		for _, asked := range p.Models {
			if !slices.Contains(names, asked) {
				return asked
			}
		}
	}
	return ""
}

// sameNames reports whether two engines answer to a common set: one may serve
// further aliases.
func sameNames(a, b []string) bool {
	missing := func(x, y []string) bool {
		return slices.ContainsFunc(x, func(n string) bool { return !slices.Contains(y, n) })
	}
	return !missing(a, b) || !missing(b, a)
}

// decisive are the options that change answers.
var decisive = []string{"dtype", "quantization", "kv_cache_dtype", "hf_overrides", "generation_config", "override_generation_config", "max_model_len",
	"reasoning_parser", "tool_call_parser", "chat_template", "tokenizer", "tokenizer_mode", "load_format"}

// otherAnswers compares the engines of regions with those of the first one: an
// engine fits when one there has the same value.
func otherAnswers(v *view) (out []manifest.Finding) {
	var first []engineFacts
	for _, e := range v.m.Annotations.Engine {
		switch {
		case e.Kind != "vllm" || e.Region == "" || e.Exits != "": // what ends has no options
		case len(first) == 0 || first[0].Region == e.Region:
			first = append(first, e)
		default:
			for _, option := range decisive {
				if f, differs := v.differs(first, e, option); differs {
					out = append(out, f)
				}
			}
		}
	}
	return out
}

func (v *view) differs(first []engineFacts, e engineFacts, option string) (f manifest.Finding, differs bool) {
	theirs := shown(e.Options[option])
	if v.allows(option, first[0].Region, e.Region) || slices.ContainsFunc(first, func(o engineFacts) bool { return shown(o.Options[option]) == theirs }) {
		return f, false
	}
	f = manifest.Finding{Part: string(manifest.Engine), Field: option,
		Message: fmt.Sprintf("%s is %s in %s and %s in %s: the regions answer differently", option, shown(first[0].Options[option]), first[0].Region, theirs, e.Region),
		Hint:    "set the same in both; where the difference is meant, list " + option + " under allowed_differences of the region in drkit.yaml"}
	if f.Path, f.Line = v.place(e, option); e.Source != "" && e.Where[option] == "" {
		f.Part = string(manifest.Deploy)
	}
	if option == "max_model_len" {
		f.Severity = manifest.Degraded
	}
	return f, true
}

// shown is an option as text; paths are shown by their last part, as regions
// mount them at different places.
func shown(value any) string {
	if value == nil {
		return "not set"
	}
	if s, ok := value.(string); ok {
		if strings.Contains(s, "/") {
			return path.Base(s)
		}
		return s
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// headSizes are those of vLLM 0.32's attention on CPUs; its kernels for GPUs
// have most of them.
var headSizes = []int{32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512}

func oddHeads(v *view) []manifest.Finding {
	c := v.base.facts.Config
	if c == nil || v.base.expect() == nil {
		return nil
	}
	size := c.HeadDim
	if size == 0 && c.Heads > 0 {
		size = c.Hidden / c.Heads
	}
	if size == 0 || slices.Contains(headSizes, size) || c.Architectures[0] == "BertModel" {
		return nil
	}
	return []manifest.Finding{{Path: v.base.path("config.json"), Field: "head_dim",
		Message: fmt.Sprintf("an attention head has %d dimensions; not every kernel has that size, and where it is missing the first request ends the engine", size),
		Seen:    fmt.Sprintf("Unsupported CPU attention configuration: head_dim=%d", size), Hint: "try the model on the target region's hardware"}}
}
