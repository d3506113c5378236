package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"drkit/internal/report"
	"drkit/internal/service"
	"drkit/manifest"
	"drkit/manifest/rules"
)

// checkOptions are those of manifest check.
type checkOptions struct {
	serviceOption
	servicesOption
	outputOption
	reportOption
	progressOption
	Manifest string
	Strict   bool
	Severity string // the least that is printed
	Measured string // --measured-boot: a duration, or a file
}

func newManifestCheck(s *streams, run func(context.Context, *streams, checkOptions) error) *cobra.Command {
	var o checkOptions
	c := &cobra.Command{
		Use:   "check [MANIFEST]",
		Short: "Say whether a release would boot elsewhere and answer the same",
		Long: `The pre-release gate: reads the release that drkit.yaml describes, or a manifest
file, and says without booting anything what the engine would refuse, which
requests would fail, and what would be answered wrongly. Findings of severity
block, request and silent fail the gate; degraded ones do with --strict.

A time limit of a deploy file that is shorter than the engine's start fails the gate
where a start was measured: --measured-boot 159s, or a JSON file with "ready" in
seconds since the process started.

--severity leaves out of what is printed the findings that are less grave. The
verdict and the files of --report rest on all of them.

Several services (-f repeated, or a pattern in quotes) are checked in turn, with a
summary at the end; in JSON they are a list.`,
		Example: `  drkit manifest check
  drkit manifest check manifest.json
  drkit manifest check -f 'services/*/drkit.yaml'
  drkit manifest check --measured-boot 159s --report sarif=check.sarif`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Manifest = args[0]
			}
			return run(c.Context(), s, o)
		},
	}
	o.servicesOption.addFlags(c)
	o.outputOption.addFlags(c)
	o.reportOption.addFlags(c)
	o.progressOption.addFlags(c)
	c.Flags().BoolVar(&o.Strict, "strict", false, "degraded findings fail the gate too")
	c.Flags().StringVar(&o.Severity, "severity", string(manifest.Info), "print findings of this severity and graver ones: "+severityNames())
	c.Flags().StringVar(&o.Measured, "measured-boot", "", "compare the deploy files' time limits with this start of the engine: a duration, or a JSON file with ready in seconds")
	return c
}

// measuredStart reads --measured-boot.
func measuredStart(given string) (start rules.Start, err error) {
	if took, err := time.ParseDuration(given); err == nil && took > 0 {
		return rules.Start{Took: took, From: "--measured-boot"}, nil
	}
	data, err := readFile(given)
	if err != nil {
		return start, usage(fmt.Errorf("--measured-boot %s is neither a duration nor a file: %w", given, err), "write it as 159s, or name a JSON file with ready in seconds")
	}
	var measured struct{ Ready float64 }
	if err := json.Unmarshal(data, &measured); err != nil || !(measured.Ready > 0 && measured.Ready < 1e7) {
		return start, usage(fmt.Errorf("--measured-boot %s: no ready in seconds", given), `write {"ready": 159.0}`)
	}
	return rules.Start{Took: time.Duration(measured.Ready * float64(time.Second)), From: given}, nil
}

func severityNames() string {
	var names []string
	for _, g := range severities {
		names = append(names, g.Name)
	}
	return strings.Join(names, ", ")
}

// least is the place of --severity among the severities, gravest first.
func (o checkOptions) least() (int, error) {
	at := gravity(cmp.Or(manifest.Severity(o.Severity), manifest.Info))
	if at < 0 {
		return 0, usage(fmt.Errorf("--severity %q is not known", o.Severity), "use one of: "+severityNames())
	}
	return at, nil
}

// gravity is the place of a severity, 0 for the gravest; -1 when there is none of
// that name.
func gravity(s manifest.Severity) int {
	return slices.IndexFunc(severities, func(g report.Group) bool { return g.Name == string(s) })
}

// checked is the result of a check.
type checked struct {
	Schema   string             `json:"schema"`
	Service  string             `json:"service"`
	Release  string             `json:"release"`
	Verdict  string             `json:"verdict"` // holds, holds-with-waivers, fails
	Files    int                `json:"files"`
	Findings []manifest.Finding `json:"findings"`
	Hidden   int                `json:"hidden,omitempty"` // findings that --severity leaves out
}

// only is the result without what is less grave than the severity at that place.
func (c checked) only(least int) checked {
	shown := slices.DeleteFunc(slices.Clone(c.Findings), func(f manifest.Finding) bool { return gravity(f.Severity) > least })
	c.Hidden, c.Findings = len(c.Findings)-len(shown), shown
	return c
}

func runManifestCheck(ctx context.Context, s *streams, o checkOptions) error {
	defer boundMemory()()
	if err := o.refuseBeside(map[string]bool{"a manifest file": o.Manifest != "", "--report to a file": toFiles(o.Reports)}); err != nil {
		return err
	}
	return o.each(ctx, s, o.outputOption, func(s *streams, file string) error {
		o.File = file
		return checkService(ctx, s, o)
	})
}

// checkService checks one service.
func checkService(ctx context.Context, s *streams, o checkOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	if err := o.reportOption.check(); err != nil {
		return err
	}
	least, err := o.least()
	if err != nil {
		return err
	}
	var start rules.Start
	if o.Measured != "" {
		if start, err = measuredStart(o.Measured); err != nil {
			return err
		}
	}
	m, svc, err := o.subject(ctx, s)
	if err != nil {
		return err
	}
	res := checked{Schema: "drkit.check/1.0", Service: m.Service, Release: m.Release, Files: len(m.Contents.Files), Findings: []manifest.Finding{}}
	res.Findings = append(res.Findings, rules.Check(m)...)
	if start.Took > 0 {
		res.Findings = rules.WithStart(res.Findings, m, start)
	}
	if svc != nil {
		res.Findings = gravestFirst(append(rules.Apply(res.Findings, waivers(svc), now()), notes(svc)...))
	}
	res.Verdict = verdict(res.Findings, o.Strict)
	rep := o.result(res, svc)
	lost := o.write(s, rep)
	return reported(s, printCheck(s, o, res.only(least), failing(res.Findings, o.Strict)), lost, rep.Status)
}

// subject is the manifest file that was named, or the release as the sources are
// now: a gate must see what is going to be released, not what was.
func (o checkOptions) subject(ctx context.Context, s *streams) (*manifest.Manifest, *service.Service, error) {
	if o.Manifest != "" {
		c, svc, err := chooseRelease(ctx, s, o.serviceOption, releaseOption{Manifest: o.Manifest}, o.progressOption)
		return c.manifest, svc, err
	}
	mode, err := o.mode(s)
	if err != nil {
		return nil, nil, err
	}
	svc, err := o.load()
	if err != nil {
		return nil, nil, err
	}
	meter := newMeter(s, mode)
	defer meter.close()
	m, _, err := buildRelease(ctx, svc, meter.progress())
	return m, svc, err
}

func gravestFirst(all []manifest.Finding) []manifest.Finding {
	slices.SortStableFunc(all, func(a, b manifest.Finding) int { return cmp.Compare(gravity(a.Severity), gravity(b.Severity)) })
	return all
}

// notes are the settings of drkit.yaml that this version does not use.
func notes(svc *service.Service) []manifest.Finding {
	var all []manifest.Finding
	for _, n := range svc.Unused() {
		all = append(all, manifest.Finding{Rule: rules.Settings.ID, Severity: manifest.Info, Part: "service", Path: svc.File, Line: n.Line, Field: n.Path, Message: n.Text})
	}
	if p := svc.Engine.Probes; !p.IsZero() && !exists(p.Path) {
		all = append(all, manifest.Finding{Rule: rules.Settings.ID, Severity: manifest.Degraded, Part: "service", Path: svc.File, Field: "engine.probes",
			Message: p.Raw + " is not there: the release has no recorded probes, and no drill can judge its answers", Hint: "record them with drkit probe record, or correct the name"})
	}
	return all
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func verdict(findings []manifest.Finding, strict bool) string {
	waived := false
	for _, f := range findings {
		if !f.Severity.FailsGate(strict) {
			continue
		}
		if f.Waived == "" {
			return "fails"
		}
		waived = true
	}
	if waived {
		return "holds-with-waivers"
	}
	return "holds"
}

// gateFindings are the findings of a release that fail the gate and are not waived.
func gateFindings(m *manifest.Manifest, svc *service.Service) []manifest.Finding {
	all := rules.Apply(rules.Check(m), waivers(svc), now())
	return slices.DeleteFunc(all, func(f manifest.Finding) bool { return f.Waived != "" || !f.Severity.FailsGate(false) })
}

// failing counts the findings that fail the gate.
func failing(findings []manifest.Finding, strict bool) (n int) {
	for _, f := range findings {
		if f.Waived == "" && f.Severity.FailsGate(strict) {
			n++
		}
	}
	return n
}

func printCheck(s *streams, o checkOptions, res checked, failing int) error {
	if o.json() {
		return writeJSON(s, res)
	}
	fmt.Fprintf(s.Out, "release %.12s of %s, %s: %s", res.Release, res.Service, countOf(res.Files, "file", "files"), strings.ReplaceAll(res.Verdict, "-", " "))
	if failing > 0 {
		fmt.Fprint(s.Out, ", "+countOf(failing, "finding fails", "findings fail")+" the gate")
	}
	if res.Hidden > 0 {
		fmt.Fprintf(s.Out, "; %d less grave than %s not shown", res.Hidden, o.Severity)
	}
	fmt.Fprintln(s.Out)
	return printFindings(s, slices.Values(res.Findings))
}

// printFindings writes findings for people, grouped by their order.
func printFindings(s *streams, findings iter.Seq[manifest.Finding]) error {
	for f := range findings {
		where := f.Part + "/" + f.Path
		if f.Part == "service" {
			where = f.Path
		}
		if f.Line > 0 {
			where += fmt.Sprintf(":%d", f.Line)
		}
		fmt.Fprintf(s.Out, "\n%-8s %s  %s\n", f.Severity, f.Rule, oneLine(strings.TrimSuffix(where, "/")))
		for _, line := range [][2]string{{"", f.Message}, {"field: ", f.Field}, {"you would see: ", f.Seen}, {"hint: ", f.Hint}, {"waived: ", f.Waived}} {
			if line[1] != "" {
				fmt.Fprintf(s.Out, "         %s%s\n", line[0], oneLine(line[1]))
			}
		}
	}
	return nil
}

// oneLine keeps foreign text from moving the cursor, turning what follows around, or
// beginning a line of its own, which a terminal or a CI runner could take for a command.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, text)
}

// printLine writes one line, whatever the texts in it hold.
func printLine(w io.Writer, format string, args ...any) {
	fmt.Fprintln(w, oneLine(fmt.Sprintf(format, args...)))
}
