package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// file is tokenizer.json. Its truncation and padding belong to batches and are
// not applied by engines, so they are not read.
type file struct {
	AddedTokens   []AddedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         *modelFile      `json:"model"`
}

type modelFile struct {
	Type         string            `json:"type"`
	Dropout      *float64          `json:"dropout"`
	Unknown      *string           `json:"unk_token"`
	Prefix       string            `json:"continuing_subword_prefix"`
	Suffix       string            `json:"end_of_word_suffix"`
	ByteFallback bool              `json:"byte_fallback"`
	IgnoreMerges bool              `json:"ignore_merges"`
	Vocab        map[string]int    `json:"vocab"`
	Merges       []json.RawMessage `json:"merges"`
}

// part is a node of the pre-tokenizer, post-processor or decoder: what kind it
// is and the fields of all kinds that are read here.
type part struct {
	Type           string
	AddPrefixSpace bool                   `json:"add_prefix_space"`
	UseRegex       *bool                  `json:"use_regex"`
	Behavior       string                 `json:"behavior"`
	Invert         bool                   `json:"invert"`
	Pattern        struct{ Regex string } `json:"pattern"`
	PreTokenizers  []json.RawMessage      `json:"pretokenizers"`
	Processors     []json.RawMessage      `json:"processors"`
	Decoders       []json.RawMessage      `json:"decoders"`
	Normalizers    []json.RawMessage      `json:"normalizers"`
	Single         []templatePiece        `json:"single"`
	SpecialTokens  map[string]struct {
		IDs []int `json:"ids"`
	} `json:"special_tokens"`
}

type templatePiece struct {
	SpecialToken *struct{ ID string } `json:"SpecialToken"`
	Sequence     *struct{ ID string } `json:"Sequence"`
}

// Parse reads the text of a tokenizer.json. Text that is not one gives a plain
// error, one that needs more than is implemented an *UnsupportedError.
func Parse(text []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		if bytes.HasPrefix(text, []byte("version https://git-lfs")) {
			return nil, fmt.Errorf("not a tokenizer.json but the Git LFS pointer of one: %w", err)
		}
		return nil, fmt.Errorf("not a tokenizer.json: %w", err)
	}
	if f.Model == nil {
		return nil, errors.New("not a tokenizer.json: it has no model")
	}
	t := &Tokenizer{}
	for _, step := range []func(*file) error{t.readNormalizer, t.readPreTokenizer, t.readDecoder, t.readModel, t.readAdded, t.readPostProcessor} {
		if err := step(&f); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func unsupported(format string, args ...any) error {
	return &UnsupportedError{What: fmt.Sprintf(format, args...)}
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// parts reads a node and, when it is a Sequence, the nodes inside it instead.
func parts(what string, raw json.RawMessage) ([]part, error) {
	if isNull(raw) {
		return nil, nil
	}
	var p part
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("not a tokenizer.json: its %s: %w", what, err)
	}
	if p.Type != "Sequence" {
		return []part{p}, nil
	}
	var all []part
	for _, list := range [][]json.RawMessage{p.PreTokenizers, p.Processors, p.Decoders, p.Normalizers} {
		for _, raw := range list {
			var q part
			if err := json.Unmarshal(raw, &q); err != nil {
				return nil, fmt.Errorf("not a tokenizer.json: its %s: %w", what, err)
			}
			all = append(all, q)
		}
	}
	return all, nil
}

func (t *Tokenizer) readNormalizer(f *file) error {
	ps, err := parts("normalizer", f.Normalizer)
	if err != nil || len(ps) == 0 {
		return err
	}
	return unsupported("normalizer %q", ps[0].Type)
}

// The expressions of Split that are known, as published tokenizers write them.
var splits = map[string]func(string) int{
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: llama3(3),
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:      llama3(1),
}

// readPreTokenizer takes a ByteLevel, alone or after a Split with a known
// expression; both together are what Llama 3 has.
func (t *Tokenizer) readPreTokenizer(f *file) error {
	ps, err := parts("pre_tokenizer", f.PreTokenizer)
	if err != nil {
		return err
	}
	scan := whole
	if len(ps) == 2 && ps[0].Type == "Split" {
		s := splits[ps[0].Pattern.Regex]
		if s == nil || ps[0].Invert || ps[0].Behavior != "Isolated" {
			return unsupported("a Split pre-tokenizer with the pattern %q, behavior %q", ps[0].Pattern.Regex, ps[0].Behavior)
		}
		scan, ps = s, ps[1:]
		if ps[0].AddPrefixSpace || ps[0].UseRegex == nil || *ps[0].UseRegex {
			return unsupported("a ByteLevel pre-tokenizer with a pattern of its own after a Split")
		}
	}
	if len(ps) != 1 || ps[0].Type != "ByteLevel" {
		return unsupported("%s", describe("pre-tokenizer", ps))
	}
	if ps[0].UseRegex == nil || *ps[0].UseRegex {
		scan = gpt2
	}
	t.pre = preTokenizer{prefixSpace: ps[0].AddPrefixSpace, scan: scan}
	return nil
}

func describe(what string, ps []part) string {
	if len(ps) == 0 {
		return "no " + what + " (only byte-level BPE is known)"
	}
	var names []string
	for _, p := range ps {
		names = append(names, p.Type)
	}
	return fmt.Sprintf("the %s %q", what, strings.Join(names, ", "))
}

func (t *Tokenizer) readDecoder(f *file) error {
	ps, err := parts("decoder", f.Decoder)
	if err != nil {
		return err
	}
	if len(ps) != 1 || ps[0].Type != "ByteLevel" {
		return unsupported("%s", describe("decoder", ps))
	}
	return nil
}

// readPostProcessor takes a TemplateProcessing; a ByteLevel changes offsets
// only, which nothing here uses.
func (t *Tokenizer) readPostProcessor(f *file) error {
	ps, err := parts("post_processor", f.PostProcessor)
	if err != nil {
		return err
	}
	for _, p := range ps {
		switch p.Type {
		case "ByteLevel":
		case "TemplateProcessing":
			if t.before != nil || t.after != nil {
				return unsupported("two TemplateProcessing post-processors")
			}
			if err := t.readTemplate(p); err != nil {
				return err
			}
		default:
			return unsupported("post-processor %q", p.Type)
		}
	}
	return nil
}

func (t *Tokenizer) readTemplate(p part) error {
	sequences := 0
	for _, x := range p.Single {
		switch {
		case x.Sequence != nil && x.Sequence.ID == "A":
			sequences++
		case x.SpecialToken != nil:
			s, ok := p.SpecialTokens[x.SpecialToken.ID]
			if !ok {
				return fmt.Errorf("not a tokenizer.json: the template names %q, which its special_tokens lack", x.SpecialToken.ID)
			}
			if sequences == 0 {
				t.before = append(t.before, s.IDs...)
			} else {
				t.after = append(t.after, s.IDs...)
			}
		default:
			return unsupported("a template piece that is neither a special token nor sequence A")
		}
	}
	if sequences != 1 {
		return unsupported("a template with %d times the text", sequences)
	}
	return nil
}
