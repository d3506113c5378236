package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"

	"drkit/drill"
)

var _ drill.Inside = (*Replica)(nil)

// maxOutput bounds what a command in the pod may say, in bytes.
const maxOutput = 1 << 20

// Run runs a command in the engine's container, with its network, its environment and
// its files, and gives what it wrote. A command that ends with a status other than 0 is
// an ExitError; any other error says that it could not be run.
func (r *Replica) Run(ctx context.Context, argv []string) (output []byte, err error) {
	o := &corev1.PodExecOptions{Container: r.container, Command: argv, Stdout: true, Stderr: true}
	url := r.l.core.Post().Namespace(r.l.o.Namespace).Resource("pods").Name(r.name).SubResource("exec").VersionedParams(o, parameters()).URL()
	executor, err := remotecommand.NewSPDYExecutor(r.l.config, http.MethodPost, url)
	if err != nil {
		return nil, err
	}
	if socket, err := remotecommand.NewWebSocketExecutor(r.l.config, http.MethodGet, url.String()); err == nil {
		executor, err = remotecommand.NewFallbackExecutor(socket, executor, func(err error) bool {
			return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
		})
		if err != nil {
			return nil, err
		}
	}
	out := &bounded{}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: out})
	var status utilexec.ExitError
	switch {
	case errors.As(err, &status) && status.Exited():
		err = ExitError{status.ExitStatus()}
	case err != nil:
		err = fmt.Errorf("running %s in pod %s: %w", argv[0], r.Pod(), err)
	}
	return out.bytes(), err
}

// ExitError is the status of a command that ran and ended with another status than 0.
type ExitError struct{ Status int }

func (e ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Status) }

// bounded keeps the beginning of what is written to it, by two streams at once. It has
// no other way in: a bytes.Buffer of its own would be filled past this limit and lock.
type bounded struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if room := maxOutput - b.kept.Len(); room > 0 {
		b.kept.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (b *bounded) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.kept.Bytes())
}
