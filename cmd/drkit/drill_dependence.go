package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drkit/internal/service"
)

// dependence refuses a drill that would need the failing region after it is gone:
// for its own records, for the target's state, or for a server that both regions
// share. A recovery that works only while the source lives is none.
func (d *drillPlan) dependence() []error {
	var problems []error
	for _, p := range d.needed() {
		for _, lost := range []service.Location{d.source.region.Store, d.source.region.State} {
			if !lostWith(lost, p.place) {
				continue
			}
			problems = append(problems, refused(fmt.Errorf("%s (%s) lies in what region %s keeps at %s: it would be lost with that region", p.what, p.place.Raw, d.source.region.Name, lost.Raw), p.hint))
			break
		}
	}
	if !d.o.Demo { // a demonstration plays both regions on one machine
		problems = append(problems, d.sharedHosts()...)
	}
	return problems
}

// neededPlace is a place that a drill needs to the end.
type neededPlace struct {
	what, hint string
	place      service.Location
}

func (d *drillPlan) needed() []neededPlace {
	target := d.target.region
	all := []neededPlace{
		{"run.dir", "keep the runs outside of every region, or in the target", d.svc.Run.Dir},
		{"the state of region " + target.Name, "give the target a state of its own in drkit.yaml", target.State},
		{"the store of region " + target.Name, "give the target a bucket of its own", target.Store},
	}
	if !d.svc.Run.Ledger.IsZero() && d.o.WithoutLedger == "" {
		all = append(all, neededPlace{"run.ledger", "keep the ledger outside of every region, or in the target; in an emergency that has begun, --without-ledger REASON goes on without", d.svc.Run.Ledger})
	}
	return all
}

// lostWith says that a place is gone when another one's folder, mount or bucket is.
func lostWith(lost, place service.Location) bool {
	if lost.IsZero() || place.IsZero() || lost.Scheme != place.Scheme {
		return false
	}
	if lost.Scheme == service.SchemeS3 {
		return bucketName(lost) == bucketName(place) && lost.S3.Endpoint == place.S3.Endpoint
	}
	return lost.Scheme == service.SchemeFile && liesIn(existing(place.Path), lost.Path)
}

// existing is the nearest folder above a path that is there.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// sharedHosts refuses servers that the target needs and that are the source's too.
// One that outlives the region is waived by its name.
func (d *drillPlan) sharedHosts() []error {
	theirs := hostsOf(d.source.region)
	var problems []error
	for _, h := range hostsOf(d.target.region) {
		i := slices.IndexFunc(theirs, func(x usedHost) bool { return x.host == h.host })
		if i < 0 || d.hostWaived(h.host) {
			continue
		}
		problems = append(problems, refused(fmt.Errorf("%s of region %s is on %s, as %s of region %s is: it may be lost with that region", h.what, d.target.region.Name, h.host, theirs[i].what, d.source.region.Name),
			"give the target its own; if "+h.host+" is known to outlive region "+d.source.region.Name+", accept it: waivers: [{path: host/"+h.host+", reason: …, owner: …, expires: …}]"))
	}
	return problems
}

// usedHost is a server that a region needs, by host and port as they are written.
type usedHost struct{ what, host string }

func hostsOf(r *service.Region) []usedHost {
	var all []usedHost
	add := func(what, host string) {
		if host != "" && !slices.ContainsFunc(all, func(x usedHost) bool { return x.host == host }) {
			all = append(all, usedHost{what, strings.ToLower(host)})
		}
	}
	registry, _, _ := strings.Cut(r.Registry, "/")
	add("the registry", registry)
	for _, l := range []service.Location{r.Store, r.State} {
		add("the store's endpoint", hostOf(l.S3.Endpoint))
	}
	for _, e := range r.Endpoints {
		add("an endpoint", hostOf(e))
	}
	for _, router := range r.Routers {
		for _, replica := range router.Replicas {
			add("router "+router.Name, hostOf(replica.Admin))
		}
	}
	return all
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}

// hostWaived says that somebody accepted the shared host, for now.
func (d *drillPlan) hostWaived(host string) bool {
	return slices.ContainsFunc(d.svc.Waivers, func(w service.Waiver) bool {
		return w.Path == "host/"+host && !now().After(w.Expires.Time)
	})
}
