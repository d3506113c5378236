package kubernetes

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// podServer answers as an API server does for one pod: it lists it by label, and
// applies a merge patch (RFC 7386) of its annotations.
func podServer(t *testing.T, forget bool) *Launcher {
	t.Helper()
	annotations := map[string]any{AnnotExpires: "2026-03-04T05:06:07Z", "team": "llm"}
	pod := func() map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "canary", "namespace": "dr", "uid": "u-1",
			"labels": map[string]any{LabelRun: "01R", LabelReplica: "target-canary"}, "annotations": annotations}}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodGet && r.URL.Path == "/api/v1/namespaces/dr/pods":
			list := map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{}, "items": []any{}}
			if r.URL.Query().Get("labelSelector") == LabelRun+"=01R,"+LabelReplica+"=target-canary" {
				list["items"] = []any{pod()}
			}
			_ = json.NewEncoder(w).Encode(list)
		case r.Method == http.MethodPatch && r.URL.Path == "/api/v1/namespaces/dr/pods/canary" && r.Header.Get("Content-Type") == "application/merge-patch+json":
			var patch struct {
				Metadata struct {
					UID         string
					Annotations map[string]any
				}
			}
			raw, _ := io.ReadAll(r.Body)
			if json.Unmarshal(raw, &patch) != nil || patch.Metadata.UID != "u-1" {
				http.Error(w, "conflict", http.StatusConflict)
				return
			}
			for k, v := range patch.Metadata.Annotations {
				if v == nil {
					delete(annotations, k)
				} else if !forget {
					annotations[k] = v
				}
			}
			_ = json.NewEncoder(w).Encode(pod())
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	l, err := newLauncher(&rest.Config{Host: srv.URL}, Options{Namespace: "dr"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAdopt(t *testing.T) {
	l := podServer(t, false)
	if err := l.Adopt(t.Context(), "01R", "other", "mei"); err == nil || !strings.Contains(err.Error(), "0 pods") {
		t.Errorf("a pod that is not there: %v", err)
	}
	if err := l.Adopt(t.Context(), "01R", "target-canary", "mei@desk"); err != nil {
		t.Fatal(err)
	}
	found, err := l.labelled(t.Context(), LabelRun+"=01R,"+LabelReplica+"=target-canary")
	if err != nil || len(found) != 1 || found[0].AdoptedBy() != "mei@desk" || !found[0].Expires().IsZero() {
		t.Errorf("%v %+v", err, found)
	}
	if err := podServer(t, true).Adopt(t.Context(), "01R", "target-canary", "mei@desk"); err == nil {
		t.Error("a mark that is not kept is believed")
	}
}
