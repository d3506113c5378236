package rules

import (
	"fmt"
	"slices"
	"strings"

	"drkit/manifest"
	"drkit/manifest/model"
)

var tokenizerRules = []Rule{
	{"T-1", manifest.Block, "the tokenizer is missing or damaged",
		"The repository holds a whole tokenizer.", noTokenizer},
	{"T-2", manifest.Block, "half of a BPE vocabulary is missing",
		"Without tokenizer.json, vocab.json and merges.txt stand together.", halfVocabulary},
	{"T-6", manifest.Request, "there is no chat template",
		"A model that answers chat requests has a chat template that the engine finds and can render.", noTemplate},
	{"T-9", manifest.Request, "no chat template is named default",
		"A list of named chat templates has one named default.", noDefaultTemplate},
	{"T-14", manifest.Request, "the tokenizer has ids beyond the vocabulary",
		"The greatest token id is below vocab_size.", idsBeyondVocabulary},
}

// tokenizerElsewhere reports whether the engine takes its tokenizer from another place
// or takes none.
func (v *view) tokenizerElsewhere() bool {
	mode := v.option("tokenizer_mode")
	return v.truth("skip_tokenizer_init") || v.option("tokenizer") != "" || mode == "mistral" || mode == "custom"
}

func noTokenizer(v *view) (out []manifest.Finding) {
	if v.tokenizerElsewhere() || v.base.ggufOnly() {
		return nil
	}
	out = damagedTokenizer(v.base)
	t := v.base.facts.Tokenizer
	if len(out) > 0 || t.File != "" || len(t.AutoClass) > 0 || v.base.vocabularyHalf() != "" || v.base.tokenizerBroken() {
		return out
	}
	f := manifest.Finding{Path: v.base.path("tokenizer.json"),
		Message: "no file makes a tokenizer: neither tokenizer.json, tokenizer.model, spiece.model, tiktoken.model, tekken.json, vocab.txt nor vocab.json with merges.txt",
		Seen:    "Couldn't instantiate the backend tokenizer from one of: …",
		Hint:    "copy the tokenizer files from the model's origin"}
	if c := v.base.facts.Config; c != nil && !generative(c) {
		f.Severity = manifest.Silent
		f.Seen = "" // an embedding model was seen to boot and give wrong vectors
	}
	return []manifest.Finding{f}
}

// tokenizerJSON are the JSON files that make a tokenizer.
var tokenizerJSON = []string{"tokenizer.json", "tokenizer_config.json", "tekken.json", "added_tokens.json", "special_tokens_map.json", "vocab.json"}

// damagedTokenizer finds tokenizer files that are there and cannot be read.
func damagedTokenizer(r *repo) (out []manifest.Finding) {
	for _, name := range tokenizerJSON {
		if p, ok := r.problem(name, model.KindInvalidJSON); ok {
			out = append(out, manifest.Finding{Path: p.Path, Line: p.Line, Message: fmt.Sprintf("%s cannot be read: %s", name, p.What),
				Seen: "json.decoder.JSONDecodeError", Hint: "copy the file again from the model's origin"})
		}
	}
	return out
}

// tokenizerBroken reports whether a file that would make the tokenizer is there
// and broken: that has a finding of its own.
func (r *repo) tokenizerBroken() bool {
	return slices.ContainsFunc(r.names(), func(n string) bool {
		return model.Role(n) == "tokenizer" && n != "tokenizer_config.json" && r.broken(n)
	})
}

// vocabularyHalf names the half of vocab.json and merges.txt that is missing
// while the other one has to make the tokenizer.
func (r *repo) vocabularyHalf() string {
	if r.facts.Tokenizer.File != "" || r.present("tokenizer.json") {
		return ""
	}
	vocab, merges := r.present("vocab.json"), r.present("merges.txt")
	switch {
	case vocab && !merges:
		return "merges.txt"
	case merges && !vocab:
		return "vocab.json"
	}
	return ""
}

func halfVocabulary(v *view) (out []manifest.Finding) {
	if v.tokenizerElsewhere() {
		return nil
	}
	if lost := v.base.vocabularyHalf(); lost != "" {
		return []manifest.Finding{{Path: v.base.path(lost), Message: fmt.Sprintf("there is no tokenizer.json, and %s is missing", lost),
			Seen: "`vocab` and `merges` must be both be from memory or both filenames",
			Hint: "copy tokenizer.json, or both vocab.json and merges.txt, from the model's origin"}}
	}
	if p, ok := v.base.problem("merges.txt", model.KindInvalidMerges); ok {
		out = append(out, manifest.Finding{Path: p.Path, Line: p.Line, Message: "merges.txt cannot be read: " + p.What,
			Seen: fmt.Sprintf("Error while initializing BPE: Merges text file invalid at line %d", p.Line),
			Hint: "copy the file again from the model's origin: it seems cut off"})
	}
	return out
}

// ownTemplate are model types for which vLLM brings a template of its own.
var ownTemplate = []string{"blip-2", "chameleon", "clip", "colpali", "deepseek_ocr", "deepseek_vl_v2", "minicpmv", "paligemma", "siglip"}

// templateElsewhere reports whether the engine needs no template of the
// repository's.
func (v *view) templateElsewhere() bool {
	c := v.base.facts.Config
	if c == nil || !generative(c) || v.option("chat_template") != "" || v.base.facts.Tokenizer.File == "tekken.json" {
		return true
	}
	mode := v.option("tokenizer_mode")
	return mode != "" && mode != "auto" && mode != "hf" && mode != "slow" ||
		slices.ContainsFunc(ownTemplate, func(t string) bool { return strings.HasPrefix(c.ModelType, t) })
}

func noTemplate(v *view) []manifest.Finding {
	t := v.base.facts.Template
	if v.templateElsewhere() || v.base.broken("tokenizer_config.json") || v.base.broken("chat_template.jinja") {
		return nil
	}
	if t.Source == "" && len(t.Names) == 0 {
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
		return []manifest.Finding{f}
	}
	for _, name := range t.Filters {
		if !slices.Contains(knownFilters, name) {
			return []manifest.Finding{{Path: v.base.path(t.Source), Message: fmt.Sprintf("the chat template applies the filter %q, which the engine's Jinja does not have: chat requests fail", name),
				Seen: fmt.Sprintf("No filter named '%s'.", name), Hint: "copy the template again from the model's origin"}}
		}
	}
	return nil
}

// knownFilters are Jinja's own filters (version 3.1), which is what the engine
// renders with.
var knownFilters = strings.Fields(`abs attr batch capitalize center count d default dictsort e escape filesizeformat first
	float forceescape format groupby indent int items join last length list lower map max min pprint random reject
	rejectattr replace reverse round safe select selectattr slice sort string striptags sum title tojson trim truncate
	unique upper urlencode urlize wordcount wordwrap xmlattr`)

func noDefaultTemplate(v *view) []manifest.Finding {
	t := v.base.facts.Template
	if v.templateElsewhere() || len(t.Names) == 0 || t.Default {
		return nil
	}
	return []manifest.Finding{{Path: v.base.path(t.Where()), Message: fmt.Sprintf("the chat templates are named %s, none default: chat requests without a name fail", strings.Join(t.Names, ", ")),
		Hint: "restore the template named default, or chat_template.jinja"}}
}

func idsBeyondVocabulary(v *view) []manifest.Finding {
	facts := v.base.facts
	c := facts.Config
	if c == nil || c.Vocab == 0 {
		return nil
	}
	if out := v.base.vocabularyShape(); len(out) > 0 {
		return out // vocab_size itself is wrong
	}
	if t := facts.Tokenizer; t.File == "tokenizer.json" && t.MaxID >= c.Vocab && !v.tokenizerElsewhere() {
		return []manifest.Finding{{Path: v.base.path("tokenizer.json"),
			Message: fmt.Sprintf("the greatest token id is %d, vocab_size in config.json is %d: a prompt with such a token ends the engine", t.MaxID, c.Vocab),
			Seen:    "IndexError: index out of range in self", Hint: "tokenizer and config.json belong to different releases of the model: copy both from one"}}
	}
	return nil
}
