//go:build unix

// Package process launches replicas, and the rehearsal's router, as processes of
// this machine, and finds and stops them from any later process.
//
//	l := &process.Launcher{Dir: ".drkit/processes"}
//	r, err := l.Launch(ctx, drill.Spec{Run: run, Name: "target", Command: []string{
//		"vllm", "serve", "{{model}}", "--host", "{{host}}", "--port", "{{port}}"}, …})
//	defer r.Stop(ctx)
//
// A replica leads a session of its own and carries the run and its name in the
// environment, which its children inherit. That label is what Find and Stop look
// for, in /proc on Linux; the record in Launcher.Dir says beside it which session
// and which log were the replica's. The record is needed because a program may
// wipe its environment: setproctitle does, and vLLM's engine core calls it (the
// launcher sets SPT_NOENV=1, which tells setproctitle not to). Elsewhere than on
// Linux the record and ps are all there is.
//
// The command has to stay in the foreground: what it hands to a daemon (docker
// run) carries no label and is not seen.
//
// The environment is small, offline variables are set and HTTP proxies lead
// nowhere, so that an engine which would fetch a forgotten file fails. That is a
// trap for accidents, not a proof of isolation: a program that opens its own
// sockets gets through.
package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
)

// Launcher starts and finds processes. Dir is required; a zero time takes the
// default.
type Launcher struct {
	Dir       string        // where the records lie; the same for every process that is to find the run
	TermAgain time.Duration // from the first SIGTERM to the second; default 5 s: vLLM can ignore the first while it boots
	KillAfter time.Duration // from the first SIGTERM to SIGKILL; default 15 s
}

var _ drill.Launcher = (*Launcher)(nil)

// Launch starts the command of s and returns at once; readiness is for the
// caller to see. The replica lives on when ctx ends: only Stop ends it.
func (l *Launcher) Launch(ctx context.Context, s drill.Spec) (drill.Replica, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	r, err := l.launch(s)
	if err != nil {
		return nil, fmt.Errorf("launching %s: %w", s.Name, err)
	}
	return r, nil
}

func (l *Launcher) launch(s drill.Spec) (*Replica, error) {
	if err := Validate(s); err != nil {
		return nil, err
	}
	if err := checkDir(s.Dir); err != nil {
		return nil, err
	}
	if err := l.free(s); err != nil {
		return nil, err
	}
	port, err := takePort(s.Port)
	if err != nil {
		return nil, err
	}
	s.Port = port
	if s.Values, err = metricsPort(s); err != nil {
		return nil, err
	}
	if err := checkPorts(s.Values); err != nil {
		return nil, err
	}
	argv, env, err := render(s)
	if err != nil {
		return nil, err
	}
	return l.start(s, argv, env)
}

func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("working directory %s is not there", dir)
	}
	return nil
}

// free refuses a name that still runs: its label could not tell the two apart.
func (l *Launcher) free(s drill.Spec) error {
	m, err := l.recordOf(s.Run, s.Name).members(nil)
	if err != nil {
		return err
	}
	if all := slices.Concat(m.live, m.unclear); len(all) > 0 {
		return errext.WithHint(
			fmt.Errorf("a replica of that name already runs in run %s (%s)", s.Run, pids(all)),
			"stop it first: drkit drill abort "+s.Run)
	}
	return nil
}

func (l *Launcher) start(s drill.Spec, argv []string, env map[string]string) (*Replica, error) {
	log, size, err := openLog(s.LogPath)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	rec := record{
		Run: s.Run, Name: s.Name, Boot: bootID(), LogStart: size, Log: log.Name(),
		Endpoint: "http://" + host + ":" + strconv.Itoa(s.Port),
	}
	if p := s.Values[metricsPortName]; p != "" {
		rec.Metrics = "http://" + host + ":" + p + "/metrics"
	}
	if err := l.prepare(rec, env); err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: argv[0], Args: argv, Dir: s.Dir, Stdout: log, Stderr: log,
		Env: flatten(env), SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := cmd.Start(); err != nil {
		l.forget(s.Run, s.Name)
		return nil, errext.WithHint(fmt.Errorf("starting %s: %w", argv[0], err),
			"check that the command is a program for this machine and may be executed")
	}
	r := newReplica(l, rec)
	r.own = cmd
	go r.wait()
	rec.PID, rec.Start = cmd.Process.Pid, startOf(cmd.Process.Pid)
	r.rec = rec
	if err := l.write(rec); err != nil {
		stopped := r.Stop(context.Background())
		return nil, errors.Join(err, stopped)
	}
	return r, nil
}

// prepare writes the record before the process exists and gives it an empty
// Hugging Face home: a file that is only in this machine's cache must not make
// a copy look whole.
func (l *Launcher) prepare(rec record, env map[string]string) error {
	if _, ok := env["HF_HOME"]; !ok {
		home := l.home(rec.Run, rec.Name)
		if err := os.MkdirAll(home, 0o700); err != nil {
			return fmt.Errorf("making an empty Hugging Face home: %w", err)
		}
		env["HF_HOME"] = home
	}
	env[labelRun], env[labelReplica], env[labelEndpoint] = rec.Run, rec.Name, rec.Endpoint
	return l.write(rec)
}

// Find lists the replicas of a run of which at least one process is left, and
// clears away the records of those of which none is.
func (l *Launcher) Find(ctx context.Context, run string) ([]drill.Replica, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	names, err := l.names(run)
	if err != nil {
		return nil, fmt.Errorf("looking for processes of run %s: %w", run, err)
	}
	var found []drill.Replica
	for _, name := range slices.Sorted(maps.Keys(names)) {
		rec := l.recordOf(run, name)
		m, err := rec.members(nil)
		if err != nil {
			return nil, fmt.Errorf("looking for processes of run %s: %w", run, err)
		}
		if len(m.live)+len(m.unclear) == 0 {
			l.clear(run, name)
			continue
		}
		found = append(found, newReplica(l, rec.with(m.live)))
	}
	return found, nil
}

// names are those of records and those that labels in the process table carry.
func (l *Launcher) names(run string) (map[string]bool, error) {
	names := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(l.Dir, run, "*"+recordExt))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		base := filepath.Base(f)
		names[base[:len(base)-len(recordExt)]] = true
	}
	all, err := processes()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if p.run == run && p.pid != os.Getpid() {
			names[p.name] = true
		}
	}
	return names, nil
}
