package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"

	"drkit/internal/errext"
)

// Patch changes the canary's pod: a strategic merge patch of a Pod (a mapping), or a
// JSON patch (a list). Name is the file that it came from.
type Patch struct {
	Name string
	Data []byte
}

// apply patches a pod. The result is read strictly: a patch cannot put in what no pod has.
// other is the rest of its group: what a strategic merge patch says of a container that
// only the other pods have is for them.
func (p Patch) apply(pod *corev1.Pod, other corev1.PodSpec) (*corev1.Pod, error) {
	patched, err := p.patched(pod, other)
	if err != nil {
		return nil, errext.WithHint(errext.WithStatus(fmt.Errorf("patch %s: %w", p.Name, err), errext.Usage),
			"a patch is a part of a Pod (metadata, spec), or a list of JSON patch operations on one")
	}
	return patched, nil
}

func (p Patch) patched(pod *corev1.Pod, other corev1.PodSpec) (*corev1.Pod, error) {
	before, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	change, err := sigsyaml.YAMLToJSONStrict(p.Data)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(bytes.TrimSpace(change), []byte("[")) {
		operations, err := jsonpatch.DecodePatch(change)
		if err != nil {
			return nil, err
		}
		after, err := operations.Apply(before)
		if err != nil {
			return nil, err
		}
		return podIn(after)
	}
	var fields, patch map[string]any
	if err := errors.Join(json.Unmarshal(before, &fields), json.Unmarshal(change, &patch)); err != nil {
		return nil, err
	}
	leaveOut(patch, "containers", containerNames(other.Containers), containerNames(pod.Spec.Containers))
	leaveOut(patch, "initContainers", containerNames(other.InitContainers), containerNames(pod.Spec.InitContainers))
	if fields, err = merged(fields, patch, reflect.TypeFor[corev1.Pod](), ""); err != nil {
		return nil, err
	}
	return podFrom(fields)
}

// leaveOut takes the containers out of a patch that others have and the pod has not.
func leaveOut(patch map[string]any, list string, others, own []string) {
	spec, _ := patch["spec"].(map[string]any)
	entries, ok := spec[list].([]any)
	if !ok {
		return
	}
	spec[list] = slices.DeleteFunc(entries, func(e any) bool {
		fields, _ := e.(map[string]any)
		name, _ := fields["name"].(string)
		return slices.Contains(others, name) && !slices.Contains(own, name)
	})
}

func containerNames(list []corev1.Container) (names []string) {
	for _, c := range list {
		names = append(names, c.Name)
	}
	return names
}

func podIn(text []byte) (*corev1.Pod, error) {
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	return podFrom(fields)
}

// podFrom reads a pod strictly.
func podFrom(fields map[string]any) (*corev1.Pod, error) {
	out := &corev1.Pod{}
	return out, into(fields, out)
}
