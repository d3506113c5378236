package diff

import (
	"fmt"
	"path"

	"drkit/manifest"
)

// templateAt is where requests get their chat template from: a path below base,
// or "" for none.
func (s Side) templateAt() string {
	if s.Manifest.Annotations.Model == nil {
		return ""
	}
	return s.Manifest.Annotations.Model.Template.Source
}

// templateText is the text of that template, where it is at hand.
func (s Side) templateText() ([]byte, bool) {
	data, ok := s.text(s.file("base/" + s.templateAt()))
	if !ok || path.Ext(s.templateAt()) == ".jinja" {
		return data, ok
	}
	v, ok := parseJSON(data)
	o, isObject := v.(map[string]any)
	if !ok || !isObject {
		return nil, false
	}
	return defaultTemplate(o["chat_template"])
}

// defaultTemplate takes the text itself, or the one named default of a list.
func defaultTemplate(v any) ([]byte, bool) {
	if list, ok := v.([]any); ok {
		o, _ := byName(list)["default"].(map[string]any)
		v = o["template"]
	}
	text, ok := v.(string)
	return []byte(text), ok
}

// template compares the chat template that requests get: an engine that is given
// one with --chat-template is compared by its options and files.
func (c *comparison) template() {
	from, to := c.from.templateAt(), c.to.templateAt()
	if from == "" && to == "" {
		return
	}
	d := Difference{Severity: manifest.Silent, Kind: KindTemplate, Part: manifest.Model, Path: "base/" + to, Field: "chat_template", From: orNil(from), To: orNil(to)}
	if to == "" {
		d.Path = "base/" + from
		d.Severity, d.Message = manifest.Request, "the chat template of "+from+" is gone: chat requests fail"
		c.add(d)
		return
	}
	x, ok := c.from.templateText()
	y, also := c.to.templateText()
	switch {
	case from == "":
		d.Message = "a chat template is new: " + to
	case ok && also:
		c.templateTexts(d, x, y)
		return
	case from != to:
		d.Message = fmt.Sprintf("the chat template is that of %s, not of %s any more", to, from)
	default:
		c.templateUnread(d)
		return
	}
	c.add(d)
}

func (c *comparison) templateTexts(d Difference, from, to []byte) {
	if c.sameTemplate = string(from) == string(to); c.sameTemplate {
		if d.From != d.To {
			d.Severity, d.Message = manifest.Info, fmt.Sprintf("the same chat template moved from %s to %s", d.From, d.To)
			c.add(d)
		}
		return
	}
	n, lines := lineDiff(from, to)
	d.From, d.To, d.Lines = nil, nil, lines
	d.Message = fmt.Sprintf("the chat template differs in %s", count(n, "line"))
	c.add(d)
}

// templateUnread: only the digest of the file that holds the template is known.
func (c *comparison) templateUnread(d Difference) {
	x, y := c.from.file(d.Path), c.to.file(d.Path)
	if x == nil || y == nil || sameBytes(x, y) {
		return
	}
	d.From, d.To = nil, nil
	if d.Message = "the chat template differs"; path.Ext(d.Path) != ".jinja" {
		d.Message = fmt.Sprintf("the chat template may differ: it stands in %s, which does", path.Base(d.Path))
	}
	c.add(d)
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
