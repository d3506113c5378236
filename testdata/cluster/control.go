//go:build linux

package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const admin = "admin"

// startControlPlane writes the certificates and starts the four programs.
func (c *Cluster) startControlPlane(bin string) error {
	c.Server = "https://" + c.address(apiPort)
	for _, who := range []struct {
		file, name string
		groups     []string
		addresses  []string
	}{
		{file: "apiserver", name: "kube-apiserver", addresses: []string{c.host(), "10.96.0.1", "kubernetes", "kubernetes.default.svc"}},
		{file: "apiserver-kubelet-client", name: "kube-apiserver-kubelet-client"},
		{file: "kubelet", name: "kubelet", addresses: []string{c.host()}},
		{file: "service-accounts", name: "service-accounts"}, // for its key pair
	} {
		if err := c.certs.issue(who.file, who.name, who.groups, who.addresses...); err != nil {
			return err
		}
	}
	if err := c.connect(); err != nil {
		return err
	}
	if err := c.startEtcd(bin); err != nil {
		return err
	}
	if err := c.launch("kube-apiserver", c.apiServer(bin)...); err != nil {
		return err
	}
	if err := c.wait("kube-apiserver", c.apiReady); err != nil {
		return err
	}
	return c.startControllers(bin)
}

// connect makes the kubeconfig and the client of the user that may do everything.
func (c *Cluster) connect() error {
	var err error
	if c.Kubeconfig, err = c.kubeconfig(admin, "system:masters"); err != nil {
		return err
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return err
	}
	c.Config.QPS, c.Config.Burst = 200, 400 // one client for the kubelet and the test
	c.Client, err = kubernetes.NewForConfig(c.Config)
	return err
}

func (c *Cluster) startEtcd(bin string) error {
	client, peer := "http://"+c.address(etcdPort), "http://"+c.address(etcdPeerPort)
	err := c.launch("etcd", filepath.Join(bin, "etcd"), "--name=default", "--data-dir="+filepath.Join(c.Dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
		"--initial-cluster=default="+peer)
	if err != nil {
		return err
	}
	return c.wait("etcd", func(ctx context.Context) error { return healthy(ctx, http.DefaultClient, client+"/health") })
}

func (c *Cluster) apiServer(bin string) []string {
	return []string{filepath.Join(bin, "kube-apiserver"),
		"--etcd-servers=http://" + c.address(etcdPort), "--bind-address=" + c.host(), fmt.Sprint("--secure-port=", apiPort), "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + c.certs.crt("apiserver"), "--tls-private-key-file=" + c.certs.private("apiserver"), "--client-ca-file=" + c.certs.crt("ca"),
		"--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + c.certs.public("service-accounts"),
		"--service-account-signing-key-file=" + c.certs.private("service-accounts"),
		"--kubelet-client-certificate=" + c.certs.crt("apiserver-kubelet-client"), "--kubelet-client-key=" + c.certs.private("apiserver-kubelet-client"),
		"--kubelet-certificate-authority=" + c.certs.crt("ca"), "--kubelet-preferred-address-types=InternalIP",
	}
}

func (c *Cluster) startControllers(bin string) error {
	controller, err := c.kubeconfig("system:kube-controller-manager")
	if err != nil {
		return err
	}
	scheduler, err := c.kubeconfig("system:kube-scheduler")
	if err != nil {
		return err
	}
	err = c.launch("kube-controller-manager", filepath.Join(bin, "kube-controller-manager"), "--kubeconfig="+controller, "--leader-elect=false",
		"--bind-address="+c.host(), fmt.Sprint("--secure-port=", controllerPort), "--use-service-account-credentials",
		"--service-account-private-key-file="+c.certs.private("service-accounts"), "--root-ca-file="+c.certs.crt("ca"))
	if err != nil {
		return err
	}
	err = c.launch("kube-scheduler", filepath.Join(bin, "kube-scheduler"), "--kubeconfig="+scheduler, "--leader-elect=false",
		"--bind-address="+c.host(), fmt.Sprint("--secure-port=", schedulerPort))
	if err != nil {
		return err
	}
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} // they sign their own
	for name, port := range map[string]int{"kube-controller-manager": controllerPort, "kube-scheduler": schedulerPort} {
		url := "https://" + c.address(port) + "/healthz"
		if err := c.wait(name, func(ctx context.Context) error { return healthy(ctx, insecure, url) }); err != nil {
			return err
		}
	}
	return nil
}

func healthy(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, res.Status)
	}
	return nil
}

func (c *Cluster) apiReady(ctx context.Context) error {
	_, err := c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
	return err
}

// wait tries until the program's check passes, or the program or the patience has ended.
func (c *Cluster) wait(name string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.processes[name].done:
			return fmt.Errorf("%s has ended: %v", name, c.processes[name].cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %s: %w", name, patience, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
