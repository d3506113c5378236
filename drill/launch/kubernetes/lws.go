package kubernetes

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drkit/internal/errext"
)

// group is what a workload of several pods has besides its leader's template.
type group struct {
	size      int // pods, the leader among them; 0: the workload is no group
	worker    corev1.PodTemplateSpec
	engine    string   // the worker's container whose end is the worker's
	whenReady bool     // workers start when the leader is ready, not when it is there
	unlike    []string // what the controller does for production's groups and drkit does not
}

// maxGroup bounds the pods of a group: a number in a file is not to fill a cluster.
const maxGroup = 128

// Variables that the controller of LeaderWorkerSet sets in every container of a group.
const (
	leaderAddress = "LWS_LEADER_ADDRESS"
	groupSize     = "LWS_GROUP_SIZE"
	workerIndex   = "LWS_WORKER_INDEX"
)

const lwsGroup = "leaderworkerset.sigs.k8s.io/"

// leaderWorkerSet is the template of a group's leader: its own, else the workers'.
func leaderWorkerSet(o object) (corev1.PodTemplateSpec, error) {
	name := "leaderTemplate"
	if _, has, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "leaderWorkerTemplate", name); !has {
		name = "workerTemplate"
	}
	return memberTemplate(o, name)
}

// memberTemplate is one of the two templates of a group, with an empty volume of each
// claim template.
func memberTemplate(o object, name string) (corev1.PodTemplateSpec, error) {
	t, err := at("spec", "leaderWorkerTemplate", name)(o)
	if err != nil {
		return t, err
	}
	return t, ownVolumes(o, &t.Spec, "spec", "leaderWorkerTemplate", "volumeClaimTemplates")
}

// groupOf reads how many pods a LeaderWorkerSet's group has and what its workers are.
func groupOf(o object) (g group, err error) {
	g.size = 1
	size, found, err := unstructured.NestedInt64(o.Object, "spec", "leaderWorkerTemplate", "size")
	switch {
	case err != nil:
		return g, fmt.Errorf("spec.leaderWorkerTemplate.size: %w", err)
	case found && (size < 1 || size > maxGroup):
		return g, fmt.Errorf("spec.leaderWorkerTemplate.size: %d is not between 1 and %d", size, maxGroup)
	case !found || size == 1:
		return g, nil
	}
	g.size = int(size)
	if g.worker, err = memberTemplate(o, "workerTemplate"); err != nil {
		return g, err
	}
	policy, _, err := unstructured.NestedString(o.Object, "spec", "startupPolicy")
	if err != nil {
		return g, fmt.Errorf("spec.startupPolicy: %w", err)
	}
	g.whenReady = policy == "LeaderReady"
	for key := range o.GetAnnotations() {
		if strings.HasSuffix(key, "exclusive-topology") {
			g.unlike = append(g.unlike, "production's groups lie in one topology domain each ("+key+"); the canary's pods go where the scheduler puts them")
		}
	}
	slices.Sort(g.unlike)
	return g, nil
}

// inGroup sets what the controller sets in the containers of a group's pod. The leader's
// address is its own IP, and the workers' are given it when it is known: a name would
// need a headless Service, and no Service may select a canary.
func inGroup(spec *corev1.PodSpec, size, index int) {
	address := corev1.EnvVar{Name: leaderAddress}
	if index == 0 {
		address.ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}
	}
	known := map[string]string{
		"metadata.labels['" + lwsGroup + "worker-index']": strconv.Itoa(index),
		"metadata.annotations['" + lwsGroup + "size']":    strconv.Itoa(size),
	}
	eachContainer(spec, func(c *corev1.Container) {
		for i, e := range c.Env {
			if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
				continue
			}
			if v, ok := known[e.ValueFrom.FieldRef.FieldPath]; ok {
				c.Env[i] = corev1.EnvVar{Name: e.Name, Value: v}
			}
		}
		c.Env = setEnv(c.Env, corev1.EnvVar{Name: workerIndex, Value: strconv.Itoa(index)})
		c.Env = setEnv(c.Env, corev1.EnvVar{Name: groupSize, Value: strconv.Itoa(size)})
		c.Env = setEnv(c.Env, address)
	})
}

// ledBy tells a worker where its leader is.
func ledBy(pod *corev1.Pod, ip string) {
	eachContainer(&pod.Spec, func(c *corev1.Container) {
		c.Env = setEnv(c.Env, corev1.EnvVar{Name: leaderAddress, Value: ip})
	})
}

func eachContainer(spec *corev1.PodSpec, do func(*corev1.Container)) {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			do(&list[i])
		}
	}
}

var (
	hostVariable = regexp.MustCompile(`\$[{(]?HOSTNAME\b`)
	hostCommand  = regexp.MustCompile("(?:^|[\\s;|&(`])hostname(?:\\s+(-[\\w-]+))?(?:[\\s;|&)`\"]|$)")
	ownAddress   = []string{"-i", "-I", "--ip-address", "--all-ip-addresses"} // of hostname: what the canary has as well
)

// groupNames refuses what a group cannot have as bare pods: names of production's pods
// in DNS, under which its workers would find production's leader or nobody, numbers
// taken from the host name, and what the controller sets for TPUs.
func groupNames(pod *corev1.Pod, set string) error {
	names := regexp.MustCompile(`(?:^|[^\w-])(` + regexp.QuoteMeta(set) + `-\d+(?:-\d+)?\.` + regexp.QuoteMeta(set) + `(?:-\d+)?|` +
		regexp.QuoteMeta(set) + `(?:-\d+)?\.[a-z0-9-]+\.svc)\b`)
	var errs []error
	refuse := func(c *corev1.Container, why string) {
		errs = append(errs, errext.WithHint(fmt.Errorf("container %s: %s", c.Name, why),
			"let the command use $(LWS_LEADER_ADDRESS) and $(LWS_WORKER_INDEX), in the deploy files or for the canary alone in a file of canary.patches"))
	}
	eachContainer(&pod.Spec, func(c *corev1.Container) {
		texts := slices.Concat(c.Command, c.Args)
		for _, e := range c.Env {
			texts = append(texts, e.Value)
		}
		for _, text := range texts {
			if m := names.FindStringSubmatch(text); m != nil {
				refuse(c, "it names "+m[1]+", a pod of production's group: bare pods have no such name, and the canary would look for its leader in production")
			}
			if m := hostCommand.FindStringSubmatch(text); hostVariable.MatchString(text) || m != nil && !slices.Contains(ownAddress, m[1]) {
				refuse(c, "it reads the pod's host name, which is not that of a pod of production's group, and which no other pod of the canary can resolve")
			}
		}
		for name := range c.Resources.Limits {
			if name == "google.com/tpu" {
				errs = append(errs, errext.WithHint(fmt.Errorf("container %s: it asks for TPUs, for which the controller sets TPU_WORKER_HOSTNAMES to names that bare pods do not have", c.Name), ownPod))
			}
		}
	})
	return errors.Join(errs...)
}

// setEnv sets a variable: in front, so that others may refer to it, and once.
func setEnv(env []corev1.EnvVar, v corev1.EnvVar) []corev1.EnvVar {
	out := []corev1.EnvVar{v}
	for _, e := range env {
		if e.Name != v.Name {
			out = append(out, e)
		}
	}
	return out
}
