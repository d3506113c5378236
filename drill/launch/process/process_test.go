//go:build unix

package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
)

func testLauncher(t *testing.T) *Launcher {
	return &Launcher{Dir: t.TempDir(), TermAgain: 300 * time.Millisecond, KillAfter: time.Second}
}

func testRun(t *testing.T) string {
	return fmt.Sprintf("run-%d-%d", os.Getpid(), time.Now().UnixNano())
}

func fakeSpec(t *testing.T, mode string) drill.Spec {
	return drill.Spec{Run: testRun(t), Name: "target", Command: []string{os.Args[0]},
		Env: map[string]string{fakeVar: mode}, LogPath: filepath.Join(t.TempDir(), "engine.log")}
}

func launch(t *testing.T, l *Launcher, s drill.Spec) *Replica {
	t.Helper()
	got, err := l.Launch(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	r := got.(*Replica)
	t.Cleanup(func() { _ = r.Stop(context.Background()) })
	return r
}

// waitLine follows the log until a line has the prefix, and returns the rest of it.
func waitLine(t *testing.T, r drill.Replica, prefix string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for line, err := range r.Log(ctx) {
		if err != nil {
			t.Fatalf("waiting for %q: %v", prefix, err)
		}
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
	t.Fatalf("the log ended without %q", prefix)
	return ""
}

func waitPID(t *testing.T, r drill.Replica) int {
	t.Helper()
	pid, err := strconv.Atoi(waitLine(t, r, "child"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

// runs asks the kernel, not the code under test.
func runs(t *testing.T, pid int) bool {
	t.Helper()
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

func mustStop(t *testing.T, r drill.Replica) {
	t.Helper()
	if err := r.Stop(t.Context()); err != nil {
		t.Fatalf("stop: %v", err)
	}
}

func TestStopWaysOfDying(t *testing.T) {
	t.Parallel()
	tests := []struct{ mode, state string }{
		{"hang", "signal: terminated"},
		{"ignore", "signal: killed"},
		{"ignore-first", "exit status 130"},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			l := testLauncher(t)
			s := fakeSpec(t, tt.mode)
			r := launch(t, l, s)
			waitLine(t, r, "ready")
			if got := r.ExitState(); got != "" {
				t.Errorf("ExitState of a running replica = %q", got)
			}
			mustStop(t, r)
			mustStop(t, r) // idempotent
			if got := r.ExitState(); got != tt.state {
				t.Errorf("ExitState = %q, want %q", got, tt.state)
			}
			select {
			case <-r.Exited():
			default:
				t.Error("Exited is open after Stop")
			}
			if left, err := l.Find(t.Context(), s.Run); err != nil || len(left) != 0 {
				t.Errorf("Find after Stop = %v, %v", left, err)
			}
			if files, _ := os.ReadDir(l.Dir); len(files) != 0 {
				t.Errorf("the launcher left %v in its folder", files)
			}
		})
	}
}

func TestExitAtOnce(t *testing.T) {
	t.Parallel()
	r := launch(t, testLauncher(t), fakeSpec(t, "exit"))
	<-r.Exited()
	if got := r.ExitState(); got != "exit status 3" {
		t.Errorf("ExitState = %q", got)
	}
	if got := r.Tail(5); !slices.Equal(got, []string{"loading weights", "ValueError: no such shard"}) {
		t.Errorf("Tail = %q", got)
	}
	err := r.ExitError()
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no such shard") || errext.Hint(err) == "" {
		t.Errorf("ExitError = %v (hint %q)", err, errext.Hint(err))
	}
	mustStop(t, r)
}

func TestPortLostAfterCheckIsNamed(t *testing.T) {
	t.Parallel()
	r := launch(t, testLauncher(t), fakeSpec(t, "taken"))
	<-r.Exited()
	err := r.ExitError()
	if err == nil || !strings.Contains(err.Error(), "was taken after it had been found free") || !strings.Contains(errext.Hint(err), "lsof") {
		t.Errorf("ExitError = %v (hint %q)", err, errext.Hint(err))
	}
}

func TestStopEndsGrandchildren(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"fork", "escape"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			if mode == "escape" && runtime.GOOS != "linux" {
				t.Skip("a child that leaves the session is found by its label, in /proc only")
			}
			r := launch(t, testLauncher(t), fakeSpec(t, mode))
			pid := waitPID(t, r)
			mustStop(t, r)
			if runs(t, pid) {
				t.Errorf("grandchild %d outlived Stop", pid)
			}
		})
	}
}

func TestOrphanWithoutLabelIsKnownByItsLog(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	l, s := testLauncher(t), fakeSpec(t, "orphan")
	r := launch(t, l, s)
	pid := waitPID(t, r)
	<-r.Exited()
	if found, err := l.Find(t.Context(), s.Run); err != nil || len(found) != 1 {
		t.Errorf("Find = %v, %v, want the replica whose child is left", found, err)
	}
	mustStop(t, r)
	if runs(t, pid) {
		t.Errorf("orphan %d outlived Stop", pid)
	}
}

func TestUnidentifiedIsNeitherKilledNorCalledGone(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	l, s := testLauncher(t), fakeSpec(t, "mute-orphan")
	r := launch(t, l, s)
	pid := waitPID(t, r)
	<-r.Exited()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // cut short: the proof is what is tested
	err := r.Stop(ctx)
	if err == nil || errext.StatusOf(err) != errext.Unclean || !strings.Contains(err.Error(), strconv.Itoa(pid)) {
		t.Errorf("Stop = %v (status %v), want one that names pid %d", err, errext.StatusOf(err), pid)
	}
	if !runs(t, pid) {
		t.Error("a process that could not be identified was killed")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	mustStop(t, r)
}

func TestFindAndStopAfterKill(t *testing.T) {
	t.Parallel()
	dir, run := t.TempDir(), testRun(t)
	drkit := exec.Command(os.Args[0])
	drkit.Env = append(os.Environ(), fakeVar+"=launcher", "FAKE_DIR="+dir, "FAKE_RUN="+run)
	out, err := drkit.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := drkit.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "launched\n" {
		t.Fatalf("launcher said %q, %v", line, err)
	}
	if err := drkit.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = drkit.Wait()

	l := &Launcher{Dir: dir}
	found, err := l.Find(t.Context(), run)
	if err != nil || len(found) != 1 {
		t.Fatalf("Find = %v, %v", found, err)
	}
	r := found[0]
	if !strings.HasPrefix(r.Endpoint(), "http://127.0.0.1:") {
		t.Errorf("Endpoint = %q", r.Endpoint())
	}
	pid := waitPID(t, r)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the child ignores SIGTERM
	defer cancel()
	for range 2 {
		if err := r.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if runs(t, pid) {
		t.Errorf("grandchild %d outlived Stop", pid)
	}
	<-r.Exited()
	if r.ExitState() == "" {
		t.Error("no ExitState for a found replica that was stopped")
	}
	if left, err := l.Find(t.Context(), run); err != nil || len(left) != 0 {
		t.Errorf("Find = %v, %v", left, err)
	}
}

func TestRecordOfAnotherProcessHarmsNobody(t *testing.T) {
	t.Parallel()
	stranger := exec.Command(os.Args[0])
	stranger.Env = append(os.Environ(), fakeVar+"=hang")
	stranger.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stranger.Process.Kill(); _ = stranger.Wait() })
	l := testLauncher(t)
	// The pid of the record was reused: the start time is another one.
	if err := l.write(record{Run: "old", Name: "target", PID: stranger.Process.Pid, Start: "1", Boot: bootID(), Log: "/nowhere"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newReplica(l, record{Run: "old", Name: "target"}).Stop(ctx); err == nil {
		t.Error("Stop claims absence although the session of the record is in use")
	}
	if !runs(t, stranger.Process.Pid) {
		t.Fatal("a stranger was killed")
	}
	// A record from before a restart of the machine says nothing.
	if err := l.write(record{Run: "old", Name: "target", PID: stranger.Process.Pid, Start: startOf(stranger.Process.Pid), Boot: "another"}); err != nil {
		t.Fatal(err)
	}
	if err := newReplica(l, record{Run: "old", Name: "target"}).Stop(t.Context()); err != nil {
		t.Errorf("Stop after a restart: %v", err)
	}
	if !runs(t, stranger.Process.Pid) {
		t.Fatal("a stranger was killed")
	}
}

func TestSameNameTwiceIsRefused(t *testing.T) {
	t.Parallel()
	l, s := testLauncher(t), fakeSpec(t, "hang")
	r := launch(t, l, s)
	waitLine(t, r, "ready")
	if _, err := l.Launch(t.Context(), s); err == nil || !strings.Contains(err.Error(), "already runs") {
		t.Errorf("second launch: %v", err)
	}
	mustStop(t, r)
	again := launch(t, l, s) // a later attempt appends to the log and reads its own part
	waitLine(t, again, "ready")
	mustStop(t, again)
	if got := again.Tail(10); len(got) != 1 {
		t.Errorf("the second attempt's log = %q, want its own line only", got)
	}
}

func TestLogLines(t *testing.T) {
	t.Parallel()
	r := launch(t, testLauncher(t), fakeSpec(t, "lines"))
	var got []string
	for line, err := range r.Log(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	want := []string{"one", "two", "", "10%", "20%", "three", "last"}
	if !slices.Equal(got, want) {
		t.Errorf("log = %q, want %q", got, want)
	}
}

func TestLogEndsWithContext(t *testing.T) {
	t.Parallel()
	r := launch(t, testLauncher(t), fakeSpec(t, "hang"))
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for _, err := range r.Log(ctx) {
		cancel(cause)
		last = err
	}
	if !errors.Is(last, cause) {
		t.Errorf("log ended with %v", last)
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
