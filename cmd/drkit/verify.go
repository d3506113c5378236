package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

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
	servicesOption
	releaseOption
	outputOption
	reportOption
	progressOption
	depthOption
	partOption
	planOption
	copyImagesOption
	metricsOption
	batchOption
	Regions []string
	Result  string   // the file for the machine-readable result
	Key     string   // of a signature that is the reference
	Places  []string // SRC and DST

	seen *measured // for the metrics
}

// depthOption says how deep verify looks.
type depthOption struct {
	Level, Require   string
	Sample, SampleBy string
	Seed             uint64
	Resolve, Accept  []string

	seeded bool // a seed was given
}

func newVerify(s *streams, run func(context.Context, *streams, verifyOptions) error) *cobra.Command {
	var o verifyOptions
	c := &cobra.Command{
		Use:   "verify [SRC DST]",
		Short: "Prove that every target holds the release, or that two places are equal",
		Long: `Compares every target region's copy with the release, file by file, and says for
each what the verdict rests on. With two places it compares everything beneath the
one with everything beneath the other, without a manifest; SRC may also be a file
that sha256sum wrote, or a signature (OpenSSF Model Signing, checked with --key).

Levels: presence compares names and sizes and never is a match; checksum compares
checksums, and reads the bytes where, as in a directory, the place holds none;
content reads every byte; --sample reads some objects and compares the checksums of
the others. A release that fails the manifest gate is red too: equal copies of a
broken release are still broken.

What an interrupted verification had proven is not read again, when its objects are
what they were and half a day has not passed; --resume=false begins anew. To spread the
work, give each of N processes --shard I/N and --partial DIR, and merge the results
with drkit verify merge DIR.

Several services (-f repeated, or a pattern in quotes) are verified in turn, with a
summary at the end; in JSON they are a list.`,
		Example: `  drkit verify
  drkit verify --region eu-west-1 --level content
  drkit verify --plan --level content
  drkit verify -f 'services/*/drkit.yaml'
  drkit verify s3://prod-use1/llm s3://prod-euw1/llm
  drkit verify models/llama 's3://models/llama?endpoint=http://127.0.0.1:7070'
  drkit verify SHA256SUMS /data/models/llama`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 0 && len(args) != 2 {
				return fmt.Errorf("verify takes two places, or none and a drkit.yaml; %d given", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.Places = args
			o.seeded = c.Flags().Changed("sample-seed")
			return run(c.Context(), s, o)
		},
	}
	o.servicesOption.addFlags(c)
	o.releaseOption.addFlags(c)
	o.outputOption.addFlags(c)
	o.reportOption.addFlags(c)
	o.progressOption.addFlags(c)
	o.depthOption.addFlags(c)
	o.partOption.addFlags(c)
	o.planOption.addFlags(c)
	o.copyImagesOption.addFlags(c)
	o.metricsOption.addFlags(c)
	o.batchOption.addFlags(c)
	c.Flags().StringArrayVar(&o.Regions, "region", nil, "verify only this region (repeatable); the source region is verified only by name")
	c.Flags().StringVar(&o.Result, "result", "", "also write the JSON result to this file, for drkit replicate --from")
	c.Flags().StringVar(&o.Key, "key", "", "public key (PEM) that must have made the signature given as SRC")
	c.AddCommand(newVerifyMerge(s, runVerifyMerge))
	return c
}

func (o *depthOption) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.Level, "level", "checksum", "how deep to look: presence, checksum or content")
	c.Flags().StringVar(&o.Require, "require", "claimed", "least evidence of a match: claimed, recomputed or content")
	c.Flags().StringVar(&o.Sample, "sample", "", "read so many objects, or such a percentage of them, in full: 300 or 5%")
	c.Flags().StringVar(&o.SampleBy, "sample-by", "count", "what has equal chances in the sample: each object (count) or each byte (size)")
	c.Flags().Uint64Var(&o.Seed, "sample-seed", 0, "draw the sample that this seed gives (default: by chance; the result names it)")
	c.Flags().StringArrayVar(&o.Resolve, "resolve", nil, "decide what is not comparable by read (drkit reads the object), copy (its store hashes it while copying it to a scratch key, a write) or batch (S3 Batch Operations; repeatable)")
	c.Flags().StringArrayVar(&o.Accept, "accept", nil, "let not-comparable pass unproven: for all objects, or not-comparable:SUBJECT (repeatable)")
}

func runVerify(ctx context.Context, s *streams, o verifyOptions) error {
	err := o.refuseBeside(map[string]bool{"a comparison of two places": len(o.Places) > 0, "--report to a file": toFiles(o.Reports), "--manifest": o.Manifest != "", "--release": o.Release != "",
		"--result": o.Result != "", "--metrics": o.Metrics != "", "--shard": o.Shard != "", "--partial": o.Partial != "", "--state": o.State != "", "--batch-dir": o.BatchDir != "", "--checksums": len(o.Checksums) > 0})
	if err != nil {
		return err
	}
	return o.each(ctx, s, o.outputOption, func(s *streams, file string) error {
		o.File = file
		return verifyService(ctx, s, o)
	})
}

// verifyService verifies one service, or two places.
func verifyService(ctx context.Context, s *streams, o verifyOptions) error {
	opts, mode, err := o.checked(s)
	if err != nil {
		return err
	}
	if err := errors.Join(o.clear(), removeOld(o.Result)); err != nil {
		return err
	}
	defer sparing()()
	meter := newMeter(s, mode)
	defer meter.close()
	opts.Progress = meter.progress()
	if len(o.Places) == 2 {
		return o.pair(ctx, s, opts)
	}
	o.seen = &measured{}
	return o.metricsOption.record(s, o.seen, o.release(ctx, s, opts, meter.progress()))
}

// checked looks at everything that can be wrong before work begins.
func (o *verifyOptions) checked(s *streams) (opts verify.Options, mode string, err error) {
	if err = o.outputOption.check(); err != nil {
		return
	}
	if err = o.reportOption.check(); err != nil {
		return
	}
	if mode, err = o.mode(s); err != nil {
		return
	}
	if err = checkFile("--result", o.Result, resultMark); err != nil {
		return
	}
	if opts, err = o.depthOption.options(); err != nil {
		return
	}
	if err = errors.Join(o.planOption.check(), o.copyImagesOption.check(), o.metricsOption.check(o.Shard, o.Places), o.batchOption.check(o.Resolve, o.Places)); err != nil {
		return
	}
	if o.Plan && (o.Result+o.Partial+o.Metrics != "" || len(o.Reports) > 0) {
		err = usage(errors.New("--plan verifies nothing, so there is nothing to write to --result, --partial, --metrics or --report"), "leave these out; --output json prints the plan")
		return
	}
	opts.Shard, err = o.partOption.check(o.Sample != "" && !o.seeded)
	return
}

func (o *depthOption) options() (verify.Options, error) {
	var opts verify.Options
	var err error
	if opts.Level, err = verify.ParseLevel(o.Level); err != nil {
		return opts, usage(err, "see `drkit verify --help` for what each level shows")
	}
	if opts.Require, err = store.ParseEvidence(o.Require); err != nil {
		return opts, usage(err, "use --require claimed, recomputed or content")
	}
	for _, text := range o.Accept {
		a, err := verify.ParseAcceptance(text)
		if err != nil {
			return opts, err
		}
		opts.Accept = append(opts.Accept, a)
	}
	for _, way := range o.Resolve {
		if err := oneOf("--resolve", way, verify.ByRead, verify.ByCopy, verify.ByBatch); err != nil {
			return opts, err
		}
	}
	if opts.Resolve = o.Resolve; slices.Contains(o.Resolve, verify.ByCopy) {
		opts.Resolver = verify.Scratch{}
	}
	opts.Sample, err = o.sample()
	return opts, err
}

func (o *depthOption) sample() (verify.Sample, error) {
	if err := oneOf("--sample-by", o.SampleBy, "count", "size"); err != nil {
		return verify.Sample{}, err
	}
	if o.Sample == "" {
		return verify.Sample{}, nil
	}
	sample, err := verify.ParseSample(o.Sample)
	if err == nil && o.Level == "presence" {
		err = usage(errors.New("--sample and --level presence exclude each other"), "the objects outside a sample are judged at level checksum")
	}
	if sample.BySize, sample.Seed = o.SampleBy == "size", o.Seed; !o.seeded {
		sample.Seed = rand.Uint64N(1 << 53) // every program that reads JSON holds it exactly
	}
	return sample, err
}

func (o verifyOptions) pair(ctx context.Context, s *streams, opts verify.Options) error {
	ref, dst, notes, err := o.reference()
	if err != nil {
		return err
	}
	to, err := openPlace(dst)
	if err != nil {
		return err
	}
	var from verify.Copy
	source := o.Places[0]
	if ref != nil {
		source = ref.Name
	} else if from, err = openPlace(source); err != nil {
		return err
	}
	if o.Plan {
		return o.planPair(ctx, s, opts, ref, from, to)
	}
	work := func(opts verify.Options) (verify.Result, error) {
		if ref != nil {
			return verify.Against(ctx, *ref, to, opts)
		}
		return verify.Pair(ctx, from, to, opts)
	}
	res, err := o.partOption.keeping(s, opts, verify.StateKey{Region: to.Region, Source: source}, "", work)
	if err != nil {
		return err
	}
	res.Notes = append(res.Notes, notes...)
	return o.print(s, nil, nil, "", res)
}

// openPlace opens a place that was named on the command line.
func openPlace(text string) (verify.Copy, error) {
	l, err := parseLocation(text)
	if err != nil {
		return verify.Copy{}, err
	}
	source, err := openSource(l)
	return verify.Copy{Region: text, Store: source}, err
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
	o.seen.of(svc, regions)
	c, err := o.choose(ctx, svc, p)
	if err != nil {
		return err
	}
	o.seen.Release = c.manifest.Release
	if o.State != "" && len(regions) > 1 {
		return usage(fmt.Errorf("--state is for one region, and there are %d", len(regions)), "name the region with --region")
	}
	if o.Plan {
		return o.planRelease(ctx, s, svc, c, regions, opts)
	}
	var results []verify.Result
	for _, r := range regions {
		if opts.Known, err = o.batchOption.known(s, svc, c.manifest, r, len(regions) == 1); err != nil {
			return err
		}
		res, err := o.region(ctx, s, svc, c, r, opts)
		if err == nil {
			err = o.beside(ctx, s, svc, c, r, opts, &res)
		}
		if err != nil {
			return err
		}
		results = append(results, res)
		o.seen.results(results)
	}
	return o.print(s, svc, gateFindings(c.manifest, svc), c.how, results...)
}

// region verifies one region's copy and tells its age.
func (o verifyOptions) region(ctx context.Context, s *streams, svc *service.Service, c chosen, r *service.Region, opts verify.Options) (verify.Result, error) {
	copied, err := openCopy(r)
	if err != nil {
		return verify.Result{}, err
	}
	place := verify.Copy{Region: r.Name, Store: copied.store, Prefix: release.Prefix(svc.Metadata.Name, c.manifest.Release)}
	key := verify.StateKey{Service: svc.Metadata.Name, Release: c.manifest.Release, Region: r.Name, Place: r.Store.URL()}
	opts.Published = c.files == nil && o.Manifest == ""
	opts.Original = originals(svc, c, r)
	res, err := o.partOption.keeping(s, opts, key, svc.Run.Dir.Path, func(opts verify.Options) (verify.Result, error) {
		return verify.Release(ctx, c.manifest, place, opts)
	})
	if err != nil {
		return res, err
	}
	if r.Name != svc.Source().Name {
		res.Age = ageOf(ctx, svc, copied, res)
	}
	return verify.CheckCurrent(ctx, res, copied.state), context.Cause(ctx)
}

// originals opens the right bytes where they lie on a disk here: those that the
// release was just built from, or the source region's copy in a directory. Nil
// where they would have to be fetched.
func originals(svc *service.Service, c chosen, r *service.Region) func(context.Context, string) (io.ReadCloser, error) {
	files := map[string]manifest.File{}
	for _, f := range c.manifest.Contents.Files {
		files[f.Subject()] = f
	}
	if c.files != nil {
		return func(ctx context.Context, subject string) (io.ReadCloser, error) {
			b, err := c.files.Body(files[subject])
			if err != nil {
				return nil, err
			}
			return b.Open(ctx, 0, -1)
		}
	}
	source, err := openCopy(svc.Source())
	if _, local := source.store.(store.Claimless); err != nil || !local || r.Name == svc.Source().Name {
		return nil
	}
	prefix := release.Prefix(svc.Metadata.Name, c.manifest.Release)
	return func(ctx context.Context, subject string) (io.ReadCloser, error) {
		return source.store.Open(ctx, store.Object{Key: release.Key(prefix, files[subject])}, 0, -1)
	}
}

// sourcePatience is how long the source region may take to say what it publishes.
// In a disaster it is not there, and the copy must be judged all the same.
const sourcePatience = 15 * time.Second

func ageOf(ctx context.Context, svc *service.Service, target copyOf, res verify.Result) *verify.Age {
	source, err := openCopy(svc.Source())
	if err != nil {
		return &verify.Age{Why: []string{err.Error()}}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, sourcePatience, errors.New("it did not answer in time"))
	defer cancel()
	places := func(c copyOf) verify.Published {
		return verify.Published{Region: c.region.Name, Store: c.store, State: c.state}
	}
	return verify.AgeOf(ctx, verify.AgeInput{Service: svc.Metadata.Name, Source: places(source), Target: places(target), Copy: res, Now: now()})
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
	lost := errors.Join(o.write(s, o.result(svc, findings, status, results)), o.writeResults(s, how, findings, statuses, results))
	if lost != nil {
		statuses = append(statuses, errext.Evidence)
	}
	if o.json() {
		return reported(s, writeJSON(s, newVerifyDocument(how, findings, statuses, results)), lost, status)
	}
	return reported(s, printVerify(s, how, findings, results), lost, status)
}

// writeResults writes the JSON result to the files that were asked for.
func (o verifyOptions) writeResults(s *streams, how string, findings []manifest.Finding, statuses []errext.Status, results []verify.Result) error {
	var errs []error
	for _, path := range o.files() {
		errs = append(errs, writeFileBy(path, func(w io.Writer) error {
			clean := s.Redactor.Writer(w)
			enc := json.NewEncoder(clean)
			enc.SetEscapeHTML(false)
			return errors.Join(enc.Encode(newVerifyDocument(how, findings, statuses, results)), clean.Flush())
		}))
	}
	return errors.Join(errs...)
}

func (o verifyOptions) files() []string {
	var all []string
	if o.Result != "" {
		all = append(all, o.Result)
	}
	if o.Partial != "" {
		all = append(all, o.partFile(".json"))
	}
	return all
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
