package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"drkit/internal/errext"
)

// exitStatuses ends the help of every command.
const exitStatuses = `
Exit statuses:
  0  holds                           5  recovered, but the objective was missed
  1  could not be done               6  evidence could not be written or verified
  2  usage or configuration          7  paused for a person
  3  refused before any change       8  clean-up or undo is not proven
  4  a gate, rule or parity check    130/143  interrupted, nothing changed or undone
     failed or was skipped
When several apply, the first of 8, 6, 4, 5, 1, 7 is the status.`

// outcome is an error that says a status without being a failure of the tool:
// its report is already printed.
type outcome struct{ status errext.Status }

func (o outcome) Error() string { return "the result is " + o.status.String() }

// conclude turns the status of a printed result into a command's error.
func conclude(status errext.Status) error {
	if status == errext.Holds {
		return nil
	}
	return errext.WithStatus(outcome{status}, status)
}

// run is the whole program on given arguments and streams.
func run(ctx context.Context, args []string, s *streams) errext.Status {
	root := newRoot(s)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	status := statusOf(ctx, s, err)
	if ferr := s.flush(); ferr != nil && status == errext.Holds {
		printError(s, ferr)
		return errext.Failed
	}
	return status
}

func statusOf(ctx context.Context, s *streams, err error) errext.Status {
	if err == nil {
		return errext.Holds
	}
	if cause, ok := interruption(ctx, err); ok {
		printError(s, errext.WithHint(cause, "the same command goes on where this one stopped"))
		return cause.status()
	}
	printError(s, err)
	return errext.StatusOf(err)
}

// interruption reports whether a signal is all that an error comes from: one with
// a status of its own, such as a clean-up that is not proven, says more.
func interruption(ctx context.Context, err error) (signalCause, bool) {
	cause, signalled := errors.AsType[signalCause](context.Cause(ctx))
	_, says := errors.AsType[signalCause](err)
	return cause, signalled && (says || errors.Is(err, context.Canceled)) && errext.StatusOf(err) == errext.Failed
}

func newRoot(s *streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "drkit",
		Short:         "Prove that another region can take over your LLM service",
		Long:          "drkit answers one question for a team that serves its own LLMs: if this region is gone,\ncan the other one take over, with the same answers, inside the time that was promised?\n\nStart with `drkit demo`. For a service of your own: drkit init writes its drkit.yaml, drkit\nmanifest check is the gate before a release, drkit replicate and drkit verify make and prove\nthe copies, drkit drill run rehearses the recovery. drkit manifest engine shows what vLLM or\nSGLang makes of a configuration; drkit engine and drkit route serve are drkit's own stand-in\nengine and reference router, to try all of it with nothing else installed.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       toolVersion(),
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetVersionTemplate("drkit {{.Version}}\n")
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetIn(s.In)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage(err, "see `"+c.CommandPath()+" --help`") })
	root.AddCommand(
		newManifest(s), newVerify(s, runVerify), newReplicate(s, runReplicate), newRestore(s, runRestore),
		newProbe(s), newDrill(s), newRoute(s), newPlaybook(s), newRules(s), newDemo(s, runDemo), newInit(s, runInit), newEngine(s), newReach(s), newVersion(s),
	)
	for _, c := range append(commandTree(root), root) {
		finish(c)
	}
	return root
}

func commandTree(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{}
	for _, child := range c.Commands() {
		all = append(append(all, child), commandTree(child)...)
	}
	return all
}

// finish gives a command the exit statuses in its help, and makes a wrong number
// of arguments a usage error. A command that only groups others explains itself
// and refuses an unknown name.
func finish(c *cobra.Command) {
	if c.Long == "" {
		c.Long = c.Short + "."
	}
	c.Long += "\n" + exitStatuses
	check := c.Args
	if check == nil {
		check = cobra.NoArgs
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usage(err, "see `"+c.CommandPath()+" --help`")
		}
		return nil
	}
	if c.RunE == nil && c.Run == nil {
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
}

// usage is an error of the command line or a configuration file.
func usage(err error, hint string) error {
	return errext.WithHint(errext.WithStatus(err, errext.Usage), hint)
}
