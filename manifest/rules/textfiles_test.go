package rules_test

import (
	"strings"
	"testing"

	"drkit/manifest"
)

// TestTextThatIsNotUTF8: vLLM 0.32.0 ends with "UnicodeDecodeError: 'utf-8' codec
// can't decode byte 0xff in position 165" where chat_template.jinja holds one.
func TestTextThatIsNotUTF8(t *testing.T) {
	code := func() repository {
		return configured(map[string]any{"auto_map": map[string]string{"AutoConfig": "c.C"}}).with("c.py", "from .d import D\n")
	}
	wordpiece := func() repository {
		return llama().without("tokenizer.json").with("tokenizer_config.json", `{"tokenizer_class":"BertTokenizer"}`)
	}
	for name, c := range map[string]struct {
		files repository
		args  []string
		path  string // of the finding; "": none that fails
		line  int
	}{
		"the template":           {llama().with("chat_template.jinja", "{{ messages }}\n\xff"), nil, "base/chat_template.jinja", 2},
		"a further template":     {llama().with("additional_chat_templates/rag.jinja", "\xc3"), nil, "base/additional_chat_templates/rag.jinja", 1},
		"a template in UTF-8":    {llama().with("chat_template.jinja", "{% for m in messages %}{{ m.content }}<|eot|>é�{% endfor %}"), nil, "", 0},
		"no tokenizer is loaded": {llama().with("chat_template.jinja", "\xff"), []string{"--skip-tokenizer-init"}, "", 0},
		"a word list":            {wordpiece().with("vocab.txt", "[PAD]\n[UNK]\n\x80"), nil, "base/vocab.txt", 3},
		"an unused word list":    {llama().with("vocab.txt", "\x80"), nil, "", 0},
		"code":                   {code().with("d.py", "x = 1\n# \xe9t\xe9\n"), []string{"--trust-remote-code"}, "base/d.py", 2},
		"unused code":            {code().with("d.py", "").with("e.py", "\xff"), []string{"--trust-remote-code"}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var found []manifest.Finding
			for _, f := range c.files.check(t, func(in *manifest.Input) { in.Engine.Args = append(in.Engine.Args, c.args...) }) {
				if strings.Contains(f.Message, "not UTF-8") {
					found = append(found, f)
				}
			}
			switch {
			case c.path == "" && len(found) == 0:
			case c.path == "" || len(found) != 1 || found[0].Path != c.path || found[0].Line != c.line || found[0].Severity != manifest.Block:
				t.Errorf("%+v, want one on line %d of %q", found, c.line, c.path)
			}
		})
	}
}
