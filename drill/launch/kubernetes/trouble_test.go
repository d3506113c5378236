package kubernetes

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsyaml "sigs.k8s.io/yaml"

	"drkit/drill"
)

// podWith is a pod of an engine with the given status.
func podWith(t *testing.T, status string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := sigsyaml.UnmarshalStrict([]byte("spec: {containers: [{name: engine}, {name: proxy}]}\nstatus: "+status), pod); err != nil {
		t.Fatalf("%s: %v", status, err)
	}
	return pod
}

func event(reason, message string) corev1.Event {
	return corev1.Event{Reason: reason, Message: message, LastTimestamp: metav1.NewTime(time.Unix(1, 0))}
}

func unschedulable(message string) string {
	return `{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: '` + strings.ReplaceAll(message, "'", "''") + `'}]}`
}

func engineState(state string) string {
	return `{phase: Pending, containerStatuses: [{name: proxy, state: {running: {}}}, {name: engine, state: ` + state + `}]}`
}

// TestTroubles: statuses as the scheduler and the kubelet of Kubernetes 1.37 write them.
func TestTroubles(t *testing.T) {
	for _, c := range []struct {
		name, status string
		events       []corev1.Event
		class        string // "": none
		fatal        bool
	}{
		{"no GPU left", unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: not eligible due to preemptionPolicy=Never."), nil, "Capacity", false},
		{"no GPU and a taint", unschedulable("0/5 nodes are available: 2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint(s)."), nil, "Capacity", false},
		{"a taint", unschedulable("0/3 nodes are available: 3 node(s) had untolerated taint {nvidia.com/gpu: present}. no new claims to deallocate"), nil, "Tainted", false},
		{"a taint, new wording", unschedulable("0/1 nodes are available: 1 node(s) had untolerated taint(s)."), nil, "Tainted", false},
		{"no claim", unschedulable(`0/1 nodes are available: persistentvolumeclaim "chat-weights" not found. not found`), nil, "VolumeClaimMissing", true},
		{"unbound claim", unschedulable("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."), nil, "VolumeUnbound", false},
		{"another zone", unschedulable("0/2 nodes are available: 2 node(s) had volume node affinity conflict."), nil, "VolumeNodeAffinity", false},
		{"another GPU type", unschedulable("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."), nil, "NodeSelector", false},
		{"something else", unschedulable("0/2 nodes are available: 2 node(s) exceed max volume count."), nil, "Unschedulable", false},
		{"image not there", engineState("{waiting: {reason: ErrImagePull, message: 'failed to pull and unpack image: 2.example/dr/vllm: not found'}}"), nil, "ImagePull", true},
		{"image not there yet", engineState("{waiting: {reason: ErrImagePull, message: 'dial tcp: i/o timeout'}}"), nil, "ImagePull", false},
		{"image, backed off", engineState("{waiting: {reason: ImagePullBackOff, message: Back-off pulling image}}"), nil, "ImagePull", true},
		{"image forbidden", engineState("{waiting: {reason: ErrImagePull, message: '401 Unauthorized'}}"), nil, "ImagePull", true},
		{"secret missing", engineState(`{waiting: {reason: CreateContainerConfigError, message: 'secret "hub" not found'}}`), nil, "ContainerConfig", true},
		{"no such command", engineState(`{terminated: {reason: StartError, exitCode: 128, message: 'exec: "vllmm": executable file not found in $PATH'}}`), nil, "ContainerStart", true},
		{"out of memory", engineState("{terminated: {reason: OOMKilled, exitCode: 137}}"), nil, "OOMKilled", true},
		{"an end of its own", engineState("{terminated: {reason: Error, exitCode: 1}}"), nil, "", false},
		{"killed for its probe", engineState("{terminated: {reason: Error, exitCode: 143}}"), []corev1.Event{event("Killing", "Container engine failed startup probe, will be restarted")}, "ProbeKilled", true},
		{"about to be killed", engineState("{running: {}}"), []corev1.Event{event("Killing", "Container engine failed liveness probe, will be restarted")}, "ProbeKilled", false},
		{"another container's probe", engineState("{running: {}}"), []corev1.Event{event("Killing", "Container engine-proxy failed liveness probe, will be restarted")}, "", false},
		{"init failed", "{phase: Failed, initContainerStatuses: [{name: fetch, state: {terminated: {reason: Error, exitCode: 2, message: \"working\\nNoSuchBucket: prod-euw1\\n\"}}}]}", nil, "InitFailed", true},
		{"init crash loop", "{phase: Pending, initContainerStatuses: [{name: fetch, state: {waiting: {reason: CrashLoopBackOff, message: back-off 10s}}}]}", nil, "CrashLoop", true},
		{"init done", "{phase: Pending, initContainerStatuses: [{name: fetch, state: {terminated: {reason: Completed, exitCode: 0}}}]}", nil, "", false},
		{"sidecar ended", "{phase: Running, containerStatuses: [{name: engine, state: {running: {}}}, {name: proxy, state: {terminated: {reason: Error, exitCode: 3}}}]}", nil, "SidecarFailed", true},
		{"evicted", "{phase: Failed, reason: Evicted, message: 'The node was low on resource: ephemeral-storage.'}", nil, "PodFailed", true},
		{"device gone", "{phase: Failed, reason: UnexpectedAdmissionError, message: 'Allocate failed due to no healthy devices present'}", nil, "PodFailed", true},
		{"configmap missing", engineState("{waiting: {reason: ContainerCreating}}"), nil, "", false},
		{"secret of a volume", "{phase: Pending, containerStatuses: [{name: engine, state: {waiting: {reason: ContainerCreating}}}]}", []corev1.Event{event("FailedMount", `MountVolume.SetUp failed for volume "keys" : secret "keys" not found`)}, "VolumeSource", true},
		{"a slow volume", "{phase: Pending, containerStatuses: [{name: engine, state: {waiting: {reason: ContainerCreating}}}]}", []corev1.Event{event("FailedAttachVolume", "Multi-Attach error for volume")}, "FailedAttachVolume", false},
		{"a volume that came up", engineState("{running: {}}"), []corev1.Event{event("FailedMount", "timed out")}, "", false},
		{"serving", engineState("{running: {}}"), nil, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := troubles(podWith(t, c.status), c.events, "engine")
			if c.class == "" {
				if len(all) > 0 {
					t.Errorf("%+v, want none", all)
				}
				return
			}
			if len(all) == 0 || all[0].Class != c.class || all[0].Fatal != c.fatal || all[0].Line == "" || all[0].Hint == "" {
				t.Errorf("%+v, want %s (fatal %v) with words and a hint", all, c.class, c.fatal)
			}
		})
	}
	all := troubles(podWith(t, "{phase: Failed, initContainerStatuses: [{name: fetch, state: {terminated: {exitCode: 2, message: \"working\\nNoSuchBucket: prod-euw1\\n\"}}}]}"), nil, "engine")
	if !strings.Contains(all[0].Line, "exit status 2: NoSuchBucket: prod-euw1") {
		t.Errorf("the last words of an init container: %q", all[0].Line)
	}
}

// TestPatience: what a cluster may get over ends the wait only when it lasts, and not
// while nodes are being added. Capacity is waited for as long as it takes.
func TestPatience(t *testing.T) {
	replica := func(status string, events ...corev1.Event) *Replica {
		r := &Replica{container: "engine", since: map[string]time.Time{}, exited: make(chan struct{})}
		r.watching.Do(func() {}) // nobody to ask
		r.saw(podWith(t, status), events, "", time.Now())
		return r
	}
	later := func(r *Replica) drill.Trouble {
		for class := range r.since {
			r.since[class] = time.Now().Add(-3 * time.Minute)
		}
		trouble, _ := r.Trouble()
		return trouble
	}
	tainted := unschedulable("0/3 nodes are available: 3 node(s) had untolerated taint(s).")
	if now, ok := replica(tainted).Trouble(); !ok || now.Fatal {
		t.Errorf("at once: %+v", now)
	}
	if got := later(replica(tainted)); !got.Fatal {
		t.Errorf("after minutes: %+v", got)
	}
	if got := later(replica(tainted, event("TriggeredScaleUp", "pod triggered scale-up"))); got.Fatal {
		t.Errorf("while nodes are added: %+v", got)
	}
	if got := later(replica(unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."))); got.Fatal || got.Class != "Capacity" {
		t.Errorf("capacity: %+v", got)
	}
	routed := replica("{phase: Running}")
	routed.saw(podWith(t, "{phase: Running}"), nil, "chat-x7f2k", time.Now())
	if got, ok := routed.Trouble(); !ok || !got.Fatal || got.Class != "Routed" {
		t.Errorf("routed: %+v", got)
	}
}

func TestMilestones(t *testing.T) {
	for _, c := range []struct {
		name, status string
		events       []corev1.Event
		want         string
	}{
		{"no place yet", `{conditions: [{type: PodScheduled, status: "False"}]}`, nil, ""},
		{"placed", `{conditions: [{type: PodScheduled, status: "True"}]}`, nil, "capacity"},
		{"one image of two", `{conditions: [{type: PodScheduled, status: "True"}], containerStatuses: [{name: engine, imageID: x}, {name: proxy}]}`, nil, "capacity"},
		{"pulled", `{conditions: [{type: PodScheduled, status: "True"}], containerStatuses: [{name: engine, imageID: x}, {name: proxy, imageID: y}]}`,
			[]corev1.Event{event("Pulled", `Successfully pulled image "x" in 4m2s`), event("Pulled", `Container image "y" already present on machine`)}, "capacity image"},
		{"cached", `{conditions: [{type: PodScheduled, status: "True"}], containerStatuses: [{name: engine, imageID: x}, {name: proxy, imageID: y}]}`,
			[]corev1.Event{event("Pulled", `Container image "x" already present on machine and can be accessed by the pod`)}, "capacity image(cached)"},
	} {
		var got []string
		for _, m := range milestones(podWith(t, c.status), c.events) {
			if m.Cached {
				m.Name += "(cached)"
			}
			got = append(got, m.Name)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %q, want %q", c.name, s, c.want)
		}
	}
}

func TestEnded(t *testing.T) {
	for status, want := range map[string]string{
		engineState("{running: {}}"):                                    "",
		engineState("{terminated: {reason: Error, exitCode: 1}}"):       "exit status 1",
		engineState("{terminated: {reason: Completed, exitCode: 0}}"):   "exit status 0",
		engineState("{terminated: {reason: OOMKilled, exitCode: 137}}"): "exit status 137 (OOMKilled)",
		"{phase: Failed, reason: Evicted, message: low on memory}":      "the pod failed: Evicted low on memory",
		"{phase: Pending}": "",
	} {
		if got := ended(podWith(t, status), "engine"); got != want {
			t.Errorf("%s: %q, want %q", status, got, want)
		}
	}
}

// TestLogLines: a broken stream is read again from the second of its last line; no line
// is lost and none comes twice. A carriage return ends a line.
func TestLogLines(t *testing.T) {
	var got []string
	l := &logReader{yield: func(s string, _ error) bool { got = append(got, s); return true }}
	first := "2026-11-30T11:00:00.1Z a\n2026-11-30T11:00:01.5Z b\n2026-11-30T11:00:01.6Z 10%\r50%\r100%\n"
	again := "2026-11-30T11:00:01.5Z b\n2026-11-30T11:00:01.6Z 10%\r50%\r100%\n2026-11-30T11:00:01.7Z c\n2026-11-30T11:00:02Z \nno stamp\n2026-11-30T11:00:03Z last"
	_ = l.read(strings.NewReader(first))
	if s := l.since(); s.UTC().Format(time.RFC3339) != "2026-11-30T11:00:01Z" {
		t.Errorf("asked again since %v", s)
	}
	_ = l.read(strings.NewReader(again))
	if want := "a|b|10%|50%|100%|c||no stamp|last"; strings.Join(got, "|") != want {
		t.Errorf("%q, want %q", strings.Join(got, "|"), want)
	}
}
