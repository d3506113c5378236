package kubernetes

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	sigsyaml "sigs.k8s.io/yaml"
)

func fromYAML(t *testing.T, text string) unstructured.Unstructured {
	t.Helper()
	all, err := objects(specOf(text).Deploy[0])
	if err != nil || len(all) != 1 {
		t.Fatalf("%d objects in %q: %v", len(all), text, err)
	}
	return all[0].Unstructured
}

// canaryLabels are all that a canary carries when nothing is kept.
var canaryLabels = labels.Set{LabelRun: testRun, LabelReplica: "target-canary", labelManaged: FieldManager}

// TestSelectors: the rules of the API. An empty map of a Service selects nothing, an
// empty LabelSelector everything; an expression can match labels that are not there.
func TestSelectors(t *testing.T) {
	kind := func(resource string) selecting {
		for _, s := range selectors {
			if s.Resource == resource {
				return s
			}
		}
		t.Fatalf("no selector of %s", resource)
		return selecting{}
	}
	for _, c := range []struct {
		name, resource, selector string
		with                     labels.Set
		matches                  bool
	}{
		{"a service of others", "services", "{app: chat}", nil, false},
		{"a service without a selector", "services", "{}", nil, false},
		{"a service by a kept label", "services", "{app: chat}", labels.Set{"app": "chat"}, true},
		{"a service that wants more", "services", "{app: chat, tier: gold}", labels.Set{"app": "chat"}, false},
		{"a replica set", "replicasets", "{matchLabels: {app: chat}}", labels.Set{"app": "chat"}, true},
		{"a budget of everything", "poddisruptionbudgets", "{}", nil, true},
		{"a budget of what is not batch", "poddisruptionbudgets", "{matchExpressions: [{key: batch, operator: DoesNotExist}]}", nil, true},
		{"a budget of what is not test", "poddisruptionbudgets", "{matchExpressions: [{key: env, operator: NotIn, values: [test]}]}", nil, true},
		{"a budget of others", "poddisruptionbudgets", "{matchExpressions: [{key: app, operator: In, values: [chat, code]}]}", nil, false},
		{"a pool", "inferencepools", "{matchLabels: {app: vllm}}", labels.Set{"app": "vllm"}, true},
		{"a pool of others", "inferencepools", "{matchLabels: {app: vllm}}", nil, false},
		{"everything that drkit makes", "services", "{app.kubernetes.io/managed-by: drkit}", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl, selects, err := kind(c.resource).claim(fromYAML(t, "apiVersion: v1\nkind: X\nmetadata: {name: chat}\nspec: {selector: "+c.selector+"}"))
			if err != nil {
				t.Fatal(err)
			}
			got := selects && len(matching(labels.Merge(canaryLabels, c.with), []claim{cl})) > 0
			if got != c.matches {
				t.Errorf("matches %v, want %v (%+v)", got, c.matches, cl)
			}
		})
	}
	old := selectors[9] // inferencepools of v1alpha2: a map
	if cl, selects, err := old.claim(fromYAML(t, "apiVersion: v1\nkind: X\nspec: {selector: {app: vllm}}")); err != nil || !selects || len(matching(labels.Set{"app": "vllm"}, []claim{cl})) != 1 {
		t.Errorf("a pool of v1alpha2: %v, %v", selects, err)
	}
	if _, _, err := kind("services").claim(fromYAML(t, "apiVersion: v1\nkind: X\nspec: {selector: {app: [1]}}")); err == nil {
		t.Error("a selector that is not understood was passed over")
	}
}

// TestRouterDiscovery: routers find engines by labels that stand in their arguments.
func TestRouterDiscovery(t *testing.T) {
	for _, c := range []struct {
		name, container, namespace string
		with                       labels.Set
		matches                    bool
	}{
		{"by a label that the canary has", `args: [--service-discovery, k8s, --k8s-namespace, dr-drill, "--k8s-label-selector=model=chat"]`, "routers", labels.Set{"model": "chat"}, true},
		{"by another label", `args: [--service-discovery, k8s, --k8s-namespace, dr-drill, --k8s-label-selector, model=chat]`, "routers", nil, false},
		{"in another namespace", `args: [--service-discovery, k8s, --k8s-namespace, serving, --k8s-label-selector, model=chat]`, "routers", labels.Set{"model": "chat"}, false},
		{"every pod of the namespace", `args: [--service-discovery, k8s_pod_ip, --k8s-namespace, dr-drill]`, "routers", nil, true},
		{"every pod, by an empty selector", `args: [--service-discovery, k8s, --k8s-namespace, dr-drill, "--k8s-label-selector="]`, "routers", nil, true},
		{"several words, all namespaces", `args: [--service-discovery, --selector, app=chat, role=decode, --port, "8000"]`, "routers", labels.Set{"app": "chat", "role": "decode"}, true},
		{"several words, of which one is lacking", `args: [--service-discovery, --selector, app=chat, role=decode, --port, "8000"]`, "routers", labels.Set{"app": "chat"}, false},
		{"in a shell's script", `command: [sh, -c, "exec router --service-discovery --decode-selector 'app=chat' --port 1"]`, "routers", labels.Set{"app": "chat"}, true},
		{"no router", `args: [serve, /models]`, "dr-drill", labels.Set{"app": "chat"}, false},
		{"no discovery, elsewhere", `args: [--selector, app=chat]`, "tools", labels.Set{"app": "chat"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var spec corev1.PodSpec
			if err := sigsyaml.Unmarshal([]byte("containers: [{name: router, "+c.container+"}]"), &spec); err != nil {
				t.Fatal(err)
			}
			by := matching(labels.Merge(canaryLabels, c.with), routerClaims("Deployment routers/router", c.namespace, "dr-drill", spec))
			if (len(by) > 0) != c.matches || c.matches && !strings.Contains(by[0], "Deployment routers/router") {
				t.Errorf("found by %v, want %v", by, c.matches)
			}
		})
	}
}

func TestPriority(t *testing.T) {
	never, other := priorityClass{name: "canary", value: -10, never: true}, priorityClass{name: "batch", value: -100}
	for _, c := range []struct {
		name, asked string
		classes     []priorityClass
		want, err   string
	}{
		{"none at all: priority 0, and nothing is lower", "", nil, "", ""},
		{"only higher ones", "", []priorityClass{{name: "production", value: 1000}}, "", ""},
		{"one that never pre-empts", "", []priorityClass{other, never}, "canary", ""},
		{"the lowest of two", "", []priorityClass{never, {name: "last", value: -500, never: true}}, "last", ""},
		{"too high to be taken", "", []priorityClass{{name: "urgent", value: 900, never: true}, other}, "", "could pre-empt those of class batch"},
		{"a default that pre-empts", "", []priorityClass{{name: "usual", value: 50, usual: true}}, "", "get usual (50)"},
		{"a lower class", "", []priorityClass{other}, "", "could pre-empt those of class batch"},
		{"asked for", "canary", []priorityClass{other, never}, "canary", ""},
		{"asked for and pre-empting", "batch", []priorityClass{other}, "", "may pre-empt"},
		{"asked for and not there", "x", []priorityClass{other}, "", "no priority class x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Options{PriorityClass: c.asked}.priority(c.classes)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}
