package vllmrouter

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"drkit/drill"
)

// TestRealRouter drives the real program when DRKIT_VLLM_ROUTER names it (tier
// 2 does), in front of two stub engines.
func TestRealRouter(t *testing.T) {
	program := os.Getenv("DRKIT_VLLM_ROUTER")
	if program == "" {
		t.Skip("DRKIT_VLLM_ROUTER does not name a vllm-router program")
	}
	a, b := stubEngine(t, "a"), stubEngine(t, "b")
	admin, metrics := freeAddr(t), freeAddr(t)
	start(t, program, admin, metrics, a)
	r, err := New("http://"+admin, "http://"+metrics, nil)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the router to list its worker", func() bool {
		w, err := r.Workers(t.Context())
		return err == nil && len(w) == 1 && w[0].Health == drill.Yes
	})
	if info, err := r.Probe(t.Context()); err != nil || info.Kind != Driver {
		t.Fatalf("Probe = %+v, %v", info, err)
	}
	ask(t, admin, `{"model":"tiny","prompt":"hello","max_tokens":1}`)
	ids := `{"model":"tiny","prompt":[` + strings.Repeat("1,2,3,4,", 64) + `5],"max_tokens":1}`
	ask(t, admin, ids)
	ask(t, admin, ids)
	waitFor(t, "the decisions to be counted", func() bool {
		hits, misses, blind, err := r.CacheDecisions(t.Context())
		t.Logf("decisions: %d hits, %d misses, %d blind, %v", hits, misses, blind, err)
		return err == nil && hits == 1 && misses == 1 && blind == 1
	})
	if info, err := r.Probe(t.Context()); err != nil || info.Policy != "cache_aware" || info.SeesTokens != drill.Yes || info.SeesText != drill.No {
		t.Errorf("Probe after requests = %+v, %v", info, err)
	}
	c := drill.Change{Add: []drill.Worker{{URL: b + "/"}}, Remove: []string{a}}
	for range 2 {
		if err := r.Apply(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if got := ask(t, admin, ids); got != "b" {
		t.Errorf("after the cutover engine %q answered", got)
	}
	counts, err := r.Counters(t.Context())
	if err != nil || counts[a].OK != 3 || counts[b].OK != 1 || counts[a].Failed+counts[b].Failed != 0 {
		t.Errorf("Counters = %+v, %v", counts, err)
	}
	t.Logf("epoch %q", counts[a].Epoch)
	r.Pace.Within = 3 * time.Second
	begin := time.Now()
	err = r.Apply(t.Context(), drill.Change{Add: []drill.Worker{{URL: "http://" + freeAddr(t)}}, Remove: []string{b}})
	t.Logf("adding a worker that is not there: %v after %v", err, time.Since(begin))
	if w, _ := r.Workers(t.Context()); err == nil || len(w) != 1 || w[0].URL != b {
		t.Errorf("workers = %+v, %v", w, err)
	}
}

func stubEngine(t *testing.T, name string) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"x","object":"text_completion","choices":[{"index":0,"text":%q,"finish_reason":"stop"}]}`, name)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func freeAddr(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func start(t *testing.T, program, admin, metrics, worker string) {
	_, port, _ := net.SplitHostPort(admin)
	_, mport, _ := net.SplitHostPort(metrics)
	cmd := exec.Command(program, "--worker-urls", worker, "--policy", "cache_aware", "--host", "127.0.0.1", "--port", port,
		"--prometheus-host", "127.0.0.1", "--prometheus-port", mport, "--worker-startup-check-interval", "1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(t.TempDir() + "/router.log")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if b, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("the router's log:\n%s", b)
		}
	})
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range 300 {
		if done() {
			return
		}
		time.Sleep(200 * time.Millisecond) // another program: nothing to synchronize with
	}
	t.Fatalf("waited a minute for %s", what)
}

// ask sends a completion and says which stub answered.
func ask(t *testing.T, admin, body string) string {
	t.Helper()
	resp, err := http.Post("http://"+admin+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("completion: HTTP %d %s %v", resp.StatusCode, b, err)
	}
	_, rest, _ := strings.Cut(string(b), `"text":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}
