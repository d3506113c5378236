package playbooks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"gopkg.in/yaml.v3"
)

// Hash is the SHA-256 of what the playbook says, in 64 hexadecimal digits. The
// order of keys, comments, quoting and the file's name do not change it; every
// word that a person reads does, for an approval covers that too.
func (p Playbook) Hash() string {
	type step struct {
		ID, Kind, OnTimeout, When, Text string
		Budget, Timeout                 int64 // nanoseconds
		Retries                         int
		With                            any
		Group, Who                      string   `json:",omitempty"` // left out, they keep the hash of a playbook that was written before
		Modes                           []string `json:",omitempty"`
	}
	content := struct {
		Format, Name, Title, Mode string
		Steps                     []step
	}{Format: APIVersion, Name: p.Name, Title: p.Title, Mode: p.Mode}
	for _, s := range p.Steps {
		content.Steps = append(content.Steps, step{
			s.ID, s.Kind, s.OnTimeout, s.When, s.Text,
			int64(s.Budget), int64(s.Timeout), s.Retries, canonical(&s.With, 0),
			s.Group, s.Who, slices.Sorted(slices.Values(s.Modes)),
		})
	}
	data, err := json.Marshal(content)
	if err != nil { // only strings, whole numbers, lists and maps are in it
		panic("playbooks: hashing: " + err.Error())
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// canonical turns a node into values that JSON writes in one way: a scalar is
// its type and text. Load refuses deeper nesting and cycles; depth only bounds
// nodes that were made in code.
func canonical(n *yaml.Node, depth int) any {
	switch {
	case depth > 200:
		return nil
	case n.Kind == yaml.AliasNode:
		return canonical(n.Alias, depth+1)
	case n.Kind == yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			for k.Kind == yaml.AliasNode {
				k = k.Alias
			}
			m[k.Value] = canonical(n.Content[i+1], depth+1)
		}
		return m
	case n.Kind == yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			list = append(list, canonical(item, depth+1))
		}
		return list
	case n.Kind == yaml.ScalarNode:
		return n.ShortTag() + " " + n.Value
	}
	return nil
}
