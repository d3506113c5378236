//go:build unix

package process

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestInside: what is run beside a replica has its environment: offline, no proxy that
// leads anywhere, its labels, and nothing of drkit's own credentials.
func TestInside(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not-for-canaries")
	l := testLauncher(t)
	r := launch(t, l, fakeSpec(t, "hang"))
	out, err := r.Run(t.Context(), []string{"env"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"HF_HUB_OFFLINE=1", "http_proxy=http://127.0.0.1:9", labelReplica + "=target", fakeVar + "=hang"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s inside", want)
		}
	}
	if strings.Contains(string(out), "not-for-canaries") {
		t.Error("a credential is inside")
	}
	if _, err := r.Run(t.Context(), []string{"no-such-program-at-all"}); err == nil {
		t.Error("a program that is not there ran")
	}
	if _, err := r.Run(t.Context(), []string{"false"}); err == nil {
		t.Error("a program that failed is no error")
	}
	if _, err := r.Run(t.Context(), nil); err == nil {
		t.Error("nothing was run")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := r.Run(ctx, []string{"sleep", "60"}); err == nil || time.Since(began) > 20*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	found, err := l.Find(t.Context(), r.rec.Run)
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	if _, err := found[0].(*Replica).Run(t.Context(), []string{"env"}); err == nil {
		t.Error("the environment of another process's replica is claimed to be known")
	}
}
