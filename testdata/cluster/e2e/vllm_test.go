//go:build linux

package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"drkit/testdata/cluster/kubelet"
)

// vllmEnvironment is what vLLM needs on a machine without a GPU.
var vllmEnvironment = map[string]string{
	"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
}

// TestRealVLLM boots a canary of real vLLM from the target's claim and compares its
// answers with what another process of real vLLM was recorded to answer. What moves
// the traffic is TestDrill's part: each start takes vLLM a minute.
func TestRealVLLM(t *testing.T) {
	vllm := os.Getenv("VLLM")
	if vllm == "" {
		t.Fatal("VLLM is not set: run scripts/e2e-cluster, which says where it is")
	}
	engine := kubelet.Image{Entrypoint: []string{vllm, "serve"}, Env: vllmEnvironment, Rewrite: func(ip string, argv []string) []string {
		return kubelet.Listen("--host")(ip, positional(argv))
	}}
	w := newWorld(t, engine, func(dir string) { recordVLLM(t, dir, vllm) }, "{driver: reference}")
	r := w.drill(t, "--playbook", w.bootOnly(t)).end(t, 4) // nothing is failed over
	for _, what := range []string{"copy", "boot", "behaviour"} {
		if !r.Proves[what].Proven {
			t.Errorf("not proven: %s: %s", what, r.Proves[what].Why)
		}
	}
	if r.Verdict != "incomplete" || r.failed() != "" {
		t.Errorf("verdict %s, failed step %q", r.Verdict, r.failed())
	}
	r.says(t, `"kind": "vllm"`, `"version": "0.32.0`)
	if len(r.Boot) < 100 {
		t.Errorf("the phases of the boot: %s", r.Boot)
	}
	r.undone(t)
	w.nothingLeft(t)
}

// positional gives the model as vllm serve takes it; the image's own entry point takes --model.
func positional(argv []string) []string {
	for i := 0; i+1 < len(argv); i++ {
		if argv[i] == "--model" {
			return append(append([]string{argv[0], argv[1], argv[i+1]}, argv[2:i]...), argv[i+2:]...)
		}
	}
	return argv
}

// recordVLLM starts vLLM beside the cluster, with production's options, and records what it answers.
func recordVLLM(t *testing.T, dir, vllm string) {
	t.Helper()
	port := freePort(t)
	cmd := exec.Command(vllm, "serve", filepath.Join(dir, "models/support-tiny"), "--config", "engine/vllm.yaml", "--host", "127.0.0.1", "--port", port,
		"--lora-modules", "billing="+filepath.Join(dir, "models/billing"))
	log, err := os.Create(filepath.Join(dir, "vllm.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = dir, log, log, os.Environ()
	for name, value := range vllmEnvironment {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := kubelet.Spawn(cmd); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	}()
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if res, err := http.Get("http://127.0.0.1:" + port + "/health"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				break
			}
		}
		select {
		case <-ended:
			t.Fatalf("vLLM ended:\n%s", read(t, log.Name()))
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("vLLM does not answer after 5 minutes:\n%s", read(t, log.Name()))
		}
	}
	record(t, dir, "http://127.0.0.1:"+port)
}
