package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drkit/drill"
)

// worker is a pod of a group besides its leader, as it was last seen.
type worker struct {
	pod    *corev1.Pod
	events []corev1.Event
	routed string // an EndpointSlice that names it
	words  string // the last that its engine said before it ended
}

// recruits are workers that wait for their leader.
type recruits struct {
	pods      []*corev1.Pod
	whenReady bool
}

// ready reports that a leader's workers may be made: it has an address, and where the
// workload says so it serves.
func (w recruits) ready(leader *corev1.Pod) bool {
	if len(w.pods) == 0 || leader.Status.PodIP == "" {
		return false
	}
	return !w.whenReady || slices.ContainsFunc(leader.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// recruit makes the workers of a leader that has an address, and reports whether all are
// made. Its lock is that of Stop: once a stop has begun no worker is made any more.
func (r *Replica) recruit(ctx context.Context, leader *corev1.Pod) (complete bool) {
	if !r.stopping.TryLock() {
		return false
	}
	defer r.stopping.Unlock()
	for !r.stopped && r.waiting.ready(leader) {
		pod := r.waiting.pods[0]
		ledBy(pod, leader.Status.PodIP)
		ownedBy(pod, leader)
		pod.Annotations[AnnotExpires] = leader.Annotations[AnnotExpires]
		made, err := r.l.apply(ctx, pod, metav1.PatchOptions{})
		if err == nil {
			err = harmless(made)
		}
		r.mu.Lock()
		if r.unmade = ""; err != nil { // tried again: the API server may have been away
			r.unmade = fmt.Sprintf("pod %s: %v", pod.Name, err)
		}
		r.mu.Unlock()
		if err != nil {
			return false
		}
		r.waiting.pods = r.waiting.pods[1:]
	}
	return !r.stopped && len(r.waiting.pods) == 0
}

// ownedBy makes the cluster collect a worker when its leader is gone, whatever became
// of the process that made both.
func ownedBy(pod, leader *corev1.Pod) {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: leader.Name, UID: leader.UID}}
}

// leaderOf is the leader of a pod's group: the pod itself unless it is a worker.
func leaderOf(pod *corev1.Pod) types.UID {
	if pod.Labels[LabelWorker] != "" && len(pod.OwnerReferences) == 1 {
		return pod.OwnerReferences[0].UID
	}
	return pod.UID
}

// belongs reports that a pod is a worker of a leader.
func belongs(pod *corev1.Pod, leader types.UID) bool {
	return pod.UID != leader && leaderOf(pod) == leader
}

// lookAtWorkers reads the workers of a group, makes those that can be made now, and ends
// the replica when one of them has ended or has gone: the group is one engine.
func (r *Replica) lookAtWorkers(ctx context.Context, leader *corev1.Pod, routes bool) {
	if r.size < 2 {
		return
	}
	complete := r.recruit(ctx, leader)
	found, err := r.l.listed(ctx, r.selector())
	if err != nil {
		return // it says nothing about them
	}
	var all []worker
	for _, pod := range found {
		if belongs(pod, leader.UID) {
			all = append(all, r.lookAtWorker(ctx, pod, routes))
		}
	}
	r.mu.Lock()
	r.workers = all
	missing := r.size - 1 - len(all)
	r.lost = ""
	if missing > 0 && complete {
		r.lost = fmt.Sprintf("%d of the group's %d workers are not there", missing, r.size-1)
	}
	lost := r.lost
	r.mu.Unlock()
	for _, w := range all {
		if how := ended(w.pod, w.pod.Annotations[annotContainer]); how != "" {
			r.end(how + " of worker pod " + r.l.o.Namespace + "/" + w.pod.Name)
		}
	}
	if lost != "" {
		r.end(lost)
	}
}

func (r *Replica) lookAtWorker(ctx context.Context, pod *corev1.Pod, routes bool) worker {
	w := worker{pod: pod}
	r.mu.Lock()
	for _, old := range r.workers {
		if old.pod.UID == pod.UID {
			w.events, w.routed, w.words = old.events, old.routed, old.words
		}
	}
	r.mu.Unlock()
	engine := pod.Annotations[annotContainer]
	over := ended(pod, engine) != ""
	if starting(pod, engine) || over {
		if events := r.l.eventsOf(ctx, pod); events != nil {
			w.events = events
		}
	}
	if over && w.words == "" {
		if last := r.l.tail(ctx, pod.Name, engine, 1); len(last) > 0 {
			w.words = last[0]
		}
	}
	if routes && pod.Status.PodIP != "" && w.routed == "" {
		w.routed, _ = r.l.routedTo(ctx, pod)
	}
	return w
}

// Whole says which of a group's workers is not ready yet, nil for a pod alone. A leader
// may serve before: a group is ready when all its pods are, as its controller counts it.
func (r *Replica) Whole() error {
	r.watch()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lacks()
}

func (r *Replica) lacks() error {
	if want := r.size - 1; len(r.workers) < want {
		return fmt.Errorf("%d of the group's %d workers are there", len(r.workers), want)
	}
	for _, w := range r.workers {
		if starting(w.pod, w.pod.Annotations[annotContainer]) {
			return fmt.Errorf("worker pod %s is not ready", w.pod.Name)
		}
	}
	return nil
}

// workerTroubles are what keeps a group from serving that its leader does not show,
// with the pod that it is about.
func (r *Replica) workerTroubles() (all []trouble) {
	if r.unmade != "" {
		all = append(all, trouble{drill.Trouble{Class: "WorkerRefused", Line: r.unmade, Hint: "the API server does not take a worker of the group: see its words"}, true})
	}
	if r.lost != "" {
		all = append(all, fatal("WorkerLost", r.lost, "somebody or something removed them, or the process that was to make them ended: start again"))
	}
	for _, w := range r.workers {
		engine := w.pod.Annotations[annotContainer]
		for _, t := range troubles(w.pod, w.events, engine) {
			t.Line = "worker pod " + w.pod.Name + ": " + t.Line
			all = append(all, t)
		}
		if how := ended(w.pod, engine); how != "" {
			line := "worker pod " + w.pod.Name + ": container " + engine + ": " + how
			if w.words != "" {
				line += ": " + w.words
			}
			all = append(all, fatal("WorkerFailed", line, "the group cannot serve without it; its log is kept beside the leader's"))
		}
	}
	return all
}

// routedWorker is the worker that an EndpointSlice names, with the slice.
func (r *Replica) routedWorker() (pod, slice string) {
	for _, w := range r.workers {
		if w.routed != "" {
			return w.pod.Name, w.routed
		}
	}
	return "", ""
}

// groupMilestones are the moments that all pods of a group have reached. The last one
// decides: a group has its place when every pod has one.
func (r *Replica) groupMilestones() []drill.Milestone {
	out := milestones(r.pod, r.events)
	if r.size < 2 {
		return out
	}
	if len(r.workers) < r.size-1 {
		return nil
	}
	for _, w := range r.workers {
		theirs := milestones(w.pod, w.events)
		out = out[:min(len(out), len(theirs))]
		for i := range out {
			out[i].Cached = out[i].Cached && theirs[i].Cached
		}
	}
	return out
}

// sizeOf is how many pods the group of a leader has; 1 for a pod that is no leader.
func sizeOf(pod *corev1.Pod) int {
	n, _ := strconv.Atoi(pod.Annotations[annotSize])
	return max(n, 1)
}
