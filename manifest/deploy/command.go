package deploy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// apiServer is the Python module that serves a model without `vllm serve`.
const apiServer = "vllm.entrypoints.openai.api_server"

// engine adds the command line of a container that starts vLLM. A container is
// any mapping with command or args, whatever kind of object it stands in.
func (f *found) engine(n *yaml.Node, compose bool) {
	command, args := get(n, "command"), get(n, "args")
	if compose {
		command, args = get(n, "entrypoint"), get(n, "command")
	}
	if command == nil && args == nil {
		return
	}
	e := EngineCommand{Path: f.facts.Path, Line: n.Line, Container: scalar(get(n, "name")), Image: scalar(get(n, "image")), Env: environment(n, compose), Exact: true}
	for _, list := range []*yaml.Node{args, command} {
		if list != nil && len(list.Content) > 0 {
			e.Line = list.Content[0].Line
			break
		}
		if list != nil {
			e.Line = list.Line
		}
	}
	argv, ok := f.engineArgv(&e, list(command, compose), list(args, compose))
	if !ok {
		return
	}
	e.Argv = f.substitute(&e, argv, compose)
	f.facts.Engine = append(f.facts.Engine, e)
}

// list is the words of a command or args node. Compose splits text as a shell
// does; Kubernetes takes lists only.
func list(n *yaml.Node, compose bool) []string {
	switch {
	case n == nil:
		return nil
	case n.Kind == yaml.ScalarNode && n.Tag != "!!null":
		if compose {
			return words(n.Value)
		}
		return []string{n.Value}
	case n.Kind == yaml.SequenceNode:
		out := make([]string, len(n.Content))
		for i, child := range n.Content {
			out[i] = scalar(child)
		}
		return out
	}
	return nil
}

// engineArgv finds vLLM in a container's words and returns its arguments.
func (f *found) engineArgv(e *EngineCommand, command, args []string) ([]string, bool) {
	all := slices.Concat(command, args)
	if argv, ok := direct(e, all); ok {
		return argv, true
	}
	if script, ok := shellScript(all); ok {
		return f.fromScript(e, script)
	}
	if len(command) == 0 && (vllmImage(e.Image) || vllmFlags(e.Image, args)) {
		e.Entry, e.EntryAssumed = "vllm", true
		if len(args) > 0 && args[0] == "serve" { // the image's entry point is vllm alone
			return args, true
		}
		return append([]string{"serve"}, args...), true
	}
	return nil, false
}

// direct recognises `vllm serve …` and `python -m vllm.entrypoints.openai.api_server …`.
func direct(e *EngineCommand, all []string) ([]string, bool) {
	for len(all) > 0 && (all[0] == "exec" || path.Base(all[0]) == "env" || strings.Contains(all[0], "=") && !strings.HasPrefix(all[0], "-")) {
		all = all[1:]
	}
	if len(all) >= 2 && path.Base(all[0]) == "vllm" && all[1] == "serve" {
		e.Entry = "vllm"
		return all[1:], true
	}
	if len(all) >= 3 && strings.HasPrefix(path.Base(all[0]), "python") {
		if i := slices.Index(all, "-m"); i > 0 && i+1 < len(all) && all[i+1] == apiServer {
			e.Entry = "api_server"
			return all[i+2:], true
		}
	}
	return nil, false
}

// shellScript is the script of sh -c SCRIPT.
func shellScript(all []string) (string, bool) {
	if len(all) < 3 || !slices.Contains([]string{"sh", "bash", "dash", "ash"}, path.Base(all[0])) {
		return "", false
	}
	for i, word := range all[1 : len(all)-1] {
		if strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") && strings.HasSuffix(word, "c") {
			return all[i+2], true
		}
		if !strings.HasPrefix(word, "-") {
			break
		}
	}
	return "", false
}

// fromScript looks for the one simple command of a script that starts vLLM. What
// surrounds it is not interpreted, and that is said.
func (f *found) fromScript(e *EngineCommand, script string) ([]string, bool) {
	commands := splitScript(script)
	for _, c := range commands {
		argv, ok := direct(e, words(c))
		if !ok {
			continue
		}
		e.shell = true
		if len(commands) > 1 || strings.ContainsAny(c, "`<>") || strings.Contains(c, "$(") {
			e.Exact = false
			f.note(e.Line, KindShellCommand, "the engine is started by a shell script that drkit does not run, so its arguments are judged as they are written")
		}
		return argv, true
	}
	if strings.Contains(script, "vllm serve") || strings.Contains(script, apiServer) {
		f.note(e.Line, KindShellCommand, "a shell script seems to start the engine in a way that drkit cannot read; its options are not judged")
	}
	return nil, false
}

// splitScript cuts a script at ; & | and line ends outside of quotation marks.
func splitScript(script string) []string {
	var out []string
	start, quoted := 0, byte(0)
	cut := func(end int) {
		if strings.TrimSpace(script[start:end]) != "" {
			out = append(out, script[start:end])
		}
		start = end + 1
	}
	for i := 0; i < len(script); i++ {
		c := script[i]
		switch {
		case c == '\\' && quoted != '\'':
			i++
		case quoted != 0:
			if c == quoted {
				quoted = 0
			}
		case c == '"' || c == '\'':
			quoted = c
		case strings.IndexByte(";&|\n", c) >= 0:
			cut(i)
		}
	}
	if start < len(script) {
		cut(len(script))
	}
	return out
}

// vllmImage reports whether the image is one of vLLM's own, whose entry point is
// `vllm serve`.
func vllmImage(reference string) bool {
	image, err := parseImage(reference)
	return err == nil && strings.Contains(path.Base(image.Repository), "vllm-openai")
}

// vllmFlags recognises vLLM in an image of one's own by options that belong to
// it. SGLang shares some of them.
func vllmFlags(reference string, args []string) bool {
	if strings.Contains(reference, "sglang") {
		return false
	}
	return slices.ContainsFunc(args, func(word string) bool {
		name, _, _ := strings.Cut(word, "=")
		return slices.Contains([]string{"--served-model-name", "--max-model-len", "--gpu-memory-utilization", "--tensor-parallel-size",
			"--enable-lora", "--lora-modules", "--kv-cache-dtype", "--max-num-seqs"}, strings.ReplaceAll(name, "_", "-"))
	})
}

// environment is the container's variables with literal values.
func environment(n *yaml.Node, compose bool) map[string]string {
	env := map[string]string{}
	key := "env"
	if compose {
		key = "environment"
	}
	v := get(n, key)
	for i := 0; v != nil && v.Kind == yaml.MappingNode && i+1 < len(v.Content); i += 2 {
		if value := deref(v.Content[i+1]); value.Kind == yaml.ScalarNode {
			env[v.Content[i].Value] = scalar(value)
		}
	}
	for i := 0; v != nil && v.Kind == yaml.SequenceNode && i < len(v.Content); i++ {
		entry := deref(v.Content[i])
		if name, value, ok := strings.Cut(scalar(entry), "="); ok {
			env[name] = value
		} else if name, value := scalar(get(entry, "name")), get(entry, "value"); name != "" && value != nil {
			env[name] = scalar(value)
		}
	}
	return env
}

// substitute replaces $(NAME) as Kubernetes does, and $NAME where a shell or
// Compose does, from the container's literal variables.
func (f *found) substitute(e *EngineCommand, argv []string, compose bool) []string {
	out := make([]string, len(argv))
	missing := ""
	for i, word := range argv {
		replaced, unknown := kubernetesVariables(word, e.Env)
		if at := strings.IndexByte(replaced, '$'); at >= 0 && (compose || e.shell) {
			expanded, _, whole := expand(replaced, func(name string) (string, bool) { v, ok := e.Env[name]; return v, ok })
			if !whole {
				unknown, _, _, _ = variable(replaced[at:])
			}
			replaced = expanded
		}
		if strings.Contains(replaced, "{{") && strings.Contains(replaced, ".Values") {
			unknown = "a Helm value"
		}
		if out[i] = replaced; unknown != "" && missing == "" {
			missing = unknown
		}
	}
	if missing != "" {
		e.Exact = false
		f.note(e.Line, KindEngineEnv, fmt.Sprintf("an argument of the engine holds %s, whose value is not in the file", missing))
	}
	return out
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
