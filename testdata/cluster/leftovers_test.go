//go:build linux

package cluster

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNothingOutlivesAKill kills a test with kill -9 while its cluster runs a pod:
// no clean-up of the test is called then.
func TestNothingOutlivesAKill(t *testing.T) {
	const child = "CLUSTER_TEST_CHILD"
	if os.Getenv(child) != "" {
		c := Start(t, Options{Images: testImages()})
		pod(t, c, "orphan", "image: sh:1\nargs: [exec sleep 1000]", "")
		until(t, "the pod's process", func() bool { return len(named(c, "orphan")) == 1 })
		fmt.Println("dir " + c.Dir)
		select {} // until it is killed
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNothingOutlivesAKill$")
	cmd.Env, cmd.Stderr = append(os.Environ(), child+"=1"), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dir, said := "", ""
	for lines := bufio.NewScanner(out); dir == "" && lines.Scan(); said += lines.Text() + "\n" {
		dir, _ = strings.CutPrefix(lines.Text(), "dir ")
		if dir == lines.Text() {
			dir = ""
		}
	}
	if dir == "" {
		_ = cmd.Wait()
		t.Fatalf("the child has no cluster:\n%s", said)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if got := len(mention(dir)); got < 5 { // four programs and the pod
		t.Errorf("%d processes run before the kill: this test cannot see them", got)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	until(t, "no process of "+dir, func() bool { return len(mention(dir)) == 0 })
}

// mention lists the processes whose command line or environment has the text.
func mention(text string) (pids []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		line, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(proc, "environ"))
		if bytes.Contains(append(line, env...), []byte(text)) {
			pids = append(pids, filepath.Base(proc))
		}
	}
	return pids
}

// TestStartSaysWhatIsMissing asks the start itself, as Start would end this test.
func TestStartSaysWhatIsMissing(t *testing.T) {
	for _, c := range []struct{ bin, want string }{
		{"", "KUBE_BIN is not set: run scripts/real-parts control-plane"},
		{t.TempDir(), "etcd: no such file or directory: run scripts/real-parts control-plane"},
		{broken(t), "etcd has ended: exit status 3"},
	} {
		t.Setenv("KUBE_BIN", c.bin)
		err := (&Cluster{processes: map[string]*process{}}).start(t, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("KUBE_BIN=%q: %v, want %q", c.bin, err, c.want)
		}
	}
}

// broken is a folder with an etcd that ends at once.
func broken(t *testing.T) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "etcd"), []byte("#!/bin/sh\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}
