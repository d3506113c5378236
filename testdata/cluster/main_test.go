//go:build linux

package cluster

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"drkit/testdata/cluster/kubelet"
)

// program is the variable that makes the test's own binary an engine, a worker of one,
// or a process that launches.
const program = "CLUSTER_TEST_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(program) {
	case "serve":
		os.Exit(serve())
	case "join":
		os.Exit(join())
	case "launch":
		if err := launchGroup(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1) // it is to be killed
	}
	os.Exit(m.Run())
}

// serve is an HTTP server that becomes healthy after --boot and answers with its arguments.
func serve() int {
	host := flag.String("host", "0.0.0.0", "")
	port := flag.String("port", "8000", "")
	boot := flag.Duration("boot", 0, "")
	model := flag.String("model", "", "")
	flag.String("served-model-name", "", "")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("Starting to load model " + *model + "...")
	ready := time.Now().Add(*boot)
	http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		if time.Now().Before(ready) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("GET " + r.URL.Path)
		fmt.Fprintf(w, "%s %s", os.Getenv("HOSTNAME"), strings.Join(os.Args[1:], " "))
	})
	server := &http.Server{Addr: net.JoinHostPort(*host, *port)}
	go func() { <-ctx.Done(); fmt.Println("terminated"); _ = server.Close() }()
	fmt.Println("Application startup complete.")
	if err := server.ListenAndServe(); ctx.Err() == nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// join registers a worker with its leader, at the address in LEADER, and stays.
func join() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for {
		res, err := http.Get(os.Getenv("LEADER") + "/join/" + os.Getenv("LWS_WORKER_INDEX") + url.PathEscape(" of "+os.Getenv("LWS_GROUP_SIZE")))
		if err == nil {
			res.Body.Close()
			break
		}
		select {
		case <-ctx.Done():
			return 1
		case <-time.After(50 * time.Millisecond):
		}
	}
	fmt.Println("joined " + os.Getenv("LWS_LEADER_ADDRESS"))
	<-ctx.Done()
	return 0
}

// testImages are an engine, known by tag and by digest, and a shell.
func testImages() []kubelet.Image {
	self, _ := os.Executable()
	return []kubelet.Image{
		{
			Ref: "registry.example/llm/engine:1", Digest: "sha256:" + strings.Repeat("ab", 32), Entrypoint: []string{self, "--host", "0.0.0.0"},
			Env: map[string]string{program: "serve"}, Rewrite: kubelet.Listen("--host"), Pull: 100 * time.Millisecond,
		},
		{Ref: "sh:1", Entrypoint: []string{"sh", "-c"}},
	}
}
