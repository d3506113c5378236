package diff

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

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
		if !c.templateField(p, at) && !c.elsewhere(p, at, v, w) {
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
// as a text already.
func (c *comparison) templateField(p pair, at []string) bool {
	if len(at) == 0 || at[0] != "chat_template" || p.to.Part != manifest.Model {
		return false
	}
	return c.sameTemplate || p.to.Path == "base/"+c.to.templateAt() && c.reported(KindTemplate)
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
var secretWord = regexp.MustCompile(`(?i)(token|secret|password|passwd|api_?key|apikey|access_key|private_key|credential|auth)`)

// holdsSecret reports whether a field of an engine or deploy file may hold a
// secret: by a name on the way to it, or inside of what differs.
func holdsSecret(at []string, from, to any) bool {
	return slices.ContainsFunc(at, secretWord.MatchString) || secretWord.MatchString(show(from)+show(to)) || slices.Contains(at, "Secret") ||
		slices.Contains(at, "stringData")
}

// parseYAML reads all documents. Several are told apart by kind and name.
func parseYAML(data []byte) (any, bool) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	docs := map[string]any{}
	for n := 0; ; n++ {
		var v any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || n > 10_000 {
			return nil, false
		}
		docs[document(v, n)] = tree(v)
	}
	if len(docs) == 1 {
		for key, v := range docs {
			if !strings.HasPrefix(key, "Secret") {
				return v, true
			}
		}
	}
	return docs, true
}

func document(v any, n int) string {
	o, _ := v.(map[string]any)
	meta, _ := o["metadata"].(map[string]any)
	kind, _ := o["kind"].(string)
	name, _ := meta["name"].(string)
	if kind == "Secret" {
		return fmt.Sprintf("Secret %s stringData", name) // a name that keeps its values from being shown
	}
	if kind == "" && name == "" {
		return fmt.Sprint(n)
	}
	return kind + " " + name
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

var (
	lockedTOML = regexp.MustCompile(`(?m)^name = "([^"]+)"\r?\nversion = "([^"]+)"`)
	lockedPin  = regexp.MustCompile(`(?m)^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)`)
)

// locked lists the versions of packages that a lockfile states in one of the two
// forms that most have; other formats give none.
func locked(data []byte) map[string]any {
	out := map[string]any{}
	for _, form := range []*regexp.Regexp{lockedTOML, lockedPin} {
		for _, m := range form.FindAllStringSubmatch(string(data), -1) {
			if old, ok := out[m[1]].(string); ok && old != m[2] {
				m[2] = old + ", " + m[2]
			}
			out[m[1]] = m[2]
		}
	}
	return out
}

// packages compares the versions that two lockfiles state. Hashes and indexes
// may differ besides, so the file keeps its own severity.
func (c *comparison) packages(p pair, from, to []byte) {
	var all []Difference
	walkMaps(locked(from), locked(to), nil, func(at []string, v, w any) {
		all = append(all, Difference{Severity: manifest.Silent, Kind: KindPackage, Part: p.to.Part, Region: p.to.Region, Path: p.to.Path, Field: at[0],
			From: plain(v), To: plain(w), Message: fmt.Sprintf("package %s %s → %s", at[0], show(v), show(w))})
	})
	if n := len(all) - maxFields; n > 0 {
		all = append(all[:maxFields], Difference{Severity: manifest.Silent, Kind: KindPackage, Part: p.to.Part, Region: p.to.Region, Path: p.to.Path,
			Message: fmt.Sprintf("%s more differ", count(n, "package"))})
	}
	c.result.Differences = append(c.result.Differences, all...)
}
