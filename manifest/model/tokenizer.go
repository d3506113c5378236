package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Tokenizer says which tokenizer an engine would find. File decides it; it is
// empty when nothing in the repository makes one.
type Tokenizer struct {
	File      string            `json:"file,omitempty"`
	Files     []string          `json:"files,omitempty"` // every tokenizer file
	Class     string            `json:"class,omitempty"` // tokenizer_config.tokenizer_class
	Model     string            `json:"model,omitempty"` // BPE, Unigram, WordPiece: the kind in tokenizer.json
	Entries   int               `json:"entries,omitempty"`
	MaxID     int               `json:"max_id,omitempty"` // greatest token id, 0 when not known
	MaxToken  string            `json:"max_token,omitempty"`
	BOS       string            `json:"bos_token,omitempty"`
	EOS       string            `json:"eos_token,omitempty"`
	EOSID     *int              `json:"eos_token_id,omitempty"` // id of EOS in tokenizer.json
	AutoClass []string          `json:"auto_class,omitempty"`   // auto_map.AutoTokenizer: slow, fast
	AutoMap   map[string]string `json:"auto_map,omitempty"`
	Named     []string          `json:"named,omitempty"` // fast_tokenizer_files: versions of tokenizer.json by transformers version
	MaxLen    float64           `json:"model_max_length,omitempty"`
	Tekken    bool              `json:"tekken,omitempty"`     // tekken.json has the members that Mistral's tokenizer reads
	Merges    *int              `json:"merges,omitempty"`     // of a BPE: how many pairs it joins; nil is not known
	ByteLevel string            `json:"byte_level,omitempty"` // of tokenizer.json: encode or decode where only one of both maps bytes to characters
	Plain     []string          `json:"plain,omitempty"`      // tokens of the vocabulary that look special and are not listed as such

	special map[string]int // added tokens by text, for the template reader
}

// deciders are the files that each make a tokenizer alone, in the order in which
// transformers tries them. vocab.json needs merges.txt beside it.
var deciders = []string{"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model", "source.spm",
	"tiktoken.model", "tekken.json", "vocab.txt"}

// tokenizer reads the tokenizer files.
func (r *repository) tokenizer() {
	t := &r.facts.Tokenizer
	for _, p := range r.paths {
		if !strings.Contains(p, "/") && Role(p) == "tokenizer" {
			t.Files = append(t.Files, p)
		}
	}
	t.special = map[string]int{}
	r.tokenizerConfig(t)
	t.File = r.decider()
	r.tokenizerJSON(t)
	if r.has("special_tokens_map.json") {
		r.object("special_tokens_map.json") // transformers reads it, whatever else there is
	}
	r.addedLater(t)
	t.Tekken = r.tekken()
	switch t.File {
	case "vocab.json":
		r.vocabularyJSON(t)
		r.merges()
	case "vocab.txt":
		r.vocabularyText(t)
	}
	if id, ok := t.special[t.EOS]; ok && t.EOS != "" {
		t.EOSID = &id
	}
}

func (r *repository) tokenizerConfig(t *Tokenizer) {
	o := r.object("tokenizer_config.json")
	if raw := o["chat_template"]; !allows("sndDe", raw) && kindOf(raw) != 0 {
		r.problem("tokenizer_config.json", KindInvalidJSON, 0, fmt.Sprintf("chat_template is %s, and no text", excerpt(raw)))
	}
	t.Class, t.BOS, t.EOS = o.str("tokenizer_class"), tokenText(o["bos_token"]), tokenText(o["eos_token"])
	o.get("model_max_length", &t.MaxLen)
	t.Named = o.strings("fast_tokenizer_files")
	t.AutoMap = autoMap(o)
	if t.AutoClass = o.object("auto_map").pointers("AutoTokenizer"); t.AutoClass == nil {
		t.AutoClass = o.pointers("auto_map") // the older form: the list itself
	}
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
	for _, p := range slices.Concat(r.inRoot("*.tiktoken"), r.inRoot("tokenizer.model.v*"), r.inRoot("tokenizer.*.json")) {
		return p
	}
	if r.has("vocab.json") && r.has("merges.txt") {
		return "vocab.json"
	}
	return ""
}

// saw notes a token's id.
func (t *Tokenizer) saw(id int, token string) {
	if id > t.MaxID {
		t.MaxID, t.MaxToken = id, token
	}
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
	if what := o.unreadable(model); what != "" {
		r.problem("tokenizer.json", KindInvalidJSON, 0, what)
		return
	}
	t.addVocabulary(model)
	t.bytePair(o, model)
	t.plain(o, model, r.namedTokens())
	for _, a := range o.addedTokens() {
		t.saw(a.ID, a.Content)
		t.special[a.Content] = a.ID
	}
}

// tokenizerModels are the kinds of models that tokenizer.json may hold.
var tokenizerModels = []string{"", "BPE", "Unigram", "WordPiece", "WordLevel"}

// unreadable says what of tokenizer.json the library refuses, "" when it takes it.
func (o object) unreadable(model object) string {
	version := o.str("version")
	switch {
	case !slices.Contains(tokenizerModels, model.str("type")):
		return fmt.Sprintf("its model is of the type %.20q, which the tokenizers library does not have", model.str("type"))
	case model.str("type") == "BPE" && (model["merges"] == nil || kindOf(model["merges"]) != 'L'):
		return "its BPE model has no list of merges"
	case o["version"] != nil && version != "1.0":
		return fmt.Sprintf("it has the version %.20s, which the tokenizers library does not read", o["version"])
	}
	return ""
}

// bytePair reads what a BPE needs beside its vocabulary. Bytes are mapped to
// characters on the way in, by a pre-tokenizer or normalizer, and back by the decoder.
func (t *Tokenizer) bytePair(o, model object) {
	if t.Model != "BPE" || model.truth("ignore_merges") {
		return
	}
	var merges []json.RawMessage
	if model.get("merges", &merges) {
		n := len(merges)
		t.Merges = &n
	}
	mapped := func(key string) bool { return bytes.Contains(o[key], []byte(`"ByteLevel"`)) }
	in, out := mapped("pre_tokenizer") || mapped("normalizer"), mapped("decoder")
	nothing := func(key string) bool { return o[key] == nil || string(o[key]) == "null" }
	switch {
	case in && nothing("decoder"):
		t.ByteLevel = "encode"
	case out && nothing("pre_tokenizer") && nothing("normalizer"):
		t.ByteLevel = "decode"
	}
}

// specialForm is how tokens look that stand for something else than text.
var specialForm = regexp.MustCompile(`^<\|[^|<>\s]{1,60}\|>$`)

// plain lists tokens of the vocabulary that look special and that no list of added
// tokens has: they are split like other text. Only where there is no such list at
// all; models may well keep some for nothing. named are those that transformers adds
// from files beside tokenizer.json.
func (t *Tokenizer) plain(o, model object, named map[string]bool) {
	var vocab map[string]int
	if t.Model != "BPE" || len(o.addedTokens()) > 0 || !model.get("vocab", &vocab) {
		return
	}
	for token := range vocab {
		if !named[token] && specialForm.MatchString(token) {
			t.Plain = append(t.Plain, token)
		}
	}
	slices.Sort(t.Plain)
	t.Plain = t.Plain[:min(len(t.Plain), 20)]
}

// namedTokens are the tokens that tokenizer_config.json, special_tokens_map.json and
// added_tokens.json name: transformers adds them to what tokenizer.json lists.
func (r *repository) namedTokens() map[string]bool {
	named := map[string]bool{}
	for _, file := range []string{"tokenizer_config.json", "special_tokens_map.json"} {
		o := r.quietly(file)
		for key, raw := range o {
			var list []json.RawMessage
			if key == "additional_special_tokens" || key == "extra_special_tokens" {
				json.Unmarshal(raw, &list)
			}
			if strings.HasSuffix(key, "_token") {
				list = append(list, raw)
			}
			for _, one := range list {
				named[tokenText(one)] = true
			}
		}
		for _, raw := range o.object("added_tokens_decoder") {
			named[tokenText(raw)] = true
		}
	}
	for token := range r.quietly("added_tokens.json") {
		named[token] = true
	}
	return named
}

type addedToken struct {
	ID      int    `json:"id"`
	Content string `json:"content"`
}

func (o object) addedTokens() (list []addedToken) {
	o.get("added_tokens", &list)
	return list
}

// addedLater reads the tokens that stand outside of the vocabulary when it has
// no list of them: in tokenizer_config.json, or in the older added_tokens.json.
func (r *repository) addedLater(t *Tokenizer) {
	if t.File == "tokenizer.json" {
		return
	}
	o := r.object("added_tokens.json")
	for token := range o {
		if o.get(token, new(int)) {
			t.special[token] = o.integer(token)
		}
	}
	decoder := r.object("tokenizer_config.json").object("added_tokens_decoder")
	for id := range decoder {
		var n int
		if _, err := fmt.Sscan(id, &n); err == nil {
			t.special[tokenText(decoder[id])] = n
		}
	}
	for token, id := range t.special {
		t.saw(id, token)
	}
}

// addVocabulary reads a vocabulary: an object of ids, or for Unigram a list of
// pairs in the order of ids.
func (t *Tokenizer) addVocabulary(model object) {
	var ids map[string]int
	if model.get("vocab", &ids) {
		t.addIDs(ids)
		return
	}
	var pairs []json.RawMessage
	model.get("vocab", &pairs)
	t.Entries = len(pairs)
	t.saw(len(pairs)-1, "")
}

func (t *Tokenizer) addIDs(ids map[string]int) {
	t.Entries = len(ids)
	for token, id := range ids {
		if id > t.MaxID || id == t.MaxID && token < t.MaxToken {
			t.MaxID, t.MaxToken = id, token
		}
	}
}

// vocabularyJSON reads vocab.json of a byte-level BPE.
func (r *repository) vocabularyJSON(t *Tokenizer) {
	var ids map[string]int
	o := r.object("vocab.json")
	if o != nil && json.Unmarshal(r.files["vocab.json"].Content, &ids) == nil {
		t.addIDs(ids)
	}
}

// vocabularyText counts the pieces of a WordPiece vocabulary, one a line.
func (r *repository) vocabularyText(t *Tokenizer) {
	f := r.files["vocab.txt"]
	if !r.broken("vocab.txt") && f.whole() && r.text("vocab.txt") != "" {
		t.Entries = len(bytes.Split(bytes.TrimSuffix(f.Content, []byte("\n")), []byte("\n")))
		t.saw(t.Entries-1, "")
	}
}

// tekken reports whether tekken.json has what Mistral's tokenizer reads.
func (r *repository) tekken() bool {
	o := r.object("tekken.json")
	return o.object("config") != nil && o["vocab"] != nil
}

// merges checks merges.txt, which the engine reads when there is no
// tokenizer.json: each line joins two pieces.
func (r *repository) merges() {
	f := r.files["merges.txt"]
	if r.broken("merges.txt") || !f.whole() {
		return
	}
	joined := 0
	defer func() { r.facts.Tokenizer.Merges = &joined }()
	for i, line := range bytes.Split(f.Content, []byte("\n")) {
		text := strings.TrimSuffix(string(line), "\r")
		if text == "" || strings.HasPrefix(text, "#version") {
			continue
		}
		if len(strings.Split(text, " ")) != 2 || !utf8.ValidString(text) {
			r.problem("merges.txt", KindInvalidMerges, i+1, fmt.Sprintf("line %d is %q, not a pair of pieces", i+1, text))
			return
		}
		joined++
	}
}

// namedTokenizer reports whether a name is that of tokenizer.json for one
// version of transformers, such as tokenizer.4.0.0.json.
func namedTokenizer(name string) bool {
	ok, _ := path.Match("tokenizer.*.json", name)
	return ok
}
