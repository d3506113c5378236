package standin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"drkit/internal/chattemplate"
	"drkit/internal/errext"
	"drkit/internal/tokenizer"
)

// readText reads what turns chats into text and text into ids: tokenizer,
// chat template, end tokens.
func (e *Engine) readText(cfg *config) error {
	var err error
	if e.tok, err = readTokenizer(e.dir); err != nil {
		return err
	}
	if err := e.readTokenizerConfig(); err != nil {
		return err
	}
	if err := e.readTemplate(); err != nil {
		return err
	}
	if e.generation, err = readGeneration(e.dir, cfg); err != nil {
		return err
	}
	if id, ok := e.tok.ID(e.tokens.EOSToken); ok && e.tokens.EOSToken != "" {
		e.eos = append(e.eos, id)
	}
	e.eos = append(e.eos, e.generation.EOS...)
	return nil
}

func readTokenizer(dir string) (*tokenizer.Tokenizer, error) {
	path := filepath.Join(dir, "tokenizer.json")
	tok, err := tokenizer.Load(path)
	var un *tokenizer.UnsupportedError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errext.WithHint(vllmSays("Couldn't instantiate the backend tokenizer: %s is missing", path),
			"restore tokenizer.json from the release")
	case errors.As(err, &un):
		return nil, unsupported("%s", un.What)
	case err != nil:
		return nil, errext.WithHint(jsonError(err), "restore tokenizer.json from the release")
	}
	return tok, nil
}

// jsonError puts Python's name before an error of JSON syntax.
func jsonError(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return vllmSays("JSONDecodeError: %w", err)
	}
	return err
}

// readTokenizerConfig: the file may be absent, but not broken.
func (e *Engine) readTokenizerConfig() error {
	path := filepath.Join(e.dir, "tokenizer_config.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if e.tokens, err = chattemplate.ParseTokenizerConfig(text); err != nil {
		return jsonError(fmt.Errorf("%s: %w", path, err))
	}
	var code struct {
		AutoMap json.RawMessage `json:"auto_map"`
	}
	if json.Unmarshal(text, &code) == nil && len(code.AutoMap) > 0 && !bytes.Equal(code.AutoMap, []byte("null")) {
		return vllmSays("The repository %s contains custom code which must be executed to correctly load the model (auto_map in tokenizer_config.json)", e.dir)
	}
	return nil
}

// readTemplate takes chat_template.jinja before the template in
// tokenizer_config.json. Neither of them, or one that does not parse, lets the
// engine boot and fails at the first chat, as in vLLM.
func (e *Engine) readTemplate() error {
	source := e.tokens.Template
	text, err := os.ReadFile(filepath.Join(e.dir, "chat_template.jinja"))
	switch {
	case err == nil:
		source = string(text)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if source != "" {
		e.template, e.templateErr = chattemplate.Parse(source)
	}
	return nil
}
