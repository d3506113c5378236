package kubernetes

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A selecting resource picks pods by their labels: it would send requests to the
// canary, adopt it, or count it among its own.
type selecting struct {
	schema.GroupVersionResource
	path []string // of the selector
	does string   // what it would do to the canary
	core bool     // part of every cluster: one that may not be listed is a reason to refuse
}

// selectors lists the kinds of resources that are looked at, besides the arguments of
// routers (discovery). NetworkPolicies are left out: they send nothing.
var selectors = []selecting{
	{gvr("", "v1", "services"), []string{"spec", "selector"}, "would send requests to it", true},
	{gvr("", "v1", "replicationcontrollers"), []string{"spec", "selector"}, "would adopt it", true},
	{gvr("apps", "v1", "replicasets"), []string{"spec", "selector"}, "would adopt it", true},
	{gvr("apps", "v1", "deployments"), []string{"spec", "selector"}, "would count it as its own", true},
	{gvr("apps", "v1", "statefulsets"), []string{"spec", "selector"}, "would adopt it", true},
	{gvr("apps", "v1", "daemonsets"), []string{"spec", "selector"}, "would adopt it", true},
	{gvr("batch", "v1", "jobs"), []string{"spec", "selector"}, "would adopt it", true},
	{gvr("policy", "v1", "poddisruptionbudgets"), []string{"spec", "selector"}, "would count it: a bare pod makes the budget fail for production's pods", true},
	{gvr("inference.networking.k8s.io", "v1", "inferencepools"), []string{"spec", "selector"}, "would send requests to it", false},
	{gvr("inference.networking.x-k8s.io", "v1alpha2", "inferencepools"), []string{"spec", "selector"}, "would send requests to it", false},
	{gvr("networking.istio.io", "v1", "serviceentries"), []string{"spec", "workloadSelector", "labels"}, "would send requests to it", false},
	{gvr("cilium.io", "v2", "ciliumlocalredirectpolicies"), []string{"spec", "redirectBackend", "localEndpointSelector"}, "would send requests to it", false},
	{gvr("argoproj.io", "v1alpha1", "rollouts"), []string{"spec", "selector"}, "would count it as its own", false},
	{gvr("apps.kruise.io", "v1alpha1", "clonesets"), []string{"spec", "selector"}, "would adopt it", false},
}

func gvr(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

// claim is one resource's wish for pods with certain labels.
type claim struct {
	by   string // "Service vllm"
	does string
	labels.Selector
}

// claim reads a selector in either of its forms: a map of labels, in which nothing
// selects nothing, and a LabelSelector, in which an empty one selects everything.
func (s selecting) claim(u unstructured.Unstructured) (claim, bool, error) {
	c := claim{by: fmt.Sprintf("%s %s", u.GetKind(), u.GetName()), does: s.does}
	fields, found, err := unstructured.NestedMap(u.Object, s.path...)
	if err != nil || !found {
		return c, false, err
	}
	if labelSelector(fields) || len(fields) == 0 && s.structured() {
		var ls metav1.LabelSelector
		if err := into(fields, &ls); err != nil {
			return c, false, err
		}
		c.Selector, err = metav1.LabelSelectorAsSelector(&ls)
		return c, err == nil, err
	}
	set := labels.Set{}
	for key, v := range fields {
		text, ok := v.(string)
		if !ok {
			return c, false, fmt.Errorf("%s has a selector that is not understood", c.by)
		}
		set[key] = text
	}
	c.Selector = labels.SelectorFromSet(set)
	return c, len(set) > 0, nil
}

func labelSelector(fields map[string]any) bool {
	_, byMap := fields["matchLabels"].(map[string]any)
	_, byList := fields["matchExpressions"].([]any)
	return byMap || byList
}

// structured reports whether an empty selector is a LabelSelector's, which selects all.
func (s selecting) structured() bool {
	return s.Resource != "services" && s.Resource != "replicationcontrollers" && s.Group != "inference.networking.x-k8s.io" && s.Resource != "serviceentries"
}

// matching are the claims that the pod's labels meet.
func matching(pod labels.Set, claims []claim) (out []string) {
	for _, c := range claims {
		if c.Matches(pod) {
			out = append(out, fmt.Sprintf("%s selects %q and %s", c.by, c.Selector, c.does))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// selectorFlags are the flags by which routers find engines on Kubernetes, and the one
// that names the namespace in which they look.
var (
	selectorFlags   = []string{"--k8s-label-selector", "--selector", "--prefill-selector", "--decode-selector", "--endpoint-selector"}
	namespaceFlags  = []string{"--k8s-namespace", "--service-discovery-namespace", "--pool-namespace", "--endpoint-selector-namespace"}
	discoveryByPods = regexp.MustCompile(`^k8s(_pod_ip)?$`)
)

// routerClaims are what the arguments of routers in a pod's template select. namespace
// is where the workload itself runs, target the canary's.
func routerClaims(by, namespace, target string, spec corev1.PodSpec) (out []claim) {
	for _, c := range spec.Containers {
		words := words(slices.Concat(c.Command, c.Args))
		where, told := flag(words, namespaceFlags)
		if told && where[0] != target {
			continue
		}
		if !told && namespace != target && !slices.Contains(words, "--service-discovery") {
			continue
		}
		does := "finds the engines that it sends requests to"
		texts, selects := flag(words, selectorFlags)
		kind, _ := flag(words, []string{"--service-discovery"})
		if !selects && len(kind) > 0 && discoveryByPods.MatchString(kind[0]) {
			out = append(out, claim{by, does + " by every pod of the namespace", labels.Everything()})
		}
		for _, text := range texts {
			if s, err := labels.Parse(text); err == nil && !s.Empty() {
				out = append(out, claim{by, does, s})
			} else if err == nil {
				out = append(out, claim{by, does + " by every pod of the namespace", s})
			}
		}
	}
	return out
}

// words splits arguments, those of a shell's script too.
func words(args []string) (out []string) {
	for _, a := range args {
		for _, w := range strings.Fields(a) {
			out = append(out, strings.Trim(w, `"'`))
		}
	}
	return out
}

// flag collects the values of flags, also those that take several words.
func flag(words, names []string) (values []string, found bool) {
	for i, w := range words {
		name, v, joined := strings.Cut(w, "=")
		switch {
		case !slices.Contains(names, name) && !slices.Contains(names, w):
		case joined && slices.Contains(names, name):
			values, found = append(values, strings.Trim(v, `"'`)), true
		default:
			found = true
			var several []string
			for _, next := range words[i+1:] {
				if strings.HasPrefix(next, "-") {
					break
				}
				several = append(several, next)
			}
			values = append(values, strings.Join(several, ","))
		}
	}
	return values, found && len(values) > 0
}
