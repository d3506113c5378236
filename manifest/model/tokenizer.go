package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Tokenizer says which tokenizer an engine would find. File decides it; it is
// empty when nothing in the repository makes one.
type Tokenizer struct {
	File      string   `json:"file,omitempty"`
	Files     []string `json:"files,omitempty"` // every tokenizer file
	Class     string   `json:"class,omitempty"` // tokenizer_config.tokenizer_class
	Model     string   `json:"model,omitempty"` // BPE, Unigram, WordPiece: the kind in tokenizer.json
	Entries   int      `json:"entries,omitempty"`
	MaxID     int      `json:"max_id,omitempty"` // greatest token id, 0 when not known
	EOS       string   `json:"eos_token,omitempty"`
	EOSID     *int     `json:"eos_token_id,omitempty"` // id of EOS in tokenizer.json
	AutoClass []string `json:"auto_class,omitempty"`   // auto_map.AutoTokenizer

	special map[string]int // added tokens by text, for the template reader
}

// deciders are the files that each make a tokenizer alone, in the order in which
// transformers tries them. vocab.json needs merges.txt beside it.
var deciders = []string{"tokenizer.json", "tokenizer.model", "spiece.model", "tiktoken.model", "tekken.json", "vocab.txt"}

// tokenizer reads the tokenizer files.
func (r *repository) tokenizer() {
	t := &r.facts.Tokenizer
	for _, p := range r.paths {
		if !strings.Contains(p, "/") && Role(p) == "tokenizer" {
			t.Files = append(t.Files, p)
		}
	}
	r.tokenizerConfig(t)
	r.tokenizerJSON(t)
	t.File = r.decider()
	if t.File == "vocab.json" {
		r.merges()
	}
}

func (r *repository) tokenizerConfig(t *Tokenizer) {
	o := r.object("tokenizer_config.json")
	t.Class, t.EOS = o.str("tokenizer_class"), tokenText(o["eos_token"])
	t.AutoClass = o.object("auto_map").pointers("AutoTokenizer")
}

// pointers reads a list of strings and nulls, or one string.
func (o object) pointers(key string) []string {
	var list []*string
	if !o.get(key, &list) {
		return o.strings(key)
	}
	var out []string
	for _, s := range list {
		if s != nil {
			out = append(out, *s)
		}
	}
	return out
}

// tokenText reads a token that stands as text or as an object with content.
func tokenText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var o struct{ Content string }
	json.Unmarshal(raw, &o)
	return o.Content
}

// decider is the file that makes the tokenizer.
func (r *repository) decider() string {
	for _, p := range deciders {
		if r.has(p) {
			return p
		}
	}
	for _, p := range append(r.inRoot("*.tiktoken"), r.inRoot("tokenizer.model.v*")...) {
		return p
	}
	if r.has("vocab.json") && r.has("merges.txt") {
		return "vocab.json"
	}
	return ""
}

// tokenizerJSON finds the greatest id and the added tokens.
func (r *repository) tokenizerJSON(t *Tokenizer) {
	o := r.object("tokenizer.json")
	if o == nil {
		return
	}
	model := o.object("model")
	if model == nil || model["vocab"] == nil {
		r.problem("tokenizer.json", KindInvalidJSON, 0, "it has no model with a vocabulary")
		return
	}
	t.Model = model.str("type")
	t.special = map[string]int{}
	t.addVocabulary(model)
	var added []struct {
		ID      int    `json:"id"`
		Content string `json:"content"`
	}
	o.get("added_tokens", &added)
	for _, a := range added {
		t.MaxID = max(t.MaxID, a.ID)
		t.special[a.Content] = a.ID
	}
	if id, ok := t.special[t.EOS]; ok && t.EOS != "" {
		t.EOSID = &id
	}
}

// addVocabulary reads a vocabulary: an object of ids, or for Unigram a list of
// pairs in the order of ids.
func (t *Tokenizer) addVocabulary(model object) {
	var ids map[string]int
	if model.get("vocab", &ids) {
		t.Entries = len(ids)
		for _, id := range ids {
			t.MaxID = max(t.MaxID, id)
		}
		return
	}
	var pairs []json.RawMessage
	model.get("vocab", &pairs)
	t.Entries = len(pairs)
	t.MaxID = max(t.MaxID, len(pairs)-1)
}

// merges checks merges.txt, which the engine reads when there is no
// tokenizer.json: each line joins two pieces.
func (r *repository) merges() {
	f := r.files["merges.txt"]
	if r.broken("merges.txt") || !f.whole() {
		return
	}
	for i, line := range bytes.Split(f.Content, []byte("\n")) {
		text := strings.TrimSuffix(string(line), "\r")
		if text == "" || strings.HasPrefix(text, "#version") {
			continue
		}
		if len(strings.Split(text, " ")) != 2 {
			r.problem("merges.txt", KindInvalidMerges, i+1, fmt.Sprintf("line %d is %q, not a pair of pieces", i+1, text))
			return
		}
	}
}
