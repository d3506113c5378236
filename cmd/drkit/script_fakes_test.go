package main

import (
	"bytes"
	"context"
	"encoding/json"
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
	"strings"
	"sync"
	"syscall"

	"drkit/internal/demo"
	"drkit/internal/standin"
)

// fakeEngine is an engine with a fault. Its arguments are the fault and what a
// canary's command gives.
func fakeEngine() {
	fault, flags := os.Args[1], flag.NewFlagSet("fake-engine", flag.ExitOnError)
	model, port, adapter := flags.String("model", "", ""), flags.Int("port", 0, ""), flags.String("adapter", "", "")
	_ = flags.Parse(os.Args[2:]) // ExitOnError
	switch fault {
	case "exits":
		fmt.Fprintln(os.Stderr, "ValueError: this engine does not want to")
		os.Exit(3)
	case "hangs": // accepts connections and never answers
		listen(*port)
		select {}
	case "mute": // never listens
		fmt.Fprintln(os.Stderr, "loading, for ever")
		select {}
	case "unwell": // healthy, lists its models, fails the first completion
		serveHTTP(*port, http.HandlerFunc(unwell))
	case "stubborn": // serves well and ignores the first SIGTERM
		stubborn(*model, *port, *adapter)
	case "talks": // prints what it is told, then ends
		fmt.Fprintln(os.Stderr, "RuntimeError: "+strings.Join(flags.Args(), " "))
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "fake-engine has no fault "+fault)
	os.Exit(2)
}

func listen(port int) net.Listener {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return l
}

func serveHTTP(port int, h http.Handler) {
	fmt.Fprintln(os.Stderr, http.Serve(listen(port), h))
	os.Exit(1)
}

func unwell(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/health":
	case "/v1/models":
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model"},{"id":"billing","object":"model"}]}`, demo.Served)
	default: // as vLLM answers once its engine core has died
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","param":null,"code":500}}`)
	}
}

// stubborn needs a second SIGTERM, as vLLM was seen to while it boots.
func stubborn(model string, port int, adapter string) {
	ctx, cancel := context.WithCancel(context.Background())
	terms := make(chan os.Signal, 2)
	signal.Notify(terms, syscall.SIGTERM)
	go func() {
		<-terms
		fmt.Fprintln(os.Stderr, "ignoring SIGTERM")
		<-terms
		cancel()
	}()
	name, dir, _ := strings.Cut(adapter, "=")
	load := standin.LoadOptions{ServedModelNames: []string{demo.Served}, Log: os.Stderr, Adapters: []standin.Adapter{{Name: name, Dir: dir}}}
	if err := standin.Run(ctx, standin.Options{LoadOptions: load, ModelDir: model, Port: port}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// fakeRouter has the API of a vLLM Router in front of one worker, to which all
// requests go for ever. Asked for another one it answers 200; "deaf" then lists
// what it listed before, "liar" lists what it was asked for.
func fakeRouter() {
	fault, flags := os.Args[1], flag.NewFlagSet("fake-router", flag.ExitOnError)
	port, worker := flags.Int("port", 0, ""), flags.String("worker", "", "")
	_ = flags.Parse(os.Args[2:]) // ExitOnError
	to, err := url.Parse(*worker)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	serveHTTP(*port, &staleRouter{Handler: forwarder{to}, liar: fault == "liar", listed: []string{*worker}})
}

// forwarder sends each request to one place on a connection of its own, and its
// answer back as it comes. A request that cannot be sent is tried once more.
type forwarder struct{ to *url.URL }

var forwarding = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (f forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var answer *http.Response
	for range 2 {
		out, _ := http.NewRequest(r.Method, f.to.JoinPath(r.URL.Path).String(), bytes.NewReader(body)) // parts that were parsed before
		out.Header = r.Header.Clone()
		if answer, err = forwarding.Do(out); err == nil {
			break
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	if _, err := io.Copy(flushing{w}, answer.Body); err != nil {
		fmt.Fprintln(os.Stderr, "forwarding:", err)
		panic(http.ErrAbortHandler)
	}
}

type flushing struct{ http.ResponseWriter }

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	return n, err
}

type staleRouter struct {
	http.Handler
	liar   bool
	mu     sync.Mutex
	listed []string
}

func (r *staleRouter) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !r.admin(w, req.URL.Path, req.URL.Query().Get("url")) {
		r.Handler.ServeHTTP(w, req)
	}
}

// admin answers what is not for an engine.
func (r *staleRouter) admin(w http.ResponseWriter, path, worker string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch path {
	case "/list_workers":
		r.json(w, map[string]any{"urls": r.listed})
	case "/workers":
		all := []map[string]any{}
		for _, u := range r.listed {
			all = append(all, map[string]any{"url": u, "is_healthy": true})
		}
		r.json(w, map[string]any{"workers": all})
	case "/add_worker":
		if r.liar && !slices.Contains(r.listed, worker) {
			r.listed = append(r.listed, worker)
		}
		fmt.Fprintf(w, "Successfully added worker: %s", worker)
	case "/remove_worker":
		if r.liar {
			r.listed = slices.DeleteFunc(r.listed, func(have string) bool { return have == worker })
		}
		fmt.Fprintf(w, "Successfully removed worker: %s", worker)
	case "/metrics":
		w.WriteHeader(http.StatusOK)
	default:
		return false
	}
	return true
}

func (r *staleRouter) json(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
