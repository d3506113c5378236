package service

import (
	"fmt"
	"slices"
	"strings"

	"drkit/internal/strictyaml"
	"drkit/manifest/region"
)

func (v validator) regions() {
	var names []string
	seen := map[string]string{} // endpoint → where it was first
	for i, r := range v.s.Regions {
		at := fmt.Sprintf("regions[%d]", i)
		v.label(at+".name", r.Name)
		names = append(names, r.Name)
		v.place(at, r)
		v.patterns(at+".files", r.Files)
		v.filled(at+".allowed_differences", r.AllowedDifferences)
		for j, e := range r.Endpoints {
			v.endpoint(fmt.Sprintf("%s.endpoints[%d]", at, j), e, seen)
		}
		if r.S3.Endpoint != "" {
			v.baseURL(at+".s3.endpoint", r.S3.Endpoint)
		}
		v.canary(at+".canary", r.Canary)
		v.routers(at, r)
	}
	v.unique("regions", ".name", names)
	v.oneSource()
	v.apart()
}

func (v validator) endpoint(at, raw string, seen map[string]string) {
	u := v.baseURL(at, raw)
	switch first, twice := seen[u]; {
	case u == "":
	case twice:
		v.Reportf(at, "is already %s", first)
	default:
		seen[u] = at
	}
}

// place checks what says where a region's copy lies.
func (v validator) place(at string, r Region) {
	if r.Role == region.Target && r.Store.Scheme == SchemeHF {
		v.Report(at+".store", "the hub is read only: nothing can be copied to it", "a target is a directory or a bucket")
	}
	if r.State.Scheme == SchemeHF {
		v.Report(at+".state", "the hub is read only", "CURRENT and locks lie in a directory or a bucket")
	}
	switch {
	case r.ModelPrefix != "" && r.Layout != "in-place":
		v.Report(at+".model_prefix", "has a meaning with layout in-place only", "remove it, or set layout: in-place")
	case r.ModelPrefix == "" && r.Layout == "in-place" && !v.Faulty(at+".model_prefix"):
		v.Report(at+".model_prefix", "is missing: layout in-place needs it", "where the model's files lie in the store")
	}
	switch {
	case !v.Has(at+".s3") || v.Faulty(at+".store"):
	case r.Store.Scheme != SchemeS3:
		v.Report(at+".s3", "the store is not a bucket", "remove it, or write store: s3://bucket/prefix")
	case strings.Contains(r.Store.Raw, "?"):
		v.Report(at+".s3", "the store's URL has options too", "write them in one place: beneath s3:")
	}
}

func (v validator) canary(at string, c Canary) {
	if c.Launcher == "kubernetes" {
		if len(c.Command) > 0 {
			v.Report(at+".command", "is for the launcher process", "on Kubernetes the deploy files say what is started")
		}
		if c.Context == "" && !v.Faulty(at+".context") {
			v.Report(at+".context", "is missing: launcher kubernetes needs it", "the context of your kubeconfig that leads to the region's cluster; the current one may lead anywhere")
		}
		if c.Weights == "restore" {
			v.Report(at+".weights", "is for the launcher process", "on Kubernetes the canary gets its weights as production does: weights: as-deployed")
		}
		v.filled(at+".keep_labels", c.KeepLabels)
		v.filled(at+".patches", c.Patches)
		return
	}
	for _, key := range []string{"context", "namespace", "workload", "container", "reach", "priority_class", "keep_labels", "patches"} {
		if v.Has(at + "." + key) {
			v.Reportf(at+"."+key, "is for the launcher kubernetes")
		}
	}
	if c.Weights == "as-deployed" {
		v.Report(at+".weights", "a process has no deployed weights", "write weights: restore")
	}
	if len(c.Command) > 0 && c.Command[0] == "" {
		v.Reportf(at+".command[0]", "is empty")
	}
}

func (v validator) routers(at string, r Region) {
	var names, classes []string
	for _, t := range v.s.Traffic {
		classes = append(classes, t.Name)
	}
	admins := map[string]string{}
	for i, router := range r.Routers {
		one := fmt.Sprintf("%s.routers[%d]", at, i)
		v.label(one+".name", router.Name)
		names = append(names, router.Name)
		for j, rep := range router.Replicas {
			where := fmt.Sprintf("%s.replicas[%d]", one, j)
			if rep.Admin != "" {
				v.endpoint(where+".admin", rep.Admin, admins)
			}
			if rep.Metrics != "" {
				v.baseURL(where+".metrics", rep.Metrics)
			}
			if rep.URL != "" {
				v.baseURL(where+".url", rep.URL)
			}
		}
		v.commands(one, router.Driver, router.Apply, router.Observe)
		v.known(one+".serves", router.Serves, classes)
	}
	v.unique(at+".routers", ".name", names)
}

// commands checks the two commands of a router or edge: the driver command needs both,
// any other has none.
func (v validator) commands(at, driver string, apply, observe []string) {
	for key, argv := range map[string][]string{"apply": apply, "observe": observe} {
		where := at + "." + key
		switch {
		case driver == "command" && len(argv) == 0 && !v.Faulty(where):
			v.Report(where, "is missing: the driver command needs it", "a list of words, such as [./router.sh, "+key+"]")
		case driver != "command" && len(argv) > 0:
			v.Report(where, "is for the driver command", "remove it, or set driver: command")
		case len(argv) > 0 && argv[0] == "":
			v.Reportf(where+"[0]", "is empty")
		}
		v.flags(where, argv)
	}
}

// known refuses names of traffic classes that there are not.
func (v validator) known(at string, names, classes []string) {
	if len(names) == 0 || v.broken("traffic", "name", len(classes)) {
		return
	}
	for i, name := range names {
		if !slices.Contains(classes, name) {
			hint := "name a class of traffic"
			if near := strictyaml.Near(name, classes); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			v.Report(fmt.Sprintf("%s[%d]", at, i), fmt.Sprintf("%q is no class of traffic", name), hint)
		}
	}
}

// oneSource insists on exactly one region that the release comes from.
func (v validator) oneSource() {
	first := -1
	if v.broken("regions", "role", len(v.s.Regions)) {
		return
	}
	for i, r := range v.s.Regions {
		switch {
		case r.Role != region.Source:
		case first >= 0:
			v.Report(fmt.Sprintf("regions[%d].role", i), fmt.Sprintf("a second source beside regions[%d]", first), "one region is the source, the others are targets")
		default:
			first = i
		}
	}
	if first < 0 && len(v.s.Regions) > 0 {
		v.Report("regions", "no region is the source", "set role: source on the region that the release comes from")
	}
}

// apart refuses two copies in one place: they would be lost together, and a copy
// inside another would be files that the release does not list.
func (v validator) apart() {
	for i, r := range v.s.Regions {
		for j, other := range v.s.Regions[:i] {
			if !other.Store.holds(r.Store) && !r.Store.holds(other.Store) {
				continue
			}
			what := "is inside that of regions[%d], or holds it: a copy inside another is no copy"
			if other.Store.String() == r.Store.String() {
				what = "is the same place as that of regions[%d]: one copy is no copy"
			}
			v.Report(fmt.Sprintf("regions[%d].store", i), fmt.Sprintf(what, j), "give each region a store of its own")
		}
	}
}
