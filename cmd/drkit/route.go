package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drkit/drill/routing/serve"
	"drkit/internal/errext"
	"drkit/manifest/region"
)

func newRoute(s *streams) *cobra.Command {
	c := &cobra.Command{Use: "route", Short: "Route requests over regions"}
	c.AddCommand(newRouteServe(s, runRouteServe))
	return c
}

// routeOptions are those of route serve.
type routeOptions struct {
	Host      string
	Port      int
	Home      string
	Workers   []string
	Residency []string
}

func newRouteServe(s *streams, run func(context.Context, *streams, routeOptions) error) *cobra.Command {
	var o routeOptions
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the reference router, for rehearsals and demonstrations",
		Long: `A small cache-aware router over regions: it remembers which replica saw which
prefix, prefers the home region, and never crosses a residency border. It is there
for rehearsals, demonstrations and to check policies; production traffic belongs on
a production router. Anybody who reaches its port may change its workers.`,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), s, o) },
	}
	c.Flags().StringVar(&o.Host, "host", "127.0.0.1", "address to listen on")
	c.Flags().IntVar(&o.Port, "port", 30000, "port to listen on; 0 takes a free one")
	c.Flags().StringVar(&o.Home, "home", "", "region to prefer")
	c.Flags().StringArrayVar(&o.Workers, "worker", nil, "engine as URL=REGION or URL=REGION:RESIDENCY (repeatable)")
	c.Flags().StringArrayVar(&o.Residency, "residency", nil, "where a request may be answered that does not say so itself (repeatable)")
	return c
}

func runRouteServe(ctx context.Context, s *streams, o routeOptions) error {
	opts := serve.Options{Home: o.Home, Version: toolVersion()}
	for _, text := range o.Workers {
		w, err := parseWorker(text)
		if err != nil {
			return err
		}
		opts.Workers = append(opts.Workers, w)
	}
	for _, r := range o.Residency {
		opts.Residency = append(opts.Residency, region.Residency(r))
	}
	router, err := serve.New(opts)
	if err != nil {
		return errext.WithStatus(err, errext.Usage)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(o.Host, strconv.Itoa(o.Port)))
	if err != nil {
		return errext.WithHint(fmt.Errorf("listening: %w", err), "choose another --port, or 0 for a free one")
	}
	fmt.Fprintf(s.Err, "%s on http://%s\n", serve.Kind, listener.Addr())
	server := &http.Server{Handler: router, ReadHeaderTimeout: 10 * time.Second}
	health, stop := context.WithCancel(ctx)
	defer stop()
	go router.Run(health)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(last); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// parseWorker reads URL=REGION or URL=REGION:RESIDENCY. The URL is up to the last
// equals sign, so that one in its query does no harm.
func parseWorker(text string) (serve.Worker, error) {
	at := strings.LastIndex(text, "=")
	if at < 0 {
		return serve.Worker{}, usage(fmt.Errorf("--worker %q is not URL=REGION", text), "for example http://127.0.0.1:8000=eu-west-1:eu")
	}
	name, residency, _ := strings.Cut(text[at+1:], ":")
	return serve.Worker{URL: text[:at], Region: name, Residency: region.Residency(residency)}, nil
}
