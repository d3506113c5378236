package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Kinds of problems of files that name another region's things.
const (
	KindRegionImage    = "region-image"    // an image out of the source's registry: it cannot be pulled when the source is gone
	KindRegionTopology = "region-topology" // a selector that only nodes of the source fit
	KindRegionName     = "region-name"     // anything else
)

// mention is a place in a file where a word of a region stands.
type mention struct {
	word
	line     int
	image    bool   // as the place that an image is pulled from
	selector string // the label that nodes must have, when it is one of topology
	value    string // of the scalar
}

// borders finds what ties the files of one region, or of all, to another. Files
// of every region are judged by the source's words: a target starts them, too,
// unless its own files say the same thing of their own region.
func (c *collector) borders(regions []RegionSummary, locks []LockFacts) (problems []Problem) {
	words := regionWords(regions)
	b := &bordering{words: words, regions: regions, seen: map[string][]mention{}}
	for _, it := range c.items {
		if it.Part == Model || it.Role == Probes || it.Role == Lockfile || forPeople(it) {
			continue
		}
		texts := scalars(it)
		for _, r := range regions {
			if found := mentions(texts, words[r.Name]); len(found) > 0 {
				b.found = append(b.found, naming{it, r, found})
				if it.Region == r.Name {
					b.seen[r.Name] = append(b.seen[r.Name], found...)
				}
			}
		}
	}
	for _, n := range b.found {
		problems = append(problems, b.judge(n)...)
	}
	for _, l := range locks {
		problems = append(problems, b.lock(l)...)
	}
	return problems
}

// forPeople reports whether a file is text for people, or no text at all: what it
// names ties nothing.
func forPeople(it *item) bool {
	if it.Role != Other {
		return false
	}
	ext := strings.ToLower(path.Ext(it.Path))
	return slices.Contains([]string{".md", ".rst", ".adoc", ".txt", ".html"}, ext) || bytes.IndexByte(it.capture.Bytes(), 0) >= 0
}

// naming is a file that names things of a region.
type naming struct {
	*item
	other RegionSummary
	found []mention
}

type bordering struct {
	words   map[string][]word
	regions []RegionSummary
	found   []naming
	seen    map[string][]mention // what each region's own files say of itself
}

func (b *bordering) judge(n naming) (problems []Problem) {
	if n.Region == n.other.Name || n.Region == "" && n.other.Role != sourceRole {
		return nil
	}
	said := map[[2]string]bool{} // by kind and word
	for _, m := range n.found {
		if n.Region == "" && b.excused(n.item, m) {
			continue
		}
		kind, what := m.tell(n, b.ownRegistry(n.Region))
		if key := [2]string{kind, m.text}; !said[key] {
			said[key] = true
			problems = append(problems, n.problem(m.line, kind, what, ""))
		}
	}
	return problems
}

const sourceRole = "source"

// tell words the problem. Only what ties a target to the source keeps it from
// starting.
func (m mention) tell(n naming, registry bool) (kind, what string) {
	tied := n.other.Role == sourceRole
	where := "this file of " + n.Region
	if n.Region == "" {
		where = "this file of every region"
	}
	switch {
	case m.image && tied && registry:
		return KindRegionImage, fmt.Sprintf("%s takes an image from %s of %s (%s): with that region gone it cannot be pulled", where, m.class, n.other.Name, m.text)
	case m.selector != "" && tied:
		return KindRegionTopology, fmt.Sprintf("%s wants nodes with %s %s, which lie in %s: with that region gone there is none", where, m.selector, m.value, n.other.Name)
	}
	return KindRegionName, fmt.Sprintf("%s names %s of %s: %s", where, m.class, n.other.Name, m.text)
}

// ownRegistry reports whether a target has a registry of its own, so that the
// source's is not meant to serve both; for "", whether every target has.
func (b *bordering) ownRegistry(region string) bool {
	for _, r := range b.regions {
		if r.Role != sourceRole && (region == "" || r.Name == region) && r.Places.Registry == "" {
			return false
		}
	}
	return true
}

// excused reports whether each target says the same kind of thing of itself, in
// the file itself or in files of its own.
func (b *bordering) excused(it *item, m mention) bool {
	for _, r := range b.regions {
		if r.Role == sourceRole {
			continue
		}
		all := slices.Clone(b.seen[r.Name])
		for _, n := range b.found {
			if n.item == it && n.other.Name == r.Name {
				all = append(all, n.found...)
			}
		}
		if !slices.ContainsFunc(all, func(o mention) bool { return o.class == m.class && (o.selector != "") == (m.selector != "") }) {
			return false
		}
	}
	return true
}

// lock judges the hosts that a lock installs from.
func (b *bordering) lock(l LockFacts) (problems []Problem) {
	for _, r := range b.regions {
		if r.Role != sourceRole || r.Name == l.Region {
			continue
		}
		for _, host := range l.Hosts {
			for _, w := range b.words[r.Name] {
				if w.class != ofRole && w.at.MatchString(host) || w.class == ofBucket && strings.HasPrefix(host, w.text+".") {
					problems = append(problems, Problem{Part: Deploy, Region: l.Region, Path: l.Path, Kind: KindLockRegion,
						What: fmt.Sprintf("the lock installs from %s, which belongs to %s (%s %s): with that region gone nothing can be built or installed from it", host, r.Name, w.class, w.text)})
					break
				}
			}
		}
	}
	return problems
}

// scalar is a value of a file.
type scalar struct {
	text, key string
	line      int
	selector  string // the topology label that a node selector wants this value of
}

// mentions finds words in values, in each value the most telling one.
func mentions(texts []scalar, words []word) (found []mention) {
	for _, s := range texts {
		for _, w := range words {
			at := w.at.FindStringSubmatchIndex(s.text)
			if at == nil {
				continue
			}
			m := mention{word: w, line: s.line + strings.Count(s.text[:at[2]], "\n"), value: s.text}
			m.image = w.class == ofRegistry && slices.Contains(imageKeys, s.key)
			if w.class == ofCloud {
				m.selector = s.selector
			}
			found = append(found, m)
			break
		}
	}
	return found
}

// imageKeys are the keys under which deploy files name what is pulled.
var imageKeys = []string{"image", "repository", "registry", "newName", "imageRegistry", "reference", "volume.image", "image.reference"}

// scalars lists the values of a file without its comments. What is no YAML is
// taken line by line.
func scalars(it *item) []scalar {
	data := it.capture.Bytes()
	if isYAML(it.Path) || strings.HasSuffix(it.Path, ".json") {
		if out, ok := yamlScalars(data); ok {
			return out
		}
	}
	var out []scalar
	line := 0
	for text := range bytes.Lines(data) {
		line++
		t := strings.TrimSpace(string(text))
		if t != "" && !strings.HasPrefix(t, "#") {
			out = append(out, scalar{text: t, line: line})
		}
	}
	return out
}

const (
	maxYAMLDocuments = 10_000
	maxYAMLNesting   = 100
)

func yamlScalars(data []byte) (out []scalar, ok bool) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	for range maxYAMLDocuments {
		var doc yaml.Node
		if err := d.Decode(&doc); err != nil {
			return out, errors.Is(err, io.EOF)
		}
		walkScalars(&doc, "", "", 0, &out)
	}
	return out, false
}

// walkScalars collects the values beneath a node. selector is the topology label
// whose values they are.
func walkScalars(n *yaml.Node, key, selector string, depth int, out *[]scalar) {
	switch {
	case depth > maxYAMLNesting:
	case n.Kind == yaml.ScalarNode:
		s := scalar{text: n.Value, key: key, line: n.Line, selector: selector}
		if n.Style == yaml.LiteralStyle || n.Style == yaml.FoldedStyle {
			s.line++ // its text begins below the sign
		}
		*out = append(*out, s)
	case n.Kind == yaml.MappingNode:
		wants, skip := expression(n)
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, v := n.Content[i].Value, n.Content[i+1]
			under := ""
			switch {
			case name == "values" && skip, name == "name" && get(n, "newName") != nil: // a kustomization replaces the name
				continue
			case name == "values":
				under = wants
			case key == "nodeSelector" && topologyLabel(name):
				under = name
			}
			walkScalars(v, name, under, depth+1, out)
		}
	default: // a document or a list; an alias is read where its anchor stands
		for _, c := range n.Content {
			walkScalars(c, key, selector, depth+1, out)
		}
	}
}

// get is the value of a key, or nil.
func get(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// expression reads {key: …, operator: …, values: […]}: the topology label whose
// values nodes must have, and whether the values are those that they must not have.
func expression(n *yaml.Node) (label string, excluded bool) {
	if key := get(n, "key"); key != nil && topologyLabel(key.Value) {
		label = key.Value
	}
	operator := get(n, "operator")
	return label, operator != nil && operator.Value == "NotIn"
}

func topologyLabel(key string) bool {
	prefix, name, _ := strings.Cut(key, "/")
	return (prefix == "topology.kubernetes.io" || prefix == "failure-domain.beta.kubernetes.io") && (name == "region" || name == "zone")
}
