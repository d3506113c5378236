package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/manifest"
	"drkit/manifest/diff"
	"drkit/manifest/release"
)

// diffOptions are those of manifest diff.
type diffOptions struct {
	serviceOption
	releaseOption
	outputOption
	reportOption
	progressOption
	Files    []string // two manifest files
	From, To string
	Regions  string
	Content  []string
	Strict   bool
}

func newManifestDiff(s *streams, run func(context.Context, *streams, diffOptions) error) *cobra.Command {
	var o diffOptions
	c := &cobra.Command{
		Use:   "diff [FROM TO]",
		Short: "Say how two releases, or two regions' renderings, differ",
		Long: `Compares two manifest files, two releases of the source region's store, or the
renderings of one release for two regions: first by what the differences mean (a
rope factor, an end token, a LoRA rank, an engine's option, a tensor's type), then
by bytes. Without arguments it compares what the source region publishes with what
would be released now.

Each difference has the gravest severity that its kind is known to have: block (the
engine may not start), request (some requests may fail), silent (answers may
differ), degraded (slower, or fewer requests), info. One of the first three matters:
the status is then 4. With --strict, degraded ones matter too.

A manifest holds digests and facts. The fields and lines of changed files are
compared where their bytes are at hand: in the source region's store, in the sources
of drkit.yaml, or in the folders of --content. What is used is hashed first.`,
		Example: `  drkit manifest diff
  drkit manifest diff old.json new.json --content models/llama
  drkit manifest diff --from 3f2a --to 9c1b
  drkit manifest diff --regions us-east-1,eu-west-1`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			o.Files = args
			return run(c.Context(), s, o)
		},
	}
	o.serviceOption.addFlags(c)
	o.releaseOption.addFlags(c)
	o.outputOption.addFlags(c)
	o.reportOption.addFlags(c)
	o.progressOption.addFlags(c)
	c.Flags().StringVar(&o.From, "from", "", "compare from this release of the source region's store (an id, or its beginning)")
	c.Flags().StringVar(&o.To, "to", "", "compare to this release; without it, to what would be released now")
	c.Flags().StringVar(&o.Regions, "regions", "", "compare the renderings of one release for two regions: SOURCE,TARGET")
	c.Flags().StringArrayVar(&o.Content, "content", nil, "a folder that holds files of a release: a model repository, a release's folder (repeatable)")
	c.Flags().BoolVar(&o.Strict, "strict", false, "degraded differences matter too")
	return c
}

// diffed is the result of the comparison.
type diffed struct {
	Schema  string     `json:"schema"`
	From    comparedTo `json:"from"`
	To      comparedTo `json:"to"`
	Matters bool       `json:"matters"`
	diff.Result
}

// comparedTo says which release a side is.
type comparedTo struct {
	Service string `json:"service"`
	Release string `json:"release"`
	Region  string `json:"region,omitempty"`
	How     string `json:"how"`
}

func runManifestDiff(ctx context.Context, s *streams, o diffOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	if _, err := o.mode(s); err != nil {
		return err
	}
	from, to, svc, err := o.sides(ctx, s)
	if err != nil {
		return err
	}
	res := diffed{Schema: "drkit.diff/1.0", From: from.describe(), To: to.describe()}
	res.Result = diff.Compare(from.side(ctx), to.side(ctx))
	if ctx.Err() != nil { // texts that were not read any more would look like texts that are not at hand
		return context.Cause(ctx)
	}
	if svc != nil && o.Regions != "" {
		if r := svc.Region(to.region); r != nil {
			res.Allow(r.AllowedDifferences)
		}
	}
	res.Matters = res.Result.Matters(o.Strict)
	rep := o.result(res, svc)
	lost := o.write(s, rep)
	return reported(s, o.print(s, res), lost, rep.Status)
}

func (o diffOptions) print(s *streams, res diffed) error {
	if o.json() {
		return writeJSON(s, res)
	}
	return printDiff(s, res)
}

func (o diffOptions) check() error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	if err := o.reportOption.check(); err != nil {
		return err
	}
	if err := o.releaseOption.check(); err != nil {
		return err
	}
	ways := 0
	for _, given := range []bool{len(o.Files) > 0, o.From != "" || o.To != "", o.Regions != ""} {
		if given {
			ways++
		}
	}
	switch {
	case len(o.Files) == 1:
		return usage(fmt.Errorf("%s is compared with nothing", o.Files[0]), "name two manifest files")
	case ways > 1:
		return usage(errors.New("two manifest files, --from and --to, and --regions exclude each other"), "give one of them")
	case o.Regions == "" && (o.Manifest != "" || o.Release != ""):
		return usage(errors.New("--manifest and --release choose the release of --regions"), "name two manifest files, or --from and --to")
	case o.To != "" && o.From == "":
		return usage(errors.New("--to needs --from"), "name the release to compare from, or leave both away")
	}
	return nil
}

// compared is one side, with what is needed to read its files.
type compared struct {
	chosen
	region string
	texts  []textSource
}

func (c compared) describe() comparedTo {
	return comparedTo{Service: c.manifest.Service, Release: c.manifest.Release, Region: c.region, How: c.how}
}

// sides chooses what is compared. The service is nil where no drkit.yaml is needed
// and there is none.
func (o diffOptions) sides(ctx context.Context, s *streams) (from, to compared, svc *service.Service, err error) {
	svc, err = o.load()
	if len(o.Files) == 2 || o.Regions != "" && o.Manifest != "" {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(s.Err, "%s cannot be read, so it gives no texts: drkit manifest check says why\n", o.File)
		}
		if err != nil {
			svc, err = nil, nil
		}
	}
	if err != nil {
		return from, to, nil, err
	}
	switch {
	case len(o.Files) == 2:
		if from.manifest, err = readManifest(o.Files[0]); err == nil {
			to.manifest, err = readManifest(o.Files[1])
		}
		from.how, to.how = "from "+o.Files[0], "from "+o.Files[1]
	case o.Regions != "":
		from, to, err = o.regions(ctx, s, svc)
	default:
		from, to, err = o.releases(ctx, s, svc)
	}
	if err != nil {
		return from, to, nil, err
	}
	from.texts, to.texts = o.sources(svc, from), o.sources(svc, to)
	return from, to, svc, nil
}

// regions are the renderings of one release.
func (o diffOptions) regions(ctx context.Context, s *streams, svc *service.Service) (from, to compared, err error) {
	a, b, ok := strings.Cut(o.Regions, ",")
	if !ok || a == "" || b == "" || strings.Contains(b, ",") {
		return from, to, usage(fmt.Errorf("--regions %q does not name two regions", o.Regions), "write --regions SOURCE,TARGET")
	}
	var c chosen
	switch {
	case svc != nil && o.Manifest == "" && o.Release == "":
		c, err = o.now(ctx, s, svc) // renderings are compared before they are released
	case svc != nil:
		c, _, err = chooseRelease(ctx, s, o.serviceOption, o.releaseOption, o.progressOption)
	default:
		c.how = "from " + o.Manifest
		c.manifest, err = readManifest(o.Manifest)
	}
	if err != nil {
		return from, to, err
	}
	var known []string
	for _, r := range c.manifest.Annotations.Regions {
		known = append(known, r.Name)
	}
	for _, name := range []string{a, b} {
		if !slices.Contains(known, name) {
			return from, to, usage(fmt.Errorf("%q is no region of this release", name), "its regions are "+strings.Join(known, ", "))
		}
	}
	return compared{chosen: c, region: a}, compared{chosen: c, region: b}, nil
}

// now is the release as the sources are.
func (o diffOptions) now(ctx context.Context, s *streams, svc *service.Service) (chosen, error) {
	mode, err := o.mode(s)
	if err != nil {
		return chosen{}, err
	}
	meter := newMeter(s, mode)
	defer meter.close()
	m, files, err := buildRelease(ctx, svc, meter.progress())
	return chosen{manifest: m, files: files, how: "built in memory from " + svc.File}, err
}

// releases are two of the source region's store, or one and what would be
// released now.
func (o diffOptions) releases(ctx context.Context, s *streams, svc *service.Service) (from, to compared, err error) {
	source, err := openCopy(svc.Source())
	if err != nil {
		return from, to, err
	}
	if o.From == "" {
		from.how = "published in the source region (CURRENT)"
		_, from.manifest, err = release.LoadCurrent(ctx, source.state, source.store, source.region.Name, svc.Metadata.Name)
		if err != nil {
			return from, to, errext.WithHint(err, "drkit replicate publishes a first release there; until then name one with --from, or two manifest files")
		}
	} else if from.chosen, err = stored(ctx, source, svc, o.From); err != nil {
		return from, to, err
	}
	if o.To != "" {
		to.chosen, err = stored(ctx, source, svc, o.To)
	} else {
		to.chosen, err = o.now(ctx, s, svc)
	}
	return from, to, err
}

// stored is a release of the store, named by its id or the beginning of it.
func stored(ctx context.Context, source copyOf, svc *service.Service, id string) (chosen, error) {
	all, err := release.List(ctx, source.store, svc.Metadata.Name)
	if err != nil {
		return chosen{}, err
	}
	found := slices.DeleteFunc(slices.Clone(all), func(r string) bool { return !strings.HasPrefix(r, id) })
	if len(found) != 1 {
		return chosen{}, usage(fmt.Errorf("%d releases of %s in the store of %s begin with %q", len(found), svc.Metadata.Name, source.region.Name, id), "it holds "+listed(all))
	}
	m, err := release.Load(ctx, source.store, svc.Metadata.Name, found[0])
	return chosen{manifest: m, how: "from the source region's store"}, err
}

func listed(ids []string) string {
	if len(ids) == 0 {
		return "no release"
	}
	short := make([]string, len(ids))
	for i, id := range ids {
		short[i] = fmt.Sprintf("%.12s", id)
	}
	return strings.Join(short, ", ")
}

// printDiff writes the result for people.
func printDiff(s *streams, res diffed) error {
	for _, side := range []struct {
		name string
		of   comparedTo
	}{{"from", res.From}, {"to", res.To}} {
		region := ""
		if side.of.Region != "" {
			region = " for " + side.of.Region
		}
		fmt.Fprintf(s.Out, "%-5s release %.12s of %s%s, %s\n", side.name, side.of.Release, side.of.Service, region, side.of.How)
	}
	fmt.Fprintf(s.Out, "%s, %d equal: %s\n", countOf(len(res.Files), "file differs", "files differ"), res.Equal, conclusion(res))
	for _, d := range res.Differences {
		printDifference(s, d)
	}
	if len(res.Files) > 0 {
		fmt.Fprintln(s.Out, "\nbytes")
	}
	for _, f := range res.Files {
		fmt.Fprintf(s.Out, "  %-8s %-7s  %s  %s%s\n", f.Severity, f.Change, oneLine(string(f.Part)+"/"+f.Path), sizes(f), remark(f.Message, f.Allowed))
	}
	if n := len(res.Unread); n > 0 {
		fmt.Fprintf(s.Err, "%s compared by facts and digests alone: --content FOLDER gives the texts\n", countOf(n, "changed file was", "changed files were"))
	}
	return nil
}

func conclusion(res diffed) string {
	switch {
	case res.Matters:
		return "it matters"
	case len(res.Differences)+len(res.Files) == 0:
		return "the same"
	}
	return "nothing that matters"
}

func printDifference(s *streams, d diff.Difference) {
	where := string(d.Part)
	if d.Path != "" {
		where += "/" + d.Path
	}
	if d.Region != "" {
		where += " (region " + d.Region + ")"
	}
	fmt.Fprintf(s.Out, "\n%-8s %s\n         %s\n", d.Severity, oneLine(where), oneLine(d.Message)+remark("", d.Allowed))
	for _, line := range d.Lines {
		fmt.Fprintf(s.Out, "           %s\n", oneLine(line))
	}
}

func remark(message, allowed string) string {
	if allowed != "" {
		message = strings.TrimPrefix(message+"; allowed by allowed_differences: "+allowed, "; ")
	}
	if message == "" {
		return ""
	}
	return "  (" + oneLine(message) + ")"
}

func sizes(f diff.File) string {
	show := func(b *diff.Bytes) string { return fmt.Sprintf("%s %.12s", byteCount(b.Size), b.SHA256) }
	switch {
	case f.From == nil:
		return show(f.To)
	case f.To == nil:
		return show(f.From)
	case f.Change == diff.Renamed:
		return show(f.To)
	}
	return show(f.From) + " → " + show(f.To)
}

// side is what the comparison takes.
func (c compared) side(ctx context.Context) diff.Side {
	return diff.Side{Manifest: c.manifest, Region: c.region, Text: func(f manifest.File) ([]byte, bool) { return readText(ctx, c.texts, f) }}
}
