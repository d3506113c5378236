package deploy

import (
	"fmt"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// environment is the container's variables with literal values, and their lines.
func environment(n *yaml.Node, compose bool) (env map[string]string, lines map[string]int) {
	env, lines = map[string]string{}, map[string]int{}
	key := "env"
	if compose {
		key = "environment"
	}
	v := get(n, key)
	for i := 0; v != nil && v.Kind == yaml.MappingNode && i+1 < len(v.Content); i += 2 {
		if value := deref(v.Content[i+1]); value.Kind == yaml.ScalarNode {
			env[v.Content[i].Value], lines[v.Content[i].Value] = scalar(value), firstLine(value)
		}
	}
	for i := 0; v != nil && v.Kind == yaml.SequenceNode && i < len(v.Content); i++ {
		entry := deref(v.Content[i])
		if name, value, ok := strings.Cut(scalar(entry), "="); ok {
			env[name], lines[name] = value, entry.Line
		} else if name, value := scalar(get(entry, "name")), get(entry, "value"); name != "" && value != nil {
			env[name], lines[name] = scalar(value), firstLine(value)
		}
	}
	return env, lines
}

// substitute replaces $(NAME) as Kubernetes does, and $NAME where a shell or
// Compose does, from the container's literal variables. A shell splits what an
// unquoted variable holds into words.
func (f *found) substitute(e *EngineCommand, argv []argument, compose bool) []argument {
	var out []argument
	missing := ""
	for _, word := range argv {
		if name := wholeVariable(word.text); e.shell && name != "" && !word.quoted {
			if value, ok := e.Env[name]; ok {
				out = append(out, e.fromEnv(name, value)...)
				continue
			}
		}
		replaced, unknown := kubernetesVariables(word.text, e.Env)
		if at := strings.IndexByte(replaced, '$'); at >= 0 && (compose || e.shell) {
			expanded, _, whole := expand(replaced, func(name string) (string, bool) { v, ok := e.Env[name]; return v, ok })
			if !whole {
				unknown, _, _, _ = variable(replaced[at:])
			}
			replaced = expanded
		}
		if templateAction.MatchString(replaced) {
			unknown = "a template action"
		}
		if unknown != "" && missing == "" {
			missing = unknown
		}
		parts := []string{replaced}
		if e.shell && !word.quoted && replaced != word.text {
			parts = strings.Fields(replaced)
		}
		for _, part := range parts {
			word.text = part
			out = append(out, word)
		}
	}
	if missing != "" {
		e.Exact = false
		f.note(e.Line, KindEngineEnv, fmt.Sprintf("an argument of the engine holds %s, whose value is not in the file", missing))
	}
	return out
}

// fromEnv is a variable's value as the words that a shell makes of it.
func (e *EngineCommand) fromEnv(name, value string) []argument {
	var out []argument
	for i, line := range strings.Split(value, "\n") {
		for word := range strings.FieldsSeq(line) {
			out = append(out, argument{text: word, at: Place{Line: e.envLines[name] + i, Env: name}})
		}
	}
	return out
}

// templateAction matches what a Helm or KServe template would fill in. Jinja, as
// in chat templates, has no leading point.
var templateAction = regexp.MustCompile(`\{\{-?\s*([.$]|include\b|default\b|ChildName\b)|\.Values\b`)

var onlyVariable = regexp.MustCompile(`^\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))$`)

// wholeVariable is the name of the variable that a word consists of, or "".
func wholeVariable(word string) string {
	m := onlyVariable.FindStringSubmatch(word)
	if m == nil {
		return ""
	}
	return m[1] + m[2]
}

// kubernetesVariables replaces $(NAME); $$(NAME) stays as $(NAME). unknown is the
// first reference without a value, which Kubernetes leaves as it is.
func kubernetesVariables(s string, env map[string]string) (out, unknown string) {
	var b strings.Builder
	for i := 0; i < len(s); {
		if strings.HasPrefix(s[i:], "$$") {
			b.WriteByte('$')
			i += 2
			continue
		}
		end := strings.IndexByte(s[i:], ')')
		if !strings.HasPrefix(s[i:], "$(") || end < 0 {
			b.WriteByte(s[i])
			i++
			continue
		}
		reference := s[i : i+end+1]
		if v, ok := env[reference[2:end]]; ok {
			b.WriteString(v)
		} else {
			b.WriteString(reference)
			if unknown == "" {
				unknown = reference
			}
		}
		i += end + 1
	}
	return b.String(), unknown
}
