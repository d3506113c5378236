package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long a script waits for anything: many times what the slowest
// command takes. One that does not end is stopped, with its stacks in the log.
const patience = 5 * time.Minute

// background is what a script runs beside itself.
type background struct {
	env     *testscript.Env
	home    string
	running map[string]*program
	listens []io.Closer
}

type backgroundKey struct{}

func backgroundOf(ts *testscript.TestScript) *background {
	return ts.Value(backgroundKey{}).(*background)
}

// program is one that a script started.
type program struct {
	cmd      *exec.Cmd
	out, err lockedBuffer
	done     chan struct{}
}

// lockedBuffer may be read while a process writes to it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// launch starts a program in the script's folder. Words NAME=VALUE before it add
// to its environment, as in a shell.
func launch(ts *testscript.TestScript, words []string) *program {
	b := backgroundOf(ts)
	env := append([]string{}, b.env.Vars...)
	for len(words) > 0 && assignment.MatchString(words[0]) {
		env, words = append(env, words[0]), words[1:]
	}
	if len(words) == 0 {
		ts.Fatalf("no program is named")
	}
	path, err := exec.LookPath(words[0])
	ts.Check(err)
	p := &program{done: make(chan struct{}), cmd: exec.Command(path, words[1:]...)}
	p.cmd.Args[0] = words[0]
	p.cmd.Dir, p.cmd.Env = ts.MkAbs("."), env
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.WaitDelay = 5 * time.Second
	ts.Check(p.cmd.Start())
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the state says it
	}()
	return p
}

// status is the exit status as a shell says it: 128 and the signal when one ended it.
func (p *program) status() int {
	state := p.cmd.ProcessState
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// wait waits for the end. A process that does not end shows where it hangs.
func (p *program) wait() error {
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
	}
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	return fmt.Errorf("did not end within %v:\n%s", patience, p.err.String())
}

// finish waits, makes the output that of the script's newest command, and
// compares the exit status.
func (p *program) finish(ts *testscript.TestScript, want int) {
	err := p.wait()
	fmt.Fprint(ts.Stdout(), p.out.String())
	fmt.Fprint(ts.Stderr(), p.err.String())
	ts.Check(err)
	if got := p.status(); got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// status N [NAME=VALUE...] PROGRAM ARG...: runs a program and insists on its exit status.
func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N [NAME=VALUE...] PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	launch(ts, args[1:]).finish(ts, want)
}

// start NAME [NAME=VALUE...] PROGRAM ARG...: runs a program beside the script.
func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME PROGRAM ARG...")
	}
	backgroundOf(ts).running[args[0]] = launch(ts, args[1:])
}

func started(ts *testscript.TestScript, name string) *program {
	p := backgroundOf(ts).running[name]
	if p == nil {
		ts.Fatalf("nothing was started as %s", name)
	}
	return p
}

// await NAME REGEXP: waits until what was started writes a line to stderr.
func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await NAME REGEXP")
	}
	p, line := started(ts, args[0]), regexp.MustCompile("(?m)"+args[1])
	poll(ts, "stderr of "+args[0]+" to match "+args[1], func() (bool, error) {
		if line.MatchString(p.err.String()) {
			return true, nil
		}
		select {
		case <-p.done:
			return line.MatchString(p.err.String()), fmt.Errorf("it ended with status %d:\n%s%s", p.status(), p.out.String(), p.err.String())
		default:
			return false, nil
		}
	})
}

// await-file PATTERN: waits until a pattern finds a file.
func cmdAwaitFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await-file PATTERN")
	}
	poll(ts, args[0], func() (bool, error) {
		found, err := filepath.Glob(ts.MkAbs(args[0]))
		return len(found) > 0, err
	})
}

// poll waits for a condition; an error ends the waiting unless it holds.
func poll(ts *testscript.TestScript, what string, holds func() (bool, error)) {
	for end := time.Now().Add(patience); ; {
		ok, err := holds()
		if ok {
			return
		}
		ts.Check(err)
		if time.Now().After(end) {
			ts.Fatalf("waited %v for %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

var signals = map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}

// signal NAME INT|TERM|KILL: signals what was started, and nothing else.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || signals[args[1]] == 0 {
		ts.Fatalf("usage: signal NAME INT|TERM|KILL")
	}
	ts.Check(started(ts, args[0]).cmd.Process.Signal(signals[args[1]]))
}

// ended NAME N: waits for what was started and insists on its exit status; its
// output becomes that of the newest command.
func cmdEnded(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ended NAME N")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	started(ts, args[0]).finish(ts, want)
	delete(backgroundOf(ts).running, args[0])
}

// kill-at N DIR PROGRAM ARG...: starts a program and kills it with SIGKILL once N
// files lie beneath DIR; a program that ended before is no failure.
func cmdKillAt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: kill-at N DIR PROGRAM ARG...")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	p, dir := launch(ts, args[2:]), ts.MkAbs(args[1])
	poll(ts, fmt.Sprintf("%d files in %s", n, dir), func() (bool, error) {
		select {
		case <-p.done:
			return true, nil
		default:
			return len(filesBeneath(dir)) >= n, nil
		}
	})
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
	ts.Logf("ended with status %d, %d files there", p.status(), len(filesBeneath(dir)))
}

func filesBeneath(dir string) []string {
	var all []string
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			all = append(all, path)
		}
		return nil // what comes and goes while it is walked does not matter
	})
	return all
}

// end stops whatever a script left running, by its id; a script that failed half
// way leaves nothing on the machine.
func (b *background) end() {
	for _, p := range b.running {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	for _, l := range b.listens {
		_ = l.Close()
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		left := processesOf(b.home)
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// processesOf lists the processes whose HOME is a script's own folder.
func processesOf(home string) []int {
	var all []int
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	for _, path := range entries {
		data, err := os.ReadFile(path) // empty for one that has ended
		if err != nil || !bytes.Contains(append([]byte{0}, data...), []byte("\x00HOME="+home+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// nothing-left [FOLDER]: no process that the script started, directly or not, is
// there, and the service in FOLDER has no lock, no restored copy, no record.
func cmdNothingLeft(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(".")
	if len(args) == 1 {
		dir = ts.MkAbs(args[0])
	}
	b := backgroundOf(ts)
	if left := processesOf(b.home); len(left) > 0 {
		ts.Fatalf("%d processes are left: %s", len(left), describeProcesses(left))
	}
	for _, path := range filesBeneath(dir) {
		rel, _ := filepath.Rel(dir, path)
		switch {
		case filepath.Base(path) == "DRILL":
			ts.Fatalf("the drill's lock is left: %s", rel)
		case strings.HasPrefix(rel, ".drkit/processes/"), strings.HasPrefix(rel, ".drkit/runs/") && strings.Contains(rel, "/model/"):
			ts.Fatalf("this is left of a run: %s", rel)
		}
	}
}

func describeProcesses(pids []int) string {
	var all []string
	for _, pid := range pids {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		all = append(all, fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
	}
	return strings.Join(all, "; ")
}

// runProgram runs drkit outside of a script.
func runProgram(dir string, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("it did not end"))
	defer cancel()
	cmd := exec.CommandContext(ctx, "drkit", args...)
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("drkit %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// await-http URL: waits until it answers 200.
func cmdAwaitHTTP(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await-http URL")
	}
	poll(ts, args[0], func() (bool, error) {
		resp, err := forwarding.Get(args[0])
		if err != nil {
			return false, nil // not yet
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK, nil
	})
}
