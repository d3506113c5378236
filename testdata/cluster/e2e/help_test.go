//go:build linux

// Package e2e runs the drkit program against a real Kubernetes control plane.
// scripts/e2e-cluster builds the program and calls it.
package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const root = "../../.." // of the project

// drkit is the program under test.
func drkit(t *testing.T) string {
	t.Helper()
	path := os.Getenv("DRKIT")
	if path == "" {
		t.Fatal("DRKIT is not set: run scripts/e2e-cluster, which builds the program and says where it is")
	}
	return path
}

// run runs drkit in a folder and requires an exit status.
func run(t *testing.T, dir string, status int, args ...string) string {
	t.Helper()
	cmd := exec.Command(drkit(t), args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Fatalf("drkit %s: exit %d, want %d\n%s\n%s", strings.Join(args, " "), got, status, out.String(), errs.String())
	}
	return out.String()
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// until waits for something that the cluster does in its own time.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if holds() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not seen in 3 minutes: %s", what)
		}
	}
}
