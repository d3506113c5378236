package diff

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"drkit/manifest"
)

const maxFields = 25 // differences that are listed for one file

// contents compares the files that changed and whose bytes are at hand on both
// sides, field by field or line by line.
func (c *comparison) contents() {
	for _, p := range c.pairs {
		if !p.changed() || binary(p.to) {
			continue
		}
		from, to, ok := c.texts(p)
		if !ok && forPeople(p.to) {
			continue
		}
		if !ok {
			c.result.Unread = append(c.result.Unread, p.to.Subject())
			continue
		}
		switch ext := strings.ToLower(path.Ext(p.to.Path)); {
		case p.to.Role == manifest.Lockfile:
			c.packages(p, from, to)
		case ext == ".json" && c.structured(p, from, to, parseJSON):
		case (ext == ".yaml" || ext == ".yml") && c.structured(p, from, to, parseYAML):
		case isText(from) && isText(to):
			c.lines(p, from, to)
		}
	}
}

// binary reports whether a file has no fields and no lines that mean something.
func binary(f *manifest.File) bool {
	return f.Role == manifest.Weights || slices.Contains([]string{".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".model", ".npz", ".pkl"}, path.Ext(f.Path))
}

// structured compares two files as values; false when one of them cannot be read.
func (c *comparison) structured(p pair, from, to []byte, parse func([]byte) (any, bool)) bool {
	x, ok := parse(from)
	y, also := parse(to)
	if !ok || !also {
		return false
	}
	c.read[p.to.Subject()] = true
	if path.Base(p.to.Path) == "config.json" {
		x, y = alike(x, y)
	}
	var all []Difference
	walk(x, y, nil, func(at []string, v, w any) {
		if !c.templateField(p, at, v, w) && !c.elsewhere(p, at, v, w) {
			all = append(all, field(p, at, v, w))
		}
	})
	if n := len(all) - maxFields; n > 0 {
		worst := manifest.Severity("")
		for _, d := range all[maxFields:] {
			worst = worse(worst, d.Severity)
		}
		all = append(all[:maxFields], Difference{Severity: worst, Kind: KindField, Part: p.to.Part, Region: p.to.Region, Path: p.to.Path,
			Message: fmt.Sprintf("%s: %s more differ", path.Base(p.to.Path), count(n, "field"))})
	}
	c.result.Differences = append(c.result.Differences, all...)
	return true
}

// templateField reports whether a field is the chat template that was compared
// as a text already: the text itself, or the default one of a list.
func (c *comparison) templateField(p pair, at []string, from, to any) bool {
	holds := p.to.Path == "base/"+c.from.templateAt() || p.to.Path == "base/"+c.to.templateAt()
	if len(at) == 0 || at[0] != "chat_template" || p.to.Part != manifest.Model || !holds || !c.sameTemplate && !c.reported(KindTemplate) {
		return false
	}
	if len(at) > 1 {
		return at[1] == "default"
	}
	return !listed(from) && !listed(to)
}

// listed reports whether a template is one of several.
func listed(v any) bool {
	_, list := v.([]any)
	return list
}

// elsewhere reports whether a field is told of already: a field of the engine's options was compared by what the engine
// makes of it, an image by its digest.
func (c *comparison) elsewhere(p pair, at []string, from, to any) bool {
	switch {
	case len(at) == 0:
		return false
	case c.asOptions(p.to):
		return at[0] != "env" || p.to.Role != manifest.EngineOptions || len(at) > 1 && slices.Contains(manifest.EngineVariables, at[1])
	case p.to.Part == manifest.Deploy && at[len(at)-1] == "image":
		return slices.ContainsFunc(c.result.Differences, func(d Difference) bool { return d.Kind == KindImage && d.names(from, to) })
	}
	return false
}

// names reports whether a difference of images is that between two references.
func (d Difference) names(from, to any) bool {
	begins := func(seen, written any) bool {
		x, _ := seen.(string)
		y, _ := written.(string)
		return y != "" && strings.HasPrefix(x, y) // seen may have a digest besides
	}
	return begins(d.From, from) && begins(d.To, to)
}

// asOptions reports whether a file was compared by what the engine makes of it.
func (c *comparison) asOptions(f *manifest.File) bool {
	return (f.Role == manifest.EngineOptions || isOptions(f)) && c.judged()
}

func (c *comparison) reported(kind string) bool {
	return slices.ContainsFunc(c.result.Differences, func(d Difference) bool { return d.Kind == kind })
}

// field is the difference of one field of a file.
func field(p pair, at []string, from, to any) Difference {
	d := Difference{Severity: fieldSeverity(p.to, at), Kind: KindField, Part: p.to.Part, Region: p.to.Region, Path: p.to.Path, Field: strings.Join(at, ".")}
	if p.to.Part != manifest.Model && holdsSecret(at, from, to) {
		d.Message = d.Field + " differs; its values are not shown"
		return d
	}
	d.From, d.To = plain(from), plain(to)
	x, isText := from.(string)
	y, also := to.(string)
	if isText && also && strings.Contains(x+y, "\n") {
		n, lines := lineDiff([]byte(x), []byte(y))
		d.From, d.To, d.Lines = nil, nil, lines
		d.Message = fmt.Sprintf("%s differs in %s", named(p.to, at), count(n, "line"))
		return d
	}
	d.Message = named(p.to, at) + " " + showBoth(from, to)
	if m, n := method(from), method(to); isQuantization(at) {
		d.Message = "quantization " + m + " → " + n
	}
	return d
}

// secretWord matches the names of fields and variables whose values are not shown.
var secretWord = regexp.MustCompile(`(?i)(token|secret|passw|api[_-]?key|access[_-]?key|private[_-]?key|credential|auth)`)

// holdsSecret reports whether a field of an engine or deploy file may hold a
// secret: by a name on the way to it, or inside of what differs.
func holdsSecret(at []string, from, to any) bool {
	listed := slices.Contains(at, "items") && slices.Contains(at, "data") // of a List of anything, Secrets too
	return listed || slices.Contains(at, "stringData") || slices.ContainsFunc(at, secretWord.MatchString) || secretWord.MatchString(full(from)+" "+full(to))
}

// lines compares two texts.
func (c *comparison) lines(p pair, from, to []byte) {
	c.read[p.to.Subject()] = true
	if p.to.Part == manifest.Model && p.to.Path == "base/"+c.to.templateAt() && (c.sameTemplate || c.reported(KindTemplate)) {
		return // compared already
	}
	n, sample := lineDiff(from, to)
	if p.to.Part != manifest.Model && secretWord.MatchString(strings.Join(sample, "\n")) {
		sample = nil
	}
	c.add(Difference{Severity: severityOf(p.to, Changed), Kind: KindText, Part: p.to.Part, Region: p.to.Region, Path: p.to.Path,
		Message: fmt.Sprintf("%s differs in %s", path.Base(p.to.Path), count(n, "line")), Lines: sample})
}
