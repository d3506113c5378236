package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/manifest"
	"drkit/manifest/probes"
	"drkit/manifest/release"
	"drkit/replicate"
	"drkit/verify"
)

// replicateOptions are those of replicate.
type replicateOptions struct {
	serviceOption
	releaseOption
	outputOption
	progressOption
	DryRun, Yes, DeleteExtra bool
	From                     string // a verification's result
}

func newReplicate(s *streams, run func(context.Context, *streams, replicateOptions) error) *cobra.Command {
	var o replicateOptions
	c := &cobra.Command{
		Use:   "replicate",
		Short: "Bring the release to every region, verify it there, publish it last",
		Long: `Shows what is missing or damaged in every region, copies it (from the sources into
the source region's store first, from there to the targets), hashes every file
while it is written, verifies each copy as a whole, and only then publishes the
release: CURRENT is written last. Run again after an interruption, it goes on where
it stopped.

It works on the release that the source region publishes. To release the sources
as they are now: drkit manifest build -o m.json, then drkit replicate --manifest m.json.`,
		Example: `  drkit replicate --dry-run
  drkit replicate --manifest manifest.json --yes
  drkit verify --result found.json; drkit replicate --from found.json`,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), s, o) },
	}
	o.serviceOption.addFlags(c)
	o.releaseOption.addFlags(c)
	o.outputOption.addFlags(c)
	o.progressOption.addFlags(c)
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "show the plan and change nothing")
	c.Flags().BoolVar(&o.Yes, "yes", false, "carry out the plan without asking")
	c.Flags().StringVar(&o.From, "from", "", "take this result of drkit verify (--result FILE) instead of verifying first; refused when a copy changed since")
	c.Flags().BoolVar(&o.DeleteExtra, "delete-extra", false, "delete files of the copy that the release does not list")
	c.AddCommand(newAdvise(s, runAdvise))
	return c
}

// replicated is the JSON result.
type replicated struct {
	Schema   string            `json:"schema"`
	Status   int               `json:"status"`
	Manifest string            `json:"manifest"`
	Plan     replicate.Plan    `json:"plan"`
	Result   *replicate.Result `json:"result,omitempty"` // absent when nothing was carried out
}

func runReplicate(ctx context.Context, s *streams, o replicateOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	mode, err := o.mode(s)
	if err != nil {
		return err
	}
	svc, err := o.load()
	if err != nil {
		return err
	}
	if err := stateApart(ctx, s, regionsOf(svc)...); err != nil {
		return err
	}
	meter := newMeter(s, mode)
	defer meter.close()
	c, err := o.choose(ctx, svc, meter.progress())
	if err != nil {
		return err
	}
	regions, err := replicateRegions(svc)
	if err != nil {
		return err
	}
	vopts := verify.Options{Level: verify.ByContent, Require: store.Content, Progress: meter.progress()}
	found, proven, err := o.survey(ctx, c, regions, vopts)
	if err != nil {
		return err
	}
	plan, err := makePlan(ctx, o, svc, c, found)
	if err != nil {
		return err
	}
	if go_, err := o.agreed(s, c, plan); err != nil || !go_ {
		return err
	}
	lazy := lazySources{svc: svc, files: c.files, meter: meter}
	res, err := replicate.Execute(ctx, plan, replicate.ExecuteInput{
		Manifest: c.manifest, Regions: regions, Verify: vopts, Progress: meter.progress(), Proven: proven,
		Content: func(f manifest.File) (store.Body, error) { return lazy.body(ctx, f) },
	})
	if err != nil && errext.Hint(err) == "" {
		err = errext.WithHint(err, "what was copied stays, and the same command goes on from there")
	}
	if o.json() {
		if werr := writeJSON(s, replicated{"drkit.replicate/1.0", int(errext.StatusOf(err)), c.how, plan, &res}); werr != nil {
			return errors.Join(err, werr)
		}
		return err
	}
	return errors.Join(printReplicated(s, plan, res), err)
}

func printReplicated(s *streams, plan replicate.Plan, res replicate.Result) error {
	publishes := map[string]bool{}
	for _, r := range plan.Regions {
		publishes[r.Region] = r.Publish
	}
	fmt.Fprintln(s.Out)
	for _, r := range res.Regions {
		done := fmt.Sprintf("%s copied (%s), %d found right, %d deleted", countOf(r.Copied, "file", "files"), byteCount(r.Bytes), r.Reused, r.Deleted)
		switch {
		case r.Error != "":
			done += "; NOT published"
		case r.Published && !publishes[r.Region]:
			done += fmt.Sprintf("; verified, published before as generation %d", r.Generation)
		case r.Published:
			done += fmt.Sprintf("; verified and published as generation %d", r.Generation)
		}
		if r.Replaced {
			done += "; its manifest.json had other annotations and was replaced by the source's"
		}
		if _, err := fmt.Fprintf(s.Out, "%s: %s\n", r.Region, done); err != nil {
			return err
		}
	}
	return nil
}

func replicateRegions(svc *service.Service) ([]replicate.Region, error) {
	var all []replicate.Region
	for _, r := range svc.Regions {
		c, err := openCopy(&r)
		if err != nil {
			return nil, err
		}
		all = append(all, replicate.Region{Name: r.Name, Role: r.Role, Store: c.store, State: c.state})
	}
	return all, nil
}

// survey looks at every region's copy, or takes what drkit verify saw of it.
func (o replicateOptions) survey(ctx context.Context, c chosen, regions []replicate.Region, vopts verify.Options) ([]replicate.Found, map[string]*verify.State, error) {
	if o.From == "" {
		found, err := replicate.Survey(ctx, c.manifest, regions, vopts)
		return found, nil, err
	}
	data, err := readFile(o.From)
	if err != nil {
		return nil, nil, usage(fmt.Errorf("--from: %w", err), "write it with drkit verify --result "+o.From)
	}
	_, results, err := readVerifyDocument(o.From, data)
	if err != nil {
		return nil, nil, err
	}
	for i, r := range results {
		results[i] = withoutImages(r) // files are copied here, images are not
	}
	return replicate.SurveyFrom(ctx, c.manifest, regions, results, vopts)
}

// makePlan refuses to publish what fails the gate.
func makePlan(ctx context.Context, o replicateOptions, svc *service.Service, c chosen, found []replicate.Found) (replicate.Plan, error) {
	borders, err := probeBorders(ctx, svc, c)
	if err != nil {
		return replicate.Plan{}, err
	}
	plan, err := replicate.NewPlan(replicate.PlanInput{Manifest: c.manifest, Found: found, DeleteExtra: o.DeleteExtra, Borders: borders})
	if err != nil {
		return plan, err
	}
	publishes := false
	for _, r := range plan.Regions {
		publishes = publishes || r.Publish
	}
	if findings := gateFindings(c.manifest, svc); publishes && len(findings) > 0 {
		f := findings[0]
		return plan, errext.WithHint(errext.WithStatus(fmt.Errorf("the release fails the gate with %s: %s %s/%s: %s", countOf(len(findings), "finding", "findings, the first"), f.Rule, f.Part, f.Path, f.Message), errext.Gate),
			"drkit manifest check explains them; nothing was changed. A waiver in "+svc.File+" accepts one")
	}
	return plan, plan.Refusal()
}

// agreed shows the plan and asks, where there is somebody to ask. It reports
// whether to go on; a dry run and a plan without changes end here.
func (o replicateOptions) agreed(s *streams, c chosen, plan replicate.Plan) (bool, error) {
	if !o.json() || (!o.DryRun && !o.Yes) {
		out := s.Out
		if o.json() {
			out = s.Err
		}
		fmt.Fprintf(out, "release %s\n", c.how)
		if err := plan.WriteText(out); err != nil {
			return false, err
		}
	}
	if o.DryRun {
		if o.json() {
			return false, writeJSON(s, replicated{Schema: "drkit.replicate/1.0", Manifest: c.how, Plan: plan})
		}
		return false, nil
	}
	if o.Yes || !plan.Changes() {
		return true, nil
	}
	if !s.interactive() {
		return false, errext.WithHint(errext.WithStatus(errors.New("nobody is there to agree to the plan"), errext.Refused), "nothing was changed; give --yes, or --dry-run to see the plan alone")
	}
	fmt.Fprint(s.Err, "carry out this plan? [y/N] ")
	s.Err.Flush()
	answer, err := bufio.NewReader(s.In).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); err != nil || answer != "y" && answer != "yes" {
		return false, errext.WithStatus(errors.New("not agreed: nothing was changed"), errext.Refused)
	}
	return true, nil
}

// lazySources reads the sources only when the source region's store lacks a file.
type lazySources struct {
	svc   *service.Service
	meter *meter
	mu    sync.Mutex
	files *manifest.Files
}

func (l *lazySources) body(ctx context.Context, f manifest.File) (store.Body, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files == nil {
		_, files, err := buildRelease(ctx, l.svc, l.meter.progress())
		if err != nil {
			return store.Body{}, err
		}
		l.files = files
	}
	return l.files.Body(f)
}

// probeBorders keeps recorded answers inside the residency that they carry.
func probeBorders(ctx context.Context, svc *service.Service, c chosen) (func(manifest.File, string) error, error) {
	for _, f := range c.manifest.Contents.Files {
		if f.Role != manifest.Probes {
			continue
		}
		data, err := probeBytes(ctx, svc, c, f)
		if err != nil {
			return nil, fmt.Errorf("reading the recorded probes: %w", err)
		}
		set, err := probes.Decode(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		if set.Residency == "" {
			return nil, nil
		}
		return func(file manifest.File, name string) error {
			if home := svc.Region(name).Residency; file.Subject() == f.Subject() && string(home) != set.Residency {
				return fmt.Errorf("the recorded answers may be held in %q only, region %s is in %q", set.Residency, name, home)
			}
			return nil
		}, nil
	}
	return nil, nil
}

const maxProbes = 64 << 20 // bytes of a recording

// probeBytes reads the recording from the source region's store, or from where
// it was recorded when it is not there yet.
func probeBytes(ctx context.Context, svc *service.Service, c chosen, f manifest.File) ([]byte, error) {
	source, err := openCopy(svc.Source())
	if err != nil {
		return nil, err
	}
	data, err := readObject(ctx, source.store, release.Key(release.Prefix(svc.Metadata.Name, c.manifest.Release), f), maxProbes)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return os.ReadFile(svc.Engine.Probes.Path)
	}
	return data, err
}

// restoreOptions are those of restore.
type restoreOptions struct {
	serviceOption
	outputOption
	progressOption
	Region, Release, Dir string
}

func newRestore(s *streams, run func(context.Context, *streams, restoreOptions) error) *cobra.Command {
	var o restoreOptions
	c := &cobra.Command{
		Use:   "restore DIR",
		Short: "Pull a release from one region's copy alone and hash what is written",
		Long: `Restores the release that a region publishes into a folder, from that region's
copy alone: its own manifest, its own files. Every file is hashed while it is
written and appears only when it is the release's; files that are there already
count only after they were hashed.`,
		Example: `  drkit restore --region eu-west-1 ./restored`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Dir = args[0]
			return run(c.Context(), s, o)
		},
	}
	o.serviceOption.addFlags(c)
	o.outputOption.addFlags(c)
	o.progressOption.addFlags(c)
	c.Flags().StringVar(&o.Region, "region", "", "region to restore from (required)")
	c.Flags().StringVar(&o.Release, "release", "", "restore this release instead of the published one")
	return c
}

func runRestore(ctx context.Context, s *streams, o restoreOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	mode, err := o.mode(s)
	if err != nil {
		return err
	}
	svc, err := o.load()
	if err != nil {
		return err
	}
	r := svc.Region(o.Region)
	if r == nil {
		names := []string{}
		for _, r := range svc.Regions {
			names = append(names, r.Name)
		}
		return usage(fmt.Errorf("%s has no region %q", svc.File, o.Region), "name the region to restore from with --region: "+strings.Join(names, ", "))
	}
	c, err := openCopy(r)
	if err != nil {
		return err
	}
	m, err := regionRelease(ctx, svc, c, o.Release)
	if err != nil {
		return err
	}
	meter := newMeter(s, mode)
	defer meter.close()
	done, err := replicate.Restore(ctx, m, c.store, release.Prefix(svc.Metadata.Name, m.Release), dir.Plain(o.Dir), replicate.RestoreOptions{Progress: meter.progress()})
	if err != nil && errext.Hint(err) == "" {
		err = errext.WithHint(err, "drkit verify --region "+o.Region+" says what else is wrong there; what was restored was hashed and stays, and the same command goes on")
	}
	if err != nil {
		return err
	}
	return printRestored(s, o, m, done)
}

// regionRelease is the release named, else the one that the region publishes.
func regionRelease(ctx context.Context, svc *service.Service, c copyOf, id string) (*manifest.Manifest, error) {
	if id != "" {
		return release.Load(ctx, c.store, svc.Metadata.Name, id)
	}
	_, m, err := release.LoadCurrent(ctx, c.state, c.store, c.region.Name, svc.Metadata.Name)
	if errors.Is(err, store.ErrNotFound) {
		err = errext.WithHint(err, "drkit replicate publishes a release in region "+c.region.Name)
	}
	return m, err
}

func printRestored(s *streams, o restoreOptions, m *manifest.Manifest, done replicate.Restored) error {
	if o.json() {
		return writeJSON(s, struct {
			Schema  string `json:"schema"`
			Release string `json:"release"`
			Dir     string `json:"dir"`
			replicate.Restored
		}{"drkit.restore/1.0", m.Release, o.Dir, done})
	}
	fmt.Fprintf(s.Out, "release %.12s restored to %s: %d files, %s, all hashed; %d were there already\n", m.Release, o.Dir, done.Files, byteCount(done.Bytes), done.Cached)
	for _, r := range done.Replaced {
		fmt.Fprintf(s.Out, "  replaced, it had other bytes: %s\n", r)
	}
	for _, e := range done.Extra {
		fmt.Fprintf(s.Out, "  beside the release: %s\n", e)
	}
	return nil
}
