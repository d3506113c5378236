package engine

import (
	"fmt"
	"strings"
)

// model is what would be served: the positional argument under `vllm serve`,
// else --model, else the default.
func (p *parse) model() string {
	if tag, ok := p.values["model_tag"].(string); ok && p.serve() {
		return tag
	}
	if p.t.engine == SGLang {
		m, _ := p.values["model_path"].(string)
		return m
	}
	if m, ok := p.values["model"].(string); ok {
		return m
	}
	m, _ := p.t.byFlag["--model"].Default.(string)
	return m
}

// nonDefault lists the values that differ from their defaults, by destination.
func (p *parse) nonDefault() map[string]any {
	out := map[string]any{}
	for _, o := range p.t.options {
		v, ok := p.values[o.dest()]
		if _, listed := out[o.dest()]; listed || !ok || !o.Unset && same(o, v) {
			continue
		}
		out[o.dest()] = plain(p.maskValue(o, v))
	}
	return out
}

// same reports whether v is the option's default.
func same(o *option, v any) bool {
	if d, ok := v.(*dict); ok && o.Class != "" && !o.Late {
		shown, _ := o.Default.(string)
		return len(d.items) == 1 && strings.HasPrefix(shown, "<")
	}
	return equal(o.Default, v)
}

// afterwards are vLLM's quick checks between parsing and loading.
func (p *parse) afterwards() *failure {
	p.noteSecrets()
	if p.t.engine == SGLang {
		return nil
	}
	if t, ok := p.given["model_tag"]; ok && !p.serve() {
		p.note(t, KindModelIgnored, fmt.Sprintf("%q stands alone; this entry point takes the model from --model only", t.text))
	}
	if f := p.templateMissing(); f != nil {
		return f
	}
	needs := [][2]string{{"enable-auto-tool-choice", "tool-call-parser"}}
	if p.t.since("0.11.2") {
		needs = append(needs, [2]string{"enable-log-outputs", "enable-log-requests"})
	}
	for _, need := range needs {
		if f := p.companion(need[0], need[1]); f != nil {
			return f
		}
	}
	return nil
}

// companion is the check that one option is not given without another. The
// words are those of vLLM's own check of parsed arguments.
func (p *parse) companion(name, need string) *failure {
	dest := func(s string) string { return strings.ReplaceAll(s, "-", "_") }
	if p.values[dest(name)] != true {
		return nil
	}
	if v := p.values[dest(need)]; v != nil && v != "" && v != false {
		return nil
	}
	t := p.given[dest(name)]
	return &failure{exit: 1, errorType: "TypeError", kind: KindMissingCompanion, path: t.path, line: t.line,
		text: fmt.Sprintf("Error: --%s requires --%s", name, need),
		what: fmt.Sprintf("--%s needs --%s beside it", name, need)}
}

// templateMissing judges a chat template that is given as a path, when all
// files are known.
func (p *parse) templateMissing() *failure {
	template, ok := p.values["chat_template"].(string)
	if !ok || strings.ContainsAny(template, "{}\n") || !p.cmd.AllFiles {
		return nil
	}
	if _, there := p.cmd.Files[template]; there {
		return nil
	}
	t := p.given["chat_template"]
	builtin := "<site-packages>/vllm/transformers_utils/chat_templates/" + strings.TrimPrefix(template, "./")
	if strings.HasPrefix(template, "/") {
		builtin = template
	}
	return &failure{exit: 1, errorType: "VLLMValidationError", kind: KindTemplateMissing, path: t.path, line: t.line,
		text: fmt.Sprintf("The supplied chat template string (%s) appears path-like, but doesn't exist! Tried: %s and %s (parameter=chat_template)", template, template, builtin),
		what: fmt.Sprintf("the chat template %s is not there", template)}
}
