package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drkit/internal/errext"
)

// A predictor that names a model gets its container from a ServingRuntime: KServe's
// controller merges the two. This does the same from the deploy files, for what depends
// on nothing else; what KServe takes from its own configuration, from the cluster or
// from its webhooks is refused by name.

// engineContainer is the container of a runtime that KServe merges the model's into.
const engineContainer = "kserve-container"

// runtimeKeys are what of a runtime's spec says nothing of a single pod.
var runtimeKeys = []string{"supportedModelFormats", "multiModel", "disabled", "protocolVersions", "workerSpec", "grpcEndpoint", "grpcDataEndpoint", "httpDataEndpoint", "replicas", "builtInAdapter"}

// runtimePodKeys are those of a runtime's spec that KServe hands to the pod.
var runtimePodKeys = []string{"nodeSelector", "affinity", "tolerations", "volumes", "imagePullSecrets", "schedulerName", "resourceClaims"}

// modelKeys are what of predictor.model is no part of a container.
var modelKeys = []string{"modelFormat", "runtime", "runtimeVersion", "storageUri", "storage", "protocolVersion"}

// ofModel is the predictor.model of an InferenceService, nil for one without.
func ofModel(o object) map[string]any {
	if o.GetKind() != "InferenceService" {
		return nil
	}
	model, _, _ := unstructured.NestedMap(o.Object, "spec", "predictor", "model")
	return model
}

// runtimeOf finds the runtime that an InferenceService names: a ServingRuntime comes
// before a ClusterServingRuntime, and the region's own before that of every region.
func runtimeOf(o object, all []object) (object, error) {
	name, _ := ofModel(o)["runtime"].(string)
	if name == "" {
		return object{}, errext.WithHint(errors.New("spec.predictor.model names no runtime: KServe chooses one of those in the cluster"), "write the one that production runs by as spec.predictor.model.runtime, and list its file in drkit.yaml")
	}
	var found []object
	for _, r := range all {
		here := r.GetKind() == "ServingRuntime" && (r.GetNamespace() == o.GetNamespace() || r.GetNamespace() == "" || o.GetNamespace() == "")
		if r.GetName() == name && (here || r.GetKind() == "ClusterServingRuntime") {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		return object{}, errext.WithHint(fmt.Errorf("its runtime %s is not among the deploy files", name),
			"kubectl get servingruntime,clusterservingruntime -o yaml shows it: put it into the files that drkit.yaml lists")
	}
	before := func(a, b object) int {
		return cmp.Or(strings.Compare(b.GetKind(), a.GetKind()), strings.Compare(b.Region, a.Region))
	}
	slices.SortStableFunc(found, before)
	for _, r := range found[1:] {
		if before(found[0], r) == 0 && !reflect.DeepEqual(found[0].Object["spec"], r.Object["spec"]) {
			return object{}, errext.WithHint(fmt.Errorf("the deploy files have two runtimes %s that differ, %s (namespace %q) and %s (namespace %q): which one production runs by is not known", name, found[0], found[0].GetNamespace(), r, r.GetNamespace()),
				"write metadata.namespace into the InferenceService, or list the files of one alone")
		}
	}
	return found[0], nil
}

// byRuntime renders a predictor as KServe does from its model and its runtime.
func byRuntime(o object, all []object) (t corev1.PodTemplateSpec, notes []string, err error) {
	r, err := runtimeOf(o, all)
	if err != nil {
		return t, nil, err
	}
	runtime, _, err := unstructured.NestedMap(r.Object, "spec")
	if err != nil {
		return t, nil, fmt.Errorf("%s: spec: %w", r, err)
	}
	predictor, _, err := unstructured.NestedMap(o.Object, "spec", "predictor")
	if err != nil {
		return t, nil, err
	}
	model := ofModel(o)
	if err := errors.Join(followed(r, runtime), modelFollowed(predictor, model), supports(r, runtime, model)); err != nil {
		return t, nil, err
	}
	if t.Spec, err = podOfRuntime(runtime, predictor); err != nil {
		return t, nil, err
	}
	engine, others, err := containersOfRuntime(o, r, runtime, model)
	if err != nil {
		return t, nil, err
	}
	t.Spec.Containers = append(append([]corev1.Container{engine}, others...), t.Spec.Containers...)
	for i := range t.Spec.Containers {
		c := &t.Spec.Containers[i]
		c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "INFERENCE_SERVICE_NAME" })
		c.Env = append(c.Env, corev1.EnvVar{Name: "INFERENCE_SERVICE_NAME", Value: o.GetName()})
	}
	uri, _ := model["storageUri"].(string)
	if err := mountModel(&t.Spec, &t.Spec.Containers[0], uri); err != nil {
		return t, nil, err
	}
	t.Labels, t.Annotations = predicted(o, runtime)
	if !sized(model) {
		notes = append(notes, fmt.Sprintf("%s sets no CPU and memory in its own predictor.model.resources: KServe's configuration may give production's pods others than the canary's, which are %s's", o, r.GetName()))
	}
	return t, notes, nil
}

// followed refuses what of a runtime is done by more than a merge.
func followed(r object, runtime map[string]any) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(runtime)) {
		known := slices.Contains(runtimeKeys, key) || slices.Contains(runtimePodKeys, key) || slices.Contains([]string{"containers", "labels", "annotations"}, key)
		if !known {
			errs = append(errs, errext.WithHint(fmt.Errorf("%s: what KServe makes of spec.%s is not followed", r, key), ownPod))
		}
	}
	if off, _ := runtime["disabled"].(bool); off {
		errs = append(errs, errext.WithHint(fmt.Errorf("%s is disabled: KServe does not use it", r), "name the runtime that production runs by"))
	}
	if several, _ := runtime["multiModel"].(bool); several {
		errs = append(errs, errext.WithHint(fmt.Errorf("%s serves several models, which an agent brings in", r), ownPod))
	}
	if m := ownSettings.FindString(r.GetName() + " " + r.GetAnnotations()["serving.kserve.io/server-type"]); m != "" {
		errs = append(errs, errext.WithHint(fmt.Errorf("%s: KServe adds settings of its own to a server of kind %s", r, m), ownPod))
	}
	return errors.Join(errs...)
}

// ownSettings are kinds of servers that KServe configures beyond their runtime.
var ownSettings = regexp.MustCompile(`(?i)mlserver|triton|torchserve`)

// modelFollowed refuses what a predictor gets by KServe's webhook.
func modelFollowed(predictor, model map[string]any) error {
	switch {
	case predictor["workerSpec"] != nil:
		return severalNodes("spec.predictor.workerSpec")
	case predictor["storageUris"] != nil:
		return errext.WithHint(errors.New("KServe's webhook brings the model in by storageUris"), ownPod)
	case model["storage"] != nil:
		return errext.WithHint(errors.New("the model comes by spec.predictor.model.storage, from a Secret of KServe's, by a storage-initializer that its webhook adds"), ownPod)
	}
	return nil
}

// supports refuses a runtime that KServe would refuse for the model's format.
func supports(r object, runtime, model map[string]any) error {
	format, _, _ := unstructured.NestedString(model, "modelFormat", "name")
	formats, _, err := unstructured.NestedSlice(runtime, "supportedModelFormats")
	if err != nil {
		return fmt.Errorf("%s: spec.supportedModelFormats: %w", r, err)
	}
	var names []string
	for _, f := range formats {
		fields, _ := f.(map[string]any)
		name, _ := fields["name"].(string)
		names = append(names, name)
	}
	if !slices.Contains(names, format) {
		return errext.WithHint(fmt.Errorf("%s does not serve the format %q", r, format), "it serves "+strings.Join(names, ", ")+"; KServe would refuse the InferenceService")
	}
	return nil
}

// podOfRuntime merges what a runtime and a predictor say of the pod besides the
// runtime's containers.
func podOfRuntime(runtime, predictor map[string]any) (spec corev1.PodSpec, err error) {
	before := map[string]any{}
	for _, key := range runtimePodKeys {
		if v, has := runtime[key]; has {
			before[key] = v
		}
	}
	for _, key := range predictorKeys {
		delete(predictor, key)
	}
	after, err := merged(before, predictor, reflect.TypeFor[corev1.PodSpec](), "")
	if err != nil {
		return spec, fmt.Errorf("spec.predictor: %w", err)
	}
	if err := into(after, &spec); err != nil {
		return spec, fmt.Errorf("spec.predictor: %w", err)
	}
	for _, c := range spec.Containers {
		if c.Name == "transformer-container" || c.Name == engineContainer {
			return spec, errext.WithHint(fmt.Errorf("spec.predictor has a container %s beside its model: what KServe makes of it is not followed", c.Name), ownPod)
		}
	}
	return spec, nil
}

// containersOfRuntime merges the model into the runtime's container and lists the others.
func containersOfRuntime(o, r object, runtime, model map[string]any) (engine corev1.Container, others []corev1.Container, err error) {
	list, _, err := unstructured.NestedSlice(runtime, "containers")
	if err != nil {
		return engine, nil, fmt.Errorf("%s: spec.containers: %w", r, err)
	}
	found := false
	for _, raw := range list {
		fields, _ := raw.(map[string]any)
		switch fields["name"] {
		case engineContainer:
			found = true
			engine, err = mergedEngine(o, r, fields, model)
		case "transformer-container":
			err = errext.WithHint(fmt.Errorf("%s has a transformer-container: what KServe makes of it is not followed", r), ownPod)
		default:
			var c corev1.Container
			if err = into(fields, &c); err != nil {
				err = fmt.Errorf("%s: spec.containers: %w", r, err)
			}
			others = append(others, c)
		}
		if err != nil {
			return engine, nil, err
		}
	}
	if !found {
		return engine, nil, errext.WithHint(fmt.Errorf("%s has no container %s, into which KServe merges the model's", r, engineContainer), ownPod)
	}
	return engine, others, nil
}

// mergedEngine is the engine's container: the model's fields over the runtime's, by
// name where lists have names, the model's arguments after the runtime's, and names of
// the InferenceService in place of placeholders.
func mergedEngine(o, r object, runtime, model map[string]any) (c corev1.Container, err error) {
	patch := maps.Clone(model)
	for _, key := range append(slices.Clone(modelKeys), "name") {
		delete(patch, key)
	}
	fields, err := merged(runtime, patch, reflect.TypeFor[corev1.Container](), "spec.predictor.model")
	if err != nil {
		return c, err
	}
	first, _ := runtime["args"].([]any)
	more, _ := model["args"].([]any)
	if args := slices.Concat(first, more); len(args) > 0 {
		fields["args"] = args
	}
	filled, err := fillIn(fields, o)
	if err != nil {
		return c, errext.WithHint(fmt.Errorf("%s: %w", r, err), ownPod)
	}
	if err := into(filled.(map[string]any), &c); err != nil {
		return c, fmt.Errorf("the container of %s with spec.predictor.model: %w", r, err)
	}
	version, _ := model["runtimeVersion"].(string)
	return c, tagged(&c, r, version)
}

var (
	anyPlaceholder = regexp.MustCompile(`\{\{.*?\}\}|\{\{`)
	placeholder    = regexp.MustCompile(`^\{\{-?\s*\.(Name|Namespace|Labels\.([A-Za-z_]\w*)|Annotations\.([A-Za-z_]\w*))\s*-?\}\}$`)
)

// fillIn replaces placeholders in every text of a container.
func fillIn(v any, o object) (any, error) {
	var err error
	switch v := v.(type) {
	case string:
		text := anyPlaceholder.ReplaceAllStringFunc(v, func(p string) string {
			value, known := metaOf(p, o)
			if !known {
				err = errors.Join(err, fmt.Errorf("the placeholder %s is not followed", p))
			}
			return value
		})
		return text, err
	case []any:
		out := make([]any, len(v))
		for i := range v {
			one, failed := fillIn(v[i], o)
			out[i], err = one, errors.Join(err, failed)
		}
		return out, err
	case map[string]any:
		out := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			one, failed := fillIn(v[key], o)
			out[key], err = one, errors.Join(err, failed)
		}
		return out, err
	}
	return v, nil
}

// metaOf is what a placeholder stands for. A namespace that the file does not name is
// not known here.
func metaOf(p string, o object) (value string, known bool) {
	m := placeholder.FindStringSubmatch(p)
	switch {
	case m == nil:
		return "", false
	case m[1] == "Name":
		return o.GetName(), true
	case m[1] == "Namespace":
		return o.GetNamespace(), o.GetNamespace() != ""
	case m[2] != "":
		value, known = o.GetLabels()[m[2]]
	default:
		value, known = o.GetAnnotations()[m[3]]
	}
	return value, known
}

var imageTag = regexp.MustCompile(`:[\w.-]*$`)

// tagged gives an image the tag of model.runtimeVersion, as KServe does with one that is
// not named by digest. Without a version KServe chooses another build of some servers by
// their GPUs, in a way that its versions differ in: that is refused.
func tagged(c *corev1.Container, r object, version string) error {
	if strings.Contains(c.Image, "@sha256:") {
		return nil
	}
	if version != "" {
		c.Image = imageTag.ReplaceAllString(c.Image, "") + ":" + version
		return nil
	}
	gpu := c.Resources.Limits
	_, onGPU := gpu["nvidia.com/gpu"]
	server := strings.ToLower(r.GetName() + " " + r.GetAnnotations()["serving.kserve.io/server-type"])
	changes := onGPU && strings.Contains(server, "huggingface") && !strings.HasSuffix(c.Image, "-gpu") ||
		!onGPU && strings.Contains(server, "vllm")
	if changes {
		return errext.WithHint(fmt.Errorf("KServe may run another build of image %s for a server without a stated runtimeVersion", c.Image), "name the image by digest in the runtime, or write spec.predictor.model.runtimeVersion")
	}
	return nil
}

// sized reports that a model says itself how much CPU and memory it takes.
func sized(model map[string]any) bool {
	for _, of := range []string{"requests", "limits"} {
		list, _, _ := unstructured.NestedMap(model, "resources", of)
		if list["cpu"] == nil || list["memory"] == nil {
			return false
		}
	}
	return true
}

func texts(v any) map[string]string {
	out := map[string]string{}
	fields, _ := v.(map[string]any)
	for key, value := range fields {
		if text, ok := value.(string); ok {
			out[key] = text
		}
	}
	return out
}

// predicted are the labels and annotations that KServe gives to the pods of a predictor:
// its own before those of the InferenceService, and these before the runtime's.
func predicted(o object, runtime map[string]any) (labels, annotations map[string]string) {
	predictor, _, _ := unstructured.NestedMap(o.Object, "spec", "predictor")
	labels = both(both(texts(runtime["labels"]), o.GetLabels()), texts(predictor["labels"]))
	return labels, both(both(texts(runtime["annotations"]), o.GetAnnotations()), texts(predictor["annotations"]))
}

func both(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}
