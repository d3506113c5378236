package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"drkit/internal/errext"
	"drkit/internal/progress"
	"drkit/internal/service"
	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/release"
	"drkit/verify"
	verifyreport "drkit/verify/report"
)

// verifyOptions are those of verify.
type verifyOptions struct {
	serviceOption
	releaseOption
	outputOption
	reportOption
	progressOption
	Level, Require string
	Regions        []string
	Places         []string // SRC and DST
}

func newVerify(s *streams, run func(context.Context, *streams, verifyOptions) error) *cobra.Command {
	var o verifyOptions
	c := &cobra.Command{
		Use:   "verify [SRC DST]",
		Short: "Prove that every target holds the release, or that two places are equal",
		Long: `Compares every target region's copy with the release, file by file, and says for
each what the verdict rests on. With two places it compares everything beneath the
one with everything beneath the other, without a manifest.

Levels: presence compares names and sizes and never is a match; checksum compares
checksums, and reads the bytes where, as in a directory, the place holds none;
content reads every byte. A release that fails the manifest gate is red too: equal
copies of a broken release are still broken.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 0 && len(args) != 2 {
				return fmt.Errorf("verify takes two places, or none and a drkit.yaml; %d given", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.Places = args
			return run(c.Context(), s, o)
		},
	}
	o.serviceOption.addFlags(c)
	o.releaseOption.addFlags(c)
	o.outputOption.addFlags(c)
	o.reportOption.addFlags(c)
	o.progressOption.addFlags(c)
	c.Flags().StringVar(&o.Level, "level", "checksum", "how deep to look: presence, checksum or content")
	c.Flags().StringVar(&o.Require, "require", "claimed", "least evidence of a match: claimed, recomputed or content")
	c.Flags().StringArrayVar(&o.Regions, "region", nil, "verify only this region (repeatable); the source region is verified only by name")
	return c
}

func runVerify(ctx context.Context, s *streams, o verifyOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	if err := o.reportOption.check(); err != nil {
		return err
	}
	mode, err := o.mode(s)
	if err != nil {
		return err
	}
	opts, err := o.options()
	if err != nil {
		return err
	}
	meter := newMeter(s, mode)
	defer meter.close()
	opts.Progress = meter.progress()
	if len(o.Places) == 2 {
		return o.pair(ctx, s, opts)
	}
	return o.release(ctx, s, opts, meter.progress())
}

func (o verifyOptions) options() (verify.Options, error) {
	level, err := verify.ParseLevel(o.Level)
	if err != nil {
		return verify.Options{}, usage(err, "see `drkit verify --help` for what each level shows")
	}
	require, err := store.ParseEvidence(o.Require)
	if err != nil {
		return verify.Options{}, usage(err, "use --require claimed, recomputed or content")
	}
	return verify.Options{Level: level, Require: require}, nil
}

func (o verifyOptions) pair(ctx context.Context, s *streams, opts verify.Options) error {
	var places [2]verify.Copy
	for i, text := range o.Places {
		l, err := parseLocation(text)
		if err != nil {
			return err
		}
		source, err := openSource(l)
		if err != nil {
			return err
		}
		places[i] = verify.Copy{Region: text, Store: source}
	}
	res, err := verify.Pair(ctx, places[0], places[1], opts)
	if err != nil {
		return err
	}
	return o.print(s, nil, nil, "", res)
}

func (o verifyOptions) release(ctx context.Context, s *streams, opts verify.Options, p progress.Progress) error {
	svc, err := o.load()
	if err != nil {
		return err
	}
	regions, err := o.regions(svc)
	if err != nil {
		return err
	}
	c, err := o.choose(ctx, svc, p)
	if err != nil {
		return err
	}
	var results []verify.Result
	for _, r := range regions {
		copied, err := openCopy(r)
		if err != nil {
			return err
		}
		res, err := verify.Release(ctx, c.manifest, verify.Copy{Region: r.Name, Store: copied.store, Prefix: release.Prefix(svc.Metadata.Name, c.manifest.Release)}, opts)
		if err != nil {
			return err
		}
		results = append(results, res)
	}
	return o.print(s, svc, gateFindings(c.manifest, svc), c.how, results...)
}

// regions are those named, else every target.
func (o verifyOptions) regions(svc *service.Service) ([]*service.Region, error) {
	if len(o.Regions) == 0 {
		targets := svc.Targets()
		if len(targets) == 0 {
			return nil, usage(fmt.Errorf("%s has no target region: there is nothing to verify", svc.File), "add a region with role: target")
		}
		return targets, nil
	}
	var all []*service.Region
	for _, name := range o.Regions {
		r := svc.Region(name)
		if r == nil {
			return nil, usage(fmt.Errorf("%s has no region %q", svc.File, name), "regions are listed there under regions:")
		}
		all = append(all, r)
	}
	return all, nil
}

// verifyDocument is parity with what the gate says of the release itself.
type verifyDocument struct {
	verifyreport.Document
	Manifest string             `json:"manifest,omitempty"` // how the release was chosen
	Findings []manifest.Finding `json:"findings"`           // those that fail the gate
}

// print writes parity and, beside it, the findings that fail the release gate.
func (o verifyOptions) print(s *streams, svc *service.Service, findings []manifest.Finding, how string, results ...verify.Result) error {
	statuses := []errext.Status{}
	for _, r := range results {
		statuses = append(statuses, r.Reasons()...)
	}
	if len(findings) > 0 {
		statuses = append(statuses, errext.Gate)
	}
	status := errext.Combine(statuses...)
	lost := o.write(s, o.result(svc, findings, status, results))
	if lost != nil {
		statuses = append(statuses, errext.Evidence)
	}
	if o.json() {
		return reported(s, writeJSON(s, newVerifyDocument(how, findings, statuses, results)), lost, status)
	}
	return reported(s, printVerify(s, how, findings, results), lost, status)
}

func newVerifyDocument(how string, findings []manifest.Finding, statuses []errext.Status, results []verify.Result) verifyDocument {
	doc := verifyDocument{Document: verifyreport.NewDocument(results...), Manifest: how, Findings: append([]manifest.Finding{}, findings...)}
	doc.Status = int(errext.Combine(statuses...))
	for _, s := range statuses {
		if !slices.Contains(doc.Reasons, s.String()) {
			doc.Reasons = append(doc.Reasons, s.String())
		}
	}
	return doc
}

func printVerify(s *streams, how string, findings []manifest.Finding, results []verify.Result) error {
	if how != "" {
		fmt.Fprintf(s.Out, "release %s\n", how)
	}
	if err := verifyreport.Text(s.Out, results...); err != nil || len(findings) == 0 {
		return err
	}
	fmt.Fprintf(s.Out, "\nthe release itself fails the gate: equal copies of it would be broken too\n")
	return printFindings(s, slices.Values(findings))
}
