package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"drkit/manifest"
	"drkit/manifest/model"
)

var templateRules = []Rule{
	{"T-6", manifest.Request, "there is no chat template that works",
		"A model that answers chat requests has a chat template that the engine finds, and that puts a question into the prompt and asks for the answer.", noTemplate},
	{"T-9", manifest.Request, "no chat template is named default",
		"A list of named chat templates has one named default.", noDefaultTemplate},
	{"T-10", manifest.Block, "the engine's chat template is not in the release",
		"A file given with --chat-template is listed under engine.configs or lies in a deploy file.", templateNotHere},
}

// ownTemplate are model types for which vLLM brings a template of its own.
var ownTemplate = []string{"blip-2", "chameleon", "clip", "colpali", "deepseek_ocr", "deepseek_vl_v2", "minicpmv", "paligemma", "siglip"}

// templateElsewhere reports whether the engine needs no template of the
// repository's.
func (v *view) templateElsewhere() bool {
	c := v.base.facts.Config
	if c == nil || !generative(c) || v.option("chat_template") != "" || v.base.mistralTokenizer() || v.option("runner") == "pooling" || v.base.present("modules.json") {
		return true
	}
	mode := v.option("tokenizer_mode")
	return mode != "" && mode != "auto" && mode != "hf" && mode != "slow" ||
		slices.ContainsFunc(ownTemplate, func(t string) bool { return strings.HasPrefix(c.ModelType, t) })
}

// mistralTokenizer reports whether the engine takes Mistral's tokenizer, which
// writes prompts without a template.
func (r *repo) mistralTokenizer() bool {
	t := r.facts.Tokenizer
	return t.File == "tekken.json" || r.consolidated() != "" && (r.present("tekken.json") || slices.ContainsFunc(t.Files, func(f string) bool { return strings.HasPrefix(f, "tokenizer.model.v") }))
}

func noTemplate(v *view) []manifest.Finding {
	if t := v.engineTemplate(); t != nil {
		f := v.at("chat_template")
		f.Path, f.Part, f.Line = t.Source, string(manifest.Engine), 0
		return wrongTemplate(v, *t, f)
	}
	t := v.base.facts.Template
	if v.templateElsewhere() || v.base.broken("tokenizer_config.json") || v.base.broken("chat_template.jinja") {
		return nil
	}
	if t.Source == "" && len(t.Names) == 0 {
		return []manifest.Finding{v.templateLost()}
	}
	return wrongTemplate(v, t, manifest.Finding{Path: v.base.path(t.Where())})
}

// speech are models that are asked for transcriptions, which have no template.
var speech = []string{"whisper", "cohere_asr", "parakeet"}

func (v *view) templateLost() manifest.Finding {
	t, c := v.base.facts.Template, v.base.facts.Config
	f := manifest.Finding{Path: v.base.path("chat_template.jinja"),
		Message: "neither chat_template.jinja nor tokenizer_config.json holds a chat template: chat requests answer 400",
		Seen:    "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the tokenizer does not define one.",
		Hint:    "copy chat_template.jinja or tokenizer_config.json from the model's origin, or give --chat-template; for a model that is only asked for completions, waive this rule"}
	if !v.base.present("tokenizer_config.json") {
		f.Path = v.base.path("tokenizer_config.json")
	}
	if t.LegacyJSON {
		f.Message = "the only chat template is in chat_template.json, which the engine reads for multimodal models only: chat requests answer 400"
	}
	if slices.Contains(speech, c.ModelType) {
		f.Severity, f.Hint = manifest.Info, "a speech model is asked for transcriptions and needs none"
	}
	return f
}

// wrongTemplate judges the template that chat requests get; f says where it is.
func wrongTemplate(v *view, t model.Template, f manifest.Finding) []manifest.Finding {
	r := t.Rendered
	again := "copy the template again from the model's origin"
	switch {
	case t.Fault != nil:
		f.Message = fmt.Sprintf("line %d of the chat template does not parse: %s: chat requests fail", t.Fault.Line, t.Fault.What)
		f.Seen, f.Hint = t.Fault.Seen, again
		if strings.HasSuffix(f.Path, ".jinja") {
			f.Line = t.Fault.Line
		}
	case unknownName(t.Filters, knownFilters) != "":
		name := unknownName(t.Filters, knownFilters)
		f.Message = fmt.Sprintf("the chat template applies the filter %q, which the engine's Jinja does not have: chat requests fail", name)
		f.Seen, f.Hint = fmt.Sprintf("No filter named '%s'.", name), again
	case unknownName(t.Tests, knownTests) != "":
		name := unknownName(t.Tests, knownTests)
		f.Message = fmt.Sprintf("the chat template applies the test %q, which the engine's Jinja does not have: chat requests fail", name)
		f.Seen, f.Hint = fmt.Sprintf("No test named '%s'.", name), again
	case r == nil:
		return nil
	case r.Unknown != "" && len(t.Calls) > 0:
		f.Message = fmt.Sprintf("the chat template calls %s, which neither it nor the engine defines: chat requests fail", t.Calls[0])
		f.Seen, f.Hint = fmt.Sprintf("jinja2.exceptions.UndefinedError: '%s' is undefined", t.Calls[0]), again
	case r.Unknown != "":
		f.Severity, f.Message = manifest.Info, "drkit cannot render the chat template, so it is not judged: "+r.Unknown
	case r.Refuses != "":
		f.Hint = again
		f.Message = fmt.Sprintf("the chat template refuses every conversation, also one of a single question: %q", r.Refuses)
		f.Seen = r.Refuses
	case r.Loses:
		f.Severity, f.Hint = manifest.Silent, again
		f.Message = "the chat template leaves the text of a user's message out of the prompt: the model answers something else"
	case r.Lead != "":
		f.Severity, f.Hint = manifest.Silent, again
		f.Message = fmt.Sprintf("the chat template writes %q before an answer in a conversation's history, but does not end a prompt with it: the model is not asked for an answer", r.Lead)
	case v.truth("enable_auto_tool_choice") && (!t.Tools || r.ToolsLost) && !slices.Contains(t.Names, "tool_use"):
		f.Severity, f.Hint = manifest.Degraded, "give a template for tools with --chat-template"
		f.Message = "the engine is told --enable-auto-tool-choice, and the chat template does not show tools to the model"
	default:
		return nil
	}
	return []manifest.Finding{f}
}

func unknownName(used, known []string) string {
	for _, name := range used {
		if !slices.Contains(known, name) {
			return name
		}
	}
	return ""
}

// knownFilters and knownTests are those of Jinja 3.1, which is what the engine
// renders with.
var (
	knownFilters = strings.Fields(`abs attr batch capitalize center count d default dictsort e escape filesizeformat first
	float forceescape format groupby indent int items join last length list lower map max min pprint random reject
	rejectattr replace reverse round safe select selectattr slice sort string striptags sum title tojson trim truncate
	unique upper urlencode urlize wordcount wordwrap xmlattr`)
	knownTests = strings.Fields(`boolean callable defined divisibleby eq equalto escaped even false filter float ge greaterthan gt in
	integer iterable le lessthan lower lt mapping ne none None False True number odd sameas sequence string test true undefined upper`)
)

func noDefaultTemplate(v *view) []manifest.Finding {
	t := v.base.facts.Template
	if v.templateElsewhere() || len(t.Names) == 0 || t.Default {
		return nil
	}
	return []manifest.Finding{{Path: v.base.path(t.Where()), Message: fmt.Sprintf("the chat templates are named %s, none default: chat requests without a name fail", strings.Join(t.Names, ", ")),
		Hint: "restore the template named default, or chat_template.jinja"}}
}

// engineTemplate is the template that the engine is given, where it is in the
// release.
func (v *view) engineTemplate() *model.Template {
	for _, e := range v.m.Annotations.Engine {
		if e.Options["chat_template"] != nil && e.Template != nil {
			return e.Template
		}
	}
	return nil
}

// builtinTemplates come with vLLM, in its folder of templates for models.
var builtinTemplates = strings.Fields(`template_basic.jinja template_blip2.jinja template_chatml.jinja template_deepseek_ocr.jinja
	template_deepseek_vl2.jinja template_kimi_audio.jinja template_minicpmv45.jinja`)

// inImage are folders of vLLM's own images that hold example templates.
var inImage = []string{"/vllm-workspace/", "/workspace/vllm/"}

func templateNotHere(v *view) (out []manifest.Finding) {
	for _, e := range v.m.Annotations.Engine {
		name, _ := e.Options["chat_template"].(string)
		if name == "" || e.Template != nil || strings.ContainsAny(name, "{}\n") || slices.Contains(builtinTemplates, strings.TrimPrefix(name, "./")) {
			continue
		}
		if v.inRelease(name) || slices.ContainsFunc(inImage, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			continue
		}
		f := v.at("chat_template")
		f.Message = fmt.Sprintf("the engine takes its chat template from %s, which is in no part of the release", name)
		f.Seen = fmt.Sprintf("The supplied chat template string (%s) appears path-like, but doesn't exist!", name)
		f.Hint = "list the file under engine.configs in drkit.yaml; when it comes with the image, waive this rule"
		return []manifest.Finding{f}
	}
	return nil
}

// inRelease reports whether a path that the engine is given is a file of the
// model part: below the model's own path, or named like a file in it.
func (v *view) inRelease(name string) bool {
	for _, e := range v.m.Annotations.Engine {
		if e.Model == "" {
			continue
		}
		if inner, ok := strings.CutPrefix(path.Clean(name), path.Clean(e.Model)+"/"); ok {
			return v.base.present(inner)
		}
	}
	return false
}
