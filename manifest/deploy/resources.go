package deploy

import (
	"encoding/json"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// Some resources hold no command line: a controller or chart makes one out of
// their settings. What it makes was read in KServe's LLMInferenceServiceConfig,
// the production-stack chart's engine template and Ray Serve's LLMConfig.

// additionalArgs is the variable whose words KServe's template adds to `vllm serve`.
const additionalArgs = "VLLM_ADDITIONAL_ARGS"

// tagVersion is a version as an image tag names it: v0.32.0, 0.5.9-cu126.
var tagVersion = regexp.MustCompile(`^v?(\d+\.\d+\.\d+(?:\.post\d+)?)(?:[-_+].*)?$`)

func versionOf(tag string) string {
	if m := tagVersion.FindStringSubmatch(tag); m != nil {
		return m[1]
	}
	return ""
}

// additional adds the engine of a container that names only further arguments in
// a variable.
func (f *found) additional(e *EngineCommand) {
	value, ok := e.Env[additionalArgs]
	if !ok {
		return
	}
	e.Entry, e.EntryAssumed, e.Exact, e.Line = entryVLLM, true, false, e.envLines[additionalArgs]
	f.note(e.Line, KindEngineRuntime, "a template that is not in the file starts the engine and adds these arguments to its own, so they are judged alone")
	f.add(e, append(typed(e.Line, "serve", "/mnt/models"), e.fromEnv(additionalArgs, value)...), false)
}

// resource adds the engines of objects whose settings become a command line.
func (f *found) resource(n *yaml.Node) {
	switch scalar(get(n, "kind")) {
	case "InferenceService":
		f.inferenceService(n)
	case "RayService":
		f.rayService(get(n, "spec"))
	}
	f.modelSpecs(get(n, "servingEngineSpec"))
}

// inferenceService reads KServe's predictor.model.args: they are added to those
// of a serving runtime.
func (f *found) inferenceService(n *yaml.Node) {
	m := get(get(get(n, "spec"), "predictor"), "model")
	args := get(m, "args")
	format := strings.ToLower(scalar(get(get(m, "modelFormat"), "name")))
	if args == nil || len(args.Content) == 0 {
		return
	}
	e := f.container(m, false)
	e.Line = args.Content[0].Line
	switch {
	case format == "vllm" || strings.Contains(strings.ToLower(scalar(get(m, "runtime"))), "vllm"):
		e.Entry, e.EntryAssumed, e.Exact = entryVLLM, true, false
		f.note(e.Line, KindEngineRuntime, "a serving runtime starts the engine and adds these arguments to its own, so they are judged alone")
		f.claimed(m)
		f.add(e, append(typed(e.Line, "serve", "/mnt/models"), list(args, false)...), false)
	case format == "huggingface":
		f.claimed(m)
		f.note(e.Line, KindEngineRuntime, "KServe's own server takes these arguments and hands some to vLLM; they are not judged")
	}
}

// claimed keeps a node from being read as a container, too.
func (f *found) claimed(n *yaml.Node) {
	if f.done == nil {
		f.done = map[*yaml.Node]bool{}
	}
	f.done[n] = true
}

// modelSpecs reads the values of the production-stack chart.
func (f *found) modelSpecs(spec *yaml.Node) {
	specs := get(spec, "modelSpec")
	if specs == nil || specs.Kind != yaml.SequenceNode {
		return
	}
	for _, m := range specs.Content {
		if m = deref(m); m.Kind != yaml.MappingNode || get(m, "modelURL") == nil {
			continue
		}
		image := scalar(get(m, "repository"))
		if tag := scalar(get(m, "tag")); image != "" && tag != "" {
			image += ":" + tag
		}
		e := f.container(m, false)
		e.Image, e.Version, e.Entry, e.Line = image, imageVersion(image), entryVLLM, get(m, "modelURL").Line
		f.add(e, stackArgs(m, e.Line), false)
	}
}

// stackArgs is the command line that the production-stack chart makes of a model.
func stackArgs(m *yaml.Node, line int) []argument {
	url := get(m, "modelURL")
	out := append(typed(line, "serve"), argument{text: scalar(url), at: Place{Line: url.Line}})
	out = append(out, typed(line, "--host", "0.0.0.0", "--port", "8000")...)
	on := func(n *yaml.Node, key, flag string) {
		if v := get(n, key); truthy(v) {
			out = append(out, typed(v.Line, flag)...)
		}
	}
	value := func(n *yaml.Node, key, flag, before string) {
		if v := get(n, key); v != nil && scalar(v) != "" {
			out = append(out, typed(v.Line, flag, before+scalar(v))...)
		}
	}
	on(m, "enableLoRA", "--enable-lora")
	on(m, "enableTool", "--enable-auto-tool-choice")
	value(m, "toolCallParser", "--tool-call-parser", "")
	if c := get(m, "vllmConfig"); c != nil {
		out = append(out, stackConfig(c)...)
	}
	if c := get(m, "lmcacheConfig"); truthy(get(c, "enabled")) {
		role := scalar(get(c, "kvRole"))
		if role == "" {
			role = "kv_both"
		}
		out = append(out, typed(c.Line, "--kv-transfer-config", `{"kv_connector":"LMCacheConnectorV1","kv_role":"`+role+`"}`)...)
	}
	value(m, "chatTemplate", "--chat-template", "/templates/")
	return out
}

func stackConfig(c *yaml.Node) (out []argument) {
	if v := get(c, "enableChunkedPrefill"); v != nil {
		out = append(out, typed(v.Line, "--"+map[bool]string{false: "no-"}[truthy(v)]+"enable-chunked-prefill")...)
	}
	if v := get(c, "enablePrefixCaching"); truthy(v) {
		out = append(out, typed(v.Line, "--enable-prefix-caching")...)
	} else { // the chart switches it off unless it is asked for
		line := c.Line
		if v != nil {
			line = v.Line
		}
		out = append(out, typed(line, "--no-enable-prefix-caching")...)
	}
	for _, o := range [][2]string{{"maxModelLen", "--max-model-len"}, {"dtype", "--dtype"}, {"tensorParallelSize", "--tensor-parallel-size"},
		{"maxNumSeqs", "--max-num-seqs"}, {"gpuMemoryUtilization", "--gpu_memory_utilization"}, {"maxLoras", "--max_loras"}} {
		if v := get(c, o[0]); v != nil {
			out = append(out, typed(v.Line, o[1], scalar(v))...)
		}
	}
	return append(out, list(get(c, "extraArgs"), false)...)
}

// truthy is how a Helm template judges a value.
func truthy(n *yaml.Node) bool {
	v := strings.ToLower(scalar(n))
	return n != nil && (v != "" && v != "false" && v != "0" || len(n.Content) > 0)
}

// rayService reads the LLMConfigs in the configuration of Ray Serve, which is
// YAML in a string.
func (f *found) rayService(spec *yaml.Node) {
	text := get(spec, "serveConfigV2")
	if text == nil || text.Kind != yaml.ScalarNode {
		return
	}
	documents, err := parseYAML([]byte(text.Value))
	if err != nil {
		f.note(text.Line, KindSyntax, "serveConfigV2 is no YAML, so the engines in it are not known")
		return
	}
	for _, doc := range documents {
		f.llmConfigs(doc, firstLine(text)-1, 0)
	}
}

// llmConfigs looks for LLMConfigs at any depth; offset is added to their lines.
func (f *found) llmConfigs(n *yaml.Node, offset, depth int) {
	if n == nil || depth > 50 {
		return
	}
	if loading := get(n, "model_loading_config"); loading != nil {
		f.llmConfig(n, loading, offset)
		return
	}
	for _, child := range n.Content {
		f.llmConfigs(child, offset, depth+1)
	}
}

func (f *found) llmConfig(n, loading *yaml.Node, offset int) {
	if engine := scalar(get(n, "llm_engine")); engine != "" && !strings.EqualFold(engine, "vllm") {
		return
	}
	id, source := get(loading, "model_id"), get(loading, "model_source")
	if source == nil || source.Kind != yaml.ScalarNode {
		source = id
	}
	line := loading.Line + offset
	e := &EngineCommand{Path: f.facts.Path, Line: line, Container: scalar(id), Entry: entryVLLM, Env: map[string]string{}}
	argv := typed(line, "serve", scalar(source), "--served-model-name", scalar(id))
	if kwargs := get(n, "engine_kwargs"); kwargs != nil {
		e.Line = kwargs.Line + offset
		for i := 0; kwargs.Kind == yaml.MappingNode && i+1 < len(kwargs.Content); i += 2 {
			argv = append(argv, keyword(kwargs.Content[i].Value, deref(kwargs.Content[i+1]), kwargs.Content[i].Line+offset)...)
		}
	}
	f.note(e.Line, KindEngineRuntime, "Ray Serve hands these settings to vLLM as keyword arguments; they are judged as the options of the same names")
	f.add(e, argv, false)
}

// keyword is a keyword argument as the option of its name.
func keyword(name string, v *yaml.Node, line int) []argument {
	flag := "--" + name
	switch {
	case v.Kind == yaml.ScalarNode && v.ShortTag() == "!!null":
		return nil
	case v.Kind == yaml.ScalarNode && v.ShortTag() == "!!bool":
		var on bool
		if v.Decode(&on) == nil && !on {
			flag = "--no-" + name
		}
		return typed(line, flag)
	case v.Kind == yaml.ScalarNode:
		return typed(line, flag, v.Value)
	case v.Kind == yaml.SequenceNode:
		out := typed(line, flag)
		for _, entry := range v.Content {
			out = append(out, typed(entry.Line-v.Line+line, scalar(entry))...)
		}
		return out
	}
	var value any
	if v.Decode(&value) != nil {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return typed(line, flag, string(text))
}
