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

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
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

func init() {
	// The API server's clients come and go, and engines are asked before they listen: that is no news.
	klog.SetLogger(logr.Discard()) // to set an output alone leaves errors on stderr
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
		k.work.Go(func() { k.watch(ctx, n.Name) })
	}
	return k, nil
}

// Stop kills what runs, without telling the API server, and returns when all of it is gone.
func (k *Kubelet) Stop() {
	k.mu.Lock() // until all are told: a pod whose reports end leaves the list
	k.cancel()
	for _, p := range k.pods {
		p.kill(0)
	}
	k.mu.Unlock()
	_ = k.server.Close()
	k.work.Wait()
}

// watchEvery is how often the API server is asked for a node's pods. Asking is as
// quick as a watch needs to be here, and an API server that was away for a while is
// heard again at once, where a watch would wait for half a minute.
const watchEvery = 150 * time.Millisecond

func (k *Kubelet) watch(ctx context.Context, node string) {
	opts := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		list, err := k.Client.CoreV1().Pods(corev1.NamespaceAll).List(ctx, opts)
		if err != nil {
			return // it says nothing about the pods
		}
		here := map[types.UID]bool{}
		for i := range list.Items {
			here[list.Items[i].UID] = true
			k.see(ctx, &list.Items[i])
		}
		k.gone(node, here)
	}, watchEvery)
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
	if p == nil { // it ended, and nothing of it is known any more
		k.work.Go(func() { _ = k.release(ctx, api) })
		return
	}
	p.remove(grace(api))
}

// gone ends the pods of a node that the API server no longer has: they were deleted by force.
func (k *Kubelet) gone(node string, here map[types.UID]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for uid, p := range k.pods {
		if p.api.Spec.NodeName == node && !here[uid] {
			p.remove(0)
		}
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
