package kubernetes

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// inOrder sorts lists whose order the two may give otherwise, as the library puts new
// entries first or last by rules of its own, and drops the nulls that it leaves in new
// entries: for a pod they say nothing.
func inOrder(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			if v[k] = inOrder(v[k]); v[k] == nil {
				delete(v, k)
			}
		}
	case []any:
		for i := range v {
			v[i] = inOrder(v[i])
		}
		slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return v
}

// TestMergedAsKubernetesDoes makes random pods and patches, and holds the result against
// Kubernetes' own library.
func TestMergedAsKubernetesDoes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	name := func() string { return pick("a", "b", "c") }
	some := func(p float64) bool { return r.Float64() < p }
	list := func(one func() map[string]any, key string) []any {
		seen, all := map[any]bool{}, []any{}
		for range r.IntN(4) {
			if e := one(); !seen[e[key]] {
				seen[e[key]] = true
				all = append(all, e)
			}
		}
		return all
	}
	env := func() map[string]any { return map[string]any{"name": name(), "value": name()} }
	container := func(patch bool) map[string]any {
		c := map[string]any{"name": name()}
		if some(.7) {
			c["env"] = list(env, "name")
		}
		if some(.5) {
			c["args"] = []any{name(), name()}
		}
		if some(.4) {
			c["resources"] = map[string]any{"limits": map[string]any{pick("cpu", "memory"): "1"}}
		}
		if some(.3) {
			c["image"] = name()
		}
		if some(.3) {
			c["volumeMounts"] = list(func() map[string]any { return map[string]any{"mountPath": "/" + name(), "name": name()} }, "mountPath")
		}
		if patch && some(.2) {
			c[pick("env", "resources", "image", "livenessProbe")] = nil
		}
		if patch && some(.15) {
			c["$patch"] = "delete"
		}
		return c
	}
	pod := func(patch bool) map[string]any {
		spec := map[string]any{"containers": list(func() map[string]any { return container(patch) }, "name")}
		if some(.5) {
			spec["tolerations"] = []any{map[string]any{"key": name(), "operator": "Exists"}}
		}
		if some(.5) {
			spec["nodeSelector"] = map[string]any{name(): name()}
		}
		if some(.4) {
			spec["volumes"] = list(func() map[string]any { return map[string]any{"name": name(), "emptyDir": map[string]any{}} }, "name")
		}
		if some(.3) {
			spec["imagePullSecrets"] = list(func() map[string]any { return map[string]any{"name": name()} }, "name")
		}
		if patch && some(.3) {
			spec[pick("nodeSelector", "tolerations", "volumes", "hostNetwork")] = nil
		}
		if patch && some(.1) && spec["nodeSelector"] != nil {
			spec["nodeSelector"].(map[string]any)["$patch"] = "replace"
		}
		meta := map[string]any{"finalizers": []any{name()}, "labels": map[string]any{name(): name()}}
		return map[string]any{"metadata": meta, "spec": spec}
	}
	for i := range 5000 {
		before, patch := pod(false), pod(true)
		if before["spec"].(map[string]any)["nodeSelector"] == nil { // the library then drops what was to be put in its place
			if n, ok := patch["spec"].(map[string]any)["nodeSelector"].(map[string]any); ok {
				delete(n, "$patch")
			}
		}
		a, _ := json.Marshal(before)
		b, _ := json.Marshal(patch)
		raw, err := strategicpatch.StrategicMergePatch(a, b, corev1.Pod{})
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		var want, x, y map[string]any
		json.Unmarshal(raw, &want)
		json.Unmarshal(a, &x)
		json.Unmarshal(b, &y)
		got, err := merged(x, y, reflect.TypeFor[corev1.Pod](), "")
		again, _ := json.Marshal(got)
		var have map[string]any
		json.Unmarshal(again, &have)
		if err != nil || !reflect.DeepEqual(inOrder(have), inOrder(want)) {
			t.Fatalf("%d: %v\n%s\n%s\ngot  %s\nwant %s", i, err, a, b, again, raw)
		}
	}
}

// TestMergeKeepsItsOrder: what was there keeps its place, which matters to env and to
// init containers; what is new follows.
func TestMergeKeepsItsOrder(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "engine"}, {Name: "sidecar"}}}}
	out, err := Patch{Name: "p", Data: []byte("spec: {containers: [{name: new}, {name: sidecar, image: s:2}]}")}.apply(pod, corev1.PodSpec{})
	if err != nil || len(out.Spec.Containers) != 3 {
		t.Fatalf("%v %+v", err, out)
	}
	if c := out.Spec.Containers; c[0].Name != "engine" || c[1].Name != "sidecar" || c[1].Image != "s:2" || c[2].Name != "new" {
		t.Errorf("%+v", c)
	}
	for patch, says := range map[string]string{
		"spec: {containers: [{image: x}]}":                            "has no name",
		"spec: {$retainKeys: [containers]}":                           "$retainKeys is not taken here",
		"spec: {nodeSelector: {$patch: sideways}}":                    "want merge, replace or delete",
		"spec: {containers: [{name: new, $setElementOrder/env: []}]}": "is not taken here",
	} {
		if _, err := (Patch{Name: "p", Data: []byte(patch)}).apply(pod, corev1.PodSpec{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", patch, err)
		}
	}
	out, err = Patch{Name: "p", Data: []byte("spec: {containers: [{name: only}, {$patch: replace}]}")}.apply(pod, corev1.PodSpec{})
	if err != nil || len(out.Spec.Containers) != 1 || out.Spec.Containers[0].Name != "only" {
		t.Errorf("%v %+v", err, out)
	}
}
