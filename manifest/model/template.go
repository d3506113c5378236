package model

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Template says where the engine would find a chat template. Source is the file
// that wins, in vLLM's order; Default says whether it holds a template that
// requests without a name can use.
type Template struct {
	Source     string    `json:"source,omitempty"`
	Default    bool      `json:"default,omitempty"`
	Names      []string  `json:"names,omitempty"`       // of a list of templates, or of additional files
	Others     []string  `json:"others,omitempty"`      // further sources that Source wins over
	LegacyJSON bool      `json:"legacy_json,omitempty"` // chat_template.json, which only processors read
	Additional bool      `json:"additional,omitempty"`  // additional_chat_templates/ exists
	Ends       []Token   `json:"ends,omitempty"`        // added tokens that the template writes right after a message
	UsesEOS    bool      `json:"uses_eos,omitempty"`    // it writes the variable eos_token
	Filters    []string  `json:"filters,omitempty"`     // names of the filters that it applies
	Tests      []string  `json:"tests,omitempty"`       // names of the tests that it applies with "is"
	Tools      bool      `json:"tools,omitempty"`       // it looks at the tools of a request
	Calls      []string  `json:"calls,omitempty"`       // functions that it calls and that neither it nor the engine defines
	Fault      *Fault    `json:"fault,omitempty"`       // why Jinja refuses it
	Rendered   *Rendered `json:"rendered,omitempty"`    // nil: not tried
}

// Token is an added token by its text and id.
type Token struct {
	Text string `json:"text"`
	ID   int    `json:"id"`
}

// template finds the chat template. A processor's template comes before a
// tokenizer's; chat_template.jinja before the one in tokenizer_config.json.
func (r *repository) template() {
	t := &r.facts.Template
	t.LegacyJSON = r.has("chat_template.json")
	for _, p := range r.paths {
		if name, ok := strings.CutPrefix(p, "additional_chat_templates/"); ok && path.Ext(name) == ".jinja" {
			t.Additional = true
			t.Names = append(t.Names, strings.TrimSuffix(name, ".jinja"))
			r.text(p) // transformers reads all of them
		}
	}
	if text := r.findTemplate(t); text != "" || t.Source != "" && t.Default {
		t.read(text, &r.facts.Tokenizer)
	}
	t.Others = r.otherTemplates(t.Source)
}

// otherTemplates lists the places that hold a template too, and that the one at
// source wins over.
func (r *repository) otherTemplates(source string) (out []string) {
	for _, name := range []string{"chat_template.jinja", "chat_template.json", "processor_config.json", "tokenizer_config.json"} {
		if name == source || source == "" || !r.has(name) {
			continue
		}
		if o := r.quietly(name); name == "chat_template.jinja" || o["chat_template"] != nil && string(o["chat_template"]) != "null" {
			out = append(out, name)
		}
	}
	return out
}

// ReadTemplate judges a template from outside of the repository, such as one
// that the engine is given, with the repository's tokens.
func (f *Facts) ReadTemplate(source, text string) Template {
	t := Template{Source: source, Default: true}
	t.read(text, &f.Tokenizer)
	return t
}

// read looks into the text of the template that requests get.
func (t *Template) read(text string, tokens *Tokenizer) {
	if len(text) > maxTemplate {
		t.Rendered = &Rendered{Unknown: fmt.Sprintf("it has %d bytes, more than drkit looks at", len(text))}
		return
	}
	if at := notUTF8([]byte(text)); at >= 0 {
		t.Fault = &Fault{1 + strings.Count(text[:at], "\n"), "it is not UTF-8 text", "UnicodeDecodeError: 'utf-8' codec can't decode byte"}
		return
	}
	t.UsesEOS = strings.Contains(text, "eos_token")
	t.Ends = tokens.ends(text)
	t.Filters, t.Tests = filters(text), tests(text)
	t.Calls = undefined(text)
	t.Tools = slices.ContainsFunc(expressions(text), func(e string) bool { return toolsVariable.MatchString(e) })
	var depth int
	switch t.Fault, depth = fault(text); {
	case t.Fault != nil:
	case depth > maxNesting:
		t.Rendered = &Rendered{Unknown: "it nests deeper than drkit renders"}
	case strings.TrimSpace(text) == "":
		t.Rendered = &Rendered{Loses: true}
	default:
		t.Rendered = render(text, tokens)
	}
}

var toolsVariable = regexp.MustCompile(`\b(tools|custom_tools)\b`)

func (r *repository) findTemplate(t *Template) string {
	if r.has("chat_template.jinja") {
		t.Source, t.Default = "chat_template.jinja", true
		return r.text("chat_template.jinja")
	}
	if r.isProcessor() {
		for _, name := range []string{"chat_template.json", "processor_config.json"} {
			if s := r.object(name).str("chat_template"); s != "" {
				t.Source, t.Default = name, true
				return s
			}
		}
	}
	if slices.Contains(t.Names, "default") {
		t.Source, t.Default = "additional_chat_templates/default.jinja", true
		return strings.ToValidUTF8(string(r.files[t.Source].Content), "")
	}
	return r.configTemplate(t)
}

// isProcessor reports whether the model takes more than text, so that the
// engine asks its processor for the template first.
func (r *repository) isProcessor() bool {
	c := r.facts.Config
	return c != nil && (c.Vision || c.Audio) || r.has("processor_config.json") || r.has("preprocessor_config.json")
}

// configTemplate reads tokenizer_config.chat_template: one text, or a list of
// named ones.
func (r *repository) configTemplate(t *Template) string {
	o := r.object("tokenizer_config.json")
	if s := o.str("chat_template"); s != "" {
		t.Source, t.Default = "tokenizer_config.json", true
		return s
	}
	var list []struct{ Name, Template string }
	if !o.get("chat_template", &list) {
		return ""
	}
	text := ""
	for _, e := range list {
		t.Source = "tokenizer_config.json"
		t.Names = append(t.Names, e.Name)
		if e.Name == "default" {
			t.Default, text = true, e.Template
		}
	}
	return text
}

// afterContent matches what stands between a message's content and the text
// that the template writes next: the end of the expression, or a "+".
var afterContent = regexp.MustCompile(`content['"]?\]?\s*(?:\|\s*trim\s*)?\)?\s*(?:\+\s*['"]|-?\}\})`)

// ends finds added tokens that the template writes right after a message.
func (t *Tokenizer) ends(text string) []Token {
	found := map[string]bool{}
	lengths := map[int]bool{}
	for special := range t.special {
		lengths[len(special)] = true
	}
	sorted := slices.Sorted(maps.Keys(lengths))
	for _, at := range afterContent.FindAllStringIndex(text, -1) {
		rest := strings.TrimLeft(text[at[1]:], "\n")
		for _, n := range slices.Backward(sorted) {
			if n <= len(rest) && n > 0 {
				if _, ok := t.special[rest[:n]]; ok {
					found[rest[:n]] = true
					break
				}
			}
		}
	}
	var out []Token
	for special := range found {
		out = append(out, Token{special, t.special[special]})
	}
	slices.SortFunc(out, func(a, b Token) int { return strings.Compare(a.Text, b.Text) })
	return out
}

var filterUse = regexp.MustCompile(`\|\s*([A-Za-z_]\w*)`)

// filters lists the names of the filters that a template applies, sorted.
func filters(text string) []string {
	set := map[string]bool{}
	for _, e := range expressions(text) {
		for _, m := range filterUse.FindAllStringSubmatch(e, -1) {
			set[m[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

var testUse = regexp.MustCompile(`\bis\s+(?:not\s+)?([A-Za-z_]\w*)`)

// tests lists the names of the tests that a template applies, sorted.
func tests(text string) []string {
	set := map[string]bool{}
	for _, e := range expressions(text) {
		for _, m := range testUse.FindAllStringSubmatch(e, -1) {
			set[m[1]] = true
		}
	}
	delete(set, "not")
	return slices.Sorted(maps.Keys(set))
}

var (
	call    = regexp.MustCompile(`(?:^|[^\w.|])([A-Za-z_]\w*)\s*\(`)
	defined = regexp.MustCompile(`(?:\bmacro|\bset|\bimport|\bas|\bfor)\s+([A-Za-z_]\w*)`)
)

// engineFunctions are Jinja's own functions, those that transformers adds, and
// words that may stand before a bracket.
var engineFunctions = strings.Fields(`range dict lipsum cycler joiner namespace raise_exception strftime_now caller super loop
	if elif else for in and or not is set macro call filter include import from with as block`)

// undefined lists the functions that a template calls and nothing defines, sorted.
func undefined(text string) []string {
	all, known := map[string]bool{}, map[string]bool{}
	for _, e := range expressions(text) {
		for _, m := range defined.FindAllStringSubmatch(e, -1) {
			known[m[1]] = true
		}
		for _, m := range call.FindAllStringSubmatch(e, -1) {
			all[m[1]] = true
		}
	}
	maps.DeleteFunc(all, func(name string, _ bool) bool { return known[name] || slices.Contains(engineFunctions, name) })
	for _, e := range expressions(text) { // a test or a filter may take arguments too
		for _, m := range append(testUse.FindAllStringSubmatch(e, -1), filterUse.FindAllStringSubmatch(e, -1)...) {
			delete(all, m[1])
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// expressions lists what stands between {{ and }} or {% and %}, with the text
// of string literals left out. Comments and raw blocks hold none.
func expressions(text string) []string {
	var out []string
	for {
		start := strings.IndexByte(text, '{')
		if start < 0 || start+2 > len(text) {
			return out
		}
		mark := text[start : start+2]
		text = text[start+1:]
		switch mark {
		case "{#":
			_, text, _ = strings.Cut(text, "#}")
		case "{{", "{%":
			var e string
			e, text = expression(text[1:], map[string]string{"{{": "}}", "{%": "%}"}[mark])
			if out = append(out, e); mark == "{%" && strings.Trim(e, "-+ \n\t") == "raw" {
				_, text, _ = strings.Cut(text, "endraw")
			}
		}
	}
}

// expression reads up to end, leaving out what stands in quotes, and returns
// the rest of the text.
func expression(text, end string) (string, string) {
	var b strings.Builder
	var quote byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case strings.HasPrefix(text[i:], end):
			return b.String(), text[i+len(end):]
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

// Where is the file that a person would look at: the source, or where named
// templates lie.
func (t Template) Where() string {
	if t.Source == "" && t.Additional {
		return "additional_chat_templates/" + t.Names[0] + ".jinja"
	}
	return t.Source
}
