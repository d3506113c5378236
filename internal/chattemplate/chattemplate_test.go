package chattemplate

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

func render(source string, in Input) (string, error) {
	t, err := Parse(source)
	if err != nil {
		return "", err
	}
	return t.Render(in)
}

// What Jinja2 made of the same templates; testdata/golden.py recorded it.
func TestAgainstJinja(t *testing.T) {
	var golden []struct {
		Template, Source string
		Messages         []Message
		Gen              bool
		Text, Error      *string
	}
	readJSON(t, "testdata/golden.json", &golden)
	if len(golden) < 60 {
		t.Fatalf("only %d renderings", len(golden))
	}
	for _, g := range golden {
		got, err := render(g.Source, Input{Messages: g.Messages, AddGenerationPrompt: g.Gen, BOSToken: "<s>", EOSToken: "</s>"})
		var raised *RaisedError
		switch {
		case g.Text != nil && (err != nil || got != *g.Text):
			t.Errorf("%s: got %q, %v\nwant %q", g.Template, got, err, *g.Text)
		case g.Error != nil && err == nil:
			t.Errorf("%s: got %q, Jinja says %s", g.Template, got, *g.Error)
		case g.Error != nil && g.Template == "alternate" && !(errors.As(err, &raised) && strings.HasSuffix(*g.Error, raised.Message)):
			t.Errorf("%s: err = %v, Jinja says %s", g.Template, err, *g.Error)
		}
	}
}

// The template of support-tiny; that vLLM's token ids come out of it is tested
// where tokenizer and template meet, in internal/standin.
func TestSupportTiny(t *testing.T) {
	source, err := os.ReadFile("../../testdata/models/support-tiny/chat_template.jinja")
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Messages: []Message{{"system", "Be brief."}, {"user", " Which region takes over? "}}, AddGenerationPrompt: true}
	const want = "<|system|>Be brief.</s><|user|>Which region takes over?</s><|assistant|>"
	if got, err := render(string(source), in); err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestDate(t *testing.T) {
	now := time.Date(2026, 8, 7, 0, 0, 0, 0, time.UTC)
	if got, err := render(`{{ strftime_now("%d %b %Y") }}`, Input{Now: now}); err != nil || got != "07 Aug 2026" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := render(`{{ strftime_now("%j") }}`, Input{Now: now}); err == nil {
		t.Errorf("an unknown directive gave %q", got)
	}
}

func TestRangeIsBounded(t *testing.T) {
	if _, err := render(`{% for i in range(10000000) %}x{% endfor %}`, Input{}); err == nil {
		t.Error("an endless loop rendered")
	}
	got, err := render(`{% for i in range(5, 0, -2) %}{{ i }}{% endfor %}`, Input{})
	if err != nil || got != "531" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestParseTokenizerConfig(t *testing.T) {
	tests := []struct{ name, text, template, bos string }{
		{"none", `{"bos_token":"<s>"}`, "", "<s>"},
		{"null", `{"bos_token":null,"chat_template":null}`, "", ""},
		{"text", `{"chat_template":"T"}`, "T", ""},
		{"token object", `{"bos_token":{"content":"<s>","lstrip":false}}`, "", "<s>"},
		{"list with default", `{"chat_template":[{"name":"tool_use","template":"U"},{"name":"default","template":"D"}]}`, "D", ""},
		{"list without default", `{"chat_template":[{"name":"tool_use","template":"U"}]}`, "", ""},
	}
	for _, tt := range tests {
		c, err := ParseTokenizerConfig([]byte(tt.text))
		if err != nil || c.Template != tt.template || c.BOSToken != tt.bos {
			t.Errorf("%s: %+v, %v", tt.name, c, err)
		}
	}
	for _, bad := range []string{"", "[]", `{"chat_template":1}`, `{"bos_token":1}`} {
		if c, err := ParseTokenizerConfig([]byte(bad)); err == nil {
			t.Errorf("%q gave %+v", bad, c)
		}
	}
}

func FuzzRender(f *testing.F) {
	var golden []struct{ Source string }
	readJSON(f, "testdata/golden.json", &golden)
	for _, g := range golden {
		f.Add(g.Source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		// Only panics count; loops over loops may take long.
		if strings.Count(source, "for")+strings.Count(source, "*")+strings.Count(source, "recursive") > 3 {
			t.Skip()
		}
		_, _ = render(source, Input{Messages: []Message{{"user", "Hi"}}})
	})
}
