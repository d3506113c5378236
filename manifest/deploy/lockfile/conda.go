package lockfile

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// condaLock is conda-lock.yml, version 1.
type condaLock struct {
	Version  int `yaml:"version"`
	Metadata *struct {
		ContentHash map[string]string `yaml:"content_hash"`
		Channels    []yaml.Node       `yaml:"channels"`
		Platforms   []string          `yaml:"platforms"`
		Sources     []string          `yaml:"sources"`
	} `yaml:"metadata"`
	Packages []condaPackage `yaml:"package"`
}

type condaPackage struct {
	Name     string             `yaml:"name"`
	Version  string             `yaml:"version"`
	Manager  string             `yaml:"manager"`
	Platform string             `yaml:"platform"`
	URL      string             `yaml:"url"`
	Hash     map[string]*string `yaml:"hash"`
	Optional *bool              `yaml:"optional"`
}

func readConda(l *ledger) error {
	var lock condaLock
	if err := decodeYAML(l.lock.Data, &lock); err != nil {
		return err
	}
	switch {
	case lock.Version != 1:
		return fmt.Errorf("it has version %d; only version 1 is known", lock.Version)
	case lock.Metadata == nil:
		return errors.New("metadata is missing")
	}
	for i, p := range lock.Packages {
		if err := l.condaPackage(p); err != nil {
			return fmt.Errorf("package %d: %w", i+1, err)
		}
	}
	for _, c := range lock.Metadata.Channels {
		l.channel(c)
	}
	l.condaInStep(lock)
	return nil
}

func (l *ledger) condaPackage(p condaPackage) error {
	switch {
	case p.Name == "" || p.Version == "" || p.Manager == "" || p.Platform == "" || p.URL == "" || p.Optional == nil || p.Hash == nil:
		return errors.New("name, version, manager, platform, url, hash or optional is missing")
	case strings.HasPrefix(p.URL, "git+"):
		l.url(p.URL)
		at := p.URL[strings.LastIndexByte(p.URL, '@')+1:]
		at, _, _ = strings.Cut(at, "#")
		l.add(entry{name: p.Name, origin: git, pinned: commit.MatchString(at)})
		return nil
	case strings.HasPrefix(p.URL, "file:") || !strings.Contains(p.URL, "://"):
		l.add(entry{name: p.Name, origin: local})
		return nil
	}
	hashed, err := condaHashed(p.Hash)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	l.url(p.URL)
	l.add(entry{name: p.Name, pinned: true, hashed: hashed})
	return nil
}

// condaHashed reports whether a package has a hash. md5 counts here: it is what
// conda itself compares, and many channels give no other.
func condaHashed(hashes map[string]*string) (bool, error) {
	hashed := false
	for algorithm, n := range map[string]int{"md5": 32, "sha256": 64} {
		h := hashes[algorithm]
		if h == nil || *h == "" {
			continue
		}
		if len(*h) != n || !hexDigits.MatchString(*h) {
			return false, fmt.Errorf("its %s is incomplete", algorithm)
		}
		hashed = true
	}
	return hashed, nil
}

// channel notes the host of a channel. A bare name such as conda-forge lies at
// conda.anaconda.org.
func (l *ledger) channel(n yaml.Node) {
	name := n.Value
	if n.Kind == yaml.MappingNode {
		var c struct {
			URL string `yaml:"url"`
		}
		if n.Decode(&c) != nil {
			return
		}
		name = c.URL
	}
	switch {
	case strings.Contains(name, "://"):
		l.url(name)
	case name == "defaults":
		l.imply("repo.anaconda.com")
	case name != "" && name != "nodefaults" && name != "local":
		l.imply("conda.anaconda.org")
	}
}

// environment is what is read of an environment.yml.
type environment struct {
	Channels  []yaml.Node `yaml:"channels"`
	Depends   []yaml.Node `yaml:"dependencies"`
	Platforms []string    `yaml:"platforms"`
	PipRepos  []string    `yaml:"pip-repositories"`
	Category  string      `yaml:"category"`
}

// condaInStep compares names and versions with environment.yml, then the content
// hash, which also shows what was dropped.
func (l *ledger) condaInStep(lock condaLock) {
	sources := lock.Metadata.Sources
	if len(sources) == 0 {
		sources = []string{"environment.yml"}
	}
	var all []environment
	plain := len(sources) == 1
	for _, s := range sources {
		f, ok := l.near(s)
		if ext := path.Ext(s); !ok || ext != ".yml" && ext != ".yaml" {
			l.cannotSay("%s is not at hand", clip(s, 80))
			plain = false
			continue
		}
		var e environment
		if err := decodeYAML(trimBOM(f.Data), &e); err != nil {
			l.cannotSay("%s cannot be read", s)
			plain = false
			continue
		}
		// Selectors such as "# [linux64]" make lines depend on the platform.
		plain = plain && !strings.Contains(string(f.Data), "# [")
		all = append(all, e)
	}
	for _, e := range all {
		l.condaEnvironment(lock, e)
	}
	if plain && len(all) == 1 {
		l.condaContent(lock, all[0])
	} else if len(l.open) == 0 {
		l.cannotSay("the content hash of several sources or of selectors is not computed")
	}
}

func (l *ledger) condaEnvironment(lock condaLock, e environment) {
	for _, c := range e.Channels {
		l.channel(c)
	}
	for _, u := range e.PipRepos {
		l.url(u)
	}
	locked := map[string][]string{}
	for _, p := range lock.Packages {
		locked[p.Manager+" "+condaName(p.Name)] = append(locked[p.Manager+" "+condaName(p.Name)], p.Version)
	}
	conda, pip := e.specs()
	for _, s := range conda {
		channel, name, spec := splitConda(s)
		l.channel(yaml.Node{Kind: yaml.ScalarNode, Value: channel})
		l.condaSatisfied(locked["conda "+condaName(name)], name, condaRange(spec))
	}
	for _, s := range pip {
		if r, err := parseRequirement(s); err == nil && r.marker == "" {
			if r.url != "" {
				l.url(r.url)
				continue
			}
			found := slices.Concat(locked["pip "+condaName(r.name)], locked["conda "+condaName(r.name)])
			l.condaSatisfied(found, r.name, r.spec)
		}
	}
}

func condaName(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "-")) }

func (l *ledger) condaSatisfied(found []string, name, spec string) {
	if len(found) == 0 {
		l.disagree("%s is required but not locked", name)
		return
	}
	for _, version := range found {
		if ok, known := allows(spec, version); known && !ok {
			l.disagree("%s%s is required, %s is locked", name, spec, version)
			return
		}
	}
}

// specs are the requirements for conda and for pip, as written.
func (e environment) specs() (conda, pip []string) {
	for _, n := range e.Depends {
		if n.Kind == yaml.ScalarNode {
			conda = append(conda, n.Value)
			continue
		}
		var under map[string][]string
		if n.Decode(&under) == nil {
			pip = append(pip, under["pip"]...)
		}
	}
	return conda, pip
}

var condaSpec = regexp.MustCompile(`^(?:(\S+)::)?([A-Za-z0-9_.-]+)\s*(.*)$`)

// splitConda splits "channel::name >=1,<2" into its parts.
func splitConda(spec string) (channel, name, version string) {
	m := condaSpec.FindStringSubmatch(strings.TrimSpace(spec))
	if m == nil {
		return "", spec, ""
	}
	return m[1], m[2], strings.TrimSpace(m[3])
}

// condaRange writes conda's range in the words of PEP 440, as far as they agree:
// "=3.11" means any 3.11. Others become "", which any version meets.
func condaRange(spec string) string {
	if strings.ContainsAny(spec, "|[ ") {
		return ""
	}
	var out []string
	for part := range strings.SplitSeq(spec, ",") {
		op := part[:len(part)-len(strings.TrimLeft(part, "=<>~!"))]
		version := part[len(op):]
		if strings.Contains(version, "=") { // a build follows
			version, _, _ = strings.Cut(version, "=")
		}
		switch op {
		case "": // "name 1.2" means 1.2 alone, "name 1.2.*" all of it
			op = "=="
		case "=":
			if version = strings.TrimSuffix(strings.TrimSuffix(version, "*"), "."); version == "" {
				continue
			}
			op, version = "==", version+".*"
		case "==", "!=", "<=", ">=", "<", ">", "~=":
		default:
			return ""
		}
		out = append(out, op+version)
	}
	return strings.Join(out, ",")
}
