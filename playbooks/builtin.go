package playbooks

import (
	"embed"
	"fmt"
	"strings"

	"drkit/internal/errext"
	"drkit/internal/strictyaml"
)

//go:embed *.yaml
var builtin embed.FS

// Names lists the built-in playbooks, sorted.
func Names() []string {
	entries, _ := builtin.ReadDir(".") // the root of an embedded tree is always there
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Builtin returns the built-in playbook of that name. Kinds are as in Load.
func Builtin(name string, kinds ...string) (Playbook, error) {
	data, err := Source(name)
	if err != nil {
		return Playbook{}, err
	}
	return Load(data, "built-in "+name, kinds...)
}

// Source returns the YAML of a built-in playbook, to begin an own one with.
func Source(name string) ([]byte, error) {
	data, err := builtin.ReadFile(name + ".yaml")
	if err != nil {
		hint := "the built-in playbooks are " + strings.Join(Names(), ", ") + "; a file is given by its path"
		if near := strictyaml.Near(name, Names()); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		err = fmt.Errorf("no built-in playbook is called %q", name)
		return nil, errext.WithStatus(errext.WithHint(err, hint), errext.Usage)
	}
	return data, nil
}
