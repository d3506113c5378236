package service

import (
	"fmt"
	"strings"
)

// Approvals say who may approve a live run, and how many of them it needs.
type Approvals struct {
	Required int        `yaml:"required" strict:"min=1"`            // different people; default 1
	Self     string     `yaml:"self" strict:"enum=refused|allowed"` // whether the operator's own approval counts; default refused
	Keys     []Approver `yaml:"keys"`
}

// Approver is a person and the public key that their approvals are signed with.
type Approver struct {
	Name string `yaml:"name" strict:"required"`
	Key  string `yaml:"key" strict:"required"` // as ssh writes it on one line, or a file that holds it (PEM or OpenSSH)
	User string `yaml:"user"`                  // account under which this person runs drkit; default: the name
}

// Inline reports whether Key is the key itself and not a file's name.
func (a Approver) Inline() bool {
	return strings.HasPrefix(a.Key, "-----BEGIN") || strings.Contains(a.Key, " AAAA")
}

// Live says what live runs may touch.
type Live struct {
	Targets []string `yaml:"targets"` // names of regions; none: no live run at all
}

func (v validator) approvals() {
	var names, users []string
	for i, a := range v.s.Approvals.Keys {
		names, users = append(names, a.Name), append(users, a.User)
		if strings.Contains(a.Key, "PRIVATE KEY") {
			v.Report(fmt.Sprintf("approvals.keys[%d].key", i), "is a private key", "name the public key: the private one stays with its owner")
		}
	}
	v.unique("approvals.keys", ".name", names)
	v.unique("approvals.keys", ".user", users)
	if n := len(names); n > 0 && v.s.Approvals.Required > n {
		v.Report("approvals.required", fmt.Sprintf("asks for %d people, and keys names %d", v.s.Approvals.Required, n), "name as many keys, or require fewer")
	}
}

// live insists that what live runs may touch are targets.
func (v validator) live() {
	if v.broken("regions", "name", len(v.s.Regions)) || v.broken("regions", "role", len(v.s.Regions)) {
		return
	}
	v.unique("live.targets", "", v.s.Live.Targets)
	for i, name := range v.s.Live.Targets {
		if r := v.s.Region(name); r == nil || r.Role != "target" {
			v.Report(fmt.Sprintf("live.targets[%d]", i), fmt.Sprintf("%q is no target region", name), "name a region with role: target")
		}
	}
}
