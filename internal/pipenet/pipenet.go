// Package pipenet carries HTTP over net.Pipe inside one process, for tests.
// HTTP over loopback hangs in a testing/synctest bubble, because waiting for
// the kernel is not durable blocking; over pipes a drill of many virtual
// minutes runs in no time.
//
//	var n pipenet.Network
//	defer n.Close()
//	n.Serve("engine-a:8000", handler)
//	client := &openai.Client{BaseURL: "http://engine-a:8000", HTTP: n.Client()}
package pipenet

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// Network is a set of named listeners. The zero value is ready; Close it
// before a bubble ends, else its goroutines outlive the test.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	servers   []*http.Server
	clients   []*http.Transport
	wait      sync.WaitGroup
}

// Serve answers requests to addr (host:port) with h until stop is called or
// the network is closed. stop cuts the connections, as a crash would.
func (n *Network) Serve(addr string, h http.Handler) (stop func(), err error) {
	l, err := n.Listen(addr)
	if err != nil {
		return nil, err
	}
	s := &http.Server{Handler: h}
	n.mu.Lock()
	n.servers = append(n.servers, s)
	n.mu.Unlock()
	n.wait.Go(func() { _ = s.Serve(l) })
	return func() { _ = s.Close() }, nil
}

// Listen takes addr. Closing the listener frees it.
func (n *Network) Listen(addr string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[addr] != nil {
		return nil, &net.OpError{Op: "listen", Net: "pipe", Addr: pipeAddr(addr), Err: syscall.EADDRINUSE}
	}
	l := &listener{net: n, addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
	if n.listeners == nil {
		n.listeners = map[string]*listener{}
	}
	n.listeners[addr] = l
	return l, nil
}

// DialContext connects to a listener; an address without one refuses.
func (n *Network) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "pipe", Addr: pipeAddr(addr), Err: syscall.ECONNREFUSED}
	if l == nil {
		return nil, refused
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, fmt.Errorf("dialling %s: %w", addr, context.Cause(ctx))
	}
}

// Client gives an HTTP client that reaches the network's listeners only.
func (n *Network) Client() *http.Client {
	t := &http.Transport{DialContext: n.DialContext}
	n.mu.Lock()
	n.clients = append(n.clients, t)
	n.mu.Unlock()
	return &http.Client{Transport: t}
}

// Close stops every server and waits until they are gone.
func (n *Network) Close() {
	n.mu.Lock()
	servers, clients := n.servers, n.clients
	n.mu.Unlock()
	for _, t := range clients {
		t.CloseIdleConnections()
	}
	for _, s := range servers {
		_ = s.Close()
	}
	n.wait.Wait()
}

func (n *Network) remove(l *listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[l.addr] == l {
		delete(n.listeners, l.addr)
	}
}

type listener struct {
	net    *Network
	addr   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.net.remove(l)
		close(l.closed)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return pipeAddr(l.addr) }

type pipeAddr string

func (a pipeAddr) Network() string { return "pipe" }
func (a pipeAddr) String() string  { return string(a) }
