package kubernetes

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drkit/internal/errext"
)

// modelMount is where KServe puts the model.
const modelMount = "/mnt/models"

// predictorKeys are KServe's own in a predictor; the rest is a pod's specification.
var predictorKeys = []string{"minReplicas", "maxReplicas", "scaleTarget", "scaleMetric", "scaleMetricType", "autoScaling", "containerConcurrency", "timeout",
	"canaryTrafficPercent", "logger", "batcher", "labels", "annotations", "deploymentStrategy", "storageUri", "storageUris", "model"}

// inferenceService renders a predictor that brings its own containers. One that names
// a model is rendered with its runtime (byRuntime).
func inferenceService(o object) (t corev1.PodTemplateSpec, err error) {
	predictor, found, err := unstructured.NestedMap(o.Object, "spec", "predictor")
	if err != nil || !found {
		return t, errors.Join(err, errors.New("has no spec.predictor"))
	}
	if predictor["workerSpec"] != nil {
		return t, severalNodes("spec.predictor.workerSpec")
	}
	if predictor["containers"] == nil {
		return t, errext.WithHint(errors.New("its predictor has neither containers nor a model: KServe puts its container together itself"), ownPod)
	}
	for _, name := range predictorKeys {
		if name == "storageUris" && predictor[name] != nil {
			return t, errext.WithHint(errors.New("KServe's webhook brings the model in by storageUris"), ownPod)
		}
		delete(predictor, name)
	}
	if err := into(predictor, &t.Spec); err != nil {
		return t, fmt.Errorf("spec.predictor: %w", err)
	}
	t.Labels, t.Annotations = predicted(o, nil)
	for i, c := range t.Spec.Containers {
		for j, e := range c.Env {
			if e.Name != "STORAGE_URI" {
				continue
			}
			t.Spec.Containers[i].Env = append(c.Env[:j:j], c.Env[j+1:]...)
			return t, mountModel(&t.Spec, &t.Spec.Containers[i], e.Value)
		}
	}
	return t, nil
}

// llmInferenceService renders the single-node workload of a service whose template has
// a whole container. What KServe would take from its presets in the cluster is not
// guessed.
func llmInferenceService(o object) (t corev1.PodTemplateSpec, err error) {
	for _, name := range []string{"worker", "prefill"} {
		if _, has, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", name); has {
			return t, severalNodes("spec." + name)
		}
	}
	fields, found, err := unstructured.NestedMap(o.Object, "spec", "template")
	if err != nil || !found {
		return t, errext.WithHint(errors.Join(err, errors.New("has no spec.template: KServe takes the container from its presets in the cluster")), ownPod)
	}
	if err := into(fields, &t.Spec); err != nil {
		return t, fmt.Errorf("spec.template: %w", err)
	}
	for i := range t.Spec.Containers {
		c := &t.Spec.Containers[i]
		if c.Image == "" || len(c.Command)+len(c.Args) == 0 {
			return t, errext.WithHint(fmt.Errorf("container %s of spec.template has no image or no command: KServe takes them from its presets in the cluster", c.Name), ownPod)
		}
		if c.Name != "main" {
			continue
		}
		uri, _, err := unstructured.NestedString(o.Object, "spec", "model", "uri")
		if err != nil {
			return t, fmt.Errorf("spec.model.uri: %w", err)
		}
		if err := mountModel(&t.Spec, c, uri); err != nil {
			return t, err
		}
	}
	return t, nil
}

func severalNodes(where string) error {
	return errext.WithHint(fmt.Errorf("%s spreads a replica over several pods, which need their controller", where), "rehearse a variant that fits one pod, named by canary.workload")
}

// mountModel brings a model in as KServe does from a claim: read-only, at /mnt/models.
// Other schemes are fetched by a storage-initializer that KServe's webhook injects.
func mountModel(spec *corev1.PodSpec, c *corev1.Container, uri string) error {
	if uri == "" {
		return nil
	}
	rest, isClaim := strings.CutPrefix(uri, "pvc://")
	claim, path, _ := strings.Cut(rest, "/")
	if !isClaim || claim == "" {
		scheme, _, _ := strings.Cut(uri, "://")
		return errext.WithHint(fmt.Errorf("the model comes from %s://…, by a storage-initializer that KServe's webhook adds to its own pods", scheme), ownPod)
	}
	v := corev1.Volume{Name: "kserve-pvc-source"}
	v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim, ReadOnly: true}
	spec.Volumes = append(spec.Volumes, v)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: modelMount, SubPath: path, ReadOnly: true})
	return nil
}
