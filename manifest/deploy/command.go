package deploy

import (
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// The Python modules that serve a model, and their entry points.
var modules = map[string]string{
	"vllm.entrypoints.openai.api_server": entryAPIServer,
	"sglang.launch_server":               entryLaunch,
}

// engine adds the command line of a container that starts an engine. A container
// is any mapping with command or args, whatever kind of object it stands in.
func (f *found) engine(n *yaml.Node, compose bool) {
	command, args := get(n, "command"), get(n, "args")
	if compose {
		command, args = get(n, "entrypoint"), get(n, "command")
	}
	e := f.container(n, compose)
	if command == nil && args == nil {
		f.additional(e)
		return
	}
	for _, list := range []*yaml.Node{args, command} {
		if list != nil && len(list.Content) > 0 {
			e.Line = list.Content[0].Line
			break
		}
		if list != nil {
			e.Line = list.Line
		}
	}
	argv, ok := f.engineArgv(e, list(command, compose), list(args, compose))
	if !ok {
		return
	}
	f.add(e, argv, compose)
}

// container is what a container says beside its arguments.
func (f *found) container(n *yaml.Node, compose bool) *EngineCommand {
	env, lines := environment(n, compose)
	image := scalar(get(n, "image"))
	return &EngineCommand{Path: f.facts.Path, Line: n.Line, Container: scalar(get(n, "name")), Image: image, Version: imageVersion(image),
		Env: env, Exact: true, envLines: lines}
}

// imageVersion is the engine's version that the tag of an engine's image names.
func imageVersion(reference string) string {
	image, err := parseImage(reference)
	base := path.Base(image.Repository)
	if err != nil || !slices.Contains([]string{"vllm", "vllm-openai", "sglang"}, base) || strings.Contains(image.Repository, "lmcache") {
		return "" // other images are numbered by themselves
	}
	return versionOf(image.Tag)
}

// add finishes an engine's command: variables get their values.
func (f *found) add(e *EngineCommand, argv []argument, compose bool) {
	argv = f.substitute(e, argv, compose)
	e.Argv, e.Places = textsOf(argv), make([]Place, len(argv))
	for i, a := range argv {
		e.Places[i] = a.at
	}
	f.facts.Engine = append(f.facts.Engine, *e)
}

// list is the words of a command or args node. Compose splits text as a shell
// does; Kubernetes takes lists only.
func list(n *yaml.Node, compose bool) []argument {
	switch {
	case n == nil:
		return nil
	case n.Kind == yaml.ScalarNode && n.Tag != "!!null":
		if compose {
			return wordsAt(n.Value, firstLine(n))
		}
		return typed(firstLine(n), n.Value)
	case n.Kind == yaml.SequenceNode:
		out := make([]argument, len(n.Content))
		for i, child := range n.Content {
			out[i] = argument{text: scalar(child), at: Place{Line: firstLine(child)}}
		}
		return out
	}
	return nil
}

// firstLine is the line on which a scalar's text begins: block text begins
// beneath its mark.
func firstLine(n *yaml.Node) int {
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return n.Line + 1
	}
	return n.Line
}

// engineArgv finds an engine in a container's words and returns its arguments.
func (f *found) engineArgv(e *EngineCommand, command, args []argument) ([]argument, bool) {
	all := slices.Concat(command, args)
	if argv, ok := direct(e, all); ok {
		return argv, true
	}
	if script, ok := shellScript(all); ok {
		return f.fromScript(e, script)
	}
	if len(command) == 0 && f.kserve && (e.Container == "main" || vllmFlags(e.Image, textsOf(args))) {
		e.Entry, e.EntryAssumed, e.Exact = entryVLLM, true, false
		f.note(e.Line, KindEngineRuntime, "a template that is not in the file starts the engine with these arguments behind the model, so they are judged alone")
		return append(typed(e.Line, "serve", "/mnt/models"), args...), true
	}
	if len(command) == 0 && (vllmImage(e.Image) || vllmFlags(e.Image, textsOf(args))) {
		e.Entry, e.EntryAssumed = entryVLLM, true
		if len(args) > 0 && args[0].text == "serve" { // the image's entry point is vllm alone
			return args, true
		}
		return append(typed(e.Line, "serve"), args...), true
	}
	return nil, false
}

// direct recognises the programs that serve a model: `vllm serve …`,
// `sglang serve …`, and the Python modules.
func direct(e *EngineCommand, all []argument) ([]argument, bool) {
	for len(all) > 0 && wrapper(all[0].text) {
		all = all[1:]
	}
	texts := textsOf(all)
	if len(texts) >= 2 && texts[1] == "serve" && (path.Base(texts[0]) == "vllm" || path.Base(texts[0]) == "sglang") {
		e.Entry = path.Base(texts[0])
		return all[1:], true
	}
	if len(texts) >= 3 && strings.HasPrefix(path.Base(texts[0]), "python") {
		i := slices.Index(texts, "-m")
		if i > 0 && i+1 < len(texts) && modules[texts[i+1]] != "" {
			e.Entry = modules[texts[i+1]]
			return all[i+2:], true
		}
	}
	return nil, false
}

// wrapper reports whether a word stands before the program that it starts: exec,
// env, and NAME=value.
func wrapper(word string) bool {
	return word == "exec" || path.Base(word) == "env" || strings.Contains(word, "=") && !strings.HasPrefix(word, "-")
}

// CommandLine recognises a command line that a person typed: what starts an
// engine, and its arguments. Version is not known then.
func CommandLine(argv []string) (EngineCommand, bool) {
	e := EngineCommand{Exact: true, Env: map[string]string{}}
	for _, word := range argv {
		if !wrapper(word) {
			break
		}
		if name, value, ok := strings.Cut(word, "="); ok {
			e.Env[name] = value
		}
	}
	args, ok := direct(&e, typed(0, argv...))
	e.Argv = textsOf(args)
	return e, ok
}

// shellScript is the script of sh -c SCRIPT.
func shellScript(all []argument) (argument, bool) {
	if len(all) < 3 || !slices.Contains([]string{"sh", "bash", "dash", "ash"}, path.Base(all[0].text)) {
		return argument{}, false
	}
	for i, word := range all[1 : len(all)-1] {
		if strings.HasPrefix(word.text, "-") && !strings.HasPrefix(word.text, "--") && strings.HasSuffix(word.text, "c") {
			return all[i+2], true
		}
		if !strings.HasPrefix(word.text, "-") {
			break
		}
	}
	return argument{}, false
}

// fromScript looks for the one simple command of a script that starts an engine.
// What surrounds it is not interpreted, and that is said.
func (f *found) fromScript(e *EngineCommand, script argument) ([]argument, bool) {
	commands := splitScript(script)
	for _, c := range commands {
		argv, ok := direct(e, evaluated(wordsAt(c.text, c.at.Line)))
		if !ok {
			continue
		}
		e.shell = true
		if len(commands) > 1 || strings.ContainsAny(c.text, "`<>") || strings.Contains(c.text, "$(") {
			e.Exact = false
			f.note(e.Line, KindShellCommand, "the engine is started by a shell script that drkit does not run, so its arguments are judged as they are written")
		}
		return argv, true
	}
	for _, sign := range []string{"vllm serve", "sglang serve", "vllm.entrypoints.openai.api_server", "sglang.launch_server"} {
		if strings.Contains(script.text, sign) {
			f.note(e.Line, KindShellCommand, "a shell script seems to start the engine in a way that drkit cannot read; its options are not judged")
			break
		}
	}
	return nil, false
}

// evaluated splits what eval is given once more, as a shell does.
func evaluated(args []argument) []argument {
	if len(args) < 2 || args[0].text != "eval" {
		return args
	}
	return wordsAt(strings.Join(textsOf(args[1:]), " "), args[1].at.Line)
}

// splitScript cuts a script at ; & | and line ends outside of quotation marks.
func splitScript(script argument) []argument {
	var out []argument
	text, start, quoted, line, began := script.text, 0, byte(0), script.at.Line, script.at.Line
	cut := func(end int) {
		if strings.TrimSpace(text[start:end]) != "" {
			out = append(out, argument{text: text[start:end], at: Place{Line: began}})
		}
		start = end + 1
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && quoted != '\'':
			if i++; i < len(text) && text[i] == '\n' {
				line++
			}
		case quoted != 0:
			if c == quoted {
				quoted = 0
			}
		case c == '"' || c == '\'':
			quoted = c
		case strings.IndexByte(";&|\n", c) >= 0:
			cut(i)
			began = line
			if c == '\n' {
				began++
			}
		}
		if c == '\n' {
			line++
		}
	}
	if start < len(text) {
		cut(len(text))
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
