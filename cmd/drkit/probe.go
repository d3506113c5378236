package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drkit/drill/probe"
	"drkit/internal/errext"
	"drkit/internal/openai"
	"drkit/internal/service"
	"drkit/manifest"
	"drkit/manifest/probes"
)

func newProbe(s *streams) *cobra.Command {
	c := &cobra.Command{Use: "probe", Short: "Record how an endpoint answers, or compare one with a recording"}
	c.AddCommand(newProbeRecord(s, runProbeRecord), newProbeCompare(s, runProbeCompare))
	return c
}

// endpointOption is --endpoint: the engine to ask.
type endpointOption struct {
	Endpoint  string
	APIKeyEnv string
}

func (o *endpointOption) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.Endpoint, "endpoint", "", "base URL of the engine, such as http://127.0.0.1:8000 (required)")
	c.Flags().StringVar(&o.APIKeyEnv, "api-key-env", "", "name of the environment variable that holds the engine's API key")
}

func (o *endpointOption) client(s *streams) (*openai.Client, error) {
	if !strings.HasPrefix(o.Endpoint, "http://") && !strings.HasPrefix(o.Endpoint, "https://") {
		return nil, usage(fmt.Errorf("--endpoint %q is not an http URL", s.Redactor.String(o.Endpoint)), "give the base URL of an engine, such as http://127.0.0.1:8000")
	}
	c := &openai.Client{BaseURL: strings.TrimRight(o.Endpoint, "/"), HTTP: httpClient()}
	if o.APIKeyEnv != "" {
		if c.APIKey = s.Getenv(o.APIKeyEnv); c.APIKey == "" {
			return nil, usage(fmt.Errorf("environment variable %s is empty", o.APIKeyEnv), "export the API key under that name")
		}
		s.Redactor.Add(c.APIKey)
	}
	return c, nil
}

// recordOptions are those of probe record.
type recordOptions struct {
	serviceOption
	releaseOption
	endpointOption
	progressOption
	Out, Questions, Hardware, Residency string
	Tolerance                           float64
	MaxTokens                           int
	ServesRelease                       bool
}

func newProbeRecord(s *streams, run func(context.Context, *streams, recordOptions) error) *cobra.Command {
	var o recordOptions
	c := &cobra.Command{
		Use:   "record",
		Short: "Record the golden behaviour of an endpoint that is known to be right",
		Long: `Asks an engine that serves the release and is known to be right, and writes its
answers: token ids, rendered chats, greedy tokens with log probabilities, each
adapter, an offered tool and JSON mode where the model has them, one prompt that is
longer than the unscaled positions. The recording is bound to the model and engine
parts of the release, which are read from drkit.yaml's sources. Each question is asked
twice: answers that are not stable are refused. The folder of engine.probes is made
when it is missing; that the file can be written is seen before the engine is asked.

An endpoint whose release is not known is refused (status 3). It is known where the
engine runs on this machine and names the absolute folders that it serves: their files
are hashed and compared with the release. Of any other endpoint you have to say it
yourself, with --serves-release; the recording then says that it was told.`,
		Example: `  drkit probe record --endpoint http://127.0.0.1:8000`,
		RunE:    func(c *cobra.Command, _ []string) error { return run(c.Context(), s, o) },
	}
	o.serviceOption.addFlags(c)
	o.releaseOption.addFlags(c)
	o.endpointOption.addFlags(c)
	o.progressOption.addFlags(c)
	c.Flags().StringVarP(&o.Out, "out", "o", "", "write the recording to this file (default: engine.probes of drkit.yaml)")
	c.Flags().StringVar(&o.Questions, "questions", "", "file with one question a line instead of drkit's own")
	c.Flags().StringVar(&o.Hardware, "hardware-class", "cpu", "what the endpoint runs on: other hardware changes low bits")
	c.Flags().StringVar(&o.Residency, "residency", "", "border that the recording may not cross")
	c.Flags().Float64Var(&o.Tolerance, "tolerance", probe.DefaultTolerance, "greatest difference of a log probability that counts as equal")
	c.Flags().IntVar(&o.MaxTokens, "max-tokens", 24, "tokens of each answer")
	c.Flags().BoolVar(&o.ServesRelease, "serves-release", false, "you know that the endpoint serves this release, where drkit cannot see it")
	return c
}

func runProbeRecord(ctx context.Context, s *streams, o recordOptions) error {
	client, err := o.client(s)
	if err != nil {
		return err
	}
	questions, err := readQuestions(o.Questions)
	if err != nil {
		return err
	}
	c, err := o.subject(ctx, s)
	if err != nil {
		return err
	}
	if err := reachable(ctx, client); err != nil {
		return err
	}
	basis, err := releaseServed(ctx, client, c, o.ServesRelease)
	if err != nil {
		return err
	}
	set, err := probe.Record(ctx, client, probe.Recording{
		Basis: basis, Original: c.Annotations.Model.OriginalLength(), Tools: c.Annotations.Model != nil && c.Annotations.Model.Template.Tools,
		Subject: manifest.SubjectOf(c), Questions: questions, HardwareClass: o.Hardware, Residency: o.Residency, Tolerance: o.Tolerance, MaxTokens: o.MaxTokens,
	})
	if err != nil {
		return fmt.Errorf("recording %s: %w", s.Redactor.String(o.Endpoint), err)
	}
	var data bytes.Buffer
	if err := probes.Encode(&data, set); err != nil {
		return err
	}
	if err := replaceOwn(o.Out, data.Bytes(), probesMark); err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "%d probes of %s recorded to %s; that it serves this release: %s\n", len(set.Probes), set.Engine, o.Out, basis)
	for _, l := range set.Lacks {
		fmt.Fprintf(s.Err, "  not recorded: %s\n", l)
	}
	return nil
}

// subject is the manifest that the recording is bound to. The sources are read
// anew unless a release is named: what is published may be older.
func (o *recordOptions) subject(ctx context.Context, s *streams) (*manifest.Manifest, error) {
	if o.Manifest != "" || o.Release != "" {
		if o.Out == "" {
			return nil, usage(errors.New("no file to write to"), "give -o FILE")
		}
		if err := checkFile("-o", o.Out, probesMark); err != nil {
			return nil, err
		}
		c, _, err := chooseRelease(ctx, s, o.serviceOption, o.releaseOption, o.progressOption)
		return c.manifest, err
	}
	mode, err := o.mode(s)
	if err != nil {
		return nil, err
	}
	svc, err := o.load()
	if err != nil {
		return nil, err
	}
	if err := o.target(svc); err != nil {
		return nil, err
	}
	meter := newMeter(s, mode)
	defer meter.close()
	m, _, err := buildRelease(ctx, svc, meter.progress())
	return m, err
}

// target sees that the recording can be written, before the sources are hashed and
// the engine is asked. The folder of engine.probes is made where it alone is missing:
// drkit init names one that nothing else makes.
func (o *recordOptions) target(svc *service.Service) error {
	if o.Out != "" {
		return checkFile("-o", o.Out, probesMark)
	}
	if svc.Engine.Probes.IsZero() {
		return usage(errors.New("no file to write to"), "name one as engine.probes in "+svc.File+", or give -o FILE")
	}
	o.Out = svc.Engine.Probes.Path
	dir := filepath.Dir(o.Out)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		return errext.WithHint(fmt.Errorf("engine.probes: making the folder %s: %w", dir, err), "see that "+filepath.Dir(dir)+" may be written to, or give -o FILE")
	}
	return checkFile("engine.probes", o.Out, probesMark)
}

func readQuestions(path string) ([]string, error) {
	if path == "" {
		return probe.DefaultQuestions, nil
	}
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the questions: %w", err)
	}
	lines := slices.DeleteFunc(strings.Split(string(data), "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
	if len(lines) == 0 {
		return nil, usage(fmt.Errorf("%s has no question", path), "write one question a line")
	}
	return lines, nil
}

// compareOptions are those of probe compare.
type compareOptions struct {
	endpointOption
	outputOption
	Probes string
}

func newProbeCompare(s *streams, run func(context.Context, *streams, compareOptions) error) *cobra.Command {
	var o compareOptions
	c := &cobra.Command{
		Use:     "compare PROBES",
		Short:   "Compare an endpoint's answers with a recording",
		Example: `  drkit probe compare engine/probes.json --endpoint http://127.0.0.1:8000`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Probes = args[0]
			return run(c.Context(), s, o)
		},
	}
	o.endpointOption.addFlags(c)
	o.outputOption.addFlags(c)
	return c
}

func runProbeCompare(ctx context.Context, s *streams, o compareOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	client, err := o.client(s)
	if err != nil {
		return err
	}
	data, err := readFile(o.Probes)
	if err != nil {
		return fmt.Errorf("reading the probes: %w", err)
	}
	set, err := probes.Decode(data)
	if err != nil {
		return errext.WithStatus(fmt.Errorf("%s: %w", o.Probes, err), errext.Usage)
	}
	if err := reachable(ctx, client); err != nil {
		return err
	}
	res, err := probe.Compare(ctx, client, set)
	if err != nil {
		return err
	}
	if err := printComparison(s, o, set, res); err != nil {
		return err
	}
	if !res.Equal() {
		return conclude(errext.Gate)
	}
	return nil
}

// reachable tells an endpoint that cannot be asked at all from one that answers
// wrongly: the first is no verdict.
func reachable(ctx context.Context, c *openai.Client) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("no answer within 10s"))
	defer cancel()
	if _, err := c.Models(ctx); err != nil && openai.StatusCode(err) == 0 {
		return errext.WithHint(fmt.Errorf("asking the endpoint: %w", err), "is the engine up, and is this its base URL?")
	}
	return nil
}

func printComparison(s *streams, o compareOptions, set probes.ProbeSet, res probe.Result) error {
	if o.json() {
		return writeJSON(s, struct {
			Schema string `json:"schema"`
			Equal  bool   `json:"equal"`
			probe.Result
		}{"drkit.probe-comparison/1.0", res.Equal(), res})
	}
	verdict := "differs from the recording"
	if res.Equal() {
		verdict = "answers as recorded"
	}
	fmt.Fprintf(s.Out, "%s %s: %d of %d probes answered, %d completions compared, log probabilities within %g\n",
		s.Redactor.String(o.Endpoint), verdict, res.Asked-len(res.Errors), len(set.Probes), res.Completions, res.Tolerance)
	for _, d := range res.Differences {
		fmt.Fprintf(s.Out, "  differs  %s\n", d)
	}
	for _, e := range res.Errors {
		fmt.Fprintf(s.Out, "  error    %s\n", e)
	}
	return nil
}
