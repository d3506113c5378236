package rules

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"drkit/manifest"
	"drkit/manifest/model"
)

var codeRules = []Rule{
	{"C-4", manifest.Block, "code that a configuration names is missing",
		"With trust-remote-code, the Python files that auto_map names, and those that they import, are there.", missingCode},
	{"C-5", manifest.Block, "code of another repository is not in the release",
		"A repository that auto_map takes code from is listed under model.repositories in drkit.yaml, and its revision is pinned.", foreignCode},
	{"C-6", manifest.Block, "the engine does not know the model and may not run its code",
		"model_type is one that the engine knows, or trust-remote-code is set and the repository brings the code.", unknownModel},
}

// codeRef is a class that a configuration takes from Python code.
type codeRef struct {
	file, field string // where it is named
	repository  string // "": beside the configuration
	module      string // the Python file
}

// takesCode lists the classes that the engine would load from code.
func (v *view) takesCode() (out []codeRef) {
	r := v.base
	c := r.facts.Config
	if c == nil || !v.truth("trust_remote_code") {
		return nil
	}
	if !isKnown("own-model-types", c.ModelType) {
		out = append(out, refer("config.json", c.AutoMap, "AutoConfig")...)
	}
	if !v.hasArchitecture(c) {
		out = append(out, refer("config.json", c.AutoMap, "AutoModel*")...)
	}
	if !v.tokenizerElsewhere() {
		out = append(out, refer("tokenizer_config.json", r.facts.Tokenizer.AutoMap, "AutoTokenizer")...)
	}
	if (c.Vision || c.Audio) && len(r.facts.Processor.Files) > 0 {
		out = append(out, refer(r.facts.Processor.Files[0], r.facts.Processor.AutoMap, "Auto*")...)
	}
	return out
}

// hasArchitecture reports whether the engine brings code for the architecture,
// its own or that of transformers.
func (v *view) hasArchitecture(c *model.Config) bool {
	return slices.ContainsFunc(c.Architectures, func(a string) bool {
		return isKnown("architectures", a) || isKnown("transformers-architectures", a)
	})
}

// refer reads the entries of an auto_map whose class matches a path.Match pattern.
func refer(file string, classes map[string]string, pattern string) (out []codeRef) {
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		if ok, _ := path.Match(pattern, class); !ok {
			continue
		}
		ref := codeRef{file: file, field: "auto_map." + class}
		code := classes[class]
		if repository, rest, foreign := strings.Cut(code, "--"); foreign {
			ref.repository, code = repository, rest
		}
		module, _, _ := strings.Cut(code, ".")
		ref.module = module + ".py"
		out = append(out, ref)
	}
	return out
}

func missingCode(v *view) (out []manifest.Finding) {
	lost := map[string]bool{}
	for _, ref := range v.takesCode() {
		if ref.repository != "" {
			continue
		}
		read := map[string]bool{}
		file, by := v.base.missingImport(ref.module, "auto_map in "+ref.file, read)
		for _, module := range slices.Sorted(maps.Keys(read)) {
			if p, ok := v.base.problem(module, model.KindInvalidText); ok && !lost[module] {
				lost[module] = true
				out = append(out, notText(p))
			}
		}
		if file == "" || lost[file] {
			continue
		}
		lost[file] = true
		out = append(out, manifest.Finding{Path: v.base.path(file), Message: fmt.Sprintf("%s names %s, which is missing", by, file),
			Seen: "… does not appear to have a file named " + file, Hint: "copy the Python files from the model's origin"})
	}
	return out
}

// missingImport follows a Python file's imports beside it to the first file that
// is missing, and says which file names that one.
func (r *repo) missingImport(file, by string, seen map[string]bool) (missing, namedBy string) {
	if !r.present(file) {
		return file, by
	}
	seen[file] = true
	for _, code := range r.facts.Code {
		if code.Path != file {
			continue
		}
		for _, next := range code.Imports {
			if seen[next] {
				continue
			}
			if missing, namedBy = r.missingImport(next, file, seen); missing != "" {
				return missing, namedBy
			}
		}
	}
	return "", ""
}

func foreignCode(v *view) (out []manifest.Finding) {
	byRepository := map[string][]codeRef{}
	for _, ref := range v.takesCode() {
		if ref.repository != "" {
			byRepository[ref.repository] = append(byRepository[ref.repository], ref)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byRepository)) {
		out = append(out, v.foreign(name, byRepository[name])...)
	}
	return out
}

// foreign judges what is taken from one other repository.
func (v *view) foreign(name string, refs []codeRef) (out []manifest.Finding) {
	first := refs[0]
	var files []string
	for _, ref := range refs {
		files = append(files, ref.module)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	r := v.further(name)
	if r == nil {
		return []manifest.Finding{{Path: v.base.path(first.file), Field: "auto_map",
			Message: fmt.Sprintf("%s takes %s from the repository %s, which is no part of the release: without a network the engine does not boot", first.file, strings.Join(files, " and "), name),
			Seen:    "We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.",
			Hint:    "list " + name + " under model.repositories in drkit.yaml with a copy at the revision that is served, or copy the code beside config.json"}}
	}
	for _, file := range files {
		if lost, by := r.missingImport(file, "auto_map in "+first.file, map[string]bool{}); lost != "" {
			out = append(out, manifest.Finding{Path: r.path(lost), Message: fmt.Sprintf("%s names %s of %s, which is missing", by, lost, name),
				Seen: name + " does not appear to have a file named " + lost, Hint: "copy the repository again from its origin"})
		}
	}
	pinned := v.option("code_revision")
	if pinned == "" {
		out = append(out, manifest.Finding{Severity: manifest.Info, Path: v.base.path(first.file), Field: "auto_map",
			Message: fmt.Sprintf("code of %s is taken without --code-revision: where there is a network, whatever is newest there is run", name),
			Hint:    "pin it with --code-revision"})
	} else if rev := v.revision(name); rev != "" && rev != pinned {
		f := v.at("code_revision")
		f.Message = fmt.Sprintf("the engine asks for %s at revision %s, the release holds %s", name, pinned, rev)
		f.Seen, f.Hint = "LocalEntryNotFoundError", "copy that revision, or change --code-revision"
		out = append(out, f)
	}
	return out
}

// further is a further repository of the release by its name.
func (v *view) further(name string) *repo {
	for _, r := range v.others {
		if r.tree == "repos/"+name {
			return r
		}
	}
	return nil
}

func (v *view) revision(name string) string {
	for _, f := range v.m.Annotations.Further {
		if f.Name == name {
			return f.Revision
		}
	}
	return ""
}

func unknownModel(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		if f, ok := v.unknownType(r); ok {
			out = append(out, f)
		} else if f, ok := v.unknownArchitecture(r); ok {
			out = append(out, f)
		}
	}
	if f, ok := v.untrustedTokenizer(); ok {
		out = append(out, f)
	}
	return out
}

func (v *view) unknownType(r *repo) (f manifest.Finding, found bool) {
	c := r.facts.Config
	if c == nil || c.ModelType == "" || isKnown("model-types", c.ModelType) || v.overridden() || r.mistral {
		return f, false
	}
	f = manifest.Finding{Path: r.path("config.json"), Field: "model_type"}
	code := c.AutoMap["AutoConfig"]
	switch {
	case code != "" && v.truth("trust_remote_code") || code == "" && len(c.AutoMap) > 0 && !v.judgedVersion():
		return f, false
	case code != "":
		f.Message = fmt.Sprintf("the engine does not know model_type %s by itself, and the code that the repository brings is not run without --trust-remote-code", c.ModelType)
		f.Seen = "Failed to load the model config. If the model is a custom model not yet available in the HuggingFace transformers library, consider setting `trust_remote_code=True` in LLM or using the `--trust-remote-code` flag in the CLI."
		f.Hint = "give --trust-remote-code in every region"
	default:
		f.Message = fmt.Sprintf("the engine does not know model_type %s, and the repository brings no code for it", c.ModelType)
		f.Seen = fmt.Sprintf("The checkpoint you are trying to load has model type `%s` but Transformers does not recognize this architecture.", c.ModelType)
		f.Hint = "copy config.json again from the model's origin, or use an image whose transformers knows the type"
	}
	if !v.judgedVersion() {
		f.Severity = manifest.Degraded // another version may know it
		f.Message += " (judged by the names of vLLM 0.32.0)"
	}
	return f, true
}

// unknownArchitecture judges generating models only: of the others the engine
// derives an architecture that it has.
func (v *view) unknownArchitecture(r *repo) (f manifest.Finding, found bool) {
	c := r.facts.Config
	if c == nil || len(c.Architectures) == 0 || v.hasArchitecture(c) || v.overridden() || !v.judgedVersion() || r.mistral || r.draft {
		return f, false
	}
	name := c.Architectures[0]
	f = manifest.Finding{Path: r.path("config.json"), Field: "architectures"}
	brings := slices.ContainsFunc(slices.Collect(maps.Keys(c.AutoMap)), func(class string) bool { return strings.HasPrefix(class, "AutoModel") })
	switch {
	case isKnown("retired-architectures", name):
		f.Message = fmt.Sprintf("vLLM 0.32 no longer has the architecture %s", name)
		f.Seen = fmt.Sprintf("Model architecture %s was supported in vLLM until …, and is not supported anymore.", name)
		f.Hint = "use an image of the version that the source region runs"
	case isKnown("plugin-architectures", name):
		f.Message = fmt.Sprintf("vLLM 0.32 has the architecture %s only with a plugin", name)
		f.Seen = fmt.Sprintf("Model architecture %s is not supported in-tree anymore.", name)
		f.Hint = "serve with an image that has the plugin, and waive this rule"
	case brings || !strings.HasSuffix(name, "ForCausalLM") && !strings.HasSuffix(name, "ForConditionalGeneration"):
		return f, false
	default:
		f.Message = fmt.Sprintf("the engine does not have the architecture %s, and the repository brings no code for it", name)
		f.Seen = fmt.Sprintf("Model architectures ['%s'] are not supported for now.", name)
		f.Hint = "copy config.json again from the model's origin, or use an image whose engine has the architecture"
	}
	return f, true
}

// untrustedTokenizer finds a tokenizer whose class only the repository's code
// has, while that code may not be run.
func (v *view) untrustedTokenizer() (f manifest.Finding, found bool) {
	c, t := v.base.facts.Config, v.base.facts.Tokenizer
	if c == nil || len(t.AutoClass) == 0 || v.truth("trust_remote_code") || v.tokenizerElsewhere() || v.base.mistral {
		return f, false
	}
	if isKnown("tokenizer-model-types", c.ModelType) || isKnown("tokenizer-classes", t.Class) || isKnown("tokenizer-classes", strings.TrimSuffix(t.Class, "Fast")) {
		return f, false // its own class serves
	}
	f = manifest.Finding{Path: v.base.path("tokenizer_config.json"), Field: "auto_map.AutoTokenizer",
		Message: fmt.Sprintf("the tokenizer's class comes from code (%s), which is not run without --trust-remote-code", t.AutoClass[len(t.AutoClass)-1]),
		Seen:    "ValueError: The repository … contains custom code which must be executed to correctly load the model.",
		Hint:    "give --trust-remote-code, or copy tokenizer_config.json again from the model's origin"}
	if !v.judgedVersion() {
		f.Severity = manifest.Degraded
	}
	return f, true
}

// overridden reports whether the engine changes config.json's own words, so that
// they cannot be judged.
func (v *view) overridden() bool {
	_, ok := v.optionValue("hf_overrides")
	return ok || v.option("config_format") == "mistral" || v.option("hf_config_path") != ""
}
