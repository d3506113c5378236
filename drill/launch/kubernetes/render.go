package kubernetes

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"drkit/drill"
	"drkit/internal/errext"
)

// PodName is the name of a replica's pod: the same for every process, so that one that
// knows run and name finds it.
func PodName(run, name string) string { return "drkit-" + name + "-" + strings.ToLower(run) }

// Render derives a replica's pods from the deploy files of a spec: one, or the leader of
// a group and its workers in order. It asks no cluster: the priority class, the endpoint
// and the expiry are set when a pod is made, and so is the leader's address.
func Render(o Options, s drill.Spec) ([]*corev1.Pod, error) {
	w, err := o.choose(s)
	if err != nil {
		return nil, err
	}
	return o.render(w, s)
}

func (o Options) render(w workload, s drill.Spec) (all []*corev1.Pod, err error) {
	for index := range max(1, w.group.size) {
		pod, err := o.member(w, s, index)
		if err != nil {
			return nil, err
		}
		all = append(all, pod)
	}
	return all, nil
}

// member renders one pod of a workload: its only one or a group's leader for 0, else a
// worker.
func (o Options) member(w workload, s drill.Spec, index int) (*corev1.Pod, error) {
	template, engine, other := w.template, w.container, w.group.worker
	if index > 0 {
		template, engine, other = w.group.worker, w.group.engine, w.template
	}
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Spec: *template.Spec.DeepCopy()}
	pod.Labels, pod.Annotations = o.kept(template.Labels), o.kept(template.Annotations)
	for _, p := range o.Patches {
		var err error
		if pod, err = p.apply(pod, other.Spec); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == engine }) {
		return nil, fmt.Errorf("no container %s is left after the patches", engine)
	}
	o.alone(&pod.Spec)
	if w.group.size > 0 {
		inGroup(&pod.Spec, w.group.size, index)
	}
	offline(&pod.Spec, s.Env)
	if err := pin(&pod.Spec, s.Images); err != nil {
		return nil, err
	}
	o.identify(pod, s, w, index)
	pod.Annotations[annotContainer] = engine
	if index == 0 {
		port, err := enginePort(&pod.Spec, engine, w.GetKind())
		if err != nil {
			return nil, err
		}
		pod.Annotations[annotPort] = strconv.Itoa(port)
	}
	errs := []error{readsOfItself(pod), valid(pod)}
	if w.group.size > 1 {
		errs = append(errs, groupNames(pod, w.GetName()))
	}
	return pod, errors.Join(errs...)
}

// kept are the labels or annotations of production that were named to be kept. All
// others stay behind: they are what routers, controllers and meters look for.
func (o Options) kept(all map[string]string) map[string]string {
	out := map[string]string{}
	for key, v := range all {
		if slices.Contains(o.KeepLabels, key) {
			out[key] = v
		}
	}
	return out
}

// identify gives the pod its name and what Find looks for.
func (o Options) identify(pod *corev1.Pod, s drill.Spec, w workload, index int) {
	pod.ObjectMeta = metav1.ObjectMeta{Name: PodName(s.Run, s.Name), Namespace: o.Namespace, Labels: pod.Labels, Annotations: pod.Annotations}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Labels[LabelRun], pod.Labels[LabelReplica], pod.Labels[labelManaged] = s.Run, s.Name, FieldManager
	pod.Annotations[annotDerived] = w.String()
	if index > 0 {
		pod.Name += "-" + strconv.Itoa(index)
		pod.Labels[LabelWorker] = strconv.Itoa(index)
	} else if w.group.size > 1 {
		pod.Annotations[annotSize] = strconv.Itoa(w.group.size)
	}
}

// graceful is the longest time that a canary gets to end: it has no users.
const graceful = 30

// alone takes out of a pod what ties it to others, and what could make it harm them:
// it does not pre-empt (see priority), is not restarted, and takes no name in DNS.
func (o Options) alone(spec *corev1.PodSpec) {
	no, never := false, corev1.PreemptNever
	spec.RestartPolicy, spec.EnableServiceLinks = corev1.RestartPolicyNever, &no
	spec.PriorityClassName, spec.Priority, spec.PreemptionPolicy = "", nil, &never
	spec.NodeName, spec.Hostname, spec.Subdomain, spec.SetHostnameAsFQDN = "", "", "", nil
	spec.ReadinessGates, spec.SchedulingGates, spec.ActiveDeadlineSeconds = nil, nil, nil
	if g := spec.TerminationGracePeriodSeconds; g == nil || *g > graceful {
		grace := int64(graceful)
		spec.TerminationGracePeriodSeconds = &grace
	}
	for i := range spec.Containers { // rules of a container's own would restart it
		spec.Containers[i].RestartPolicy, spec.Containers[i].RestartPolicyRules = nil, nil
	}
}

// offlineEnv keeps engines, and what fetches for them, from a hub.
var offlineEnv = []corev1.EnvVar{
	{Name: "HF_HUB_OFFLINE", Value: "1"}, {Name: "TRANSFORMERS_OFFLINE", Value: "1"}, {Name: "HF_DATASETS_OFFLINE", Value: "1"},
	{Name: "VLLM_NO_USAGE_STATS", Value: "1"}, {Name: "DO_NOT_TRACK", Value: "1"},
}

// offline sets these variables in every container, and those of the spec.
func offline(spec *corev1.PodSpec, more map[string]string) {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			for _, name := range slices.Backward(slices.Sorted(maps.Keys(more))) {
				list[i].Env = setEnv(list[i].Env, corev1.EnvVar{Name: name, Value: more[name]})
			}
			for _, v := range offlineEnv {
				list[i].Env = setEnv(list[i].Env, v)
			}
		}
	}
}

// pin names every image by digest, in the region's registry.
func pin(spec *corev1.PodSpec, images map[string]string) error {
	var errs []error
	one := func(where string, image *string) {
		by, known := images[*image]
		switch {
		case known && strings.Contains(by, "@sha256:"):
			*image = by
		case strings.Contains(*image, "@sha256:") && !known:
			errs = append(errs, errext.WithHint(fmt.Errorf("%s: image %s is not among the release's images", where, *image), "name it in deploy.images, so that verify looks for it in the region's registry"))
		default:
			errs = append(errs, errext.WithHint(fmt.Errorf("%s: no digest is known for image %s", where, *image), "pin it in the deploy file, or build the release with --resolve-images; an image that a patch brings in belongs in deploy.images"))
		}
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			one("container "+list[i].Name, &list[i].Image)
		}
	}
	for _, v := range spec.Volumes {
		if v.Image != nil && v.Image.Reference != "" {
			one("volume "+v.Name, &v.Image.Reference)
		}
	}
	if len(spec.EphemeralContainers) > 0 {
		errs = append(errs, errors.New("ephemeral containers cannot be part of a new pod: remove them"))
	}
	return errors.Join(errs...)
}

var portFlag = regexp.MustCompile(`(?:^|\s)--port[= ]\s*["']?(\d+)`)

// enginePort is where the engine listens: as its arguments say, else its probes, else
// its only declared port, else the default of what starts it.
func enginePort(spec *corev1.PodSpec, container, kind string) (int, error) {
	c := spec.Containers[slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == container })]
	line := strings.Join(slices.Concat(c.Command, c.Args), " ")
	if m := portFlag.FindStringSubmatch(line); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n > 0 && n < 1<<16 {
			return n, nil
		}
		return 0, fmt.Errorf("container %s: --port %s is no port", container, m[1])
	}
	for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		if p == nil || p.HTTPGet == nil {
			continue
		}
		if n := p.HTTPGet.Port.IntValue(); n > 0 {
			return n, nil
		}
		for _, declared := range c.Ports {
			if declared.Name == p.HTTPGet.Port.StrVal {
				return int(declared.ContainerPort), nil
			}
		}
	}
	switch {
	case len(c.Ports) == 1:
		return int(c.Ports[0].ContainerPort), nil
	case kind == "InferenceService":
		return 8080, nil
	case strings.Contains(line, "sglang"):
		return 30000, nil
	}
	return 8000, nil
}

// Serves is the name of the model in the command that the engine will be started by,
// "" where it says none or nothing can be rendered.
func (l *Launcher) Serves(s drill.Spec) string {
	all, err := Render(l.o, s)
	if err != nil {
		return ""
	}
	for _, c := range all[0].Spec.Containers {
		values, found := flag(words(slices.Concat(c.Command, c.Args)), []string{"--served-model-name"})
		if c.Name != all[0].Annotations[annotContainer] || !found {
			continue
		}
		name, _, _ := strings.Cut(values[len(values)-1], ",") // the last of the flags counts, of its names the first
		if strings.ContainsAny(name, "$({") {
			return "" // a variable of the container's
		}
		return name
	}
	return ""
}

var ownLabel = regexp.MustCompile(`^metadata\.(labels|annotations)\['(.+)'\]$`)

// readsOfItself refuses a container that reads a label or an annotation which
// production's pods have and the canary has not: it would get an empty text.
func readsOfItself(pod *corev1.Pod) error {
	var errs []error
	have := map[string]map[string]string{"labels": pod.Labels, "annotations": pod.Annotations}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			for _, e := range c.Env {
				if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
					continue
				}
				m := ownLabel.FindStringSubmatch(e.ValueFrom.FieldRef.FieldPath)
				if m == nil {
					continue
				}
				if _, ok := have[m[1]][m[2]]; !ok {
					errs = append(errs, errext.WithHint(fmt.Errorf("container %s takes %s from the pod's %s %q, which the canary does not carry", c.Name, e.Name, strings.TrimSuffix(m[1], "s"), m[2]),
						"give the variable its value in a file of canary.patches"))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// valid checks what drkit itself puts together; the rest is for the API server to judge.
func valid(pod *corev1.Pod) error {
	var errs []error
	for _, why := range validation.IsDNS1123Label(pod.Name) {
		errs = append(errs, fmt.Errorf("pod name %q: %s", pod.Name, why))
	}
	for _, key := range []string{LabelRun, LabelReplica} {
		for _, why := range validation.IsValidLabelValue(pod.Labels[key]) {
			errs = append(errs, fmt.Errorf("label %s %q: %s", key, pod.Labels[key], why))
		}
	}
	return errors.Join(errs...)
}

// expires is when a leftover may be collected.
func (o Options) expires(now time.Time) string {
	lifetime := o.Lifetime
	if lifetime == 0 {
		lifetime = defaultLifetime
	}
	return now.Add(lifetime).UTC().Format(time.RFC3339)
}
