//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"drkit/drill"
)

var _ drill.Inside = (*Replica)(nil)

// maxSaid bounds what a program run inside may say, in bytes.
const maxSaid = 1 << 20

// Run runs a program with the replica's own environment and working directory. It
// carries the replica's labels, so that Stop ends it too.
func (r *Replica) Run(ctx context.Context, argv []string) ([]byte, error) {
	if r.own == nil {
		return nil, errors.New("the replica was launched by another process: its environment is not known")
	}
	if len(argv) == 0 {
		return nil, errors.New("no program to run")
	}
	path, err := program(argv[0])
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = r.own.Env, r.own.Dir, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out := &said{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("running %s beside %s: %w", argv[0], r.rec.Name, err)
	}
	return out.Bytes(), nil
}

// said keeps the beginning of what is written to it.
type said struct{ bytes.Buffer }

func (s *said) Write(p []byte) (int, error) {
	if room := maxSaid - s.Len(); room > 0 {
		s.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
