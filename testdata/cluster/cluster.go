//go:build linux

// Package cluster starts a real Kubernetes control plane for tests: etcd, the API
// server, the controller manager and the scheduler, built by
// scripts/real-parts control-plane, and the small kubelet of package kubelet that
// runs pods as processes. Everything listens on a loopback network of the
// cluster's own (127.A.B.0/24), so clusters run beside each other, and nothing
// outlives the test: not after a failure, and the programs not after a kill -9 either.
//
// It needs KUBE_BIN, the folder of the programs:
//
//	eval "$(scripts/real-parts --print-env control-plane)"; export KUBE_BIN
//
// Begin with Start.
package cluster

import (
	"context"
	"fmt"
	"log"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"drkit/testdata/cluster/kubelet"
)

// patience is how long a start may take on a busy machine; an idle one needs about ten seconds.
const patience = 3 * time.Minute

// Options say what the cluster holds.
type Options struct {
	Nodes    []kubelet.Node // default: node-1 in eu-west-1 with four GPUs
	Images   []kubelet.Image
	Contexts map[string]string // contexts of the kubeconfig and their name spaces, which are made; default: "test" → "default"
	Backoff  time.Duration     // see kubelet.Options
	Env      map[string]string // of every container
}

// Cluster is a control plane that runs until the test is over.
type Cluster struct {
	Kubeconfig string // path; its user may do everything
	Server     string // URL of the API server
	Config     *rest.Config
	Client     kubernetes.Interface
	Dir        string // of the cluster's own, for what a test wants to put beside it

	network   string // "127.A.B"
	certs     *authority
	contexts  map[string]string
	processes map[string]*process
	kubelet   *kubelet.Kubelet
	log       *os.File // of the kubelet
}

// Start starts a cluster and returns when pods can be made in every name space of
// its contexts. It ends the test when a part does not start.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c := &Cluster{processes: map[string]*process{}}
	if err := c.start(t, o); err != nil {
		for name := range c.processes {
			t.Logf("end of the log of %s:\n%s", name, c.processes[name].tail())
		}
		t.Fatalf("cluster: %v", err)
	}
	return c
}

func (c *Cluster) start(t testing.TB, o Options) error {
	bin := os.Getenv("KUBE_BIN")
	if bin == "" {
		return fmt.Errorf(`KUBE_BIN is not set: run scripts/real-parts control-plane, then eval "$(scripts/real-parts --print-env control-plane)" and export KUBE_BIN`)
	}
	if o.Nodes == nil {
		o.Nodes = []kubelet.Node{{Name: "node-1", Region: "eu-west-1", GPUs: 4}}
	}
	if c.contexts = o.Contexts; c.contexts == nil {
		c.contexts = map[string]string{"test": corev1.NamespaceDefault}
	}
	dir, err := os.MkdirTemp("", "cluster-") // short, unlike t.TempDir: sockets lie beneath it
	if err != nil {
		return err
	}
	c.Dir = dir
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	network, listener, err := claimNetwork()
	if err != nil {
		return err
	}
	c.network = network
	t.Cleanup(func() { _ = listener.Close() })
	if c.certs, err = newAuthority(filepath.Join(dir, "pki")); err != nil {
		return err
	}
	t.Cleanup(func() {
		c.stop()
		c.show(t)
	})
	if err := c.startControlPlane(bin); err != nil {
		return err
	}
	if err := c.startKubelet(o, listener); err != nil {
		return err
	}
	return c.ready()
}

func (c *Cluster) startKubelet(o Options, l net.Listener) error {
	certs, err := c.certs.server("kubelet")
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(c.Dir, "kubelet.log"))
	if err != nil {
		return err
	}
	c.log = file
	c.kubelet, err = kubelet.Start(kubelet.Options{
		Client: c.Client, Nodes: o.Nodes, Images: o.Images, Dir: filepath.Join(c.Dir, "pods"), Network: c.network, Listener: l, TLS: certs,
		Backoff: o.Backoff, Env: o.Env, Log: log.New(file, "", log.LstdFlags),
	})
	return err
}

// ready makes the name spaces and waits for what the controllers add to each:
// without its service account no pod is admitted.
func (c *Cluster) ready() error {
	for _, namespace := range slices.Compact(slices.Sorted(maps.Values(c.contexts))) {
		_, err := c.Client.CoreV1().Namespaces().Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		err = c.wait("kube-controller-manager", func(ctx context.Context) error {
			if _, err := c.Client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
				return err
			}
			_, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// show prints what the kubelet complained of, when the test has failed.
func (c *Cluster) show(t testing.TB) {
	text, _ := os.ReadFile(filepath.Join(c.Dir, "kubelet.log"))
	if t.Failed() && len(text) > 0 {
		t.Logf("the kubelet says:\n%s", text[max(0, len(text)-4000):])
	}
}

// Processes lists the processes of all containers that run.
func (c *Cluster) Processes() []int { return kubelet.Marked(filepath.Join(c.Dir, "pods") + "/") }

// SetImages replaces what images stand for, for containers that start from now on.
func (c *Cluster) SetImages(images []kubelet.Image) { c.kubelet.SetImages(images) }

// KillAPIServer kills the API server as a crash does; nobody is told.
func (c *Cluster) KillAPIServer() { c.processes["kube-apiserver"].end(0) }

// RestartAPIServer starts it again at the same address and waits until it serves.
func (c *Cluster) RestartAPIServer(t testing.TB) {
	t.Helper()
	if err := c.launch("kube-apiserver", c.processes["kube-apiserver"].argv...); err != nil {
		t.Fatal(err)
	}
	if err := c.wait("kube-apiserver", c.apiReady); err != nil {
		t.Fatal(err)
	}
}

// stop ends everything: pods first, etcd last.
func (c *Cluster) stop() {
	if c.kubelet != nil {
		c.kubelet.Stop()
		_ = c.log.Close()
	}
	for _, name := range []string{"kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"} {
		if p := c.processes[name]; p != nil {
			p.end(2 * time.Second) // their data is thrown away
		}
	}
}
