package kubernetes

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"drkit/internal/pipenet"
)

// fakeAPI answers as an API server does about one namespace: it keeps what is made there
// and judges nothing. Whoever may not do something gets 403 by "verb resource".
type fakeAPI struct {
	mu      sync.Mutex
	objects map[string]map[string]any // "resource/name"
	made    []string                  // names of pods, in order
	asked   []string                  // "verb resource/name Accept"
	denied  []string
	serves  map[string][]string // group/version → kinds
	count   int
}

// newAPI has it on a network of the bubble, and a launcher that reaches no other.
func newAPI(t *testing.T, o Options) (*fakeAPI, *Launcher) {
	t.Helper()
	f := &fakeAPI{objects: map[string]map[string]any{}, serves: map[string][]string{"leaderworkerset.x-k8s.io/v1": {"LeaderWorkerSet"}, "apps/v1": {"Deployment"}}}
	f.put("serviceaccounts", map[string]any{"metadata": map[string]any{"name": "default"}})
	n := &pipenet.Network{}
	t.Cleanup(n.Close)
	if _, err := n.Serve("api:80", f); err != nil {
		t.Fatal(err)
	}
	o.Namespace, o.Reach = "dr", Direct
	l, err := newLauncher(&rest.Config{Host: "http://api", Transport: n.Client().Transport}, o)
	if err != nil {
		t.Fatal(err)
	}
	return f, l
}

func (f *fakeAPI) put(resource string, o map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep(resource, o)
}

func (f *fakeAPI) keep(resource string, o map[string]any) {
	meta := o["metadata"].(map[string]any)
	f.count++
	meta["uid"], meta["namespace"] = fmt.Sprintf("uid-%d", f.count), "dr"
	if o["kind"] == nil {
		o["kind"], o["apiVersion"] = "Thing", "v1"
	}
	f.objects[resource+"/"+meta["name"].(string)] = o
}

// status is what the cluster says of a pod.
func (f *fakeAPI) status(t *testing.T, name string, s corev1.PodStatus) {
	t.Helper()
	var fields map[string]any
	text, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.objects["pods/"+name]
	if err != nil || o == nil {
		t.Fatalf("status of %s: %v", name, err)
	}
	o["status"] = fields
}

// deny takes verbs of resources ("list pods") away from everybody, and gives the others back.
func (f *fakeAPI) deny(all ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.denied = all
}

// pods are the names of those that are there, sorted.
func (f *fakeAPI) pods() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(f.objects)) {
		if name, ok := strings.CutPrefix(key, "pods/"); ok {
			names = append(names, name)
		}
	}
	return names
}

// pod is one as it was made.
func (f *fakeAPI) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := json.Marshal(f.objects["pods/"+name])
	pod := &corev1.Pod{}
	if err == nil {
		err = json.Unmarshal(text, pod)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func (f *fakeAPI) remove(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.objects, key)
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	gv, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/"), "/namespaces/dr/")
	part := strings.Split(rest, "/")
	switch {
	case r.URL.Path == "/version":
		fmt.Fprint(w, "{}")
	case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		fmt.Fprint(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","status":{"allowed":true}}`)
	case f.serves[gv] != nil && rest == "":
		f.discover(w, gv)
	case len(part) == 3 && part[2] == "log":
		fmt.Fprintln(w, "2026-03-04T05:06:07Z RuntimeError: last words of "+part[1])
	case len(part) == 2:
		f.one(w, r, part[0], part[1])
	case rest != "" || !strings.Contains(gv, ".") && strings.Count(gv, "/") > 0 || strings.HasSuffix(gv, "classes"):
		f.list(w, r, part[0])
	default:
		f.fails(w, http.StatusNotFound, "NotFound")
	}
}

func (f *fakeAPI) discover(w io.Writer, gv string) {
	var all []any
	for _, kind := range f.serves[gv] {
		all = append(all, map[string]any{"kind": kind, "name": strings.ToLower(kind) + "s"})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "APIResourceList", "groupVersion": gv, "resources": all})
}

func (f *fakeAPI) fails(w http.ResponseWriter, code int, reason string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code})
}

func (f *fakeAPI) list(w http.ResponseWriter, r *http.Request, resource string) {
	if slices.Contains(f.denied, "list "+resource) {
		f.fails(w, http.StatusForbidden, "Forbidden")
		return
	}
	selector, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
	items := []any{}
	for _, key := range slices.Sorted(maps.Keys(f.objects)) {
		if !strings.HasPrefix(key, resource+"/") {
			continue
		}
		set := labels.Set{}
		given, _ := f.objects[key]["metadata"].(map[string]any)["labels"].(map[string]any)
		for k, v := range given {
			set[k] = v.(string)
		}
		if selector.Matches(set) {
			items = append(items, f.objects[key])
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "ThingList", "apiVersion": "v1", "metadata": map[string]any{}, "items": items})
}

func (f *fakeAPI) one(w http.ResponseWriter, r *http.Request, resource, name string) {
	key := resource + "/" + name
	verb := map[string]string{http.MethodGet: "get", http.MethodPatch: "patch", http.MethodDelete: "delete"}[r.Method]
	f.asked = append(f.asked, verb+" "+key+" "+r.Header.Get("Accept"))
	switch {
	case slices.Contains(f.denied, verb+" "+resource):
		f.fails(w, http.StatusForbidden, "Forbidden")
		return
	case verb == "patch":
		var o map[string]any
		_ = json.NewDecoder(r.Body).Decode(&o)
		if r.URL.Query().Get("dryRun") == "" {
			f.keep(resource, o)
			f.made = append(f.made, name)
		}
		_ = json.NewEncoder(w).Encode(o)
		return
	case f.objects[key] == nil:
		f.fails(w, http.StatusNotFound, "NotFound")
		return
	case verb == "delete":
		var o struct{ Preconditions struct{ UID string } }
		_ = json.NewDecoder(r.Body).Decode(&o)
		if o.Preconditions.UID != f.objects[key]["metadata"].(map[string]any)["uid"] {
			f.fails(w, http.StatusConflict, "Conflict")
			return
		}
		delete(f.objects, key)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
		return
	}
	_ = json.NewEncoder(w).Encode(f.objects[key])
}
