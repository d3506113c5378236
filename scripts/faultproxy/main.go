// Command faultproxy stands in front of an S3 server and makes requests go
// wrong, for scripts that test against real servers:
//
//	go run ./scripts/faultproxy -upstream http://127.0.0.1:7070 -seed 3 -rule 503,chance=0.1 -rule truncate,path=/model/,nth=2
//
// Its first line on stdout is its URL. On SIGINT or SIGTERM it prints how often
// each fault was injected, one "KIND COUNT" a line, and ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"drkit/internal/faultproxy"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "faultproxy:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("faultproxy", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address to listen on")
	upstream := flags.String("upstream", "", "URL of the server behind the proxy")
	var o faultproxy.Options
	flags.Uint64Var(&o.Seed, "seed", 0, "decides which requests meet a fault that has a chance")
	flags.Func("rule", "KIND[,method=…][,path=REGEXP][,query=REGEXP][,nth=N][,chance=P][,limit=N][,delay=…][,at=OFFSET][,location=URL][,region=…]; may be repeated", func(text string) error {
		r, err := faultproxy.ParseRule(text)
		o.Rules = append(o.Rules, r)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected %q: a rule stands behind -rule", flags.Arg(0))
	}
	target, err := url.Parse(*upstream)
	if err != nil || target.Host == "" {
		return fmt.Errorf("-upstream %q is not a URL such as http://127.0.0.1:7070", *upstream)
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	return serve(ctx, l, faultproxy.To(target, o), out)
}

func serve(ctx context.Context, l net.Listener, p *faultproxy.Proxy, out io.Writer) error {
	fmt.Fprintf(out, "http://%s\n", l.Addr())
	srv := &http.Server{Handler: p}
	context.AfterFunc(ctx, func() { p.Close(); srv.Close() })
	err := srv.Serve(l)
	counts := p.Counts()
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "%s %d\n", kind, counts[kind])
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
