package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/drill"
	"drkit/drill/launch/kubernetes"
	"drkit/internal/errext"
)

// podCanary is a canary that an earlier process launched as a pod: an engine that is
// idle at its own address, and an API server that lists the pod in a state. With reached
// it was reached there, through a port of its process.
func podCanary(t *testing.T, reached string, state map[string]any) (c drill.ChangeState, own string) {
	t.Helper()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:prompt_tokens_total 7\nvllm:generation_tokens_total 7")
	}))
	t.Cleanup(engine.Close)
	at, err := url.Parse(engine.URL)
	if err != nil {
		t.Fatal(err)
	}
	annotations := map[string]any{"drkit.dev/port": at.Port(), "drkit.dev/endpoint": reached, "drkit.dev/container": "engine"}
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "status": map[string]any{"phase": "Running", "podIP": at.Hostname(), "containerStatuses": []any{map[string]any{"name": "engine", "state": state}}},
		"metadata": map[string]any{"name": "canary", "namespace": "dr", "uid": "u-1", "annotations": annotations,
			"labels": map[string]any{kubernetes.LabelRun: "01R", kubernetes.LabelReplica: "target-canary"}}}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		items := []any{}
		switch {
		case r.Method != http.MethodGet:
			http.Error(w, "nothing may be changed", http.StatusForbidden)
			return
		case strings.HasSuffix(r.URL.Path, "/pods/canary"):
			_ = json.NewEncoder(w).Encode(pod)
			return
		case strings.HasSuffix(r.URL.Path, "/pods"):
			items = append(items, pod)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{}, "items": items})
	}))
	t.Cleanup(api.Close)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\nusers: [{name: u, user: {}}]\ncontexts: [{name: euw1, context: {cluster: c, user: u, namespace: dr}}]\n", api.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", config)
	args, err := json.Marshal(kubernetes.Args{Context: "euw1", Namespace: "dr", Server: api.URL, Run: "01R", Name: "target-canary"})
	if err != nil {
		t.Fatal(err)
	}
	c.ID, c.What, c.Undo = "c1", "canary target-canary", drill.Undo{Kind: kubernetes.UndoKind, Args: args}
	return c, engine.URL
}

// freeAddress is that of a port which nobody listens at: the launcher does, to reach
// the pod there again.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// podRun is the run that keeps the canary, of the service that is described.
func podRun() *drill.Run {
	return &drill.Run{ID: "01R", Plan: drill.RunStarted{Service: "support"}}
}

// TestPodsByTheirOwnAddress: production's router knows the pod by its own address, as
// live modes need it (docs/kubernetes.md). An idle moment of its engine is no sign that
// nothing is sent to it: it can be adopted, and is neither released nor collected.
func TestPodsByTheirOwnAddress(t *testing.T) {
	for name, reached := range map[string]string{"reached directly": "", "reached through a port": freeAddress(t)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := writeService(dir); err != nil {
				t.Fatal(err)
			}
			t.Chdir(dir)
			c, own := podCanary(t, reached, map[string]any{"running": map[string]any{}})
			describe(t, routerAt(t, own))
			o := &adoptOptions{}
			o.File = "drkit.yaml"
			says, err := o.servesNow(t.Context(), nil, podRun(), []drill.ChangeState{c})
			if err != nil || !strings.Contains(says, "router chat of region eu-west-1") {
				t.Errorf("adopt: %q, %v", says, err)
			}
			g, err := o.collectorOf(nil, "", podRun())
			if err != nil {
				t.Fatal(err)
			}
			r, err := replicaOf(t.Context(), c)
			if err != nil || r == nil {
				t.Fatal(r, err)
			}
			if err := g.unused(t.Context(), "01R", []served{{c, r}}); errext.StatusOf(err) != errext.Refused || !strings.Contains(fmt.Sprint(err), "sends requests to it") {
				t.Errorf("release: %v", err)
			}
			if why := g.receives(t.Context(), r); !strings.Contains(why, "sends requests to it") {
				t.Errorf("gc: %q", why)
			}
		})
	}
}

// TestPodsThatAreOver: an engine that has ended in its pod serves nobody, although a port
// through the API server takes connections to it; one that a router lists stays.
func TestPodsThatAreOver(t *testing.T) {
	for name, listed := range map[string]bool{"no router lists it": false, "a router lists it": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := writeService(dir); err != nil {
				t.Fatal(err)
			}
			t.Chdir(dir)
			c, own := podCanary(t, freeAddress(t), map[string]any{"terminated": map[string]any{"exitCode": 1, "reason": "Error"}})
			if !listed {
				own = "http://127.0.0.9:8000"
			}
			describe(t, routerAt(t, own))
			o := &adoptOptions{}
			o.File = "drkit.yaml"
			g, err := o.collectorOf(nil, "", podRun())
			if err != nil {
				t.Fatal(err)
			}
			r, err := replicaOf(t.Context(), c)
			if err != nil || r == nil {
				t.Fatal(r, err)
			}
			if why := g.receives(t.Context(), r); (why != "") != listed {
				t.Errorf("gc: %q", why)
			}
		})
	}
}
