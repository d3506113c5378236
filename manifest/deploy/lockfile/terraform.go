package lockfile

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// provider is one block of .terraform.lock.hcl.
type provider struct {
	address     string // registry.terraform.io/hashicorp/aws
	version     string
	constraints string
}

// tfHash matches a hash of a provider: h1 over its unpacked files, zh of its
// archive.
var tfHash = regexp.MustCompile(`^(h1:[A-Za-z0-9+/]{43}=|zh:[0-9a-f]{64})$`)

func readTerraform(l *ledger) error {
	body, err := parseHCL(l.lock)
	if err != nil {
		return err
	}
	var all []provider
	for _, b := range body.Blocks {
		if b.Type != "provider" {
			return atLine(b.TypeRange.Start.Line, "line %d: %q is no block of a provider lock", b.TypeRange.Start.Line, clip(b.Type, 40))
		}
		if len(b.Labels) != 1 || strings.Count(b.Labels[0], "/") != 2 {
			return atLine(b.TypeRange.Start.Line, "line %d: a provider needs its full address", b.TypeRange.Start.Line)
		}
		all = append(all, l.provider(b))
	}
	l.terraformInStep(all)
	return nil
}

func (l *ledger) provider(b *hclsyntax.Block) provider {
	p := provider{address: b.Labels[0], version: constant(b.Body, "version"), constraints: constant(b.Body, "constraints")}
	hashed := false
	for _, h := range constants(b.Body, "hashes") {
		hashed = tfHash.MatchString(h)
		if !hashed {
			break
		}
	}
	host, _, _ := strings.Cut(p.address, "/")
	l.facts.Hosts = append(l.facts.Hosts, strings.ToLower(host))
	l.add(entry{name: p.address, pinned: exactSemver(p.version), hashed: hashed})
	return p
}

// tfNeed is a provider that the configuration requires.
type tfNeed struct{ address, constraint string }

// tfConfig is what the *.tf files of one folder say.
type tfConfig struct {
	found     bool
	modules   bool // it calls modules, whose requirements are not at hand
	named     map[string]tfNeed
	mentioned map[string]bool // providers that resources use, by local name
	broken    string
}

// terraformConfig reads the *.tf files beside the lock.
func (l *ledger) terraformConfig(standard string) tfConfig {
	c := tfConfig{named: map[string]tfNeed{}, mentioned: map[string]bool{}}
	for at, f := range l.files {
		ext := path.Ext(at)
		if path.Dir(at) != path.Dir(path.Clean(l.lock.Path)) || ext != ".tf" && ext != ".tofu" {
			continue
		}
		c.found = true
		body, err := parseHCL(f)
		if err != nil {
			c.broken = path.Base(at)
			continue
		}
		for _, b := range body.Blocks {
			l.terraformBlock(&c, b, standard)
		}
	}
	return c
}

func (l *ledger) terraformBlock(c *tfConfig, b *hclsyntax.Block, standard string) {
	switch b.Type {
	case "terraform":
		for _, inner := range b.Body.Blocks {
			if inner.Type == "required_providers" {
				c.require(inner.Body, standard)
			}
		}
	case "module":
		c.modules = true
		source := constant(b.Body, "source")
		l.url(strings.TrimPrefix(strings.TrimPrefix(source, "git::"), "hg::"))
	case "provider", "resource", "data", "ephemeral":
		if len(b.Labels) == 0 {
			return
		}
		name, _, _ := strings.Cut(b.Labels[0], "_")
		if a, ok := b.Body.Attributes["provider"]; ok && b.Type != "provider" {
			if t, ok := a.Expr.(*hclsyntax.ScopeTraversalExpr); ok {
				name = t.Traversal.RootName()
			}
		} else if b.Type == "provider" {
			name = b.Labels[0]
			if v := constant(b.Body, "version"); v != "" && c.named[name].address == "" {
				c.named[name] = tfNeed{address: standard + "/hashicorp/" + name, constraint: v}
			}
		}
		c.mentioned[name] = true
	}
}

// require reads required_providers: objects with source and version, or, as it
// was before 0.13, only a version.
func (c *tfConfig) require(b *hclsyntax.Body, standard string) {
	for name, a := range b.Attributes {
		n := tfNeed{address: standard + "/hashicorp/" + name, constraint: constantText(a.Expr)}
		if object, ok := a.Expr.(*hclsyntax.ObjectConsExpr); ok {
			for _, item := range object.Items {
				switch hcl.ExprAsKeyword(item.KeyExpr) {
				case "source":
					n.address = fullAddress(constantText(item.ValueExpr), name, standard)
				case "version":
					n.constraint = constantText(item.ValueExpr)
				}
			}
		}
		if had, ok := c.named[name]; ok && had.constraint != "" && n.constraint != "" {
			n.constraint = had.constraint + ", " + n.constraint
		}
		c.named[name] = n
	}
}

// fullAddress adds the parts of a provider's address that may be left out.
func fullAddress(source, name, standard string) string {
	switch parts := strings.Split(strings.ToLower(source), "/"); len(parts) {
	case 3:
		return strings.Join(parts, "/")
	case 2:
		return standard + "/" + strings.Join(parts, "/")
	}
	return standard + "/hashicorp/" + name
}

// terraformInStep compares providers and versions, as `terraform init
// -lockfile=readonly` does.
func (l *ledger) terraformInStep(all []provider) {
	standard := "registry.terraform.io"
	if slices.ContainsFunc(all, func(p provider) bool { return strings.HasPrefix(p.address, "registry.opentofu.org/") }) {
		standard = "registry.opentofu.org"
	}
	c := l.terraformConfig(standard)
	switch {
	case !c.found:
		l.cannotSay("no *.tf file is at hand")
		return
	case c.broken != "":
		l.cannotSay("%s cannot be read", c.broken)
	}
	l.judged = true
	for name := range c.mentioned {
		if _, ok := c.named[name]; !ok && name != "terraform" {
			c.named[name] = tfNeed{address: standard + "/hashicorp/" + name}
		}
	}
	l.terraformNeeds(c, all)
	for _, p := range all {
		if c.requires(p.address) {
			continue
		}
		if c.modules || c.broken != "" {
			l.cannotSay("%s may be what a module requires", p.address)
		} else {
			l.disagree("%s is locked, and nothing requires it", p.address)
		}
	}
}

func (c tfConfig) requires(address string) bool {
	for _, n := range c.named {
		if n.address == address {
			return true
		}
	}
	return false
}

func (l *ledger) terraformNeeds(c tfConfig, all []provider) {
	for name, n := range c.named {
		if strings.HasPrefix(n.address, "terraform.io/builtin/") || name == "terraform" && n.constraint == "" {
			continue
		}
		i := slices.IndexFunc(all, func(p provider) bool { return p.address == n.address })
		if i < 0 {
			host, _, _ := strings.Cut(n.address, "/")
			l.facts.Hosts = append(l.facts.Hosts, host)
			l.disagree("%s is required but not locked", n.address)
			continue
		}
		if ok, known := inRange(n.constraint, all[i].version, "="); known && !ok {
			l.disagree("%s %s is required, %s is locked", n.address, n.constraint, all[i].version)
		} else if !c.modules && c.broken == "" && wholeRange(n.constraint) != wholeRange(all[i].constraints) {
			l.disagree("%s is required as %q, the lock records %q", n.address, n.constraint, all[i].constraints)
		}
	}
}

// wholeRange writes a constraint as Terraform records it: sorted, each with three
// numbers, but for ~>, where their count matters.
func wholeRange(text string) string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		m := comparison.FindStringSubmatch(part)
		if m == nil {
			continue
		}
		version := strings.TrimPrefix(strings.TrimSpace(m[2]), "v")
		for m[1] != "~>" && strings.Count(version, ".") < 2 && !strings.Contains(version, "-") {
			version += ".0"
		}
		op := m[1]
		if op == "=" {
			op = ""
		}
		out = append(out, op+" "+version)
	}
	return strings.Join(sortedSet(out), ", ")
}
