//go:build linux

package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// mark is the variable that tells whose a process is: every process of a container inherits it.
const mark = "TEST_KUBELET"

// command is what a container runs, with everything translated.
type command struct {
	argv, env []string
	dir       string
	mark      string // value of the mark
}

// process is one run of a container.
type process struct {
	command
	cmd    *exec.Cmd
	out    *output
	done   chan struct{} // closed once it has ended and nothing of it is left
	code   int32         // valid after done, as is killed
	killed bool          // ended by a signal
}

// start runs the command. Its children end with it, as those of a container's first process do.
func start(c command) (*process, error) {
	program, err := look(c.argv[0], c.env)
	if err != nil {
		return nil, err
	}
	p := &process{command: c, out: newOutput(), done: make(chan struct{})}
	p.cmd = &exec.Cmd{Path: program, Args: c.argv, Env: append(c.env, mark+"="+c.mark), Dir: c.dir, Stdout: p.out, Stderr: p.out, WaitDelay: time.Second}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := Spawn(p.cmd); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		KillMarked(c.mark)
		p.out.end()
		p.code, p.killed = exitCode(p.cmd.ProcessState)
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop asks the process to end, and kills it at the time that killAt says at each look.
func (p *process) stop(killAt func() time.Time) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-tick.C:
			if !time.Now().Before(killAt()) {
				_ = p.cmd.Process.Kill()
			}
		}
	}
}

// reason is the word that a container's status has for the end.
func (p *process) reason() string {
	switch {
	case p.code == 0:
		return "Completed"
	case p.code == 137 && !p.killed:
		return "OOMKilled" // the marker that the package comment tells of
	}
	return "Error"
}

func exitCode(s *os.ProcessState) (code int32, killed bool) {
	status, ok := s.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int32(status.Signal()), true
	}
	return int32(s.ExitCode()), false
}

// look finds a program in the PATH of the container's environment.
func look(name string, env []string) (string, error) {
	if strings.ContainsRune(name, '/') {
		_, err := exec.LookPath(name)
		return name, err
	}
	for _, e := range env {
		path, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return found, nil
			}
		}
	}
	return "", fmt.Errorf("exec: %q: executable file not found in $PATH", name)
}

// execIn runs a further command beside a container's process; it does not outlive it.
func execIn(ctx context.Context, c command, in io.Reader, out, errs io.Writer) (code int32, err error) {
	program, err := look(c.argv[0], c.env)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Args, cmd.Env, cmd.Dir = c.argv, append(c.env, mark+"="+c.mark), c.dir
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, errs, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var stdin io.WriteCloser
	if in != nil { // by hand: cmd.Wait must not wait for a client that never closes its side
		if stdin, err = cmd.StdinPipe(); err != nil {
			return 0, err
		}
	}
	if err := Spawn(cmd); err != nil {
		return 0, err
	}
	if in != nil {
		go func() {
			_, _ = io.Copy(stdin, in)
			_ = stdin.Close()
		}()
	}
	if err := cmd.Wait(); cmd.ProcessState == nil {
		return 0, err
	}
	code, _ = exitCode(cmd.ProcessState)
	return code, nil
}

// spawner starts processes from one thread that lives as long as this process:
// a child's Pdeathsig is sent when the thread that made it ends.
var spawner = make(chan func())

func init() {
	go func() {
		runtime.LockOSThread()
		for f := range spawner {
			f()
		}
	}()
}

// Spawn starts cmd so that its Pdeathsig means the end of this process.
func Spawn(cmd *exec.Cmd) error {
	result := make(chan error)
	spawner <- func() { result <- cmd.Start() }
	return <-result
}

// Marked lists the processes whose mark begins with the given text.
func Marked(prefix string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append([]byte{0}, env...), []byte("\x00"+mark+"="+prefix)) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		pids = append(pids, pid)
	}
	return pids
}

// KillMarked kills them and returns when none is left.
func KillMarked(prefix string) {
	for {
		pids := Marked(prefix)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
