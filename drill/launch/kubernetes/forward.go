package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"drkit/internal/errext"
)

// forward leads connections from a port of this machine through the API server to a
// pod. The port is taken at once and stays the same while connections to the API server
// come and go; what cannot be led on is closed, as by an engine that is not there.
type forward struct {
	l      *Launcher
	pod    string
	listen net.Listener

	mu     sync.Mutex
	remote int
	conn   httpstream.Connection
	next   int
	done   bool
}

// forward takes a port of this machine, a free one for 0.
func (l *Launcher) forward(pod string, port int) (*forward, error) {
	if l.o.Reach == Direct {
		return &forward{}, nil
	}
	listen, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("taking a port of this machine for the way to the pod: %w", err)
	}
	f := &forward{l: l, pod: pod, listen: listen}
	go f.accept()
	return f, nil
}

// to says which port of the pod is meant.
func (f *forward) to(port int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remote = port
}

func (f *forward) url() string {
	if f.listen == nil {
		return ""
	}
	return "http://" + f.listen.Addr().String()
}

func trimScheme(url string) string { return strings.TrimPrefix(url, "http://") }

func (f *forward) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = true
	if f.listen != nil {
		f.listen.Close()
	}
	if f.conn != nil {
		f.conn.Close()
	}
}

func (f *forward) accept() {
	for {
		c, err := f.listen.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_ = f.lead(c) // whoever connected sees the end of it
		}()
	}
}

// lead joins one connection with a stream to the pod.
func (f *forward) lead(c net.Conn) error {
	data, problem, err := f.streams()
	if err != nil {
		return err
	}
	defer data.Reset()
	defer problem.Reset()
	refused := make(chan error, 1)
	go func() {
		text, err := io.ReadAll(io.LimitReader(problem, 4<<10))
		if len(text) > 0 {
			err = errors.New(string(text))
		}
		refused <- err
	}()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(c, data)
		if half, ok := c.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(data, c)
		data.Close() // half: what comes back is still read
	}()
	select {
	case <-back:
	case err := <-refused:
		if err != nil { // nobody listens in the pod yet, or the stream broke
			return err
		}
		<-back
	}
	c.Close()
	<-sent
	return nil
}

// streams opens a pair of streams to the pod, on a connection that is made anew when
// the one before has gone.
func (f *forward) streams() (data, problem httpstream.Stream, err error) {
	conn, id, port, err := f.connection()
	if err != nil {
		return nil, nil, err
	}
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(id))
	if problem, err = conn.CreateStream(headers); err != nil {
		return nil, nil, err
	}
	problem.Close() // nothing is written to it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	if data, err = conn.CreateStream(headers); err != nil {
		problem.Reset()
		return nil, nil, err
	}
	return data, problem, nil
}

func (f *forward) connection() (conn httpstream.Connection, id, port int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done {
		return nil, 0, 0, net.ErrClosed
	}
	if f.conn != nil {
		select {
		case <-f.conn.CloseChan():
			f.conn = nil
		default:
		}
	}
	if f.conn == nil {
		if f.conn, err = f.l.dialPod(f.pod); err != nil {
			return nil, 0, 0, err
		}
	}
	f.next++
	return f.conn, f.next, f.remote, nil
}

// dialPod opens a port-forward connection, by WebSocket and for older API servers by SPDY.
func (l *Launcher) dialPod(pod string) (httpstream.Connection, error) {
	url := l.core.Post().Namespace(l.o.Namespace).Resource("pods").Name(pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(l.config)
	if err != nil {
		return nil, err
	}
	dialer := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	if tunnel, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, l.config); err == nil {
		dialer = portforward.NewFallbackDialerForStreaming(tunnel, dialer, func(err error) bool {
			return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
		})
	}
	type dialed struct {
		conn httpstream.Connection
		err  error
	}
	done := make(chan dialed, 1)
	go func() {
		conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		done <- dialed{conn, err}
	}()
	ctx, cancel := context.WithTimeoutCause(context.Background(), askTime, errSlow)
	defer cancel()
	select {
	case d := <-done:
		return d.conn, d.err
	case <-ctx.Done():
		go func() {
			if d := <-done; d.err == nil {
				d.conn.Close()
			}
		}()
		return nil, errext.WithHint(fmt.Errorf("port-forward to pod %s: %w", pod, context.Cause(ctx)), "canary.reach: direct needs no port-forward, where this machine reaches pods")
	}
}
