package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"drkit/internal/errext"
	"drkit/internal/report"
	"drkit/internal/service"
	"drkit/internal/store"
	"drkit/internal/store/s3"
	"drkit/manifest"
	"drkit/manifest/release"
	"drkit/replicate/advise"
)

// adviseOptions are those of replicate advise.
type adviseOptions struct {
	serviceOption
	releaseOption
	outputOption
	reportOption
	progressOption
	Rules    []string // FILE of the source, or REGION=FILE
	Regions  []string
	Backfill string // file for the back-fill job
}

func newAdvise(s *streams, run func(context.Context, *streams, adviseOptions) error) *cobra.Command {
	var o adviseOptions
	c := &cobra.Command{
		Use:   "advise",
		Short: "Say what the buckets' own replication rules miss, or carry too far",
		Long: `Reads the replication rules of the source's bucket and of each target's, asks for
the replication status of every object of the release, and says what the rules miss:
keys that no rule covers, objects that failed or were never replicated, encrypted
objects that a rule leaves out, replicas in an archive, versions that are off; and
what they carry that must stay: drkit's own state.

For what was left behind it prints an S3 Batch Replication job. It changes nothing.
A finding of severity fail is status 4; what could not be seen is status 1.`,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), s, o) },
	}
	o.serviceOption.addFlags(c)
	o.releaseOption.addFlags(c)
	o.outputOption.addFlags(c)
	o.reportOption.addFlags(c)
	o.progressOption.addFlags(c)
	c.Flags().StringArrayVar(&o.Rules, "rules", nil, "take rules from a file that aws s3api get-bucket-replication wrote: FILE of the source, or REGION=FILE (repeatable)")
	c.Flags().StringArrayVar(&o.Regions, "region", nil, "only this target (repeatable)")
	c.Flags().StringVar(&o.Backfill, "backfill", "", "write the back-fill job to this file instead of printing it")
	return c
}

// advised is the JSON result.
type advised struct {
	Schema   string          `json:"schema"`
	Status   int             `json:"status"`
	Reasons  []string        `json:"reasons"`
	Release  string          `json:"release"`
	Manifest string          `json:"manifest"` // how the release was chosen
	Targets  []advisedTarget `json:"targets"`
	Backfill *backfillJob    `json:"backfill,omitempty"`
}

type advisedTarget struct {
	Region   string           `json:"region"`
	Bucket   string           `json:"bucket"`
	Objects  int              `json:"objects"` // of the release, whose status was read
	Findings []advise.Finding `json:"findings"`
}

// backfillJob is a job that would replicate what was left behind.
type backfillJob struct {
	Request string `json:"request"` // JSON for aws s3control create-job
	Command string `json:"command"`
}

func runAdvise(ctx context.Context, s *streams, o adviseOptions) error {
	if err := errors.Join(o.outputOption.check(), o.reportOption.check(), checkFile("--backfill", o.Backfill, backfillMark)); err != nil {
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
	targets, err := verifyOptions{serviceOption: o.serviceOption, Regions: o.Regions}.regions(svc)
	if err != nil {
		return err
	}
	meter := newMeter(s, mode)
	defer meter.close()
	a := adviser{svc: svc, job: cmp.Or(o.Backfill, "backfill.json")}
	if err := a.given(o.Rules); err != nil {
		return err
	}
	c, err := o.choose(ctx, svc, meter.progress())
	if err != nil {
		return err
	}
	out, err := a.all(ctx, c, targets)
	if err != nil {
		return err
	}
	out.Manifest = c.how
	return o.print(s, svc, out)
}

// adviser gathers what advise.Judge looks at.
type adviser struct {
	svc   *service.Service
	rules map[string]*advise.Configuration // by region, as given
	job   string                           // file of the back-fill job
}

// given reads the files of --rules.
func (a *adviser) given(files []string) error {
	a.rules = map[string]*advise.Configuration{}
	for _, text := range files {
		region, file := splitRegion(text)
		if region == "" {
			region = a.svc.Source().Name
		}
		if a.svc.Region(region) == nil {
			return usage(fmt.Errorf("--rules %s: %s has no region %q", text, a.svc.File, region), "regions are listed there under regions:")
		}
		data, err := readFile(file)
		if err != nil {
			return usage(fmt.Errorf("--rules: %w", err), "write it with aws s3api get-bucket-replication --bucket BUCKET")
		}
		c, err := advise.Parse(data)
		if err != nil {
			return usage(fmt.Errorf("%s: %w", file, err), errext.Hint(err))
		}
		a.rules[region] = c
	}
	return nil
}

// all judges each target.
func (a *adviser) all(ctx context.Context, c chosen, targets []*service.Region) (advised, error) {
	out := advised{Schema: "drkit.advise/1.0", Reasons: []string{}, Release: c.manifest.Release, Targets: []advisedTarget{}}
	source, err := bucketOf(a.svc.Source())
	if err != nil {
		return out, err
	}
	facts := advise.Facts{Source: a.place(ctx, a.svc.Source(), source), Now: now()}
	if err := objectsOf(ctx, source, a.svc.Metadata.Name, c.manifest, &facts); err != nil {
		return out, err
	}
	backfill := false
	for _, t := range targets {
		if t.Name == a.svc.Source().Name {
			return out, usage(fmt.Errorf("%s is the source: rules lead from it to a target", t.Name), "name a target with --region")
		}
		target, err := bucketOf(t)
		if err != nil {
			return out, err
		}
		one := facts
		one.Target = a.place(ctx, t, target)
		one.Objects, one.ListErr = inTarget(ctx, target, a.svc.Metadata.Name, c.manifest.Release, facts)
		found := append(a.stateElsewhere(ctx, a.svc.Source(), one.Source), a.stateElsewhere(ctx, t, one.Target)...)
		found = append(found, advise.Judge(one)...)
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		backfill = backfill || advise.NeedsBackfill(found)
		out.Targets = append(out.Targets, advisedTarget{t.Name, one.Target.Bucket, len(one.Objects), found})
	}
	if backfill {
		out.Backfill, err = newBackfill(a.svc, facts.Source, c.manifest.Release, a.job)
	}
	out.conclude()
	return out, err
}

// place asks a region's bucket for its rules and versions.
func (a *adviser) place(ctx context.Context, r *service.Region, s *s3.Store) advise.Place {
	p := advise.Place{Region: r.Name}
	p.Bucket, p.Prefix = s.Bucket()
	if given, ok := a.rules[r.Name]; ok {
		p.Rules = given
	} else {
		p.Rules, p.RulesErr = rulesOf(ctx, s)
	}
	on, err := s.Versioned(ctx)
	p.VersionErr, p.AWSRegion = err, s.Region()
	if on {
		p.Versioning = "Enabled"
	}
	if r.State.Scheme == service.SchemeS3 {
		p.StateBucket, p.StatePrefix, _ = strings.Cut(strings.TrimSuffix(r.State.Path, "/")+"/", "/")
	}
	return p
}

// stateElsewhere looks at a state in a bucket other than the store's, which has
// rules of its own.
func (a *adviser) stateElsewhere(ctx context.Context, r *service.Region, p advise.Place) []advise.Finding {
	if p.StateBucket == "" || p.StateBucket == p.Bucket {
		return nil
	}
	switch unseen, err := stateRules(ctx, r); {
	case err != nil:
		return []advise.Finding{{Check: "state-replicated", Severity: advise.Fail, Message: err.Error(), Hint: errext.Hint(err)}}
	case unseen != nil:
		return []advise.Finding{{Check: "state-unknown", Severity: advise.Unknown, Message: unseen.Error(), Hint: cmp.Or(errext.Hint(unseen), "grant s3:GetReplicationConfiguration on bucket "+p.StateBucket)}}
	}
	return nil
}

// rulesOf asks a bucket for its rules; none are nil.
func rulesOf(ctx context.Context, s *s3.Store) (*advise.Configuration, error) {
	rules, err := s.ReplicationRules(ctx)
	if errors.Is(err, s3.ErrNoAnswer) {
		return nil, errext.WithHint(err, "this server does not tell such rules: ask whoever runs it whether something replicates the bucket")
	}
	if err != nil || len(rules) == 0 {
		return nil, err
	}
	c := &advise.Configuration{}
	for _, r := range rules {
		bucket := r.Destination[strings.LastIndexByte(r.Destination, ':')+1:]
		rule := advise.Rule{ID: r.ID, Priority: int(r.Priority), Enabled: r.Enabled, Prefix: r.Prefix, Bucket: bucket, Account: r.Account, StorageClass: r.StorageClass,
			OwnerOverride: r.OwnerOverride, ReplicaKMSKey: r.ReplicaKMSKey, KMSObjects: r.KMSObjects, ReplicaModifications: r.ReplicaMods, DeleteMarkers: r.DeleteMarkers, TimeControl: r.TimeControl, Metrics: r.Metrics}
		for _, k := range slices.Sorted(maps.Keys(r.Tags)) {
			rule.Tags = append(rule.Tags, advise.Tag{Key: k, Value: r.Tags[k]})
		}
		c.Rules = append(c.Rules, rule)
	}
	return c, nil
}

// askedAtOnce bounds requests for objects' status.
const askedAtOnce = 16

// objectsOf asks the source for every object of the release. Keys in the facts
// begin at the bucket, as rules see them.
func objectsOf(ctx context.Context, s *s3.Store, name string, m *manifest.Manifest, facts *advise.Facts) error {
	_, prefix := s.Bucket()
	below := release.Prefix(name, m.Release)
	keys := []string{below + release.ManifestName}
	for _, f := range m.Contents.Files {
		keys = append(keys, release.Key(below, f))
	}
	objects, errs := make([]store.Object, len(keys)), make([]error, len(keys))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(askedAtOnce)
	for i, key := range keys {
		g.Go(func() error {
			objects[i], errs[i] = s.Stat(gctx, key)
			return gctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return context.Cause(ctx)
	}
	for i, o := range objects {
		key := prefix + keys[i]
		switch {
		case errors.Is(errs[i], store.ErrNotFound):
			facts.Missing = append(facts.Missing, key)
		case errs[i] != nil:
			facts.Unread = append(facts.Unread, key)
		default:
			facts.Objects = append(facts.Objects, advise.Object{Key: key, Size: o.Size, Modified: o.ModTime, Status: strings.ToUpper(o.Replication), Encryption: o.Encryption})
		}
	}
	return nil
}

// inTarget marks the objects that the target lists in the same size. A listing
// that fails marks none: what is there only perhaps is not called there.
func inTarget(ctx context.Context, s *s3.Store, name, id string, facts advise.Facts) ([]advise.Object, error) {
	objects := slices.Clone(facts.Objects)
	_, prefix := s.Bucket()
	sizes := map[string]int64{}
	for o, err := range s.List(ctx, release.Prefix(name, id)) {
		if err != nil {
			return objects, err
		}
		sizes[prefix+o.Key] = o.Size
	}
	for i, o := range objects {
		size, there := sizes[o.Key]
		objects[i].InTarget = there && size == o.Size
	}
	return objects, nil
}

func newBackfill(svc *service.Service, source advise.Place, id, file string) (*backfillJob, error) {
	b := advise.Backfill{Region: source.AWSRegion, Bucket: source.Bucket, Prefix: source.Prefix + release.Prefix(svc.Metadata.Name, id), Report: "drkit-batch/backfill/"}
	request, err := b.Request()
	return &backfillJob{string(request), b.Command(file)}, err
}

// conclude sets the status: what fails is a failed gate, what could not be seen is
// no verdict.
func (a *advised) conclude() {
	var all []errext.Status
	add := func(s errext.Status) {
		if !slices.Contains(all, s) {
			all, a.Reasons = append(all, s), append(a.Reasons, s.String())
		}
	}
	for _, t := range a.Targets {
		for _, f := range t.Findings {
			switch f.Severity {
			case advise.Fail:
				add(errext.Gate)
			case advise.Unknown:
				add(errext.Failed)
			}
		}
	}
	a.Status = int(errext.Combine(all...))
}

func (o adviseOptions) print(s *streams, svc *service.Service, a advised) error {
	status := errext.Status(a.Status)
	lost := o.write(s, adviseResult(svc, a))
	if a.Backfill != nil && o.Backfill != "" {
		lost = errors.Join(lost, writeFile(o.Backfill, []byte(a.Backfill.Request)))
	}
	if o.json() {
		return reported(s, writeJSON(s, a), lost, status)
	}
	return reported(s, o.text(s, a), lost, status)
}

func (o adviseOptions) text(s *streams, a advised) error {
	fmt.Fprintf(s.Out, "release %.12s, %s\n", a.Release, a.Manifest)
	for _, t := range a.Targets {
		fmt.Fprintf(s.Out, "\nto %s (bucket %s): %s\n", t.Region, t.Bucket, tallyFindings(t))
		table := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
		for _, f := range t.Findings {
			fmt.Fprintf(table, "  %s\t%s\t%s\n", f.Severity, f.Check, oneLine(f.Message))
			for _, k := range f.Keys {
				fmt.Fprintf(table, "\t\t  %s\n", printable(k))
			}
			if f.Count > len(f.Keys) {
				fmt.Fprintf(table, "\t\t  … and %d more\n", f.Count-len(f.Keys))
			}
			if f.Hint != "" {
				fmt.Fprintf(table, "\t\t  hint: %s\n", oneLine(f.Hint))
			}
		}
		table.Flush()
	}
	if a.Backfill == nil {
		return nil
	}
	fmt.Fprintf(s.Out, "\nS3 Batch Replication brings what was left behind. With ACCOUNT and ROLE set to the account and a role for it:\n")
	if o.Backfill == "" {
		fmt.Fprintf(s.Out, "cat > backfill.json <<'EOF'\n%sEOF\n", a.Backfill.Request)
	}
	_, err := fmt.Fprintln(s.Out, a.Backfill.Command)
	return err
}

func tallyFindings(t advisedTarget) string {
	n := map[advise.Severity]int{}
	for _, f := range t.Findings {
		n[f.Severity]++
	}
	what := "the rules bring the release there"
	switch {
	case n[advise.Fail] > 0:
		what = "the rules do NOT bring the release there, or carry too much"
	case n[advise.Unknown] > 0:
		what = "not everything could be seen"
	}
	return fmt.Sprintf("%s (%d fail, %d unknown, %d warn; the status of %d objects was read)", what, n[advise.Fail], n[advise.Unknown], n[advise.Warn], t.Objects)
}

// adviseResult lays the findings out as rows for the report writers.
func adviseResult(svc *service.Service, a advised) report.Result {
	out := report.Result{Title: "drkit replicate advise of " + svc.Metadata.Name, Category: "drkit/replicate-advise/" + svc.Metadata.Name, Status: errext.Status(a.Status),
		Properties: []report.Property{{Name: "service", Value: svc.Metadata.Name}, {Name: "release", Value: a.Release}}}
	levels := map[advise.Severity]report.Level{advise.Fail: report.Error, advise.Unknown: report.Error, advise.Warn: report.Warning, advise.Info: report.Note}
	out.Groups = []report.Group{{Name: string(advise.Fail), Text: "The target will lack something, or gets what must not come."}, {Name: string(advise.Unknown), Text: "Could not be seen."},
		{Name: string(advise.Warn), Text: "Works, with a risk."}, {Name: string(advise.Info), Text: "To know."}}
	at, seen := newPlaces(svc, ""), map[string]bool{}
	for _, t := range a.Targets {
		for _, f := range t.Findings {
			if !seen[f.Check] {
				seen[f.Check] = true
				out.Rules = append(out.Rules, report.Rule{ID: f.Check, Title: f.Check, Text: "Replication rules: " + f.Check, Doc: "docs/replication.md", Level: levels[f.Severity]})
			}
			out.Rows = append(out.Rows, report.Row{ID: f.Check, Group: string(f.Severity), Suite: t.Region, Level: levels[f.Severity], Trouble: f.Severity == advise.Unknown,
				Title: f.Check, Message: f.Message, Hint: f.Hint, Subject: t.Region, Path: at.file})
		}
		if len(t.Findings) == 0 {
			out.Rows = append(out.Rows, report.Row{ID: "replication", Suite: t.Region, Subject: t.Region, Level: report.Pass, Title: "replication rules", Message: "no finding"})
		}
	}
	out.Verdict = fmt.Sprintf("status %d", a.Status)
	return out
}

// stateRules looks whether a replication rule carries a region's state. The error
// says that one does; unseen says why it could not be seen.
func stateRules(ctx context.Context, r *service.Region) (unseen, err error) {
	if r.State.Scheme != service.SchemeS3 {
		return nil, nil
	}
	s, err := openBucket(r.State)
	if err != nil {
		return nil, err
	}
	rules, err := rulesOf(ctx, s)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("whether a replication rule carries drkit's state of region %s was not seen: %w", r.Name, err), nil
	}
	if rules == nil {
		return nil, nil
	}
	bucket, prefix := s.Bucket()
	if carrying := rules.Carrying(prefix); len(carrying) > 0 {
		return nil, errext.WithHint(errext.WithStatus(errors.New(advise.StateMessage(r.Name, bucket, prefix, carrying[0])), errext.Refused), advise.StateHint)
	}
	return nil, nil
}

// stateApart refuses to work with regions whose state is replicated, before any
// change. What could not be seen is said.
func stateApart(ctx context.Context, s *streams, regions ...*service.Region) error {
	var errs []error
	for _, r := range regions {
		unseen, err := stateRules(ctx, r)
		if unseen != nil {
			fmt.Fprintf(s.Err, "drkit: note: %v\n", unseen)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func regionsOf(svc *service.Service) []*service.Region {
	var all []*service.Region
	for i := range svc.Regions {
		all = append(all, &svc.Regions[i])
	}
	return all
}
