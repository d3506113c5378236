package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/manifest/release"
	"drkit/verify"
)

// planOption is --plan: what a verification would ask for, and nothing else.
type planOption struct {
	Plan  bool
	Route string
}

func (o *planOption) addFlags(c *cobra.Command) {
	c.Flags().BoolVar(&o.Plan, "plan", false, "list the places, show the requests, bytes, egress and cost of verifying them, and do nothing else")
	c.Flags().StringVar(&o.Route, "plan-route", string(verify.Internet), "how the bytes reach drkit, for the cost: same-region, other-region or internet")
}

func (o *planOption) check() error {
	return oneOf("--plan-route", cmp.Or(o.Route, string(verify.Internet)), string(verify.SameRegion), string(verify.OtherRegion), string(verify.Internet))
}

// placePlan is the plan of one verification with its cost.
type placePlan struct {
	verify.Estimate
	Costs []costed `json:"places"`
	lines []string
}

// costed is what one place is asked, and what that costs: null where unknown.
type costed struct {
	verify.Cost
	Price  *float64       `json:"cost"`
	Prices *verify.Prices `json:"prices"`
}

func (o planOption) planOf(e verify.Estimate, prices func(verify.Cost) *verify.Prices) placePlan {
	p := placePlan{Estimate: e, lines: e.Lines(prices)}
	for _, c := range e.Costs {
		at := prices(c)
		p.Costs = append(p.Costs, costed{c, c.Price(at), at})
	}
	return p
}

// prices are AWS's for places that are AWS.
func (o planOption) prices(places map[string]service.Location) func(verify.Cost) *verify.Prices {
	return func(c verify.Cost) *verify.Prices {
		p, err := verify.ListPrices(verify.Route(o.Route))
		if err != nil || !onAWS(places[c.Place]) {
			return nil
		}
		return &p
	}
}

// onAWS reports whether a place is a bucket of AWS's: neither drkit.yaml nor the
// environment nor a profile names an endpoint of another store for it.
func onAWS(l service.Location) bool {
	if l.Scheme != service.SchemeS3 {
		return false
	}
	s, err := openBucket(l)
	return err == nil && strings.HasPrefix(s.Location(), "s3:///")
}

// planPair shows what comparing two places would take.
func (o verifyOptions) planPair(ctx context.Context, s *streams, opts verify.Options, ref *verify.Reference, from, to verify.Copy) error {
	places := map[string]service.Location{}
	for _, text := range o.Places {
		places[text], _ = parseLocation(text) // what cannot be parsed was refused when it was opened
	}
	estimate := func() (verify.Estimate, error) {
		if ref != nil {
			return verify.EstimateAgainst(ctx, *ref, to, opts)
		}
		return verify.EstimatePair(ctx, from, to, opts)
	}
	e, err := estimate()
	if err != nil {
		return err
	}
	return o.showPlans(s, "", o.planOf(e, o.prices(places)))
}

// planRelease shows what verifying regions' copies would take.
func (o verifyOptions) planRelease(ctx context.Context, s *streams, svc *service.Service, c chosen, regions []*service.Region, opts verify.Options) error {
	var plans []placePlan
	places := map[string]service.Location{}
	for _, r := range regions {
		copied, err := openCopy(r)
		if err != nil {
			return err
		}
		places[r.Name] = r.Store
		e, err := verify.EstimateRelease(ctx, c.manifest, verify.Copy{Region: r.Name, Store: copied.store, Prefix: release.Prefix(svc.Metadata.Name, c.manifest.Release)}, opts)
		if err != nil {
			return err
		}
		plans = append(plans, o.planOf(e, o.prices(places)))
	}
	return o.showPlans(s, c.how, plans...)
}

// showPlans prints plans. What could not be listed makes them incomplete.
func (o verifyOptions) showPlans(s *streams, how string, plans ...placePlan) error {
	var statuses []errext.Status
	for _, p := range plans {
		for _, e := range p.Errors {
			statuses = append(statuses, errext.StatusOf(e.Err))
		}
	}
	status := errext.Combine(statuses...)
	if o.json() {
		doc := struct {
			Schema   string      `json:"schema"`
			Status   int         `json:"status"`
			Manifest string      `json:"manifest,omitempty"`
			Plans    []placePlan `json:"plans"`
		}{"drkit.verify-plan/1.0", int(status), how, plans}
		return reported(s, writeJSON(s, doc), nil, status)
	}
	if how != "" {
		fmt.Fprintf(s.Out, "release %s\n", how)
	}
	for _, p := range plans {
		fmt.Fprintf(s.Out, "to verify at level %s:\n", p.Level)
		for _, line := range p.lines {
			fmt.Fprintf(s.Out, "  %s\n", printable(line))
		}
		for _, e := range p.Errors {
			fmt.Fprintf(s.Out, "  not counted: %s\n", printable(e.Error()))
		}
	}
	_, err := fmt.Fprintln(s.Out, "nothing was verified: this is the plan alone; images are not counted")
	return reported(s, err, nil, status)
}
