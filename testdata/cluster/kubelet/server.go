//go:build linux

package kubelet

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

const (
	streamIdle   = 10 * time.Minute
	streamCreate = 30 * time.Second
)

// handler serves what the API server asks a kubelet for on behalf of its clients.
func (k *Kubelet) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.serveLogs)
	for _, path := range []string{"/exec/{namespace}/{pod}/{container}", "/exec/{namespace}/{pod}/{uid}/{container}"} {
		mux.HandleFunc(path, k.serveExec)
	}
	for _, path := range []string{"/portForward/{namespace}/{pod}", "/portForward/{namespace}/{pod}/{uid}"} {
		mux.HandleFunc(path, k.servePortForward)
	}
	return mux
}

func (k *Kubelet) container(r *http.Request) (*container, error) {
	p := k.find(r.PathValue("namespace"), r.PathValue("pod"))
	if p == nil {
		return nil, fmt.Errorf("pod %s/%s not found", r.PathValue("namespace"), r.PathValue("pod"))
	}
	for _, c := range append(p.init[:len(p.init):len(p.init)], p.main...) {
		if c.spec.Name == r.PathValue("container") {
			return c, nil
		}
	}
	return nil, fmt.Errorf("container %s not found in pod %s", r.PathValue("container"), p.api.Name)
}

func (k *Kubelet) serveLogs(w http.ResponseWriter, r *http.Request) {
	c, err := k.container(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	query := r.URL.Query()
	out, err := c.output(query.Get("previous") == "true")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	opts := logOptions{follow: query.Get("follow") == "true", timestamps: query.Get("timestamps") == "true", tail: -1}
	if n, err := strconv.Atoi(query.Get("tailLines")); err == nil {
		opts.tail = n
	}
	if n, err := strconv.Atoi(query.Get("sinceSeconds")); err == nil {
		opts.since = time.Now().Add(-time.Duration(n) * time.Second)
	}
	if at, err := time.Parse(time.RFC3339, query.Get("sinceTime")); err == nil {
		opts.since = at
	}
	w.Header().Set("Content-Type", "text/plain")
	out.copyTo(r.Context(), w, w.(http.Flusher).Flush, opts)
}

// output is what the container's process wrote, with the errors that a real kubelet has where there is none.
func (c *container) output(previous bool) (*output, error) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	switch {
	case previous && c.previous == nil:
		return nil, fmt.Errorf("previous terminated container %q in pod %q not found", c.spec.Name, c.p.api.Name)
	case previous:
		return c.previous.out, nil
	case c.now != nil:
		return c.now.out, nil
	case c.state.Waiting != nil:
		return nil, fmt.Errorf("container %q in pod %q is waiting to start: %s", c.spec.Name, c.p.api.Name, c.state.Waiting.Reason)
	}
	return nil, fmt.Errorf("container %q in pod %q has no log", c.spec.Name, c.p.api.Name)
}

func (k *Kubelet) serveExec(w http.ResponseWriter, r *http.Request) {
	opts, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c, err := k.container(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	argv := r.URL.Query()["command"]
	remotecommand.ServeExec(w, r, executor{c}, "", "", c.spec.Name, argv, opts, streamIdle, streamCreate, remotecommand.SupportedStreamingProtocols)
}

type executor struct{ c *container }

func (e executor) ExecInContainer(ctx context.Context, _, _, _ string, argv []string, in io.Reader, out, errs io.WriteCloser, tty bool,
	_ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if tty {
		return fmt.Errorf("the test kubelet has no terminals")
	}
	e.c.p.mu.Lock()
	proc, running := e.c.now, e.c.state.Running != nil
	e.c.p.mu.Unlock()
	if !running {
		return fmt.Errorf("container %q is not running", e.c.spec.Name)
	}
	code, err := execIn(ctx, e.c.beside(argv, proc), in, out, errs)
	if err == nil && code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("command exited with %d", code), Code: int(code)}
	}
	return err
}

func (k *Kubelet) servePortForward(w http.ResponseWriter, r *http.Request) {
	p := k.find(r.PathValue("namespace"), r.PathValue("pod"))
	if p == nil {
		http.Error(w, "pod not found", http.StatusNotFound)
		return
	}
	portforward.ServePortForward(w, r, p, p.api.Name, string(p.api.UID), nil, streamIdle, streamCreate, portforward.SupportedProtocols)
}

// PortForward copies between a stream and a port of the pod.
func (p *pod) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(p.ip, fmt.Sprint(port)))
	if err != nil {
		return err
	}
	defer conn.Close()
	sent := make(chan struct{})
	go func() {
		_, _ = io.Copy(conn, stream)
		_ = conn.(*net.TCPConn).CloseWrite()
		close(sent)
	}()
	_, err = io.Copy(stream, conn)
	_ = stream.Close()
	_ = conn.Close()
	<-sent
	return err
}
