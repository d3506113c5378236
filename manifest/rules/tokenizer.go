package rules

import (
	"cmp"
	"fmt"
	"maps"
	"path"
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
	{"T-3", manifest.Info, "the tokenizer's configuration is missing",
		"tokenizer_config.json is there, which names the tokenizer's class, its special tokens and its greatest length.", noTokenizerConfig},
	{"T-4", manifest.Info, "an older tokenizer file is missing",
		"added_tokens.json and special_tokens_map.json are there where only they name a token.", legacyTokens},
	{"T-7", manifest.Request, "files that the engine does not fetch from a bucket",
		"A model in a bucket with its tokenizer elsewhere needs no file that the engine leaves out when it fetches the model.", notFetched},
	{"T-12", manifest.Request, "the vocabulary that gpt-oss needs is not at hand",
		"A gpt-oss model finds o200k_base.tiktoken, unchanged, in a folder that TIKTOKEN_ENCODINGS_BASE or TIKTOKEN_RS_CACHE_DIR names.", noHarmony},
	{"T-15", manifest.Silent, "the tokenizer splits text otherwise than it was made to",
		"A BPE has merges, maps bytes on the way in and out, and lists its special tokens; vocab.txt has a line for each row of the embedding.", lameTokenizer},
	{"T-14", manifest.Request, "the tokenizer has ids beyond the vocabulary",
		"The greatest token id is below vocab_size.", idsBeyondVocabulary},
}

// tokenizerElsewhere reports whether the engine takes its tokenizer from another place
// or takes none.
func (v *view) tokenizerElsewhere() bool {
	mode := v.option("tokenizer_mode")
	return v.truth("skip_tokenizer_init") || v.tokenizerPath() != "" || mode == "mistral" || mode == "custom"
}

// tokenizerPath is what --tokenizer names, when that is not the model itself.
func (v *view) tokenizerPath() string {
	name := v.option("tokenizer")
	for _, e := range v.m.Annotations.Engine {
		if name != "" && e.Model != "" && path.Clean(name) == path.Clean(e.Model) {
			return ""
		}
	}
	return name
}

func noTokenizer(v *view) (out []manifest.Finding) {
	if name := v.tokenizerPath(); name != "" && !v.truth("skip_tokenizer_init") {
		return v.otherTokenizer(name)
	}
	if v.tokenizerElsewhere() && v.option("tokenizer_mode") != "mistral" || v.base.ggufTokenizer() {
		return nil
	}
	out = damagedTokenizer(v.base)
	if len(out) > 0 || v.base.tokenizerBroken() {
		return out
	}
	if lost := v.lostVocabulary(); lost != "" {
		return []manifest.Finding{{Path: v.base.path(lost), Message: fmt.Sprintf("the tokenizer's code reads %s, which is missing", lost),
			Seen: "Can't load tokenizer for '…'", Hint: "copy the file from the model's origin"}}
	}
	if v.wholeTokenizer() {
		return nil
	}
	return []manifest.Finding{v.tokenizerLost()}
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
	for _, name := range slices.Sorted(maps.Keys(r.problems)) {
		p, ok := r.problem(name, model.KindInvalidText)
		if template := path.Ext(name) == ".jinja"; ok && (template && !r.mistralTokenizer() || name == "vocab.txt") {
			out = append(out, notText(p))
		}
	}
	return out
}

// notText is the finding on a file that the engine reads as UTF-8 and that is none.
func notText(p manifest.Problem) manifest.Finding {
	return manifest.Finding{Path: p.Path, Line: p.Line, Message: fmt.Sprintf("%s cannot be read: %s", path.Base(p.Path), p.What),
		Seen: "UnicodeDecodeError: 'utf-8' codec can't decode byte", Hint: "copy the file again from the model's origin, or save it as UTF-8"}
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

func idsBeyondVocabulary(v *view) []manifest.Finding {
	facts := v.base.facts
	c := facts.Config
	if c == nil || c.Vocab == 0 {
		return nil
	}
	if out := v.base.vocabularyShape(); len(out) > 0 {
		return out // vocab_size itself is wrong
	}
	if t := facts.Tokenizer; slices.Contains([]string{"tokenizer.json", "vocab.json", "vocab.txt"}, t.File) && t.MaxID >= c.Vocab && !v.tokenizerElsewhere() {
		return []manifest.Finding{{Path: v.base.path(t.File), Field: t.MaxToken,
			Message: fmt.Sprintf("the greatest token id is %d, vocab_size in config.json is %d: a prompt with such a token ends the engine", t.MaxID, c.Vocab),
			Seen:    "IndexError: index out of range in self", Hint: "tokenizer and config.json belong to different releases of the model: copy both from one"}}
	}
	return nil
}

// legacyTokens notes the loss of files that newer writers no longer need.
func legacyTokens(v *view) (out []manifest.Finding) {
	t := v.base.facts.Tokenizer
	if t.File == "" || t.File == "tokenizer.json" || v.tokenizerElsewhere() || !v.base.present("tokenizer_config.json") || v.base.present("added_tokens.json") || v.base.present("special_tokens_map.json") {
		return nil
	}
	return []manifest.Finding{{Path: v.base.path("special_tokens_map.json"),
		Message: fmt.Sprintf("the tokenizer comes from %s, and neither added_tokens.json nor special_tokens_map.json is there: tokens that only they name are read as plain text", t.File)}}
}

// fetched are the endings of files that the engine fetches from a bucket when
// the tokenizer is given apart from the model.
var fetched = []string{".model", ".py", ".json"}

func notFetched(v *view) (out []manifest.Finding) {
	remote := slices.ContainsFunc(v.m.Annotations.Engine, func(e engineFacts) bool {
		scheme, _, ok := strings.Cut(e.Model, "://")
		return ok && (scheme == "s3" || scheme == "gs" || scheme == "az")
	})
	if !remote || v.tokenizerPath() == "" {
		return nil
	}
	for _, name := range v.base.names() {
		role := model.Role(name)
		if (role == "chat-template" || role == "tokenizer") && !slices.Contains(fetched, path.Ext(name)) {
			f := manifest.Finding{Path: v.base.path(name), Hint: "put it beside the tokenizer that --tokenizer names, or give --chat-template",
				Message: fmt.Sprintf("the model lies in a bucket and --tokenizer names another place: the engine does not fetch %s", name)}
			if role == "tokenizer" {
				f.Severity = manifest.Info // the other tokenizer is read
			} else if v.option("chat_template") != "" {
				continue
			}
			out = append(out, f)
		}
	}
	return out
}

// harmony is the SHA-256 of o200k_base.tiktoken as its publisher serves it.
const harmony = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

func noHarmony(v *view) []manifest.Finding {
	c := v.base.facts.Config
	if c == nil || c.ModelType != "gpt_oss" {
		return nil
	}
	for _, file := range v.m.Contents.Files {
		if path.Base(file.Path) == "o200k_base.tiktoken" && file.Sums["sha256"] != harmony {
			return []manifest.Finding{{Part: string(file.Part), Path: file.Path, Message: "o200k_base.tiktoken is not the published file: its sha256 is " + file.Sums["sha256"],
				Seen: "openai_harmony.HarmonyError: error downloading or loading vocab file", Hint: "copy it again from its origin"}}
		}
	}
	f := v.at("model")
	if folder := cmp.Or(v.env("TIKTOKEN_ENCODINGS_BASE"), v.env("TIKTOKEN_RS_CACHE_DIR")); folder != "" {
		if v.holdsHarmony() {
			return nil
		}
		f.Field, f.Severity = "env", manifest.Degraded
		f.Message = fmt.Sprintf("the engine looks for o200k_base.tiktoken in %s, and the release does not hold the file: the image or volume of the region has to", folder)
		f.Seen, f.Hint = "openai_harmony.HarmonyError: error downloading or loading vocab file", "put the file into the release, under model.repositories in drkit.yaml or beside the model"
		return []manifest.Finding{f}
	}
	f.Field, f.Severity = "env", manifest.Degraded
	f.Message = "a gpt-oss model downloads the vocabulary o200k_base.tiktoken when it is first asked, unless TIKTOKEN_ENCODINGS_BASE or TIKTOKEN_RS_CACHE_DIR names a folder that holds it"
	f.Seen = "openai_harmony.HarmonyError: error downloading or loading vocab file"
	f.Hint = "put the file into the release and name its folder in the engine's environment, in every region and for the router too"
	if v.offline() {
		f.Severity = manifest.Request
	}
	return []manifest.Finding{f}
}

func (v *view) holdsHarmony() bool {
	return slices.ContainsFunc(v.m.Contents.Files, func(f manifest.File) bool { return path.Base(f.Path) == "o200k_base.tiktoken" })
}

// noTokenizerConfig is info: what the file alone holds, such as a chat template,
// has a rule of its own.
func noTokenizerConfig(v *view) []manifest.Finding {
	t := v.base.facts.Tokenizer
	if t.File == "" || t.File == "tekken.json" || v.base.mistral || v.tokenizerElsewhere() || v.base.present("tokenizer_config.json") {
		return nil
	}
	return []manifest.Finding{{Path: v.base.path("tokenizer_config.json"),
		Message: "tokenizer_config.json is missing: the engine guesses the tokenizer's class, and takes special tokens from " + t.File + " alone"}}
}

// lameTokenizer finds tokenizers that load and give other tokens or other text.
func lameTokenizer(v *view) []manifest.Finding {
	t := v.base.facts.Tokenizer
	if v.tokenizerElsewhere() || v.base.tokenizerBroken() || v.base.mistral {
		return nil
	}
	f := manifest.Finding{Path: v.base.path(t.File), Hint: "copy the tokenizer files again from the model's origin"}
	switch c := v.base.facts.Config; {
	case t.Merges != nil && *t.Merges == 0 && t.Entries > 300:
		f.Field, f.Message = "merges", fmt.Sprintf("the BPE has %d tokens and no merges: every word is split into bytes", t.Entries)
		if t.File == "vocab.json" {
			f.Path = v.base.path("merges.txt")
		}
	case t.ByteLevel == "encode" && (c == nil || generative(c)): // an embedding model turns no tokens into text
		f.Field, f.Message = "decoder", "the tokenizer maps bytes to characters and has no decoder that maps them back: answers hold Ġ for a space"
	case t.ByteLevel == "decode":
		f.Field, f.Message = "pre_tokenizer", "the tokenizer's decoder maps characters to bytes, and no pre_tokenizer or normalizer maps bytes to them: prompts are split otherwise than in training"
	case len(t.Plain) > 0 && t.File == "tokenizer.json":
		f.Field, f.Message = "added_tokens", fmt.Sprintf("added_tokens is empty, and the vocabulary has tokens such as %s: in a prompt they are split like other text", t.Plain[0])
	case t.File == "vocab.txt" && c != nil && shortOf(t.Entries, c.Vocab):
		f.Message = fmt.Sprintf("vocab.txt has %d lines, vocab_size in config.json is %d: the file seems cut off, and its lost words are read as unknown", t.Entries, c.Vocab)
	default:
		return nil
	}
	return []manifest.Finding{f}
}

// shortOf reports whether a vocabulary is a tenth shorter than the embedding, and
// by more than rounding up to a multiple of 64 explains.
func shortOf(entries, size int) bool {
	return size > 0 && 10*entries < 9*size && (size%64 != 0 || size-entries >= 64)
}
