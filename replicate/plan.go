// Package replicate brings a release into every region of a service: Survey
// looks at the copies, NewPlan says what is to be done, Execute does it. A file
// goes from its source into the source region's store and from there to the
// targets, is hashed while it is written, and the copy is verified as a whole
// before the release is published: manifest.json in the copy, then CURRENT in
// the region's state, last and by conditional write.
//
// No lock is taken, because none is needed: a key is written whole or not at
// all, only with the manifest's bytes, so two runs at once do the same work
// twice at worst; and of two that publish, the later one sees that CURRENT is
// not what its plan saw, and fails without overwriting it. A run that was killed
// is resumed by running it again: what is there and right is not copied again.
//
// Restore pulls a release out of one copy into a folder.
package replicate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/region"
	"drkit/manifest/release"
	"drkit/verify"
)

// Region is one region of a service and its places.
type Region struct {
	Name  string
	Role  region.Role
	Store store.ReadWriter // holds the releases
	State store.ReadWriter // holds CURRENT
}

// Found is what Survey saw in a region.
type Found struct {
	Region  string
	Role    region.Role
	Copy    verify.Result
	Current release.Current // the zero value when the region has none
	Err     error           // why nothing can be planned here
}

// Survey verifies every region's copy and reads its CURRENT. What concerns one
// region stands in its Found; the error is that of a cancelled ctx or of
// unusable options.
func Survey(ctx context.Context, m *manifest.Manifest, regions []Region, opts verify.Options) ([]Found, error) {
	if err := distinct(regions); err != nil {
		return nil, err
	}
	var all []Found
	for _, r := range regions {
		f := Found{Region: r.Name, Role: r.Role}
		var err error
		f.Copy, err = verify.Release(ctx, m, copyIn(m, r), opts)
		if err != nil {
			return nil, err
		}
		f.Current, err = release.ReadCurrent(ctx, r.State, r.Name, m.Service)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			f.Err = err
		}
		all = append(all, f)
	}
	return all, nil
}

// distinct refuses two regions in one place: one copy would pass for two.
func distinct(regions []Region) error {
	for i, a := range regions {
		for _, b := range regions[:i] {
			if a.Name == b.Name || store.SamePlace(a.Store, b.Store) {
				return errext.WithStatus(fmt.Errorf("the regions %s and %s have one name or one store: losing the one would lose the other", b.Name, a.Name), errext.Usage)
			}
		}
	}
	return nil
}

// copyIn is a region's copy while it is not published.
func copyIn(m *manifest.Manifest, r Region) verify.Copy {
	return verify.Copy{Region: r.Name, Store: r.Store, Prefix: release.Prefix(m.Service, m.Release), Bare: true}
}

// PlanInput is everything that a plan follows from.
type PlanInput struct {
	Manifest    *manifest.Manifest
	Found       []Found
	DeleteExtra bool // delete what the release does not list, instead of stopping there
	// Borders says why a file may not be held in a region; nil means that none
	// of the files is bound to a border.
	Borders func(f manifest.File, region string) error
}

// Plan says what Execute will do. It is computed from its input alone.
type Plan struct {
	Service string       `json:"service"`
	Release string       `json:"release"`
	Regions []RegionPlan `json:"regions"` // the source first
}

// RegionPlan is what is to be done in one region.
type RegionPlan struct {
	Region    string      `json:"region"`
	Role      region.Role `json:"role"`
	Copy      []Action    `json:"copy"`
	Delete    []string    `json:"delete,omitempty"` // keys
	Keep      int         `json:"keep"`             // files that are there and right
	KeepBytes int64       `json:"keep_bytes"`
	Bytes     int64       `json:"bytes"`    // to copy
	Requests  int         `json:"requests"` // reads and writes of objects; listing and verifying not counted
	Publish   bool        `json:"publish"`  // CURRENT will name this release
	Replaces  string      `json:"replaces,omitempty"`
	Refused   []string    `json:"refused,omitempty"` // files that may not cross the region's border
	Blocked   string      `json:"blocked,omitempty"` // why nothing is done in this region

	seen    release.Current
	blocked error
}

// Action is one file to copy, and why.
type Action struct {
	Subject string        `json:"subject"`
	Reason  string        `json:"reason"` // missing, diverged, not proven, unreadable
	Bytes   int64         `json:"bytes"`
	File    manifest.File `json:"-"`
}

// NewPlan decides what is to be done; it touches nothing. The error is a
// configuration that cannot be planned for.
func NewPlan(in PlanInput) (Plan, error) {
	p := Plan{Service: in.Manifest.Service, Release: in.Manifest.Release}
	sources := 0
	for _, f := range in.Found {
		if f.Role == region.Source {
			sources++
		}
		p.Regions = append(p.Regions, planRegion(in, f))
	}
	if sources != 1 {
		return Plan{}, errext.WithStatus(fmt.Errorf("a service has one source region, this one has %d", sources), errext.Usage)
	}
	slices.SortStableFunc(p.Regions, func(a, b RegionPlan) int { return rank(a) - rank(b) })
	return p, nil
}

func rank(r RegionPlan) int {
	if r.Role == region.Source {
		return 0
	}
	return 1
}

func planRegion(in PlanInput, found Found) RegionPlan {
	r := RegionPlan{Region: found.Region, Role: found.Role, Copy: []Action{}, seen: found.Current}
	verdicts := map[string]verify.Verdict{}
	var extra []string
	for _, g := range found.Copy.Gaps {
		verdicts[g.Subject] = g.Verdict
		if g.Verdict == verify.Extra {
			extra = append(extra, g.Key)
		}
	}
	for _, f := range largestFirst(in.Manifest.Contents.Files) {
		r.file(in, f, verdicts)
	}
	if r.Publish = found.Current.Release != in.Manifest.Release; r.Publish {
		r.Replaces = found.Current.Release
	}
	if in.DeleteExtra {
		r.Delete, extra = extra, nil
	}
	r.Requests = 2*len(r.Copy) + len(r.Delete) + 2 // manifest.json and CURRENT
	r.block(in.Manifest, found, extra)
	return r
}

func (r *RegionPlan) file(in PlanInput, f manifest.File, verdicts map[string]verify.Verdict) {
	if in.Borders != nil {
		if err := in.Borders(f, r.Region); err != nil {
			r.Refused = append(r.Refused, fmt.Sprintf("%s: %v", f.Subject(), err))
		}
	}
	reason := ""
	switch v, judged := verdicts[f.Subject()]; {
	case !judged:
		reason = "unreadable"
	case v == verify.Match:
		r.Keep++
		r.KeepBytes += f.Size
		return
	case v == verify.Present || v == verify.NotComparable:
		reason = "not proven"
	default:
		reason = string(v)
	}
	r.Copy = append(r.Copy, Action{Subject: f.Subject(), Reason: reason, Bytes: f.Size, File: f})
	r.Bytes += f.Size
}

// block says why nothing can be done here: what the survey met beside the files
// that are copied anyway, or files that would keep the copy from verifying.
func (r *RegionPlan) block(m *manifest.Manifest, found Found, extra []string) {
	files := map[string]bool{}
	for _, f := range m.Contents.Files {
		files[f.Subject()] = true
	}
	err := found.Err
	for _, e := range found.Copy.Errors {
		if !files[e.Subject] && !errors.Is(e.Err, store.ErrNotFound) { // a store that is not there is made
			err = errors.Join(err, e.Err)
		}
	}
	if len(extra) > 0 {
		err = errors.Join(err, errext.WithHint(errext.WithStatus(
			fmt.Errorf("the copy holds files that the release does not list: %s", shorten(extra)), errext.Gate),
			"look at them; drkit replicate --delete-extra removes them, or build a release that lists them"))
	}
	if err != nil {
		r.blocked, r.Blocked = err, err.Error()
	}
}

// Refusal is the error of a plan that may not be carried out: files would cross
// a border.
func (p Plan) Refusal() error {
	var errs []error
	for _, r := range p.Regions {
		for _, what := range r.Refused {
			errs = append(errs, fmt.Errorf("region %s may not hold %s", r.Region, what))
		}
	}
	return errext.WithHint(errext.WithStatus(errors.Join(errs...), errext.Refused), "nothing was changed")
}

// Changes reports whether carrying out the plan changes anything.
func (p Plan) Changes() bool {
	return slices.ContainsFunc(p.Regions, func(r RegionPlan) bool { return len(r.Copy)+len(r.Delete) > 0 || r.Publish })
}

// Bytes is what the plan copies, over all regions.
func (p Plan) Bytes() (n int64) {
	for _, r := range p.Regions {
		n += r.Bytes
	}
	return n
}
