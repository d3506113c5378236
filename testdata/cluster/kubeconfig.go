//go:build linux

package cluster

import (
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// User makes a user with a certificate and returns the path of a kubeconfig with
// the cluster's contexts. What it may do is what RBAC gives it: at first nothing.
func (c *Cluster) User(t testing.TB, name string, groups ...string) string {
	t.Helper()
	path, err := c.kubeconfig(name, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func (c *Cluster) kubeconfig(name string, groups ...string) (string, error) {
	if err := c.certs.issue(name, name, groups); err != nil {
		return "", err
	}
	config := api.NewConfig()
	config.Clusters["test"] = &api.Cluster{Server: c.Server, CertificateAuthority: c.certs.crt("ca")}
	config.AuthInfos[name] = &api.AuthInfo{ClientCertificate: c.certs.crt(name), ClientKey: c.certs.private(name)}
	for context, namespace := range c.contexts {
		config.Contexts[context] = &api.Context{Cluster: "test", AuthInfo: name, Namespace: namespace}
		if config.CurrentContext == "" || context < config.CurrentContext {
			config.CurrentContext = context
		}
	}
	path := filepath.Join(c.Dir, name+".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}
