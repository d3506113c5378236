package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/playbooks"
)

// run runs a command of the playbook's own and judges its exit status.
type run struct{ w *World }

// runOptions are those of the step.
type runOptions struct {
	commandOptions `yaml:",inline"`

	Check []string `yaml:"check"` // a command that says by status 0 that what the step did still holds
	Undo  []string `yaml:"undo"`  // a command that takes it back; status 0 says that it is gone
}

func (o runOptions) faults(s playbooks.Step) error {
	return errors.Join(o.commandOptions.faults(s, "with."), wordsFault(s, "with.check", o.Check), wordsFault(s, "with.undo", o.Undo))
}

// other is another command in the same place and environment.
func (o runOptions) other(command []string) commandOptions {
	c := o.commandOptions
	c.Command, c.Exit, c.Stdout = command, 0, ""
	return c
}

func (r run) options(s playbooks.Step) (runOptions, error) {
	var o runOptions
	if err := s.Decode(&o); err != nil {
		return o, err
	}
	return o, o.faults(s)
}

func (r run) Check(_ context.Context, s playbooks.Step) (problems []error) {
	o, err := r.options(s)
	if err != nil {
		return []error{err}
	}
	problems = r.w.startable(o.commandOptions)
	for _, command := range [][]string{o.Check, o.Undo} {
		if len(command) == 0 {
			continue
		}
		// They have the folder and the variables of the command, which are told with it.
		if _, err := findProgram(within(r.w.Dir, o.Dir), command[0]); err != nil {
			problems = append(problems, unstartable(command[0], err))
		}
	}
	return append(problems, r.kept(o)...)
}

// kept refuses an undo that holds a secret: its command and its variables are journaled,
// without secrets, and would take nothing back after a kill -9.
func (r run) kept(o runOptions) (problems []error) {
	if len(o.Undo) == 0 {
		return nil
	}
	for _, name := range o.Secrets {
		if v, err := r.w.lookup().secret(name); err == nil { // what is missing is told
			r.w.conceal(v)
		}
	}
	for _, text := range append(slices.Sorted(maps.Values(o.Set)), o.Undo...) {
		if r.w.Redact.String(text) != text {
			problems = append(problems, refuse(errors.New("the undo, or a variable that it gets by set, holds a secret: the journal would not keep it, and nobody could take the change back after a kill -9"),
				"take it from the environment: secrets: [NAME]"))
		}
	}
	return problems
}

// startable says why a command cannot be started as things are: one error for each
// thing that is missing.
func (w *World) startable(o commandOptions) (problems []error) {
	_, err := o.resolve(w.Dir, w.lookup())
	for _, err := range parts(err) {
		problems = append(problems, unstartable(o.Command[0], err))
	}
	return problems
}

func unstartable(command string, err error) error {
	return refuse(fmt.Errorf("command %q: %w", command, err), "paths are relative to the folder of drkit.yaml; a command gets only the variables that env, secrets and set name, and PATH")
}

// labels mark a command's processes as the run's, so that they are found and ended
// after a kill -9 of drkit.
func labels(runID, name string) []string {
	return []string{"DRKIT_RUN=" + runID, "DRKIT_REPLICA=" + name}
}

func (r run) Do(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	o, err := r.options(s)
	if err != nil {
		return err
	}
	if _, err := r.w.program(s, sc, o.commandOptions); err != nil { // its secrets are known before the intent is journaled
		return refuse(err, "")
	}
	do := func(ctx context.Context) error { return r.once(ctx, s, sc, o) }
	if len(o.Undo) == 0 {
		if err := sc.Emit(drill.TypeNote, drill.Note{Text: "step " + s.ID + " runs a command without an undo: what it changes stays"}); err != nil {
			return err
		}
		return do(ctx)
	}
	u, err := undo(UndoRun, RunArgs{commandOf(o.other(o.Undo), r.w.Dir), sc.RunID(), s.ID})
	if err != nil {
		return err
	}
	return sc.Change(ctx, "what the command of step "+s.ID+" does", u, do)
}

// once runs the command, journals its output and judges it.
func (r run) once(ctx context.Context, s playbooks.Step, sc drill.Scope, o runOptions) error {
	log := &outputLog{sc: sc, from: s.ID}
	e, err := r.w.execute(ctx, s, sc, o.commandOptions, log.line)
	if err := errors.Join(log.end(), r.told(s, sc, e)); err != nil {
		return err
	}
	observed, ok := e.judge(o.commandOptions)
	switch {
	case err != nil && (e.state == "" || interrupted(ctx)):
		return err
	case err != nil:
		observed, ok = err.Error()+" ("+e.state+")", false
	}
	return gate(sc, drill.Gate{
		ID: "run:" + s.ID, Title: "the command of step " + s.ID + " succeeds", Expected: o.expected(), Observed: observed, Result: result(ok),
		Evidence: fmt.Sprintf("the command's own exit status; %d lines of output", e.lines), Hint: "its output is in the journal, under " + s.ID,
	})
}

// told says what the command left behind.
func (r run) told(s playbooks.Step, sc drill.Scope, e ended) error {
	if !e.left {
		return nil
	}
	return sc.Emit(drill.TypeNote, drill.Note{Text: "the command of step " + s.ID + " ended and left processes behind that held its output: they were ended"})
}

// execute runs a command as a part of the run.
func (w *World) execute(ctx context.Context, s playbooks.Step, sc drill.Scope, o commandOptions, line func(string)) (e ended, err error) {
	p, err := w.program(s, sc, o)
	if err != nil {
		return e, refuse(err, "")
	}
	err = w.watched(ctx, s, sc, func(ctx context.Context) error {
		e, err = p.run(ctx, line)
		return err
	})
	return e, err
}

// program is a command of a step, with the run's labels; its secrets are concealed
// from here on.
func (w *World) program(s playbooks.Step, sc drill.Scope, o commandOptions) (program, error) {
	p, err := o.resolve(w.Dir, w.lookup(), labels(sc.RunID(), ownName(s))...)
	w.conceal(p.secrets...)
	return p, err
}

// ownName is what the processes of a step are labelled with.
func ownName(s playbooks.Step) string { return "step-" + s.ID }

// watched runs what starts processes of a step: they are a change, which is taken
// back by ending them and seeing that they are gone.
func (w *World) watched(ctx context.Context, s playbooks.Step, sc drill.Scope, do func(context.Context) error) error {
	stop := w.UndoCommand
	if stop == nil {
		stop = w.UndoLaunch
	}
	u, err := stop(sc.RunID(), ownName(s))
	if err != nil {
		return err
	}
	return sc.Change(ctx, "processes of step "+s.ID, u, do)
}

// outputLog journals a command's output: its beginning as it comes, and its last
// lines, with a word on what is between.
type outputLog struct {
	sc   drill.Scope
	from string

	mu    sync.Mutex
	lines int
	tail  []string
	err   error
}

const (
	firstLines = 200
	lastLines  = 50
)

func (l *outputLog) line(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines++; l.lines <= firstLines {
		l.emit(text)
		return
	}
	if l.tail = append(l.tail, text); len(l.tail) > lastLines {
		l.tail = l.tail[1:]
	}
}

func (l *outputLog) emit(text string) {
	if l.err == nil {
		l.err = l.sc.Emit(drill.TypeLog, drill.Log{From: l.from, Line: text})
	}
}

func (l *outputLog) end() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if between := l.lines - firstLines - len(l.tail); between > 0 {
		l.emit(fmt.Sprintf("… %d lines are not in the journal", between))
	}
	for _, text := range l.tail {
		l.emit(text)
	}
	l.tail = nil
	return l.err
}

// UndoRun is the kind of undo that runs a playbook's own command.
const UndoRun = "command.run"

// CommandArgs is a command as an undo keeps it: names of variables, and no value of
// the environment.
type CommandArgs struct {
	Command []string          `json:"command"`
	Dir     string            `json:"dir"`
	Env     []string          `json:"env,omitempty"`
	Secrets []string          `json:"secrets,omitempty"`
	Set     map[string]string `json:"set,omitempty"`
}

// RunArgs are those of UndoRun.
type RunArgs struct {
	CommandArgs
	Run  string `json:"run"`
	Step string `json:"step"`
}

func commandOf(o commandOptions, base string) CommandArgs {
	return CommandArgs{o.Command, within(base, o.Dir), o.Env, o.Secrets, o.Set}
}

// undoRun runs the command that takes a step back. Its exit status 0 is the only
// proof that there is.
func undoRun(ctx context.Context, args []byte, env lookup) error {
	var a RunArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return err
	}
	if len(a.Command) == 0 {
		return errors.New("the undo has no command")
	}
	o := commandOptions{Command: a.Command, Dir: a.Dir, Env: a.Env, Secrets: a.Secrets, Set: a.Set}
	p, err := o.resolve(a.Dir, env, labels(a.Run, "undo-"+a.Step)...)
	if err != nil {
		return errext.WithHint(err, "set what is missing, then run drkit drill abort "+a.Run)
	}
	e, err := p.run(ctx, func(string) {})
	if err != nil {
		return fmt.Errorf("undo of step %s: %w", a.Step, err)
	}
	if observed, ok := e.judge(o); !ok {
		return fmt.Errorf("undo of step %s: %s", a.Step, observed)
	}
	return nil
}
