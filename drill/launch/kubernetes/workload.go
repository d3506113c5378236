package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drkit/drill"
	"drkit/internal/errext"
)

// workload is a resource that starts pods, and the template that it starts them by.
type workload struct {
	object
	template  corev1.PodTemplateSpec
	container string // the engine's
	group     group
	notes     []string // what production's pods have and the canary's may not
}

// templates says where each kind has its pod template, and what else a pod of it gets
// from its controller.
var templates = map[string]func(object) (corev1.PodTemplateSpec, error){
	"Deployment":          at("spec", "template"),
	"ReplicaSet":          at("spec", "template"),
	"DaemonSet":           at("spec", "template"),
	"Rollout":             at("spec", "template"), // Argo Rollouts
	"StatefulSet":         statefulSet,
	"Pod":                 barePod,
	"PodTemplate":         at("template"),
	"LeaderWorkerSet":     leaderWorkerSet,
	"InferenceService":    inferenceService,
	"LLMInferenceService": llmInferenceService,
}

func at(path ...string) func(object) (corev1.PodTemplateSpec, error) {
	return func(o object) (t corev1.PodTemplateSpec, err error) {
		fields, found, err := unstructured.NestedMap(o.Object, path...)
		if err != nil || !found {
			return t, errors.Join(err, fmt.Errorf("has no %s", strings.Join(path, ".")))
		}
		return t, into(fields, &t)
	}
}

func barePod(o object) (corev1.PodTemplateSpec, error) {
	var pod corev1.Pod
	err := into(o.Object, &pod)
	return corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}, err
}

// statefulSet gives a pod of its own what a further replica would get: an empty volume
// of each claim template, made with the pod and removed with it.
func statefulSet(o object) (corev1.PodTemplateSpec, error) {
	t, err := at("spec", "template")(o)
	if err != nil {
		return t, err
	}
	return t, ownVolumes(o, &t.Spec, "spec", "volumeClaimTemplates")
}

func ownVolumes(o object, spec *corev1.PodSpec, path ...string) error {
	claims, _, err := unstructured.NestedSlice(o.Object, path...)
	if err != nil {
		return err
	}
	for _, c := range claims {
		fields, _ := c.(map[string]any)
		delete(fields, "status")
		var claim corev1.PersistentVolumeClaim
		if err := into(fields, &claim); err != nil {
			return fmt.Errorf("volumeClaimTemplates: %w", err)
		}
		v := corev1.Volume{Name: claim.Name}
		v.Ephemeral = &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claim.Spec}}
		spec.Volumes = slices.DeleteFunc(spec.Volumes, func(old corev1.Volume) bool { return old.Name == v.Name })
		spec.Volumes = append(spec.Volumes, v)
	}
	return nil
}

// choose finds the workload of the deploy files that the canary is derived from, and
// the container in it that is the engine.
func (o Options) choose(s drill.Spec) (workload, error) {
	var all []object
	for _, f := range s.Deploy {
		found, err := objects(f)
		if err != nil {
			return workload{}, errext.WithHint(err, "list rendered YAML (helm template, kustomize build) in drkit.yaml's files")
		}
		all = append(all, found...)
	}
	found := o.candidates(all, s.Engines)
	if o.Workload == "" { // a runtime is not run by itself: its InferenceServices are
		found = slices.DeleteFunc(found, func(c object) bool { return strings.HasSuffix(c.GetKind(), "ServingRuntime") })
	}
	switch {
	case len(found) == 0 && o.Workload != "":
		return workload{}, errext.WithHint(fmt.Errorf("the deploy files have no workload %s", o.Workload), "they have "+names(all)+"; see canary.workload")
	case len(found) == 0 && withoutRuntime(all) != nil:
		return workload{}, withoutRuntime(all)
	case len(found) == 0:
		return workload{}, errext.WithHint(errors.New("no workload of the deploy files is known to start an engine"), "they have "+names(all)+"; name one as canary.workload: Kind/name")
	case len(found) > 1:
		return workload{}, errext.WithHint(fmt.Errorf("several workloads of the deploy files start an engine: %s", names(found)), "name the one to rehearse as canary.workload: Kind/name")
	}
	return o.read(found[0], all, s.Engines)
}

// candidates are the workloads that were named, else those that start an engine. What
// a region has of its own stands for the file of every region.
func (o Options) candidates(all []object, engines []drill.DeployEngine) (found []object) {
	for _, c := range all {
		named := c.GetKind()+"/"+c.GetName() == o.Workload || c.GetName() == o.Workload && templates[c.GetKind()] != nil
		if o.Workload != "" && named || o.Workload == "" && startsAny(c, all, engines) {
			found = append(found, c)
		}
	}
	return slices.DeleteFunc(slices.Clone(found), func(c object) bool {
		return c.Region == "" && slices.ContainsFunc(found, func(own object) bool {
			return own.Region != "" && own.GetKind() == c.GetKind() && own.GetName() == c.GetName()
		})
	})
}

// startsAny reports that a workload starts one of the engines, by its runtime perhaps.
func startsAny(c object, all []object, engines []drill.DeployEngine) bool {
	if ofModel(c) != nil {
		if r, err := runtimeOf(c, all); err == nil && slices.ContainsFunc(engines, r.starts) {
			return true
		}
	}
	return slices.ContainsFunc(engines, c.starts)
}

// withoutRuntime says of an InferenceService why its runtime is not known; nil where
// every one has its own among the files.
func withoutRuntime(all []object) error {
	for _, c := range all {
		if ofModel(c) == nil {
			continue
		}
		if _, err := runtimeOf(c, all); err != nil {
			return errext.WithHint(fmt.Errorf("%s: %w", c, err), errext.Hint(err))
		}
	}
	return nil
}

func (o object) starts(e drill.DeployEngine) bool {
	return e.Path == o.Path && e.Kind == o.GetKind() && e.Name == o.GetName()
}

func (o Options) read(c object, all []object, engines []drill.DeployEngine) (workload, error) {
	template := templates[c.GetKind()]
	if template == nil {
		return workload{}, errext.WithHint(fmt.Errorf("%s: a %s cannot be turned into a bare pod", c, c.GetKind()), ownPod)
	}
	w := workload{object: c}
	var err error
	if ofModel(c) != nil {
		w.container = engineContainer
		w.template, w.notes, err = byRuntime(c, all)
	} else {
		w.template, err = template(c)
	}
	if err != nil {
		return workload{}, errext.WithHint(fmt.Errorf("%s: %w", c, err), cmp.Or(errext.Hint(err), "compare it with what the cluster runs: kubectl get pod -o yaml"))
	}
	if c.GetKind() == "LeaderWorkerSet" {
		if w.group, err = groupOf(c); err != nil {
			return w, errext.WithHint(fmt.Errorf("%s: %w", c, err), "compare it with what the cluster runs: kubectl get leaderworkerset -o yaml")
		}
		w.group.engine, w.notes = w.workerEngine(engines), w.group.unlike
	}
	if w.container == "" || o.Container != "" {
		w.container, err = o.engine(w, engines)
	}
	return w, err
}

// workerEngine is the container of a group's workers that runs the engine's part: the
// one that is known to, else the first.
func (w workload) workerEngine(engines []drill.DeployEngine) string {
	list := w.group.worker.Spec.Containers
	for _, c := range list {
		if slices.ContainsFunc(engines, func(e drill.DeployEngine) bool { return w.starts(e) && e.Container == c.Name }) {
			return c.Name
		}
	}
	if len(list) == 0 {
		return ""
	}
	return list[0].Name
}

// ownPod is the way out for everything that drkit cannot derive.
const ownPod = "put the pod that its controller makes (kubectl get pod NAME -o yaml, without status) into the region's files as a Pod, and name it as canary.workload: Pod/NAME"

// engine is the container that serves.
func (o Options) engine(w workload, engines []drill.DeployEngine) (string, error) {
	var known, all []string
	for _, c := range w.template.Spec.Containers {
		all = append(all, c.Name)
		if slices.ContainsFunc(engines, func(e drill.DeployEngine) bool { return w.starts(e) && e.Container == c.Name }) {
			known = append(known, c.Name)
		}
	}
	switch {
	case o.Container != "" && slices.Contains(all, o.Container):
		return o.Container, nil
	case o.Container != "":
		return "", errext.WithHint(fmt.Errorf("%s has no container %s", w, o.Container), "it has "+strings.Join(all, ", ")+"; see canary.container")
	case len(known) == 1:
		return known[0], nil
	case len(all) == 1:
		return all[0], nil
	}
	return "", errext.WithHint(fmt.Errorf("%s: it is not known which of its containers is the engine: %s", w, strings.Join(all, ", ")), "name it as canary.container")
}

// names lists resources that could be meant.
func names(all []object) string {
	var out []string
	for _, o := range all {
		if templates[o.GetKind()] != nil {
			out = append(out, o.GetKind()+"/"+o.GetName()+" ("+o.Path+")")
		}
	}
	if len(out) == 0 {
		return "none that drkit can turn into a pod"
	}
	return strings.Join(out, ", ")
}
