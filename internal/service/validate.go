package service

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"drkit/internal/strictyaml"
	"drkit/manifest/region"
)

// validator reports what single values cannot show: names, what refers to what,
// and sums. A check stays silent where what it rests on is wrong already.
type validator struct {
	*strictyaml.Document
	s *Service
}

func validate(doc *strictyaml.Document, s *Service) {
	v := validator{doc, s}
	v.label("metadata.name", s.Metadata.Name)
	v.model()
	v.patterns("engine.configs", s.Engine.Configs)
	v.probes()
	v.patterns("deploy.files", s.Deploy.Files)
	v.filled("deploy.images", s.Deploy.Images)
	v.regions()
	v.traffic()
	if v.s.Edge.Driver != "" || v.Has("edge") {
		v.commands("edge", v.s.Edge.Driver, v.s.Edge.Apply, v.s.Edge.Observe)
	}
	v.objectives()
	v.waivers()
	v.approvals()
	v.live()
	if s.Run.Dir.Scheme != SchemeFile {
		v.Report("run.dir", "must be a folder", "an S3 copy of the runs is named by run.ledger")
	}
	v.secrets()
}

var (
	dnsLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	pathName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

// label refuses a name that could not be a folder, a label and a host name alike.
func (v validator) label(at, name string) {
	if name != "" && !dnsLabel.MatchString(name) {
		v.Report(at, fmt.Sprintf("%q is not a name", name), "use lower case letters, digits and dashes, at most 63")
	}
}

// unique reports the second of two equal names in a list.
func (v validator) unique(list, field string, names []string) {
	first := map[string]int{}
	for i, name := range names {
		j, twice := first[name]
		switch {
		case name == "":
		case twice:
			v.Reportf(fmt.Sprintf("%s[%d]%s", list, i, field), "%q is already that of %s[%d]", name, list, j)
		default:
			first[name] = i
		}
	}
}

// broken reports whether a list of n elements, or a field of one, is wrong
// already, so that what refers to it cannot be judged.
func (v validator) broken(list, field string, n int) bool {
	if n == 0 {
		return v.Faulty(list)
	}
	for i := range n {
		if v.Faulty(fmt.Sprintf("%s[%d].%s", list, i, field)) {
			return true
		}
	}
	return false
}

// filled refuses empty elements.
func (v validator) filled(at string, list []string) {
	for i, s := range list {
		if strings.TrimSpace(s) == "" {
			v.Reportf(fmt.Sprintf("%s[%d]", at, i), "is empty")
		}
	}
}

func (v validator) model() {
	for at, list := range map[string][]Extra{"model.adapters": v.s.Model.Adapters, "model.drafts": v.s.Model.Drafts} {
		var names []string
		for i, e := range list {
			names = append(names, e.Name)
			if e.Name != "" && !pathName.MatchString(e.Name) {
				v.Report(fmt.Sprintf("%s[%d].name", at, i), fmt.Sprintf("%q cannot be a folder of the release", e.Name),
					"use letters, digits, dots, dashes and underscores, beginning with a letter or digit")
			}
		}
		v.unique(at, ".name", names)
	}
	v.repositories()
}

var (
	hubName  = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$`)
	revision = regexp.MustCompile(`^[A-Za-z0-9][\w./-]*$`)
)

// repositories checks the further repositories: their names become folders of
// the release, and are what the model refers to.
func (v validator) repositories() {
	var names []string
	for i, r := range v.s.Model.Repositories {
		at := fmt.Sprintf("model.repositories[%d]", i)
		names = append(names, r.Name)
		if r.Name != "" && !hubName.MatchString(r.Name) {
			v.Report(at+".name", fmt.Sprintf("%q is not the name of a repository", r.Name), "write org/name, as what refers to it names it")
		}
		if r.Revision != "" && !revision.MatchString(r.Revision) {
			v.Report(at+".revision", fmt.Sprintf("%q is not a revision", r.Revision), "write the commit that the copy was made at")
		}
		if _, at2, ok := strings.Cut(r.Source.Path, "@"); ok && r.Source.Scheme == SchemeHF && r.Revision != "" && r.Revision != at2 {
			v.Reportf(at+".revision", "is %s, and source is at %s", r.Revision, at2)
		}
	}
	v.unique("model.repositories", ".name", names)
}

// patterns are relative to the file's folder and stay beneath it: the paths that
// they find are paths of the release.
func (v validator) patterns(at string, list []string) {
	v.filled(at, list)
	for i, p := range list {
		v.beneath(fmt.Sprintf("%s[%d]", at, i), p)
	}
	v.unique(at, "", list)
}

func (v validator) beneath(at, p string) {
	if p == "" {
		return
	}
	if _, err := path.Match(p, ""); err != nil {
		v.Report(at, "is not a pattern", "a [ needs its ]")
	}
	if path.IsAbs(p) || slices.Contains(strings.Split(p, "/"), "..") {
		v.Report(at, "leaves the folder of "+path.Base(v.s.File), "its path becomes a path of the release: keep drkit.yaml above the files that it names")
	}
}

func (v validator) probes() {
	p := v.s.Engine.Probes
	switch {
	case p.IsZero():
	case strings.Contains(p.Raw, "://"):
		v.Report("engine.probes", "must be a path", "the recorded probes are a file of the release")
	default:
		v.beneath("engine.probes", p.Raw)
	}
}

func (v validator) objectives() {
	o := v.s.Objectives
	if len(o.MustProve) == 0 && !v.Faulty("objectives.must_prove") {
		v.Report("objectives.must_prove", "is empty: any drill would count as recovered", "leave it out for copy, boot, behaviour, router")
	}
	v.unique("objectives.must_prove", "", o.MustProve)
}

func (v validator) waivers() {
	for i, w := range v.s.Waivers {
		at := fmt.Sprintf("waivers[%d]", i)
		if w.Rule == "" && w.Path == "" && !v.Faulty(at+".rule") && !v.Faulty(at+".path") {
			v.Report(at, "names neither a rule nor a path", "rule: T-1 for a finding, path: model/base/tokenizer.json for a gap")
		}
	}
}

const sumSlack = 1e-9 // shares such as 0.1+0.2+0.7 are not exact

func (v validator) traffic() {
	var names []string
	sum, blind := 0.0, v.broken("regions", "residency", len(v.s.Regions))
	for i, t := range v.s.Traffic {
		at := fmt.Sprintf("traffic[%d]", i)
		v.label(at+".name", t.Name)
		names = append(names, t.Name)
		sum += t.Share
		if t.Share == 0 && !v.Faulty(at+".share") {
			v.Report(at+".share", "is missing or 0", "the share of all requests, such as 0.8")
		}
		if len(t.Residency) > 0 && !v.Faulty(at+".residency") && !blind && !v.served(t.Residency) {
			v.Report(at+".residency", "no region has one of these residencies", v.nearResidency(t.Residency))
		}
	}
	v.unique("traffic", ".name", names)
	if sum > 1+sumSlack {
		v.Report("traffic", fmt.Sprintf("the shares add up to %.4g", sum), "they are parts of 1")
	}
}

func (v validator) served(allowed []region.Residency) bool {
	return slices.ContainsFunc(v.s.Regions, func(r Region) bool { return region.Allows(allowed, r.Residency) })
}

func (v validator) nearResidency(allowed []region.Residency) string {
	var known []string
	for _, r := range v.s.Regions {
		known = append(known, string(r.Residency))
	}
	for _, a := range allowed {
		if near := strictyaml.Near(string(a), known); near != "" {
			return fmt.Sprintf("did you mean %q?", near)
		}
	}
	return "state residency on the region that may answer this class"
}

// baseURL refuses what is not an http(s) URL that paths can be added to, and
// returns it in one spelling.
func (v validator) baseURL(at, raw string) string {
	u, err := url.Parse(raw)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		v.Report(at, "is not a URL", "write http://host:port")
		return ""
	case u.User != nil:
		v.Report(at, "holds credentials", "secrets come from the environment")
		return ""
	case u.RawQuery != "" || u.Fragment != "":
		v.Reportf(at, "has a query or fragment")
		return ""
	}
	return strings.ToLower(u.Scheme+"://"+u.Host) + strings.TrimRight(u.Path, "/")
}
