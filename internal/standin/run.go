package standin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"drkit/internal/errext"
)

// Options say what Run serves and where.
type Options struct {
	LoadOptions
	ModelDir string
	Host     string              // empty: 127.0.0.1
	Port     int                 // 0: a free one, which the log names
	Ready    func(addr net.Addr) // called once requests are answered; may be nil
}

// drain is how long requests in flight may take after the context has ended.
const drain = 5 * time.Second

// Run loads a repository and serves it until ctx ends, then lets requests in
// flight finish for some seconds and returns nil. Until everything is loaded
// nothing listens, so that connections are refused during boot, as vLLM's are.
func Run(ctx context.Context, o Options) error {
	log := bootLog{o.Log}
	log.printf("this is the stand-in engine of drkit, not vLLM: version %s, serving model %s", Version, o.ModelDir)
	e, err := Load(o.ModelDir, o.LoadOptions)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	host := o.Host
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(o.Port)))
	if err != nil {
		return errext.WithHint(fmt.Errorf("the stand-in engine cannot listen: %w", err), "choose another --host or --port, or stop what holds it")
	}
	return e.serve(ctx, l, o, log)
}

func (e *Engine) serve(ctx context.Context, l net.Listener, o Options, log bootLog) error {
	s := &http.Server{Handler: e.Handler(), ReadHeaderTimeout: 30 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	log.printf("Starting vLLM server on http://%s (stand-in engine)", l.Addr())
	log.printf("Application startup complete.")
	if o.Ready != nil {
		o.Ready(l.Addr())
	}
	select {
	case err := <-failed:
		return fmt.Errorf("the stand-in engine stopped serving: %w", err)
	case <-ctx.Done():
	}
	log.printf("[shutdown] API server: shutdown triggered")
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := s.Shutdown(stop); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stopping the stand-in engine: %w", err)
	}
	return s.Close()
}
