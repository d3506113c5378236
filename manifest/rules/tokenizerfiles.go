package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"drkit/manifest"
	"drkit/manifest/model"
)

// wholeTokenizer reports whether some set of files makes the tokenizer.
func (v *view) wholeTokenizer() bool {
	r := v.base
	t := r.facts.Tokenizer
	if v.option("tokenizer_mode") == "mistral" {
		return r.present("tekken.json") || slices.ContainsFunc(t.Files, func(f string) bool { return strings.HasPrefix(f, "tokenizer.model") })
	}
	if r.mistral {
		return t.Tekken || r.present("tekken.json") || slices.ContainsFunc(t.Files, func(f string) bool { return strings.HasPrefix(f, "tokenizer.model") }) || t.File != "" && t.File != "tekken.json"
	}
	if len(t.AutoClass) > 0 || r.vocabularyHalf() != "" || r.present("tokenizer.json") {
		return true
	}
	if sets := classFiles(t.Class); sets != nil {
		return slices.ContainsFunc(sets, func(set []string) bool {
			return !slices.ContainsFunc(set, func(file string) bool { return !r.present(file) })
		})
	}
	return t.File != ""
}

// sentencePiece are the names under which a SentencePiece model stands.
var sentencePiece = [][]string{{"tokenizer.model"}, {"spiece.model"}, {"sentencepiece.bpe.model"}, {"spm.model"}}

// classFiles lists, for a tokenizer class whose files are known, the sets of
// files of which one must be there beside no tokenizer.json; nil for others.
func classFiles(class string) [][]string {
	switch strings.TrimSuffix(class, "Fast") {
	case "GPT2Tokenizer", "Qwen2Tokenizer", "RobertaTokenizer", "BartTokenizer", "LongformerTokenizer", "CodeGenTokenizer", "BlenderbotTokenizer",
		"DebertaTokenizer", "LEDTokenizer", "OpenAIGPTTokenizer", "CLIPTokenizer":
		return [][]string{{"vocab.json", "merges.txt"}}
	case "WhisperTokenizer":
		return [][]string{{"vocab.json", "merges.txt"}}
	case "BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MPNetTokenizer", "MobileBertTokenizer":
		return [][]string{{"vocab.txt"}}
	case "LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "T5Tokenizer", "AlbertTokenizer", "XLMRobertaTokenizer", "XLNetTokenizer",
		"CamembertTokenizer", "BigBirdTokenizer", "PegasusTokenizer", "MBartTokenizer", "DebertaV2Tokenizer", "RemBertTokenizer":
		return append([][]string{{"vocab.json", "merges.txt"}, {"tekken.json"}, {"tiktoken.model"}}, sentencePiece...)
	}
	return nil
}

// tokenizerLost names the file that the repository's class would read.
func (v *view) tokenizerLost() manifest.Finding {
	r := v.base
	name := "tokenizer.json"
	if r.mistral || v.option("tokenizer_mode") == "mistral" {
		name = "tekken.json"
	} else if sets := classFiles(r.facts.Tokenizer.Class); len(sets) == 1 && !r.present("vocab.json") && !r.present("merges.txt") {
		name = sets[0][0]
	}
	if name == "vocab.json" || len(r.facts.Tokenizer.Named) > 0 {
		name = "tokenizer.json"
	}
	f := manifest.Finding{Path: r.path(name),
		Message: "no file makes the tokenizer: neither tokenizer.json, tokenizer.model, spiece.model, tiktoken.model, tekken.json, vocab.txt nor vocab.json with merges.txt",
		Seen:    "Couldn't instantiate the backend tokenizer from one of: …",
		Hint:    "copy the tokenizer files from the model's origin"}
	if class := r.facts.Tokenizer.Class; classFiles(class) != nil && r.facts.Tokenizer.File != "" {
		f.Message = fmt.Sprintf("the tokenizer is a %s, and the files that it reads are missing (%s is of another kind)", class, r.facts.Tokenizer.File)
	}
	if name == "tekken.json" {
		f.Message, f.Seen = "the engine takes Mistral's tokenizer for this repository, and neither tekken.json nor tokenizer.model.v* is there", "No tokenizer file found."
	}
	if c := r.facts.Config; c != nil && !generative(c) {
		f.Severity = manifest.Silent
		f.Seen = "" // an embedding model was seen to boot and give wrong vectors
	}
	return f
}

// lostVocabulary is a vocabulary file that the repository's own tokenizer code
// names and that is not there.
func (v *view) lostVocabulary() string {
	r := v.base
	if len(r.facts.Tokenizer.AutoClass) == 0 || !v.truth("trust_remote_code") {
		return ""
	}
	class := r.facts.Tokenizer.AutoClass[len(r.facts.Tokenizer.AutoClass)-1]
	module, _, _ := strings.Cut(class, ".")
	for _, code := range r.facts.Code {
		if code.Path != module+".py" {
			continue
		}
		for _, file := range code.Vocabulary {
			if !r.present(file) {
				return file
			}
		}
	}
	return ""
}

// ggufTokenizer reports whether a GGUF file holds the tokenizer itself.
func (r *repo) ggufTokenizer() bool {
	if !r.ggufOnly() {
		return false
	}
	ggufs := r.facts.Weights.GGUF
	return len(ggufs) == 0 || slices.ContainsFunc(ggufs, func(g model.GGUF) bool { return g.Tokenizer })
}

// otherTokenizer judges a tokenizer that --tokenizer takes from another folder:
// it has to be one of the release's repositories.
func (v *view) otherTokenizer(name string) []manifest.Finding {
	f := v.at("tokenizer")
	f.Seen = "Repo id must be in the form 'repo_name' or 'namespace/repo_name'"
	f.Hint = "list the folder under model.repositories in drkit.yaml, so that the region has it"
	for _, r := range v.others {
		id := strings.TrimPrefix(r.tree, "repos/")
		if path.Clean(name) != id && !strings.HasSuffix(path.Clean(name), "/"+id) && path.Base(path.Clean(name)) != path.Base(id) {
			continue
		}
		if r.facts.Tokenizer.File != "" || len(r.facts.Tokenizer.AutoClass) > 0 {
			return nil
		}
		f.Part, f.Path, f.Line = string(manifest.Model), r.path("tokenizer.json"), 0
		f.Message = fmt.Sprintf("the engine takes its tokenizer from %s, which holds none", name)
		return []manifest.Finding{f}
	}
	if v.inReleaseFolder(name) {
		return nil
	}
	f.Message = fmt.Sprintf("the engine takes its tokenizer from %s, which is no part of the release", name)
	return []manifest.Finding{f}
}

// inReleaseFolder reports whether a path is a folder below the model's own.
func (v *view) inReleaseFolder(name string) bool {
	for _, e := range v.m.Annotations.Engine {
		if inner, ok := strings.CutPrefix(path.Clean(name), path.Clean(e.Model)+"/"); ok && e.Model != "" {
			return v.base.holdsFolder(inner)
		}
	}
	return false
}
