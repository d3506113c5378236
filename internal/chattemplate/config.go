package chattemplate

import (
	"encoding/json"
	"fmt"
)

// TokenizerConfig is what chats need of tokenizer_config.json.
type TokenizerConfig struct {
	Template           string // empty: the file holds no default template
	BOSToken, EOSToken string
}

// ParseTokenizerConfig reads a tokenizer_config.json. A template there is a
// string, or a list of named ones of which "default" counts; a template in
// chat_template.jinja beats both.
func ParseTokenizerConfig(text []byte) (TokenizerConfig, error) {
	var f struct {
		ChatTemplate json.RawMessage `json:"chat_template"`
		BOS          tokenText       `json:"bos_token"`
		EOS          tokenText       `json:"eos_token"`
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return TokenizerConfig{}, fmt.Errorf("not a tokenizer_config.json: %w", err)
	}
	c := TokenizerConfig{BOSToken: string(f.BOS), EOSToken: string(f.EOS)}
	if len(f.ChatTemplate) == 0 {
		return c, nil
	}
	if json.Unmarshal(f.ChatTemplate, &c.Template) == nil {
		return c, nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(f.ChatTemplate, &named); err != nil {
		return c, fmt.Errorf("not a tokenizer_config.json: its chat_template is neither a text nor a list of named ones")
	}
	for _, t := range named {
		if t.Name == "default" {
			c.Template = t.Template
		}
	}
	return c, nil
}

// tokenText is a special token, written as a text or as an object with content.
type tokenText string

func (t *tokenText) UnmarshalJSON(b []byte) error {
	var object struct{ Content string }
	if json.Unmarshal(b, (*string)(t)) == nil {
		return nil
	}
	if err := json.Unmarshal(b, &object); err != nil {
		return fmt.Errorf("a special token is neither a text nor an object with content")
	}
	*t = tokenText(object.Content)
	return nil
}
