package kubernetes

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drkit/drill"
)

// patience is how long something that the cluster might get over by itself may last,
// unless it is adding nodes. Want of capacity alone is waited for as long as the step
// allows: that wait is a segment of its own.
const patience = 2 * time.Minute

// trouble is a Trouble; waits marks one that becomes fatal when it lasts.
type trouble struct {
	drill.Trouble
	waits bool
}

// troubles reads a pod's status and its events into causes, the surest first.
func troubles(pod *corev1.Pod, events []corev1.Event, engine string) (all []trouble) {
	if pod == nil {
		return nil
	}
	say := func(t trouble, ok bool) {
		if ok {
			all = append(all, t)
		}
	}
	say(podFailed(pod))
	for _, s := range pod.Status.InitContainerStatuses {
		say(containerTrouble(s, "InitFailed"))
		say(waitingTrouble(s))
	}
	for _, s := range pod.Status.ContainerStatuses {
		class := "SidecarFailed"
		if s.Name == engine {
			class = ""
		}
		say(containerTrouble(s, class))
		say(waitingTrouble(s))
	}
	say(probeTrouble(pod, events, engine))
	say(unscheduled(pod))
	say(mountTrouble(pod, events))
	slices.SortStableFunc(all, func(a, b trouble) int { return rank(a) - rank(b) })
	return all
}

func rank(t trouble) int {
	if t.Fatal {
		return 0
	}
	return 1
}

func fatal(class, line, hint string) trouble {
	return trouble{Trouble: drill.Trouble{Class: class, Line: line, Hint: hint, Fatal: true}}
}

// podFailed are the ends of a whole pod that its containers do not explain.
func podFailed(pod *corev1.Pod) (trouble, bool) {
	if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason == "" {
		return trouble{}, false
	}
	line := strings.TrimSpace(pod.Status.Reason + ": " + pod.Status.Message)
	hint := "the node ended the pod, not the engine"
	switch reason := pod.Status.Reason; {
	case reason == "Evicted":
		hint = "the node ran out of what the message names: give the pod requests that cover it"
	case strings.HasPrefix(reason, "OutOf"), reason == "UnexpectedAdmissionError":
		hint = "the node could not give what the scheduler had counted on (a device, most often): look at its device plugin"
	case reason == "NodeLost", reason == "NodeShutdown", reason == "Terminated":
		hint = "the node went away: try again on another one"
	}
	return fatal("PodFailed", line, hint), true
}

// containerTrouble is how a container ended; class is that of an end by itself. The
// engine's own ("") is for its log to explain.
func containerTrouble(s corev1.ContainerStatus, class string) (trouble, bool) {
	t := s.State.Terminated
	if t == nil {
		t = s.LastTerminationState.Terminated
	}
	switch {
	case t == nil:
		return trouble{}, false
	case t.Reason == "OOMKilled":
		return fatal("OOMKilled", fmt.Sprintf("container %s: OOMKilled (exit status %d)", s.Name, t.ExitCode), "raise resources.limits.memory of the container: the host's memory ran out, not the GPU's"), true
	case t.Reason == "ContainerCannotRun", t.Reason == "StartError":
		return fatal("ContainerStart", fmt.Sprintf("container %s: %s: %s", s.Name, t.Reason, firstLine(t.Message)), "the container's command is not in its image, or the runtime cannot start it there"), true
	case class != "" && t.ExitCode != 0:
		line := fmt.Sprintf("container %s ended with exit status %d", s.Name, t.ExitCode)
		if last := lastLine(t.Message); last != "" {
			line += ": " + last
		}
		return fatal(class, line, "the engine cannot serve without it; its last words are in the message, or in its log: kubectl logs POD -c "+s.Name), true
	}
	return trouble{}, false
}

// definite are words of an image error that no further try will change.
var definite = regexp.MustCompile(`(?i)not found|manifest unknown|unauthorized|denied|authentication required|no match for platform|invalid reference|not present with pull policy of Never`)

func waitingTrouble(s corev1.ContainerStatus) (trouble, bool) {
	w := s.State.Waiting
	if w == nil {
		return trouble{}, false
	}
	line := strings.TrimSpace(fmt.Sprintf("container %s: %s: %s", s.Name, w.Reason, w.Message))
	switch w.Reason {
	case "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
		return fatal("ImagePull", line, imageHint), true
	case "ErrImagePull":
		t := fatal("ImagePull", line, imageHint)
		t.Fatal = definite.MatchString(w.Message) // else the kubelet tries once more before it backs off
		return t, true
	case "CreateContainerConfigError", "CreateContainerError":
		return fatal("ContainerConfig", line, "a Secret, a ConfigMap or a key that the container needs is not in the namespace"), true
	case "RunContainerError", "PreCreateHookError", "PreStartHookError", "PostStartHookError":
		return fatal("ContainerStart", line, "the container runtime cannot start it: see the message"), true
	case "CrashLoopBackOff":
		return fatal("CrashLoop", line, "it ends again and again; its log: kubectl logs POD --previous -c "+s.Name), true
	}
	return trouble{}, false
}

const imageHint = "drkit verify looks for the image in the region's registry; the nodes also need leave to pull it (imagePullSecrets, node role)"

var probeEnd = regexp.MustCompile(`failed (startup|liveness) probe`)

// probeTrouble is an engine that the kubelet killed for a probe. The event comes before
// the end: until then the engine may still answer.
func probeTrouble(pod *corev1.Pod, events []corev1.Event, engine string) (trouble, bool) {
	for _, e := range events {
		if e.Reason == "Killing" && probeEnd.MatchString(e.Message) && strings.Contains(e.Message, "ontainer "+engine+" ") {
			t := fatal("ProbeKilled", e.Message, "the start takes longer than the probe allows: raise failureThreshold x periodSeconds of production's startup probe above the measured boot")
			t.Fatal = ended(pod, engine) != ""
			return t, true
		}
	}
	return trouble{}, false
}

var (
	noClaim  = regexp.MustCompile(`persistentvolumeclaim "[^"]*" (not found|is being deleted)`)
	lacking  = regexp.MustCompile(`Insufficient \S+`)
	affinity = regexp.MustCompile(`volume node affinity conflict`)
	tainted  = regexp.MustCompile(`untolerated taint`)
	selector = regexp.MustCompile(`didn't match Pod's node affinity/selector|didn't match pod (anti-)?affinity|didn't match pod topology`)
	unbound  = regexp.MustCompile(`unbound immediate PersistentVolumeClaims`)
)

// unscheduled is why no node took the pod, as the scheduler says it.
func unscheduled(pod *corev1.Pod) (trouble, bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse || c.Message == "" {
			continue
		}
		wait := func(class, hint string) (trouble, bool) {
			return trouble{drill.Trouble{Class: class, Line: c.Message, Hint: hint}, true}, true
		}
		switch m := c.Message; {
		case noClaim.MatchString(m):
			return fatal("VolumeClaimMissing", m, "the weights' volume claim is not in the namespace: make it there, as production's namespace has it"), true
		case lacking.MatchString(m):
			return trouble{Trouble: drill.Trouble{Class: "Capacity", Line: m, Hint: "no node has room: raise the node group, free what is reserved for the recovery, or wait for the autoscaler"}}, true
		case affinity.MatchString(m):
			return wait("VolumeNodeAffinity", "the volume lies in another zone than the nodes that fit: bind it where the GPUs are")
		case unbound.MatchString(m):
			return wait("VolumeUnbound", "a claim of the pod is not bound: look at its events (kubectl describe pvc)")
		case tainted.MatchString(m):
			return wait("Tainted", "the nodes have a taint that the pod does not tolerate: GPU nodes usually do; the deploy files of the region need the toleration")
		case selector.MatchString(m):
			return wait("NodeSelector", "no node has the labels that the pod asks for: compare nodeSelector and affinity with the region's nodes")
		}
		return wait("Unschedulable", "see the scheduler's words")
	}
	return trouble{}, false
}

// scaling reports that something adds nodes for the pod.
func scaling(events []corev1.Event) bool {
	return slices.ContainsFunc(events, func(e corev1.Event) bool { return e.Reason == "TriggeredScaleUp" || e.Reason == "Nominated" })
}

var notMountable = regexp.MustCompile(`(secret|configmap) "[^"]*" not found`)

// mountTrouble is a volume that does not come up while containers are being made.
func mountTrouble(pod *corev1.Pod, events []corev1.Event) (trouble, bool) {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if s.State.Running != nil || s.State.Terminated != nil {
			return trouble{}, false // volumes came before that
		}
	}
	for _, e := range slices.Backward(events) {
		switch {
		case e.Reason == "FailedMount" && notMountable.MatchString(e.Message):
			return fatal("VolumeSource", e.Message, "make it in the canary's namespace, as production's has it"), true
		case e.Reason == "FailedMount", e.Reason == "FailedAttachVolume", e.Reason == "FailedCreatePodSandBox":
			return trouble{drill.Trouble{Class: e.Reason, Line: e.Message, Hint: "the node cannot set the pod up: see the message"}, true}, true
		}
	}
	return trouble{}, false
}

// starting reports that the engine's container has not become ready yet.
func starting(pod *corev1.Pod, engine string) bool {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == engine {
			return !s.Ready
		}
	}
	return true
}

// ended is how the engine's container ended, or the pod without it; "" while neither did.
// The words are those of a process: callers tell signals by them.
func ended(pod *corev1.Pod, engine string) string {
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; s.Name == engine && t != nil {
			text := fmt.Sprintf("exit status %d", t.ExitCode)
			if t.Reason != "" && t.Reason != "Error" && t.Reason != "Completed" {
				text += " (" + t.Reason + ")"
			}
			return text
		}
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return strings.TrimSuffix(fmt.Sprintf("the pod %s: %s", strings.ToLower(string(pod.Status.Phase)), strings.TrimSpace(pod.Status.Reason+" "+pod.Status.Message)), ": ")
	}
	return ""
}

var present = regexp.MustCompile(`already present on machine`)

// milestones are the instants that a pod's status shows: a place on a node, and all its
// images there. An image counts as cached when the node pulled none.
func milestones(pod *corev1.Pod, events []corev1.Event) (out []drill.Milestone) {
	placed := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue
	})
	if !placed {
		return nil
	}
	out = append(out, drill.Milestone{Name: drill.InstantCapacity})
	if len(pod.Status.ContainerStatuses) < len(pod.Spec.Containers) {
		return out
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.ImageID == "" {
			return out
		}
	}
	pulled, cached := 0, 0
	for _, e := range events {
		if e.Reason == "Pulled" {
			pulled++
			if present.MatchString(e.Message) {
				cached++
			}
		}
	}
	return append(out, drill.Milestone{Name: drill.InstantImage, Cached: pulled > 0 && cached == pulled})
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
