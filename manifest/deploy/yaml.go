package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// readYAML walks every document of a YAML or JSON file.
func readYAML(file string, data []byte) (Facts, []Problem) {
	f := &found{facts: Facts{Path: file, Role: Other, Format: "yaml"}}
	documents, err := parseYAML(data)
	if err != nil {
		f.broken(err, data)
	}
	for _, doc := range documents {
		f.document(doc)
	}
	return f.facts, f.problems
}

// parseYAML returns the documents up to the first fault, and the fault.
func parseYAML(data []byte) (documents []*yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil { // the parser of foreign bytes must never take drkit down
			err = fmt.Errorf("yaml: the parser gave up: %v", r)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		switch err := decoder.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return documents, err
		}
		if len(doc.Content) > 0 {
			documents = append(documents, doc.Content[0])
		}
	}
}

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// broken reports a file that is no YAML; templates before they are rendered are
// the most frequent ones.
func (f *found) broken(err error, data []byte) {
	line, why := 0, err.Error()
	if m := yamlError.FindStringSubmatch(strings.ReplaceAll(why, "\n", " ")); m != nil {
		line, _ = strconv.Atoi(m[1])
		why = m[2]
	}
	if at := templateLine(data); at > 0 {
		f.facts.Format = "template"
		f.note(at, KindTemplate, "the file is a template that drkit does not render, so the images in it are not known; list the rendered YAML (helm template) instead")
		return
	}
	if tab := tabLine(data); tab > 0 && strings.Contains(why, "cannot start any token") {
		line, why = tab, "the line is indented with a tab; YAML takes spaces only"
	}
	f.note(line, KindSyntax, "the file is no YAML, so the images behind the fault are not known: "+why)
}

// templateLine is the first line with a template action outside of a comment.
func templateLine(data []byte) int {
	for i, line := range bytes.Split(data, []byte("\n")) {
		text := strings.TrimSpace(string(line))
		if strings.Contains(text, "{{") && !strings.HasPrefix(text, "#") {
			return i + 1
		}
	}
	return 0
}

// tabLine is the first line whose indentation holds a tab, or 0.
func tabLine(data []byte) int {
	for i, line := range bytes.Split(data, []byte("\n")) {
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		if bytes.IndexByte(indent, '\t') >= 0 {
			return i + 1
		}
	}
	return 0
}

// document reads one document by its kind.
func (f *found) document(n *yaml.Node) {
	api, kind := scalar(get(n, "apiVersion")), scalar(get(n, "kind"))
	compose := isCompose(f.facts.Path, n)
	switch {
	case api != "" && kind != "":
		f.facts.Role, f.facts.Format = Kubernetes, "kubernetes"
	case isKustomization(f.facts.Path):
		f.facts.Role, f.facts.Format = Kubernetes, "kustomization"
	case compose:
		f.facts.Format = "compose"
	case strings.EqualFold(path.Ext(f.facts.Path), ".json"):
		return // JSON that is no Kubernetes object uses the word image for other things
	}
	f.walk(n, compose)
}

func isKustomization(file string) bool {
	base := path.Base(file)
	return base == "kustomization.yaml" || base == "kustomization.yml"
}

func isCompose(file string, n *yaml.Node) bool {
	base := strings.ToLower(path.Base(file))
	named := strings.HasPrefix(base, "docker-compose") || strings.HasPrefix(base, "compose.") || strings.HasPrefix(base, "compose-")
	services := get(n, "services")
	return services != nil && services.Kind == yaml.MappingNode && get(n, "kind") == nil &&
		(named || get(n, "apiVersion") == nil)
}

// walk visits every node. Aliases are not followed: what they refer to stands
// in the same document and is visited there.
func (f *found) walk(n *yaml.Node, compose bool) {
	switch n.Kind {
	case yaml.MappingNode:
		switch kind := scalar(get(n, "kind")); {
		case kind == "CustomResourceDefinition":
			return // a schema describes fields; it runs nothing
		case kind == "Secret" && get(n, "apiVersion") != nil:
			f.secret(n)
			return
		}
		f.resource(n)
		f.mapping(n, compose)
		if kind := scalar(get(n, "kind")); kind == "LLMInferenceService" || kind == "LLMInferenceServiceConfig" {
			f.kserve = true
			defer func() { f.kserve = false }()
		}
	case yaml.ScalarNode:
		if secretValue.MatchString(n.Value) {
			f.note(n.Line, KindPlainSecret, "a token or private key stands here in plain text; move it to a Secret that is not in the repository")
		}
	}
	for _, child := range n.Content {
		f.walk(child, compose)
	}
}

func (f *found) mapping(n *yaml.Node, compose bool) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], deref(n.Content[i+1])
		if key.Kind == yaml.MappingNode && !f.templated { // {{ … }} without quotation marks parses as a mapping in a mapping
			f.templated = true
			f.note(key.Line, KindTemplate, "a template action stands here that drkit does not render; list the rendered YAML (helm template) instead")
		}
		switch key.Value {
		case "image":
			f.imageValue(value, key.Line, compose)
		case "images":
			f.kustomizeImages(value)
		case "environment":
			f.composeEnv(value)
		}
	}
	f.envVar(n)
	if !f.done[n] {
		f.engine(n, compose)
	}
}

// imageValue reads what stands at a key image: a reference, the parts of one as
// Helm values have them, or an image volume.
func (f *found) imageValue(v *yaml.Node, line int, compose bool) {
	switch v.Kind {
	case yaml.ScalarNode:
		if v.Tag == "!!null" {
			return
		}
		f.imageScalar(v.Value, line, compose)
	case yaml.MappingNode:
		if reference := scalar(get(v, "reference")); reference != "" {
			f.image(reference, get(v, "reference").Line, nil)
			return
		}
		if scalar(get(v, "repository")) != "" {
			f.helmImage(v)
		}
	}
}

func (f *found) imageScalar(reference string, line int, compose bool) {
	used := false
	if compose {
		none := func(string) (string, bool) { return "", false }
		expanded, _, whole := expand(reference, none)
		if whole {
			used, reference = expanded != reference, expanded
		}
	}
	f.image(reference, line, func(i *Image) { i.FromArgs = used })
}

// helmImage joins registry, repository, tag and digest of Helm values. Charts
// differ in how they do it; this is the common way, and templates may override it.
func (f *found) helmImage(v *yaml.Node) {
	repository := get(v, "repository")
	reference := repository.Value
	if registry := scalar(get(v, "registry")); registry != "" {
		reference = registry + "/" + reference
	}
	if tag := scalar(get(v, "tag")); tag != "" {
		reference += ":" + tag
	}
	if hash := scalar(get(v, "digest")); hash != "" {
		reference += "@" + hash
	}
	f.image(reference, repository.Line, func(i *Image) { i.FromArgs = true })
}

// kustomizeImages reads the images of a kustomization: replacements for names.
func (f *found) kustomizeImages(v *yaml.Node) {
	if v.Kind != yaml.SequenceNode || !isKustomization(f.facts.Path) {
		return
	}
	for _, entry := range v.Content {
		entry = deref(entry)
		reference, tag, hash := scalar(get(entry, "newName")), scalar(get(entry, "newTag")), scalar(get(entry, "digest"))
		if reference == "" {
			reference = scalar(get(entry, "name"))
		}
		if reference == "" {
			continue
		}
		if tag != "" {
			reference += ":" + tag
		}
		if hash != "" {
			reference += "@" + hash
		}
		f.image(reference, entry.Line, nil)
	}
}

// secret reports the fields of a Kubernetes Secret, never their values.
func (f *found) secret(n *yaml.Node) {
	for _, section := range []string{"data", "stringData"} {
		values := get(n, section)
		if values == nil || values.Kind != yaml.MappingNode {
			continue
		}
		for i := 0; i+1 < len(values.Content); i += 2 {
			key, value := values.Content[i], deref(values.Content[i+1])
			if value.Kind != yaml.ScalarNode || value.Value == "" || strings.Contains(value.Value, "{{") || value.Tag == "!!null" {
				continue
			}
			f.note(key.Line, KindPlainSecret, fmt.Sprintf("the Secret holds %s.%s in plain text (base64 hides nothing); keep it in a secret store and refer to it", section, key.Value))
		}
	}
}

// envVar reports {name: API_KEY, value: …} of a container.
func (f *found) envVar(n *yaml.Node) {
	name, value := scalar(get(n, "name")), get(n, "value")
	if name == "" || value == nil || value.Kind != yaml.ScalarNode {
		return
	}
	if secretPair(name, value.Value) && !secretValue.MatchString(value.Value) { // else the walk reports it
		f.note(value.Line, KindPlainSecret, fmt.Sprintf("the variable %s holds a secret in plain text; take it from a Secret (valueFrom.secretKeyRef)", name))
	}
}

// composeEnv reports secrets in the environment of a Compose service.
func (f *found) composeEnv(v *yaml.Node) {
	report := func(name, value string, line int) {
		if secretPair(name, value) && !secretValue.MatchString(value) {
			f.note(line, KindPlainSecret, fmt.Sprintf("the variable %s holds a secret in plain text; take it from the environment or a secrets file", name))
		}
	}
	for i := 0; v.Kind == yaml.MappingNode && i+1 < len(v.Content); i += 2 {
		report(v.Content[i].Value, scalar(v.Content[i+1]), v.Content[i].Line)
	}
	for i := 0; v.Kind == yaml.SequenceNode && i < len(v.Content); i++ {
		name, value, _ := strings.Cut(scalar(v.Content[i]), "=")
		report(name, value, v.Content[i].Line)
	}
}

// get is the value at key of a mapping, with aliases resolved, or nil.
func get(n *yaml.Node, key string) *yaml.Node {
	if n = deref(n); n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key && n.Content[i].Kind == yaml.ScalarNode {
			return deref(n.Content[i+1])
		}
	}
	return nil
}

// scalar is the text of a scalar node; null and everything else are "".
func scalar(n *yaml.Node) string {
	if n = deref(n); n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

func deref(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
