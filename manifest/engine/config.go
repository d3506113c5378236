package engine

import (
	"fmt"
	"slices"
	"strings"
)

// pullConfig puts the arguments of the configuration file in place. Only the
// form of two arguments counts: --config=FILE is never read.
func (p *parse) pullConfig(args []token) ([]token, *failure) {
	p.noteConfigEquals(args)
	var at []int
	for i, t := range args {
		if t.text == "--config" {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return args, nil
	}
	i := at[0]
	end := func(errorType, kind, text, what string) ([]token, *failure) {
		return nil, &failure{exit: 1, errorType: errorType, kind: kind, text: text, what: what, path: args[i].path, line: args[i].line}
	}
	if len(at) > 1 {
		return end("AssertionError", KindTwoConfigs, "More than one config file specified!", "--config is given more than once; the engine reads one file only")
	}
	if i == len(args)-1 {
		return end("ValueError", KindConfigMissing, "No config file specified! Please check your command-line arguments.", "--config is given without a file")
	}
	config, f := p.readConfig(args[i+1])
	if f != nil {
		return nil, f
	}
	return p.placeConfig(args, config, i)
}

func (p *parse) noteConfigEquals(args []token) {
	for _, t := range args {
		if file, ok := strings.CutPrefix(t.text, "--config="); ok {
			p.note(t, KindConfigEquals, fmt.Sprintf("--config=%s is never read: the engine only reads a file given as two arguments, --config %s", file, file))
		}
	}
}

func (p *parse) placeConfig(args, config []token, i int) ([]token, *failure) {
	before, after := args[:i], args[i+2:]
	if strings.HasPrefix(args[0].text, "-") {
		return slices.Concat(config, before, after), nil
	}
	keep := 1
	if p.serve() {
		inArgs := len(args) > 1 && !strings.HasPrefix(args[1].text, "-")
		at := slices.IndexFunc(config, func(t token) bool { return t.text == "--model" })
		if !inArgs && at < 0 && !p.unseen {
			return nil, &failure{exit: 1, errorType: "ValueError", kind: KindModelMissing, path: args[0].path, line: args[0].line,
				text: "No model specified! Please specify model either as a positional argument or in a config file.",
				what: "neither the command line nor the configuration file names a model; a model after --config FILE does not count"}
		}
		if inArgs {
			keep = 2
			if at >= 0 {
				p.note(config[at], KindModelTwice, "the command line names a model, too; it wins over the model of the file")
			}
		}
	}
	return slices.Concat(args[:keep], config, args[keep:i], after), nil
}

// readConfig flattens the file that t names.
func (p *parse) readConfig(t token) ([]token, *failure) {
	if suffix, bad := badSuffix(t.text); bad {
		f := p.suffixFailure(t.text, suffix)
		f.path, f.line = t.path, t.line
		return nil, f
	}
	data, ok := p.cmd.Files[t.text]
	if !ok && p.cmd.AllFiles {
		return nil, &failure{exit: 1, errorType: "FileNotFoundError", kind: KindConfigMissing, path: t.path, line: t.line,
			text: fmt.Sprintf("[Errno 2] No such file or directory: %s", quote(t.text)),
			what: fmt.Sprintf("the configuration file %s is not there", t.text)}
	}
	if !ok {
		p.noteUnseen(t)
		return nil, nil
	}
	var negated func(string) bool
	if !p.serve() && p.t.since("0.28.0") {
		negated = func(flag string) bool { return p.t.byFlag[flag] != nil }
	}
	config, problems, f := p.t.flatten(data, t.text, negated)
	p.problems = append(p.problems, problems...)
	for _, c := range config {
		if c.text == "--config" && c.key == "config" {
			p.note(c, KindConfigNested, "a configuration file named inside a configuration file is never read")
		}
	}
	return config, f
}

func (p *parse) noteUnseen(t token) {
	p.judged, p.unseen = false, true
	p.note(t, KindConfigMissing, fmt.Sprintf("the configuration file %s was not among the files, so the options in it are not judged; list it under engine.configs", t.text))
}

// badSuffix is what follows the last point of a name that is neither .yaml nor .yml.
func badSuffix(name string) (string, bool) {
	parts := strings.Split(name, ".")
	suffix := parts[len(parts)-1]
	return suffix, suffix != "yaml" && suffix != "yml"
}

func (p *parse) suffixFailure(name, suffix string) *failure {
	f := &failure{exit: 1, errorType: "ValueError", kind: KindBadSuffix,
		text: fmt.Sprintf("Config file must be of a yaml/yml type. %s supplied", suffix),
		what: fmt.Sprintf("the name of the configuration file %q must end in .yaml or .yml, in small letters", name)}
	if !p.t.since("0.11.2") { // the words are not put together
		f.text = fmt.Sprintf("('Config file must be of a yaml/yml type. %%s supplied', %s)", quote(suffix))
	}
	return f
}
