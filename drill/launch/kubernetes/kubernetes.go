// Package kubernetes launches a canary on a cluster, as a bare Pod derived from the
// release's own deploy files, and finds and removes it from any later process. A canary
// of a group (LeaderWorkerSet) is a leader and its workers, and one replica.
//
//	l, err := kubernetes.New(kubernetes.Options{Context: "euw1", Namespace: "dr-drill"})
//	notes, err := l.Check(ctx, spec) // before the clock: changes nothing
//	r, err := l.Launch(ctx, spec)
//	defer r.Stop(ctx)
//
// The pod has what production's pods have: containers, volumes, ServiceAccount, the
// path by which weights come. It has none of what makes others find them: its labels
// are drkit's own, and no selector of the cluster may match them. It never pre-empts,
// never restarts, and its images are named by digest.
//
// Everything that drkit makes carries the label drkit.dev/run; that is what Find looks
// for. Absence counts as proven when the pod is answered with "not found" and a list
// by the label is empty.
package kubernetes

import (
	"context"
	"errors"
	goflag "flag"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"drkit/drill"
	"drkit/internal/errext"
)

// FieldManager is the name under which drkit's fields stand in the cluster.
const FieldManager = "drkit"

// What a canary carries. Run and replica are labels, the others annotations.
const (
	LabelRun        = "drkit.dev/run"
	LabelReplica    = "drkit.dev/replica"
	LabelWorker     = "drkit.dev/worker" // of a group's workers: their index, from 1
	labelManaged    = "app.kubernetes.io/managed-by"
	AnnotExpires    = "drkit.dev/expires"  // RFC 3339; a leftover after that is for gc
	annotEndpoint   = "drkit.dev/endpoint" // where drkit reaches it
	annotContainer  = "drkit.dev/container"
	annotPort       = "drkit.dev/port"
	annotSize       = "drkit.dev/group-size" // of a group's leader: how many pods the group has
	annotDerived    = "drkit.dev/derived-from"
	istioInject     = "sidecar.istio.io/inject"
	defaultLifetime = 6 * time.Hour
)

// Ways to reach a canary.
const (
	PortForward = "port-forward" // through the API server, from a port of this machine
	Direct      = "direct"       // the pod's own address
)

// Options say which cluster, and how the canary differs from production's pods.
type Options struct {
	Context, Namespace string
	Reach              string        // PortForward (the default) or Direct
	Workload           string        // Kind/name in the deploy files, where several start an engine
	Container          string        // where a pod has several that could be the engine
	PriorityClass      string        // "": found; see priority.go
	KeepLabels         []string      // keys of production's labels and annotations that the canary keeps
	Patches            []Patch       // in order, before drkit's own settings
	Lifetime           time.Duration // until AnnotExpires; 0: six hours
}

// Launcher is the access to one namespace of one cluster.
type Launcher struct {
	o       Options
	config  *rest.Config
	dynamic dynamic.Interface
	core    *rest.RESTClient // for logs, exec and port-forward
	served  served
}

var _ drill.Launcher = (*Launcher)(nil)

func init() {
	// client-go logs to stderr, which is the screen's. Its errors come back as values.
	// An output alone does not silence it: errors go to stderr beside it.
	flags := goflag.NewFlagSet("klog", goflag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
}

// New reads the kubeconfig (KUBECONFIG, else ~/.kube/config) and asks nothing of the
// cluster yet.
func New(o Options) (*Launcher, error) {
	config, namespace, err := connect(o.Context)
	if err != nil {
		return nil, err
	}
	if o.Namespace == "" {
		o.Namespace = namespace
	}
	return newLauncher(config, o)
}

func newLauncher(config *rest.Config, o Options) (*Launcher, error) {
	l := &Launcher{o: o, config: config}
	config.UserAgent, config.WarningHandler = "drkit", rest.NoWarnings{}
	config.QPS, config.Burst = 50, 100
	var err error
	if l.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("reaching the cluster of context %s: %w", o.Context, err)
	}
	core := rest.CopyConfig(config)
	core.GroupVersion, core.APIPath = &corev1.SchemeGroupVersion, "/api"
	core.NegotiatedSerializer = serializer.NewCodecFactory(coreScheme()).WithoutConversion()
	if l.core, err = rest.RESTClientFor(core); err != nil {
		return nil, fmt.Errorf("reaching the cluster of context %s: %w", o.Context, err)
	}
	return l, nil
}

// connect finds a context in the kubeconfig. Credentials, exec plugins among them,
// are client-go's matter.
func connect(name string) (*rest.Config, string, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{CurrentContext: name})
	config, err := loader.ClientConfig()
	if err != nil {
		hint := "set KUBECONFIG to a file that has it; kubectl config get-contexts lists those of yours"
		if clientcmd.IsEmptyConfig(err) {
			err = errors.New("no kubeconfig was found")
		}
		return nil, "", errext.WithHint(errext.WithStatus(fmt.Errorf("context %q: %w", name, err), errext.Usage), hint)
	}
	namespace, _, err := loader.Namespace()
	return config, namespace, err
}

// Server is the API server's URL, by which an undo knows that it asks the same cluster.
func (l *Launcher) Server() string { return strings.TrimRight(l.config.Host, "/") + l.config.APIPath }

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func (l *Launcher) pods() dynamic.ResourceInterface {
	return l.dynamic.Resource(pods).Namespace(l.o.Namespace)
}

// asking bounds one question to the API server.
func asking(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, askTime, errSlow)
}

const askTime = 15 * time.Second

var errSlow = fmt.Errorf("the API server did not answer within %v", askTime)
