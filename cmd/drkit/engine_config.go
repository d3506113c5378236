package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"drkit/internal/errext"
	"drkit/manifest"
	"drkit/manifest/deploy"
	"drkit/manifest/engine"
)

// engineConfigOptions are those of manifest engine.
type engineConfigOptions struct {
	serviceOption
	outputOption
	Kind, Version, Config string
	Files                 []string // deploy files
	Argv                  []string // behind --
}

func newManifestEngine(s *streams, run func(context.Context, *streams, engineConfigOptions) error) *cobra.Command {
	var o engineConfigOptions
	c := &cobra.Command{
		Use:   "engine [DEPLOY_FILE...] [-- vllm serve ...]",
		Short: "Show what the engine will make of its configuration",
		Long: `Predicts, without booting anything, what vLLM or SGLang makes of a command line,
of a configuration file, of deploy files, or of everything that drkit.yaml names:
the options that differ from their defaults, where each was given, unknown ones,
whether the engine would exit and with which words, and what changes in another
release.

Which release: --engine-version, else what drkit.yaml says, else the tag of the
engine's image, else the one that drkit knows best. When --engine-version differs
from the release's own, the changes are those between the two; otherwise those of
the newest release that drkit knows.

Values of secrets are never shown. The status is 4 when an engine would exit.`,
		Example: `  drkit manifest engine
  drkit manifest engine --engine-version 0.33.0
  drkit manifest engine deploy/vllm.yaml
  drkit manifest engine --config engine/vllm.yaml
  drkit manifest engine -- vllm serve /models/llama --max-model-len 32k`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			o.Files = args
			if at := c.ArgsLenAtDash(); at >= 0 {
				o.Files, o.Argv = args[:at], args[at:]
			}
			if c.Flags().Changed("file") && (len(o.Files) > 0 || len(o.Argv) > 0 || o.Config != "") {
				return usage(errors.New("-f cannot stand beside a command line, --config or deploy files"), "give one of them")
			}
			return run(c.Context(), s, o)
		},
	}
	o.serviceOption.addFlags(c)
	o.outputOption.addFlags(c)
	c.Flags().StringVar(&o.Kind, "kind", "", "the engine of --config: vllm or sglang")
	c.Flags().StringVar(&o.Version, "engine-version", "", "judge by the options of this release of the engine, such as 0.32.0")
	c.Flags().StringVar(&o.Config, "config", "", "the engine's configuration file")
	return c
}

// engineView is what is said of one command line that starts an engine.
type engineView struct {
	Engine    string                   `json:"engine"`
	Version   string                   `json:"version"`                   // the release whose options were used
	Assumed   bool                     `json:"version_assumed,omitempty"` // nothing names a version: it is the one that drkit knows best
	Region    string                   `json:"region,omitempty"`
	Source    string                   `json:"source,omitempty"`        // "path:line" of the deploy file that starts it
	Model     string                   `json:"model"`                   // "": none is named, see Default
	Default   string                   `json:"default_model,omitempty"` // what the engine serves where nothing names a model
	Options   map[string]any           `json:"options"`                 // by destination name, those that differ from their defaults
	Sources   map[string]engine.Source `json:"sources"`                 // of options, by destination name, and of unknown ones
	Unknown   []string                 `json:"unknown"`
	WouldExit *int                     `json:"would_exit"` // the engine's exit status; null: it goes on to load the model
	ErrorType string                   `json:"error_type,omitempty"`
	Error     string                   `json:"error,omitempty"`
	Judged    bool                     `json:"judged"` // false: something is not in the files; problems say what
	Problems  []engineProblem          `json:"problems"`
	Compared  *engineCompared          `json:"compared,omitempty"`
	Changes   []engine.Change          `json:"changes"`
}

type engineProblem struct {
	Path   string `json:"path,omitempty"`
	Line   int    `json:"line,omitempty"`
	Kind   string `json:"kind"`
	Option string `json:"option,omitempty"`
	What   string `json:"what"`
	Seen   string `json:"seen,omitempty"`
}

// engineCompared are the two releases that the changes lie between.
type engineCompared struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// engineReport is the command's result. With one engine its fields stand at the
// top as well.
type engineReport struct {
	Schema string `json:"schema"`
	*engineView
	Engines []engineView    `json:"engines"`
	Deploy  []engineProblem `json:"deploy_problems,omitempty"`
}

func runManifestEngine(ctx context.Context, s *streams, o engineConfigOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	lines, found, err := o.lines(ctx)
	if err != nil {
		return err
	}
	report := engineReport{Schema: "drkit.engine/1.0", Engines: []engineView{}}
	for _, p := range found {
		report.Deploy = append(report.Deploy, engineProblem{Path: p.Path, Line: p.Line, Kind: p.Kind, What: p.What, Seen: p.Seen})
	}
	exits := false
	for _, l := range lines {
		v := o.view(l)
		exits = exits || v.WouldExit != nil
		report.Engines = append(report.Engines, v)
	}
	if len(report.Engines) == 1 {
		report.engineView = &report.Engines[0]
	}
	if o.json() {
		err = writeJSON(s, report)
	} else {
		err = printEngines(s, report)
	}
	if err == nil && exits {
		return conclude(errext.Gate)
	}
	return err
}

func (o engineConfigOptions) check() error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	if o.Kind != "" {
		if err := oneOf("--kind", o.Kind, engine.VLLM, engine.SGLang); err != nil {
			return err
		}
	}
	if o.Version != "" && engine.VersionOf(o.Version) == "" {
		return usage(fmt.Errorf("--engine-version %q names no release", o.Version), "write it as 0.32.0")
	}
	if len(o.Files) > 0 && len(o.Argv) > 0 {
		return usage(errors.New("deploy files and a command line are given"), "give one of them")
	}
	return nil
}

// engineLine is a command line to judge.
type engineLine struct {
	manifest.EngineLine
	anyModel bool // it need not name a model: the release's is meant
}

// lines are the command lines to judge, by what was given.
func (o engineConfigOptions) lines(ctx context.Context) ([]engineLine, []deploy.Problem, error) {
	switch {
	case len(o.Argv) > 0:
		l, err := o.typed()
		return []engineLine{l}, nil, err
	case len(o.Files) > 0:
		return o.deployed()
	case o.Config != "":
		l, err := o.configured()
		return []engineLine{l}, nil, err
	}
	return o.ofService(ctx)
}

// typed is the command line behind --.
func (o engineConfigOptions) typed() (engineLine, error) {
	started, ok := deploy.CommandLine(o.Argv)
	if !ok {
		return engineLine{}, usage(errors.New("the command line does not start an engine that drkit knows"),
			"begin with vllm serve, python -m vllm.entrypoints.openai.api_server, sglang serve or python -m sglang.launch_server")
	}
	cmd := engine.Command{Argv: started.Argv, Entry: engine.Entry(started.Entry), Env: started.Env}
	if kind := cmd.Entry.Engine(); o.Kind != "" && o.Kind != kind {
		return engineLine{}, usage(fmt.Errorf("--kind %s contradicts the command line, which starts %s", o.Kind, kind), "leave --kind out")
	}
	if o.Config != "" {
		cmd.Argv = append(slices.Clone(cmd.Argv), "--config", o.Config)
	}
	var err error
	cmd.Files, err = configFiles(cmd.Argv)
	return engineLine{EngineLine: manifest.EngineLine{Command: cmd, Exact: true}}, err
}

// configFiles reads the files that --config names. What is not there is left to
// the prediction: the engine may run elsewhere.
func configFiles(argv []string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for i, word := range argv {
		if word != "--config" || i+1 >= len(argv) {
			continue
		}
		data, err := readFile(argv[i+1])
		switch {
		case err == nil:
			files[argv[i+1]] = data
		case !errors.Is(err, fs.ErrNotExist):
			return nil, usage(fmt.Errorf("reading the engine's configuration: %w", err), "name a file that can be read")
		}
	}
	return files, nil
}

// configured is a configuration file on its own.
func (o engineConfigOptions) configured() (engineLine, error) {
	data, err := readFile(o.Config)
	if err != nil {
		return engineLine{}, usage(fmt.Errorf("reading the engine's configuration: %w", err), "check the path given with --config")
	}
	cmd := engine.Command{Argv: []string{"serve", "--config", o.Config}, Files: map[string][]byte{o.Config: data}}
	if o.Kind == engine.SGLang {
		cmd.Argv, cmd.Entry = cmd.Argv[1:], engine.EntryLaunch
	}
	return engineLine{EngineLine: manifest.EngineLine{Command: cmd, Exact: true}, anyModel: true}, nil
}

// deployed are the engines that deploy files start.
func (o engineConfigOptions) deployed() (lines []engineLine, problems []deploy.Problem, err error) {
	for _, file := range o.Files {
		data, err := readFile(file)
		if err != nil {
			return nil, nil, usage(fmt.Errorf("reading a deploy file: %w", err), "check the path")
		}
		facts, found := deploy.Read(file, data)
		problems = append(problems, found...)
		for _, started := range facts.Engine {
			l, err := o.started(file, started)
			if err != nil {
				return nil, nil, err
			}
			if o.Kind == "" || o.Kind == l.Command.Entry.Engine() {
				lines = append(lines, l)
			}
		}
	}
	if len(lines) == 0 {
		return nil, nil, usage(fmt.Errorf("%s starts no engine that drkit knows", strings.Join(o.Files, ", ")),
			"list rendered Kubernetes YAML, Compose files, Helm values or Dockerfiles that start vLLM or SGLang")
	}
	return lines, problems, nil
}

// started is an engine of a deploy file. The configuration file that it names
// lies in its container; --config gives it, by its name.
func (o engineConfigOptions) started(file string, e deploy.EngineCommand) (engineLine, error) {
	cmd := engine.Command{Argv: e.Argv, Entry: engine.Entry(e.Entry), Version: e.Version, Env: e.Env, Path: file, Line: e.Line, Files: map[string][]byte{}}
	for _, at := range e.Places {
		cmd.Sources = append(cmd.Sources, engine.Source{Path: file, Line: at.Line, Env: at.Env})
	}
	if o.Config != "" {
		data, err := readFile(o.Config)
		if err != nil {
			return engineLine{}, usage(fmt.Errorf("reading the engine's configuration: %w", err), "check the path given with --config")
		}
		for _, word := range e.Argv {
			if path.Base(word) == path.Base(o.Config) {
				cmd.Files[word] = data
			}
		}
	}
	source := fmt.Sprintf("%s:%d", file, e.Line)
	return engineLine{EngineLine: manifest.EngineLine{Source: source, Command: cmd, Exact: e.Exact}, anyModel: true}, nil
}

// ofService are the engines of drkit.yaml.
func (o engineConfigOptions) ofService(ctx context.Context) ([]engineLine, []deploy.Problem, error) {
	svc, err := o.load()
	if err != nil {
		return nil, nil, err
	}
	in := manifest.Input{Service: svc.Metadata.Name,
		Engine: manifest.EngineInput{Kind: svc.Engine.Kind, Version: svc.Engine.Version, Args: svc.Engine.Args, Env: svc.Engine.Env}}
	if err := partFiles(svc, &in); err != nil {
		return nil, nil, err
	}
	all, problems, err := manifest.EngineLines(ctx, in)
	var lines []engineLine
	for _, l := range all {
		if o.Kind == "" || o.Kind == l.Command.Entry.Engine() {
			lines = append(lines, engineLine{EngineLine: l, anyModel: true})
		}
	}
	return lines, problems, err
}

// view judges one command line.
func (o engineConfigOptions) view(l engineLine) engineView {
	cmd, own := l.Command, l.Command.Version
	cmd.Version = cmp.Or(o.Version, own)
	r := engine.Parse(cmd)
	unnamed := slices.ContainsFunc(r.Problems, func(p engine.Problem) bool { return p.Kind == engine.KindModelMissing })
	if unnamed && l.anyModel {
		cmd = cmd.Serving("model")
		r = engine.Parse(cmd)
		r.Model = ""
		for _, dest := range []string{"model_tag", "model_path", "model"} {
			delete(r.Options, dest)
			delete(r.Sources, dest)
		}
	}
	v := engineView{Engine: r.Engine, Version: r.Version, Region: l.Region, Source: l.Source, Model: r.Model, Options: r.Options, Sources: r.Sources,
		Unknown: r.Unknown, WouldExit: r.WouldExit, ErrorType: r.ErrorType, Error: r.Error, Judged: r.Judged && l.Exact,
		Problems: []engineProblem{}, Changes: []engine.Change{}}
	v.Assumed = cmd.Version == ""
	if l.anyModel && !unnamed && !namesModel(r.Options) { // a deploy file alone: a model may be named where the image is run
		v.Default, v.Model = v.Model, ""
	}
	v.Options, v.Unknown = orEmpty(v.Options), append([]string{}, v.Unknown...)
	for _, p := range r.Problems {
		v.Problems = append(v.Problems, engineProblem{Path: p.Path, Line: p.Line, Kind: p.Kind, Option: p.Option, What: p.What, Seen: p.Seen})
	}
	v.compare(cmd, own, o.Version)
	return v
}

// namesModel reports whether a command line names a model.
func namesModel(options map[string]any) bool {
	return slices.ContainsFunc([]string{"model_tag", "model_path", "model"}, func(dest string) bool { _, ok := options[dest]; return ok })
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// compare adds what changes between the release's own version and the one that
// was asked for, or from the judged one to the newest.
func (v *engineView) compare(cmd engine.Command, own, asked string) {
	from, to := v.Version, asked
	if own == "" || asked == "" || engine.VersionOf(own) == engine.VersionOf(asked) {
		known := engine.Releases(v.Engine)
		to = known[len(known)-1]
	} else {
		cmd.Version = own
		from = engine.Parse(cmd).Version
	}
	if from == to {
		return
	}
	v.Compared = &engineCompared{From: from, To: to}
	v.Changes = append(v.Changes, engine.Changes(cmd, to)...)
}
