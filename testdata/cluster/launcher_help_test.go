//go:build linux

package cluster

import (
	"context"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"drkit/drill/launch/kubernetes"
	"drkit/testdata/cluster/kubelet"
)

// launcherCluster has a context "eu" with a namespace of the drill's own, an engine by
// digest and a shell.
func launcherCluster(t *testing.T) *Cluster {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Start(t, Options{
		Contexts: map[string]string{"eu": "dr-drill"},
		Images: []kubelet.Image{
			{Ref: engineRef, Digest: "sha256:" + strings.Repeat("ab", 32), Entrypoint: []string{self, "--host", "0.0.0.0"},
				Env: map[string]string{program: "serve"}, Rewrite: kubelet.Listen("--host"), Pull: 200 * time.Millisecond},
			{Ref: "sh:1", Digest: "sha256:" + strings.Repeat("cd", 32), Entrypoint: []string{"sh", "-c"}},
		}})
}

// apply makes a resource of any kind, as kubectl would.
func apply(t *testing.T, c *Cluster, namespace, text string) {
	t.Helper()
	var u unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	k := u.GroupVersionKind()
	mapping, err := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Client.Discovery())).RESTMapping(k.GroupKind(), k.Version)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(mapping.Resource).Namespace(namespace).Create(t.Context(), &u, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// podsOf lists the names of the drill's pods with a label, sorted.
func podsOf(t *testing.T, c *Cluster, selector string) (names []string) {
	t.Helper()
	list, err := c.Client.CoreV1().Pods("dr-drill").List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// limited is the kubeconfig of a user with one rule in the drill's namespace.
func limited(t *testing.T, c *Cluster, name string, rules ...rbacv1.PolicyRule) string {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if _, err := c.Client.RbacV1().Roles("dr-drill").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bound := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{{Kind: "User", Name: name}}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}}
	if _, err := c.Client.RbacV1().RoleBindings("dr-drill").Create(t.Context(), bound, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c.User(t, name)
}

// clusterRole gives a user rules in the whole cluster.
func clusterRole(t *testing.T, c *Cluster, name string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if _, err := c.Client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bound := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{{Kind: "User", Name: name}}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}}
	if _, err := c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), bound, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// documented reads the roles that a document shows, by kind.
func documented(t *testing.T, path string) map[string]rbacv1.ClusterRole {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]rbacv1.ClusterRole{}
	for i, block := range strings.Split(string(text), "```") {
		if yamlText, ok := strings.CutPrefix(block, "yaml\n"); ok && i%2 == 1 && strings.Contains(yamlText, "rbac.authorization.k8s.io") {
			r := parse[rbacv1.ClusterRole](t, yamlText)
			roles[r.Kind] = *r
		}
	}
	if len(roles) != 2 {
		t.Fatalf("%s shows the roles %v", path, roles)
	}
	return roles
}

// ask is the answer to one request, "" for none.
func ask(url string) string {
	res, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return string(body)
}

// canaryHealthy asks a canary for its health.
func canaryHealthy(r *kubernetes.Replica) func() bool {
	return func() bool {
		if r.Endpoint() == "" {
			return false
		}
		res, err := http.Get(r.Endpoint() + "/health")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	}
}

// logUntil follows the log up to a line and gives what came so far.
func logUntil(t *testing.T, r *kubernetes.Replica, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var all []string
	for l, err := range r.Log(ctx) {
		if err != nil {
			t.Fatalf("after %q: %v", all, err)
		}
		all = append(all, l)
		if l == line {
			return strings.Join(all, "\n")
		}
	}
	t.Fatalf("the log ended after %q", all)
	return ""
}
