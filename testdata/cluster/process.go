//go:build linux

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"drkit/testdata/cluster/kubelet"
)

// process is one program of the control plane.
type process struct {
	argv []string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
}

// launch starts it with a log of its own. It ends with this process, however that ends.
func (c *Cluster) launch(name string, argv ...string) error {
	p := &process{argv: argv, log: filepath.Join(c.Dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = log, log, c.Dir
	p.cmd.Env = []string{"HOME=" + c.Dir, "PATH=" + os.Getenv("PATH")}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := kubelet.Spawn(p.cmd); err != nil {
		return fmt.Errorf("%w: run scripts/real-parts control-plane", err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	c.processes[name] = p
	return nil
}

// end asks the process to end and kills it after the given time.
func (p *process) end(patience time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
