package kubernetes

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
)

// TestServiceSelects: a patch gives the canary a label that a Service of the namespace
// selects; of a group, a worker's label counts as the leader's does.
func TestServiceSelects(t *testing.T) {
	service := func(f *fakeAPI, selector map[string]any) {
		f.put("services", named("front", map[string]any{"kind": "Service", "spec": map[string]any{"selector": selector}}))
	}
	patch := Options{Patches: []Patch{{"labels.yaml", []byte("metadata: {labels: {app: chat}}")}}}
	for _, c := range []struct {
		name     string
		o        Options
		s        drill.Spec
		selector map[string]any
		want     string
	}{
		{"by a patch", patch, spec(t, "deployment.yaml", "Deployment", "chat", "engine"), map[string]any{"app": "chat"}, "Service front selects \"app=chat\" and would send requests to it"},
		{"without the patch", Options{}, spec(t, "deployment.yaml", "Deployment", "chat", "engine"), map[string]any{"app": "chat"}, ""},
		{"a worker alone", Options{}, groupSpec(groupYAML), map[string]any{LabelWorker: "1"}, "pod " + leaderName + "-1 are wanted by others: Service front"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l := newAPI(t, c.o)
				service(f, c.selector)
				f.put("serviceaccounts", named("chat", nil))
				r, err := l.Launch(t.Context(), c.s)
				if c.want == "" {
					if err != nil || r.Stop(t.Context()) != nil {
						t.Errorf("Launch: %v", err)
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), c.want) || errext.StatusOf(err) != errext.Refused {
					t.Errorf("Launch = %v, want %q", err, c.want)
				}
				if len(f.made) != 0 {
					t.Errorf("made %v", f.made)
				}
			})
		})
	}
}

func endpoints(name, uid, ip string) map[string]any {
	return named(name, map[string]any{"kind": "EndpointSlice", "endpoints": []any{map[string]any{"addresses": []any{ip}, "targetRef": map[string]any{"kind": "Pod", "uid": uid}}}})
}

// TestRouted: a pod in an EndpointSlice ends the boot, and whoever collects leftovers is
// told: by the pod's UID, by its address, and for a worker of a group as well.
func TestRouted(t *testing.T) {
	for _, c := range []struct {
		name, of string // the pod that the slice names
		byUID    bool
		want     string
	}{
		{"the leader by its UID", leaderName, true, "EndpointSlice front-x names the canary's pod"},
		{"the leader by its address", leaderName, false, "EndpointSlice front-x names the canary's pod"},
		{"a worker", leaderName + "-2", true, "EndpointSlice front-x names " + leaderName + "-2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l, r := launched(t, groupYAML)
				f.status(t, leaderName, placed("10.0.0.7", false))
				time.Sleep(2 * time.Second)
				f.status(t, leaderName+"-2", placed("10.0.0.9", false))
				f.put("endpointslices", named("empty", map[string]any{"kind": "EndpointSlice", "endpoints": nil})) // as API servers write that of a Service without pods
				f.put("endpointslices", endpoints("others", "uid-of-production", "10.0.0.99"))
				if by, err := r.RoutedBy(t.Context()); by != "" || err != nil {
					t.Errorf("routed by %q, %v", by, err)
				}
				uid, ip := string(f.pod(t, c.of).UID), "10.1.1.1"
				if !c.byUID {
					uid, ip = "", f.pod(t, c.of).Status.PodIP
				}
				f.put("endpointslices", endpoints("front-x", uid, ip))
				time.Sleep(10 * time.Second)
				if got, ok := r.Trouble(); !ok || got.Class != "Routed" || !got.Fatal || !strings.Contains(got.Line, c.want) {
					t.Errorf("trouble %+v, want %q", got, c.want)
				}
				left, err := l.Leftovers(t.Context())
				if err != nil || len(left) != 1 {
					t.Fatalf("leftovers %v, %v", left, err)
				}
				if by, err := left[0].RoutedBy(t.Context()); by != "front-x" || err != nil {
					t.Errorf("routed by %q, %v", by, err)
				}
				f.deny("list endpointslices")
				if by, err := left[0].RoutedBy(t.Context()); err == nil {
					t.Errorf("not allowed to look, and it is routed by %q", by)
				}
				f.deny()
				if err := r.Stop(t.Context()); err != nil || len(f.pods()) != 0 {
					t.Errorf("%v, left %v", err, slices.Clone(f.pods()))
				}
			})
		})
	}
}

// TestRoutedWithoutLeader: of a group that has lost its leader, the worker that a slice
// names need not be the one by which the rest is found.
func TestRoutedWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, r := launched(t, groupYAML)
		f.status(t, leaderName, placed("10.0.0.7", false))
		time.Sleep(2 * time.Second)
		f.put("endpointslices", endpoints("front-x", string(f.pod(t, leaderName+"-2").UID), "10.1.1.1"))
		f.remove("pods/" + leaderName)
		left, err := l.Leftovers(t.Context())
		if err != nil || len(left) != 1 || left[0].Pod() != "dr/"+leaderName+"-1" {
			t.Fatalf("leftovers %v, %v", left, err)
		}
		if by, err := left[0].RoutedBy(t.Context()); by != "front-x" || err != nil {
			t.Errorf("routed by %q, %v", by, err)
		}
		if err := r.Stop(t.Context()); err != nil || len(f.pods()) != 0 {
			t.Errorf("%v, left %v", err, f.pods())
		}
	})
}
