package kubernetes

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"drkit/drill"
)

// Replica is a pod that drkit made, in this process or an earlier one, with the workers
// of its group where it is a leader.
type Replica struct {
	l         *Launcher
	name      string // of the pod; of a group the leader
	run, id   string
	uid       string
	leader    types.UID // of its group; of a worker that has lost it too
	container string
	port      int
	expires   time.Time // the zero value: not said
	logPath   string    // where the log is kept when the pod goes; "": nowhere
	adopted   string    // endpoint that an earlier process gave it
	size      int       // pods of the group; 1: no group

	watching sync.Once
	exited   chan struct{}
	over     sync.Once
	stopping sync.Mutex // guards stopped and waiting, and a stop as a whole
	stopped  bool
	waiting  recruits

	mu      sync.Mutex
	workers []worker
	unmade  string      // why a worker could not be made yet
	lost    string      // workers that are not there any more
	pod     *corev1.Pod // as last seen
	events  []corev1.Event
	state   string
	routed  string               // an EndpointSlice that names the pod
	since   map[string]time.Time // when each trouble was first seen
	stones  []drill.Milestone
	forward *forward
}

var (
	_ drill.Replica    = (*Replica)(nil)
	_ drill.Troubled   = (*Replica)(nil)
	_ drill.Milestones = (*Replica)(nil)
	_ drill.Composite  = (*Replica)(nil)
)

// newReplica is the replica of a pod. forward is nil for one that another process made.
func (l *Launcher) newReplica(pod *corev1.Pod, f *forward) *Replica {
	r := &Replica{l: l, name: pod.Name, run: pod.Labels[LabelRun], id: pod.Labels[LabelReplica], uid: string(pod.UID), container: pod.Annotations[annotContainer],
		port: portOf(pod.Annotations), adopted: pod.Annotations[annotEndpoint], pod: pod, size: sizeOf(pod), exited: make(chan struct{}), since: map[string]time.Time{}, forward: f}
	r.leader = leaderOf(pod)
	r.expires, _ = time.Parse(time.RFC3339, pod.Annotations[AnnotExpires])
	return r
}

// ID is the replica's name, unique in its run.
func (r *Replica) ID() string { return r.id }

// RunID is the run that it belongs to.
func (r *Replica) RunID() string { return r.run }

// Pod is the pod's name, with its namespace.
func (r *Replica) Pod() string { return r.l.o.Namespace + "/" + r.name }

// Expires is when the replica may be collected as a leftover.
func (r *Replica) Expires() time.Time { return r.expires }

// Endpoint is where the replica is reached: a port of this machine that leads through
// the API server, or its own address, which is "" until it has one. A pod of an earlier
// process is reached as that process reached it, whatever this one was told: routers
// know it by that address.
func (r *Replica) Endpoint() string {
	r.watch()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.l.o.Reach == Direct || r.forward == nil && r.adopted == "" {
		return r.address()
	}
	if r.forward == nil {
		r.forward = r.reopen()
	}
	return r.forward.url()
}

// Address is the pod's own address inside the cluster, "" until it has one. Routers there
// may know it by that, however it is reached from here.
func (r *Replica) Address() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.address()
}

// Over says how its engine had ended when the pod was last looked at, "" where it had not.
// The pod starts it no second time.
func (r *Replica) Over() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return ended(r.pod, r.container)
}

func (r *Replica) address() string {
	if r.pod == nil || r.pod.Status.PodIP == "" {
		return ""
	}
	return "http://" + net.JoinHostPort(r.pod.Status.PodIP, strconv.Itoa(r.port))
}

// reopen forwards to a pod of an earlier process, from the port that it had, so that
// a router that knows it by that address still does.
func (r *Replica) reopen() *forward {
	if _, text, err := net.SplitHostPort(trimScheme(r.adopted)); err == nil {
		if port, err := strconv.Atoi(text); err == nil {
			if f, err := r.l.forward(r.name, port); err == nil {
				f.to(r.port)
				return f
			}
		}
	}
	f, err := r.l.forward(r.name, 0)
	if err != nil { // no port of this machine is free: said by whoever asks it
		return &forward{}
	}
	f.to(r.port)
	return f
}

// Exited is closed when the engine's container has ended, or the pod is gone.
func (r *Replica) Exited() <-chan struct{} {
	r.watch()
	return r.exited
}

// ExitState says how it ended, "" while it runs.
func (r *Replica) ExitState() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

func (r *Replica) end(state string) {
	r.over.Do(func() {
		r.mu.Lock()
		r.state = state
		f := r.forward
		r.mu.Unlock()
		if f != nil {
			f.close()
		}
		close(r.exited)
	})
}

// How often the API server is asked. A start is watched closely; a serving engine is
// heard by its own answers.
const (
	startEvery = 500 * time.Millisecond
	serveEvery = 2 * time.Second
)

func (r *Replica) watch() {
	r.watching.Do(func() {
		if r.forward != nil {
			r.forward.to(r.port)
		}
		go r.poll()
	})
}

// poll reads the pod until it has ended. An API server that does not answer says
// nothing about the pod.
func (r *Replica) poll() {
	ctx := context.Background()
	for n := 0; ; n++ {
		r.look(ctx, n)
		every := serveEvery
		if r.starting() {
			every = startEvery
		}
		select {
		case <-r.exited:
			return
		case <-time.After(every):
		}
	}
}

func (r *Replica) look(ctx context.Context, n int) {
	asked, cancel := asking(ctx)
	defer cancel()
	u, err := r.l.pods().Get(asked, r.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && string(u.GetUID()) != r.uid {
		r.end("the pod was deleted")
		return
	}
	if err != nil {
		return
	}
	pod, err := podOf(u)
	if err != nil {
		return
	}
	var events []corev1.Event
	if starting(pod, r.container) || ended(pod, r.container) != "" {
		events = r.l.eventsOf(ctx, pod)
	}
	routed := ""
	if pod.Status.PodIP != "" && n%5 == 0 {
		routed, _ = r.l.routedTo(ctx, pod)
	}
	r.lookAtWorkers(ctx, pod, n%5 == 0)
	r.saw(pod, events, routed, time.Now())
	if how := ended(pod, r.container); how != "" {
		r.end(how)
	}
}

// saw keeps what a look showed.
func (r *Replica) saw(pod *corev1.Pod, events []corev1.Event, routed string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pod = pod
	if events != nil {
		r.events = events
	}
	if routed != "" {
		r.routed = routed
	}
	for _, t := range r.troubles() {
		if _, known := r.since[t.Class]; !known {
			r.since[t.Class] = now
		}
	}
	for _, m := range r.groupMilestones() {
		if !slices.ContainsFunc(r.stones, func(old drill.Milestone) bool { return old.Name == m.Name }) {
			m.At = now
			r.stones = append(r.stones, m)
		}
	}
}

func (r *Replica) starting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return starting(r.pod, r.container) || r.lacks() != nil
}

// Trouble is what keeps the pod from serving, the worst first.
func (r *Replica) Trouble() (drill.Trouble, bool) {
	r.watch()
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.troubles()
	if len(all) == 0 {
		return drill.Trouble{}, false
	}
	t := all[0]
	if first, known := r.since[t.Class]; known && t.waits && time.Since(first) >= patience && !r.scaling() {
		t.Fatal = true
	}
	return t.Trouble, true
}

func (r *Replica) troubles() []trouble {
	pod, slice := "the canary's pod", r.routed
	if slice == "" {
		pod, slice = r.routedWorker()
	}
	if slice != "" {
		return []trouble{fatal("Routed", "EndpointSlice "+slice+" names "+pod, "requests of users could reach the canary: find the Service of that slice, and what selects the pod")}
	}
	all := append(troubles(r.pod, r.events, r.container), r.workerTroubles()...)
	slices.SortStableFunc(all, func(a, b trouble) int { return rank(a) - rank(b) })
	return all
}

// Milestones are the moments of the start that were seen so far. It looks once more
// while the pod is taken for starting: an engine may serve before the next look.
func (r *Replica) Milestones() []drill.Milestone {
	r.watch()
	if r.starting() {
		r.look(context.Background(), 1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.stones)
}

// eventsOf lists the events of a pod, the oldest first; nil when they cannot be read.
func (l *Launcher) eventsOf(ctx context.Context, pod *corev1.Pod) (events []corev1.Event) {
	asked, cancel := asking(ctx)
	defer cancel()
	list, err := l.dynamic.Resource(gvr("", "v1", "events")).Namespace(pod.Namespace).List(asked,
		metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID), Limit: 200})
	if err != nil {
		return nil
	}
	for _, u := range list.Items {
		events = append(events, eventOf(u))
	}
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	return events
}

func eventOf(u unstructured.Unstructured) corev1.Event {
	var e corev1.Event
	e.Reason, _, _ = unstructured.NestedString(u.Object, "reason")
	e.Message, _, _ = unstructured.NestedString(u.Object, "message")
	e.Type, _, _ = unstructured.NestedString(u.Object, "type")
	text, _, _ := unstructured.NestedString(u.Object, "lastTimestamp")
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		e.LastTimestamp = metav1.NewTime(at)
	}
	return e
}

// scaling reports that something adds nodes for a pod of the replica.
func (r *Replica) scaling() bool {
	return scaling(r.events) || slices.ContainsFunc(r.workers, func(w worker) bool { return scaling(w.events) })
}

// selector matches the pods of the replica.
func (r *Replica) selector() string {
	return LabelRun + "=" + r.run + "," + LabelReplica + "=" + r.id
}

func (r *Replica) String() string { return fmt.Sprintf("pod %s of run %s", r.Pod(), r.run) }
