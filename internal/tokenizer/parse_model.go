package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

func (t *Tokenizer) readModel(f *file) error {
	m := f.Model
	switch {
	case m.Type != "BPE":
		return unsupported("a model of type %q", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return unsupported("dropout %v", *m.Dropout)
	case m.Prefix != "" || m.Suffix != "":
		return unsupported("subword prefix %q and suffix %q", m.Prefix, m.Suffix)
	case m.ByteFallback:
		return unsupported("byte_fallback")
	case len(m.Vocab) == 0:
		return errors.New("not a tokenizer.json: its vocabulary is empty")
	}
	t.model = bpe{vocab: m.Vocab, ignoreMerges: m.IgnoreMerges, merges: make(map[[2]int]merge, len(m.Merges))}
	for b, c := range byteChar {
		id, ok := m.Vocab[string(c)]
		if !ok {
			id = -1
			if m.Unknown != nil {
				return unsupported("unk_token %q with a vocabulary that lacks single bytes", *m.Unknown)
			}
		}
		t.model.byteID[b] = id
	}
	t.idToText = make(map[int]string, len(m.Vocab))
	for s, id := range m.Vocab {
		if id < 0 {
			return fmt.Errorf("not a tokenizer.json: token %q has id %d", s, id)
		}
		t.idToText[id] = s
	}
	return t.readMerges(m)
}

func (t *Tokenizer) readMerges(m *modelFile) error {
	for rank, raw := range m.Merges {
		pair, err := mergePair(raw)
		if err != nil {
			return fmt.Errorf("not a tokenizer.json: merge %d: %w", rank, err)
		}
		var ids [3]int
		for i, s := range []string{pair[0], pair[1], pair[0] + pair[1]} {
			id, ok := m.Vocab[s]
			if !ok {
				return fmt.Errorf("not a tokenizer.json: merge %d needs the token %q, which the vocabulary lacks", rank, s)
			}
			ids[i] = id
		}
		t.model.merges[[2]int{ids[0], ids[1]}] = merge{rank: rank, id: ids[2]}
	}
	return nil
}

// mergePair reads both forms: ["a","b"] and the older "a b".
func mergePair(raw json.RawMessage) ([]string, error) {
	var pair []string
	if json.Unmarshal(raw, &pair) == nil && len(pair) == 2 {
		return pair, nil
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		if pair := strings.Split(s, " "); len(pair) == 2 {
			return pair, nil
		}
	}
	return nil, fmt.Errorf("%.60q is not a pair", raw)
}

func (t *Tokenizer) readAdded(f *file) error {
	t.added = map[int]AddedToken{}
	var groups [2][]AddedToken
	for _, a := range f.AddedTokens {
		if a.ID < 0 {
			return fmt.Errorf("not a tokenizer.json: added token %q has id %d", a.Content, a.ID)
		}
		t.added[a.ID] = a
		t.idToText[a.ID] = a.Content
		if a.Normalized {
			groups[1] = append(groups[1], a)
		} else {
			groups[0] = append(groups[0], a)
		}
	}
	t.passes = []addedSet{newAddedSet(groups[0]), newAddedSet(groups[1])}
	return nil
}
