//go:build linux

// Package kubelet is a small kubelet for tests: it registers nodes in a real
// control plane and runs the containers of pods that are bound to them as
// processes of this machine. There are no images, name spaces or control groups;
// what a container sees of them is translated:
//
//   - an image is a local command line (Image); an unknown one cannot be pulled;
//   - a pod has an address of its own in 127.0.0.0/8, so that two engines may both
//     listen on port 8000. Image.Rewrite makes a program listen there;
//   - volumes are folders, and paths beneath a mount are rewritten in the
//     arguments and the environment. That a mount is read only is not enforced;
//   - a process that ends by itself with status 137 stands for one that the kernel
//     killed for its memory: its container reads OOMKilled;
//   - probes are httpGet (http), tcpSocket and exec.
//
// It ignores resources, security contexts, preStop and postStart, and refuses,
// with an event and a pod that never starts, sidecars (init containers that
// restart), gRPC probes and volumes of other kinds than hostPath, emptyDir,
// configMap, secret, downwardAPI, projected and claims bound to hostPath or local
// volumes. Begin with Start.
package kubelet

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// Options say what the kubelet runs. All but Images, Backoff and Env must be given.
type Options struct {
	Client   kubernetes.Interface
	Nodes    []Node
	Images   []Image
	Dir      string            // of its own, for volumes
	Network  string            // the first three numbers of an address, "127.7.1": pods get .10 to .250
	Listener net.Listener      // where the API server reaches the kubelet; closed by Stop
	TLS      *tls.Config       // must ask for the API server's certificate
	Backoff  time.Duration     // wait after the second crash, doubled up to five minutes; default 1 s, a real kubelet takes 10 s
	Log      *log.Logger       // what the API server refuses
	Env      map[string]string // added to every container, below what pod and image say
}

// Kubelet serves all its nodes.
type Kubelet struct {
	Options
	events record.EventRecorder
	server *http.Server
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	pods   map[types.UID]*pod
	known  map[types.UID]bool // also those that are over
	pulled map[string]bool
	count  int // pods so far
}

// Start registers the nodes and begins to run their pods, until Stop.
func Start(o Options) (*Kubelet, error) {
	if o.Backoff == 0 {
		o.Backoff = time.Second
	}
	k := &Kubelet{Options: o, pods: map[types.UID]*pod{}, known: map[types.UID]bool{}, pulled: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	sink := record.NewBroadcaster(record.WithContext(ctx))
	sink.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: o.Client.CoreV1().Events("")})
	k.events = sink.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet"})
	k.server = &http.Server{Handler: k.handler(), TLSConfig: o.TLS}
	k.work.Go(func() { _ = k.server.ServeTLS(o.Listener, "", "") })
	k.work.Go(func() { <-ctx.Done(); sink.Shutdown() })
	for _, n := range o.Nodes {
		if err := k.register(ctx, n); err != nil {
			k.Stop()
			return nil, fmt.Errorf("registering node %s: %w", n.Name, err)
		}
		k.work.Go(func() { k.renewLease(ctx, n.Name) })
		k.watch(ctx, n.Name)
	}
	return k, nil
}

// Stop kills what runs, without telling the API server, and returns when all of it is gone.
func (k *Kubelet) Stop() {
	k.mu.Lock()
	for _, p := range k.pods {
		p.kill(0)
	}
	k.cancel() // under the lock: what is cancelled first leaves k.pods before it is killed
	k.mu.Unlock()
	_ = k.server.Close()
	k.work.Wait()
}

func (k *Kubelet) watch(ctx context.Context, node string) {
	list := cache.NewListWatchFromClient(k.Client.CoreV1().RESTClient(), "pods", corev1.NamespaceAll, fields.OneTermEqualSelector("spec.nodeName", node))
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: list,
		ObjectType:    &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { k.see(ctx, o.(*corev1.Pod)) },
			UpdateFunc: func(_, o any) { k.see(ctx, o.(*corev1.Pod)) },
			DeleteFunc: func(o any) { k.gone(o) },
		},
	})
	k.work.Go(func() { informer.RunWithContext(ctx) })
}

// see starts a pod that is new, and ends one that is to be deleted.
func (k *Kubelet) see(ctx context.Context, api *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	p := k.pods[api.UID]
	if p == nil && !finished(api) && !k.known[api.UID] { // a late word of one that is over must not start it again
		p = k.newPod(api)
		k.pods[api.UID], k.known[api.UID] = p, true
		k.work.Go(func() { p.run(ctx) })
		k.work.Go(func() { p.report(ctx) })
	}
	if api.DeletionTimestamp == nil {
		return
	}
	if p == nil { // ended before this kubelet knew it
		k.work.Go(func() { _ = k.release(ctx, api) })
		return
	}
	p.remove(grace(api))
}

// gone is told of a pod that the API server no longer has: deleted by force.
func (k *Kubelet) gone(o any) {
	if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	api, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	k.mu.Lock()
	p := k.pods[api.UID]
	k.mu.Unlock()
	if p != nil {
		p.remove(0)
	}
}

func (k *Kubelet) newPod(api *corev1.Pod) *pod {
	k.count++
	p := &pod{
		k: k, api: api.DeepCopy(),
		ip:      fmt.Sprintf("%s.%d", k.Network, 10+k.count%240),
		dir:     filepath.Join(k.Dir, fmt.Sprintf("p%d", k.count)), // short: engines put sockets into its tmp
		volumes: map[string]string{},
		killed:  make(chan struct{}),
		dirty:   make(chan struct{}, 1),
		since:   metav1.Now(),
	}
	for i := range api.Spec.InitContainers {
		p.init = append(p.init, newContainer(p, &p.api.Spec.InitContainers[i], true))
	}
	for i := range api.Spec.Containers {
		p.main = append(p.main, newContainer(p, &p.api.Spec.Containers[i], false))
	}
	return p
}

// drop ends what is known of a pod; its folder goes with it.
func (k *Kubelet) drop(p *pod) {
	k.mu.Lock()
	delete(k.pods, p.api.UID)
	k.mu.Unlock()
	_ = os.RemoveAll(p.dir)
}

func (k *Kubelet) find(namespace, name string) *pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		if p.api.Namespace == namespace && p.api.Name == name {
			return p
		}
	}
	return nil
}

func (k *Kubelet) hostIP() string {
	host, _, _ := net.SplitHostPort(k.Listener.Addr().String())
	return host
}

func finished(api *corev1.Pod) bool {
	return api.Status.Phase == corev1.PodSucceeded || api.Status.Phase == corev1.PodFailed
}

func grace(api *corev1.Pod) time.Duration {
	seconds := int64(30)
	if api.Spec.TerminationGracePeriodSeconds != nil {
		seconds = *api.Spec.TerminationGracePeriodSeconds
	}
	if api.DeletionTimestamp != nil && api.DeletionGracePeriodSeconds != nil {
		seconds = *api.DeletionGracePeriodSeconds
	}
	return time.Duration(seconds) * time.Second
}
