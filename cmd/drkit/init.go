package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"drkit/internal/discover"
	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/manifest"
)

// initOptions are those of init.
type initOptions struct {
	outputOption
	Dir, Model, Name, Out string
	Force                 bool
}

func newInit(s *streams, run func(context.Context, *streams, initOptions) error) *cobra.Command {
	var o initOptions
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Look at a folder and write a drkit.yaml for what is in it",
		Long: `Finds what a release is made of in a folder: model repositories and snapshots of a
hub's cache, adapters and which of them fit the model, draft models, engine
configuration, Kubernetes YAML, Compose files, Helm values, Dockerfiles, lockfiles.
It writes a commented drkit.yaml that builds at once: two folders beneath it stand
for the regions until you name yours. What the files do not say is not guessed: it
stands in a comment.

The file is written into DIR (the working directory unless given), or where -o says.
A file that is there is never overwritten without --force. Nothing is asked.`,
		Example: `  drkit init
  drkit init --model models/llama
  drkit init /srv/models/llama -o drkit.yaml
  drkit init --model hf://org/name@revision`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Dir = "."
			if len(args) == 1 {
				o.Dir = args[0]
			}
			return run(c.Context(), s, o)
		},
	}
	o.outputOption.addFlags(c)
	c.Flags().StringVar(&o.Model, "model", "", "the model that is served: a path in DIR, its name, or hf://org/name@revision")
	c.Flags().StringVar(&o.Name, "name", "", "the service's name (default: the name that is served, else the model's)")
	c.Flags().StringVarP(&o.Out, "out", "o", "", "write to this file instead of DIR/drkit.yaml")
	c.Flags().BoolVar(&o.Force, "force", false, "overwrite the file if it is there")
	return c
}

// initiated is the result of init.
type initiated struct {
	Schema string           `json:"schema"`
	File   string           `json:"file"`
	Found  *discover.Found  `json:"found"`
	Choice *discover.Choice `json:"choice"`
}

func runInit(ctx context.Context, s *streams, o initOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	if err := o.absent(); err != nil {
		return err
	}
	found, err := discover.Look(ctx, o.Dir)
	if err != nil {
		return err
	}
	choice, err := found.Choose(o.Model)
	if err != nil {
		return err
	}
	out, err := o.place(found, choice)
	if err != nil {
		return err
	}
	data := discover.Render(found, choice, discover.Place{Dir: filepath.Dir(out), Name: o.Name})
	if err := builds(data, out); err != nil {
		return fmt.Errorf("what was found makes no drkit.yaml that builds: %w", err)
	}
	if err := writeFile(o.file(), data); err != nil {
		return err
	}
	if o.json() {
		return writeJSON(s, initiated{Schema: "drkit.init/1.0", File: o.file(), Found: found, Choice: choice})
	}
	return printInit(s, o, found, choice)
}

// file is where drkit.yaml goes, as a person would name it.
func (o initOptions) file() string {
	if o.Out != "" {
		return o.Out
	}
	return filepath.Join(o.Dir, "drkit.yaml")
}

// absent refuses to overwrite a file.
func (o initOptions) absent() error {
	if _, err := os.Lstat(o.file()); o.Force || err != nil { // another error is told by what comes next
		return nil
	}
	return errext.WithStatus(errext.WithHint(fmt.Errorf("%s is there already", o.file()), "give --force to overwrite it, or another file with -o"), errext.Refused)
}

// place is the absolute path of drkit.yaml. It cannot lie in the model repository
// itself: it and the regions' folders would become files of the model.
func (o initOptions) place(found *discover.Found, c *discover.Choice) (string, error) {
	out, err := filepath.Abs(o.file())
	if err != nil || c.Model == nil {
		return out, err
	}
	model := filepath.Join(found.Folder, filepath.FromSlash(c.Model.Path))
	if real, err := filepath.EvalSymlinks(model); err == nil {
		model = real
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(out))
	if err != nil {
		return "", errext.WithHint(fmt.Errorf("writing %s: %w", o.file(), err), "make its folder first")
	}
	rel, err := filepath.Rel(model, dir)
	if err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", usage(fmt.Errorf("%s would lie in the model repository %s, and become a file of the model", o.file(), model), "write it elsewhere with -o, such as -o "+beside(dir))
	}
	return out, nil
}

// beside is a drkit.yaml outside of a model's folder: here, unless here is inside.
func beside(inside string) string {
	if here, err := os.Getwd(); err == nil && here != inside {
		return "drkit.yaml"
	}
	return filepath.Join("..", "drkit.yaml")
}

// builds proves that drkit.yaml is read, and that each of its patterns finds a file.
func builds(data []byte, out string) error {
	svc, err := service.Parse(data, out)
	if err != nil {
		return err
	}
	return partFiles(svc, &manifest.Input{})
}

func printInit(s *streams, o initOptions, f *discover.Found, c *discover.Choice) error {
	row := func(what, format string, args ...any) {
		fmt.Fprintf(s.Out, "%-9s %s\n", what, oneLine(fmt.Sprintf(format, args...)))
	}
	if c.Model != nil {
		row("model", "%s (%s)", c.Model.Path, c.Why)
	} else {
		row("model", "%s (%s)", c.Source, c.Why)
	}
	for _, a := range c.Adapters {
		taken := ""
		if !a.Taken {
			taken = "not taken: "
		}
		row("adapter", "%s (%s%s)", a.Path, taken, a.Why)
	}
	for _, d := range c.Drafts {
		row("draft", "%s (%s)", d.Path, d.DraftBy)
	}
	for _, e := range f.Engines {
		row("engine", "%s (%s)", e.Path, e.Kind)
	}
	for _, d := range f.Deploy {
		row("deploy", "%s (%s)", d.Path, d.Format)
	}
	for _, n := range f.Notes {
		row("not taken", "%s: %s", n.Path, n.Why)
	}
	fmt.Fprintf(s.Out, "\nwritten to %s\n", o.file())
	fmt.Fprintf(s.Err, "next: read its comments, then drkit manifest check%s\n", fileFlag(o.file()))
	return nil
}

// fileFlag is -f for a file that commands do not find by themselves.
func fileFlag(file string) string {
	if filepath.Clean(file) == "drkit.yaml" {
		return ""
	}
	return " -f " + file
}
