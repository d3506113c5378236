package playbooks

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"drkit/internal/strictyaml"
)

// APIVersion is the version of the playbook format that this drkit reads.
const APIVersion = "drkit/v1"

// file and fileStep are the playbook as people write it.
type file struct {
	APIVersion string `yaml:"apiVersion" strict:"required"`
	Kind       string `yaml:"kind" strict:"required"`
	Metadata   struct {
		Name  string `yaml:"name" strict:"required"`
		Title string `yaml:"title"`
	} `yaml:"metadata" strict:"required"`
	Mode  string     `yaml:"mode" strict:"enum=rehearsal|planned|emergency|failback|tabletop"`
	Steps []fileStep `yaml:"steps" strict:"required"`
}

type fileStep struct {
	ID        string        `yaml:"id" strict:"required"`
	Kind      string        `yaml:"kind" strict:"required"`
	Text      string        `yaml:"text" strict:"required"`
	Budget    time.Duration `yaml:"budget" strict:"min=0s"`
	Timeout   time.Duration `yaml:"timeout" strict:"required,min=1s"`
	OnTimeout string        `yaml:"on_timeout" strict:"enum=abort|hold"`
	Retries   int           `yaml:"retries" strict:"min=0,max=10"`
	When      string        `yaml:"when" strict:"enum=passed|always"`
	Group     string        `yaml:"group"`
	Modes     []string      `yaml:"modes" strict:"enum=rehearsal|planned|emergency|failback|tabletop"`
	Who       string        `yaml:"who"`
	With      yaml.Node     `yaml:"with"`
}

// Load reads a playbook. File is its name in errors, kinds are the kinds of
// steps that the caller can run; without any, kinds are not checked. The error
// holds *strictyaml.Errors with everything that is wrong.
func Load(data []byte, name string, kinds ...string) (Playbook, error) {
	return LoadChecked(data, name, func(Step) error { return nil }, kinds...)
}

// LoadChecked is Load with a check of each step's options by the step's kind. Its
// errors are those of Decode and Fault, and are told together with all others.
func LoadChecked(data []byte, name string, check func(Step) error, kinds ...string) (Playbook, error) {
	doc := strictyaml.Parse(data, name)
	if !rightHeader(doc) {
		return Playbook{}, doc.Err()
	}
	var f file
	doc.Decode(&f)
	p := f.playbook(doc, name)
	if doc.Readable() {
		validate(doc, f, kinds)
		groups(doc, f.Steps)
		modes(doc, f)
		for i, s := range p.Steps {
			if !doc.Faulty(fmt.Sprintf("steps[%d].kind", i)) {
				doc.Join(check(s))
			}
		}
	}
	if err := doc.Err(); err != nil {
		return Playbook{}, err
	}
	return p, nil
}

// rightHeader refuses another version or kind of file before the rest is read:
// its keys would all be unknown.
func rightHeader(doc *strictyaml.Document) bool {
	if v, ok := doc.Scalar("apiVersion"); ok && v != APIVersion {
		doc.Report("apiVersion", fmt.Sprintf("%q is not a version that this drkit reads", v), "it reads "+APIVersion)
		return false
	}
	if k, ok := doc.Scalar("kind"); ok && k != "Playbook" {
		doc.Report("kind", fmt.Sprintf("%q is not Playbook", k), "is this the right file?")
		return false
	}
	return true
}

var stepID = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func validate(doc *strictyaml.Document, f file, kinds []string) {
	first := map[string]int{}
	for i, s := range f.Steps {
		at := fmt.Sprintf("steps[%d]", i)
		switch j, twice := first[s.ID]; {
		case s.ID == "":
		case twice:
			doc.Reportf(at+".id", "%q is already the id of steps[%d]", s.ID, j)
		case !stepID.MatchString(s.ID):
			doc.Report(at+".id", fmt.Sprintf("%q is not an id", s.ID), "use lower case letters, digits and dashes, at most 63")
		}
		if _, ok := first[s.ID]; !ok {
			first[s.ID] = i
		}
		if len(kinds) > 0 && s.Kind != "" && !slices.Contains(kinds, s.Kind) {
			doc.Report(at+".kind", fmt.Sprintf("%q is not a kind of step", s.Kind), kindHint(s.Kind, kinds))
		}
		if s.Timeout > 0 && s.Budget > s.Timeout {
			doc.Reportf(at+".budget", "is larger than the timeout of %s", duration(s.Timeout))
		}
	}
}

// groups refuses groups that could not run in parallel as they are written.
func groups(doc *strictyaml.Document, steps []fileStep) {
	first, last := map[string]int{}, map[string]int{}
	for i, s := range steps {
		at := fmt.Sprintf("steps[%d].group", i)
		j, begun := first[s.Group]
		switch {
		case s.Group == "":
			if doc.Has(at) {
				doc.Report(at, "is empty", "")
			}
			continue
		case !stepID.MatchString(s.Group):
			doc.Report(at, fmt.Sprintf("%q is not the name of a group", s.Group), "use lower case letters, digits and dashes, at most 63")
		case begun && last[s.Group] != i-1:
			doc.Report(at, fmt.Sprintf("group %q was left after steps[%d]", s.Group, last[s.Group]), "steps that run in parallel follow each other")
		case begun && or(s.When, Passed) != or(steps[j].When, Passed):
			doc.Report(at, fmt.Sprintf("the steps of group %q do not agree on when they run", s.Group), "give all of them the same when")
		}
		if !begun {
			first[s.Group] = i
		}
		last[s.Group] = i
	}
	for name, i := range first {
		if last[name] == i {
			doc.Report(fmt.Sprintf("steps[%d].group", i), fmt.Sprintf("is the only step of group %q", name), "a group has two steps or more: is the name misspelt?")
		}
	}
}

// modes refuses a step that names a mode twice, and a playbook none of whose steps
// are of its own mode.
func modes(doc *strictyaml.Document, f file) {
	left := len(f.Steps) == 0
	for i, s := range f.Steps {
		at := fmt.Sprintf("steps[%d].modes", i)
		for j, m := range s.Modes {
			if slices.Contains(s.Modes[:j], m) {
				doc.Reportf(fmt.Sprintf("%s[%d]", at, j), "%q is already in the list", m)
			}
		}
		if len(s.Modes) == 0 && doc.Has(at) && !doc.Faulty(at) {
			doc.Report(at, "is empty", "leave the key out for a step of every mode")
		}
		if doc.Has(fmt.Sprintf("steps[%d].who", i)) && strings.TrimSpace(s.Who) == "" {
			doc.Report(fmt.Sprintf("steps[%d].who", i), "is empty", "")
		}
		left = left || len(s.Modes) == 0 || slices.Contains(s.Modes, or(f.Mode, Rehearsal)) || doc.Faulty(at)
	}
	if !left && !doc.Faulty("mode") {
		doc.Report("steps", fmt.Sprintf("no step is of the playbook's mode %s", or(f.Mode, Rehearsal)), "add the mode to the steps' modes, or leave modes out")
	}
}

func kindHint(kind string, kinds []string) string {
	if near := strictyaml.Near(kind, kinds); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	kinds = slices.Clone(kinds)
	slices.Sort(kinds)
	return "the kinds are " + strings.Join(kinds, ", ")
}

// playbook is the file with its defaults filled in.
func (f file) playbook(doc *strictyaml.Document, name string) Playbook {
	p := Playbook{Name: f.Metadata.Name, Title: f.Metadata.Title, Mode: or(f.Mode, Rehearsal)}
	for i, s := range f.Steps {
		at := fmt.Sprintf("steps[%d]", i)
		p.Steps = append(p.Steps, Step{
			ID: s.ID, Kind: s.Kind, Text: strings.TrimSpace(s.Text),
			Budget: s.Budget, Timeout: s.Timeout, Retries: s.Retries, With: s.With,
			OnTimeout: or(s.OnTimeout, Abort), When: or(s.When, Passed),
			Group: s.Group, Modes: s.Modes, Who: strings.TrimSpace(s.Who),
			Line: doc.Line(at), file: name, path: at + ".with",
		})
	}
	return p
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// duration prints without the zeroes of time.Duration: "30m", not "30m0s".
func duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
