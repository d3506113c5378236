package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"drkit/internal/errext"
)

// Commands are what the operator gives: each reads one JSON document from its stdin,
// and observe writes one to its stdout.
type Commands struct {
	Apply, Observe []string
	Dir            string // working directory
}

const (
	maxOutput = 4 << 20          // bytes of stdout; more is an error, not a cut answer
	maxWords  = 600              // bytes of stderr that an error quotes
	patience  = 30 * time.Second // for one command; a context may end it sooner
)

var errTooMuch = fmt.Errorf("it wrote more than %d bytes", maxOutput)

var errSlow = fmt.Errorf("the command has not ended within %v", patience)

// Do runs one command with a JSON document on its stdin and returns what it wrote to
// its stdout. The command and what it started are killed when the context ends.
func (c Commands) Do(ctx context.Context, argv []string, in any) ([]byte, error) {
	input, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSlow)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdin = c.Dir, bytes.NewReader(append(input, '\n'))
	out, words := &bounded{limit: maxOutput, strict: true}, &bounded{limit: maxWords}
	cmd.Stdout, cmd.Stderr = out, words
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if out.over {
		err = errTooMuch
	}
	if err == nil {
		return out.buf.Bytes(), nil
	}
	err = fmt.Errorf("%s: %w", argv[0], err)
	if text := strings.TrimSpace(strings.ToValidUTF8(words.buf.String(), "\uFFFD")); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	if errors.Is(err, exec.ErrNotFound) {
		err = errext.WithHint(err, "the command is named in drkit.yaml")
	}
	return nil, err
}

// bounded keeps the beginning of what is written. A strict one refuses the rest, which
// ends the program that writes it.
type bounded struct {
	buf    bytes.Buffer // not embedded: its ReadFrom knows no limit
	limit  int
	strict bool
	over   bool
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), b.limit-b.buf.Len())
	b.over = b.over || keep < len(p)
	b.buf.Write(p[:keep])
	if b.over && b.strict {
		return keep, errTooMuch
	}
	return len(p), nil
}
