//go:build unix

package process

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"drkit/drill"
	"drkit/internal/errext"
)

func TestNoWorkingDirectory(t *testing.T) {
	t.Parallel()
	s := fakeSpec(t, "hang")
	s.Dir = filepath.Join(t.TempDir(), "gone")
	if _, err := testLauncher(t).Launch(t.Context(), s); err == nil || !strings.Contains(err.Error(), "working directory") {
		t.Errorf("launch: %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret-value")
	t.Setenv("HF_TOKEN", "secret-value")
	t.Setenv("VLLM_API_KEY", "secret-value")
	t.Setenv("VLLM_PORT", "tcp://10.0.0.7:8000")
	t.Setenv("VLLM_CPU_KVCACHE_SPACE", "1")
	t.Setenv("https_proxy", "http://proxy.example:3128")
	s := fakeSpec(t, "env")
	s.Dir = t.TempDir()
	s.Env["CACHE"] = "{{dir}}/cache"
	r := launch(t, testLauncher(t), s)
	<-r.Exited()
	got := map[string]string{}
	for _, line := range r.Tail(1000) {
		k, v, _ := strings.Cut(line, "=")
		got[k] = v
	}
	want := map[string]string{
		"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "SPT_NOENV": "1",
		"https_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "no_proxy": "127.0.0.1,localhost,::1",
		"VLLM_CPU_KVCACHE_SPACE": "1", "CACHE": s.Dir + "/cache", "PATH": os.Getenv("PATH"),
		"DRKIT_RUN": s.Run, "DRKIT_REPLICA": "target", "DRKIT_ENDPOINT": r.Endpoint(),
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s = %q, want %q", k, got[k], v)
		}
	}
	for _, k := range []string{"AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "VLLM_API_KEY", "VLLM_PORT"} {
		if v, ok := got[k]; ok {
			t.Errorf("%s=%s reached the replica", k, v)
		}
	}
	if !strings.HasSuffix(got["HF_HOME"], filepath.Join(s.Run, "target.hf")) {
		t.Errorf("HF_HOME = %q, want a home of the replica's own", got["HF_HOME"])
	}
}

func TestPorts(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port := busy.Addr().(*net.TCPAddr).Port
	l := testLauncher(t)
	s := fakeSpec(t, "hang")
	s.Port = port
	_, err = l.Launch(t.Context(), s)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d of 127.0.0.1 is in use", port)) || errext.Hint(err) == "" {
		t.Errorf("port in use: %v (hint %q)", err, errext.Hint(err))
	}
	s.Port, s.Values = 0, map[string]string{"metrics_port": strconv.Itoa(port)}
	if _, err = l.Launch(t.Context(), s); err == nil || !strings.Contains(err.Error(), "metrics_port") {
		t.Errorf("metrics port in use: %v", err)
	}
	if left, err := l.Find(t.Context(), s.Run); err != nil || len(left) != 0 {
		t.Errorf("a refused launch left %v, %v", left, err)
	}
	s.Values, s.Command = nil, append(s.Command, "--metrics-port", "{{metrics_port}}")
	r := launch(t, l, s)
	waitLine(t, r, "ready")
	if got := r.MetricsEndpoint(); !strings.HasPrefix(got, "http://127.0.0.1:") || !strings.HasSuffix(got, "/metrics") || strings.TrimSuffix(got, "/metrics") == r.Endpoint() {
		t.Errorf("MetricsEndpoint = %q beside endpoint %q", got, r.Endpoint())
	}
	found, err := l.Find(t.Context(), s.Run)
	if err != nil || len(found) != 1 || found[0].ID() != "target" || found[0].(*Replica).MetricsEndpoint() != r.MetricsEndpoint() {
		t.Errorf("Find = %v, %v", found, err)
	}
	seen := map[int]bool{}
	for range 20 {
		p, err := FreePort()
		if err != nil || seen[p] {
			t.Fatalf("FreePort = %d, %v (seen before: %v)", p, err, seen[p])
		}
		seen[p] = true
	}
}

func TestValidate(t *testing.T) {
	good := drill.Spec{Run: "r1", Name: "target", Command: []string{os.Args[0], "{{model}}", "--port={{port}}", "--lora", "billing={{adapter:billing}}", "{{worker}}"},
		Adapters: map[string]string{"billing": ""}, Values: map[string]string{"worker": ""}}
	if err := Validate(good); err != nil {
		t.Errorf("Validate(good) = %v", err)
	}
	tests := []struct {
		name   string
		change func(*drill.Spec)
		want   string
	}{
		{"unknown placeholder", func(s *drill.Spec) { s.Command[1] = "{{modle}}" }, "command[1]: unknown placeholder {{modle}}"},
		{"unknown adapter", func(s *drill.Spec) { s.Command[1] = "{{adapter:sales}}" }, "unknown placeholder {{adapter:sales}}"},
		{"empty placeholder", func(s *drill.Spec) { s.Command[1] = "{{}}" }, "unknown placeholder {{}}"},
		{"not closed", func(s *drill.Spec) { s.Command[1] = "{{model" }, "not closed"},
		{"in the environment", func(s *drill.Spec) { s.Env = map[string]string{"X": "{{home}}"} }, "environment variable X: unknown placeholder"},
		{"no command", func(s *drill.Spec) { s.Command = nil }, "no command"},
		{"no program", func(s *drill.Spec) { s.Command[0] = "no-such-engine" }, `program "no-such-engine" cannot be run`},
		{"not executable", func(s *drill.Spec) { s.Command[0] = "./process_test.go" }, "cannot be run"},
		{"online", func(s *drill.Spec) { s.Env = map[string]string{"HF_HUB_OFFLINE": "0"} }, "a canary runs with HF_HUB_OFFLINE=1"},
		{"label", func(s *drill.Spec) { s.Env = map[string]string{"DRKIT_RUN": "x"} }, "launcher's labels"},
		{"path as run", func(s *drill.Spec) { s.Run = "../x" }, `run id "../x"`},
		{"no name", func(s *drill.Spec) { s.Name = "" }, "replica name"},
		{"own placeholder as value", func(s *drill.Spec) { s.Values = map[string]string{"port": "1", "worker": ""} }, "the launcher's own"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := good
			s.Command, s.Env = slices.Clone(good.Command), maps.Clone(good.Env)
			tt.change(&s)
			err := Validate(s)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") || errext.StatusOf(err) != errext.Usage {
				t.Errorf("Validate = %v, want one error with %q and status usage", err, tt.want)
			}
		})
	}
}

func TestRender(t *testing.T) {
	s := drill.Spec{Command: []string{os.Args[0], "{{model}}", "--port={{port}}", "-m={{metrics_port}}", "a={{adapter:a}}", `{"x":{"y":1}}`, "{{host}}/{{served}}"},
		Model: "/m", Port: 81, Served: "chat", Adapters: map[string]string{"a": "/a"}, Values: map[string]string{"metrics_port": "82"}}
	argv, _, err := render(s)
	want := []string{"/m", "--port=81", "-m=82", "a=/a", `{"x":{"y":1}}`, "127.0.0.1/chat"}
	if err != nil || !slices.Equal(argv[1:], want) {
		t.Errorf("render = %q, %v, want %q", argv, err, want)
	}
	s.Model = ""
	if _, _, err := render(s); err == nil || !strings.Contains(err.Error(), "{{model}} has no value") {
		t.Errorf("render without a model: %v", err)
	}
}

func TestLaunchOfWhatIsNoProgram(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "engine")
	if err := os.WriteFile(bad, []byte("\x7fELF nonsense"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, s := testLauncher(t), fakeSpec(t, "hang")
	s.Command = []string{bad}
	if _, err := l.Launch(t.Context(), s); err == nil || errext.Hint(err) == "" {
		t.Errorf("launch: %v", err)
	}
	if files, _ := os.ReadDir(l.Dir); len(files) != 0 {
		t.Errorf("a failed launch left %v", files)
	}
}
