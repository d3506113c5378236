//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drkit/drill"
	"drkit/drill/launch/kubernetes"
	"drkit/internal/errext"
)

const (
	engineRef    = "registry.example/llm/engine:1"
	engineDigest = "registry.example/llm/engine@sha256:"
	launchRun    = "01KB2Q4V7N3M5P6R8S9T0VWXYZ"
	launchName   = "target-canary"
)

// deployment is production's workload; more stands in its container, rest in its pod.
func deployment(more, rest string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: chat}\nspec:\n  replicas: 2\n  selector: {matchLabels: {app: chat}}\n  template:\n" +
		"    metadata: {labels: {app: chat}}\n    spec:\n      containers:\n      - name: engine\n        image: " + engineRef + "\n" + indent("        ", more) + "\n" + indent("      ", rest) + "\n"
}

func launchSpec(yaml string) drill.Spec {
	digest := engineDigest + strings.Repeat("ab", 32)
	return drill.Spec{Run: launchRun, Name: launchName,
		Deploy:  []drill.DeployFile{{Path: "chat.yaml", Data: []byte(yaml)}},
		Engines: []drill.DeployEngine{{Path: "chat.yaml", Kind: "Deployment", Name: "chat", Container: "engine"}},
		Images:  map[string]string{engineRef: digest, "sh:1": "sh@sha256:" + strings.Repeat("cd", 32)}}
}

// newLauncher uses the cluster's kubeconfig, as drkit would.
func newLauncher(t *testing.T, c *Cluster, o kubernetes.Options) *kubernetes.Launcher {
	t.Helper()
	t.Setenv("KUBECONFIG", c.Kubeconfig)
	if o.Context == "" {
		o.Context = "eu"
	}
	l, err := kubernetes.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// launch launches and sees to it that nothing outlives the test.
func launch(t *testing.T, l *kubernetes.Launcher, s drill.Spec) *kubernetes.Replica {
	t.Helper()
	r, err := l.Launch(t.Context(), s)
	if err != nil {
		t.Fatalf("Launch: %v (hint %q)", err, errext.Hint(err))
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Stop(ctx); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	return r.(*kubernetes.Replica)
}

// TestLauncher is everything that one cluster is enough for.
func TestLauncher(t *testing.T) {
	c := launcherCluster(t)
	t.Run("lives", func(t *testing.T) { canaryLives(t, c) })
	t.Run("production runs", func(t *testing.T) { productionRuns(t, c) })
	t.Run("another process", func(t *testing.T) { anotherProcess(t, c) })
	t.Run("documented roles", func(t *testing.T) { documentedRoles(t, c) })
	t.Run("causes", func(t *testing.T) { causes(t, c) })
	t.Run("refused", func(t *testing.T) { refusals(t, c) })
	t.Run("group", func(t *testing.T) { groups(t, c) }) // it defines a kind that those before require to be unknown
	t.Run("runtime", func(t *testing.T) { runtimeMerged(t, c) })
	t.Run("routed", func(t *testing.T) { routed(t, c) })
	t.Run("API server killed", func(t *testing.T) { apiServerKilled(t, c) })
}

// canaryLives: production's pods run, the canary beside them is nobody's, answers by
// both ways, shows its log, and is gone at the end with its process; production stays.
func canaryLives(t *testing.T, c *Cluster) {
	text := deployment("args: [--model, /models, --port, \"8123\"]\nenv: [{name: HF_HUB_OFFLINE, value: '0'}]", "")
	apply(t, c, "dr-drill", text)
	until(t, "production's pods", func() bool { return len(podsOf(t, c, "app=chat")) == 2 })
	before := podsOf(t, c, "app=chat")
	defer stopProduction(t, c)

	for _, reach := range []string{kubernetes.PortForward, kubernetes.Direct} {
		t.Run(reach, func(t *testing.T) {
			l := newLauncher(t, c, kubernetes.Options{Reach: reach})
			s := launchSpec(text)
			s.LogPath = filepath.Join(t.TempDir(), "canary.log")
			if notes, err := l.Check(t.Context(), s); err != nil || len(notes) > 0 {
				t.Fatalf("Check: %v, %v", notes, err)
			}
			if left, err := l.Find(t.Context(), launchRun); err != nil || len(left) != 0 {
				t.Fatalf("Check left %v, %v", left, err)
			}
			r := launch(t, l, s)
			until(t, "the canary to serve", canaryHealthy(r))
			if got := ask(r.Endpoint() + "/x"); !strings.Contains(got, kubernetes.PodName(launchRun, launchName)) || !strings.Contains(got, "--model /models --port 8123") {
				t.Errorf("it answers %q", got)
			}
			pod, err := c.Client.CoreV1().Pods("dr-drill").Get(t.Context(), kubernetes.PodName(launchRun, launchName), metav1.GetOptions{})
			if err != nil || len(pod.OwnerReferences) != 0 || pod.Labels["app"] != "" || pod.Spec.Containers[0].Image != s.Images[engineRef] {
				t.Errorf("the pod %+v, %v", pod.ObjectMeta, err)
			}
			if at, err := time.Parse(time.RFC3339, pod.Annotations[kubernetes.AnnotExpires]); err != nil || at.Before(time.Now()) {
				t.Errorf("expires %q", pod.Annotations[kubernetes.AnnotExpires])
			}
			var stones []string
			until(t, "capacity and image", func() bool {
				stones = nil
				for _, m := range r.Milestones() {
					stones = append(stones, m.Name)
				}
				return slices.Equal(stones, []string{drill.InstantCapacity, drill.InstantImage})
			})
			if got := logUntil(t, r, "GET /x"); !strings.Contains(got, "Starting to load model /models...") {
				t.Errorf("the log is %q", got)
			}
			out, err := r.Run(t.Context(), []string{"sh", "-c", "echo $HF_HUB_OFFLINE; exit 3"})
			var status kubernetes.ExitError
			if !errors.As(err, &status) || status.Status != 3 || strings.TrimSpace(string(out)) != "1" {
				t.Errorf("Run: %q, %v", out, err)
			}
			if _, err := l.Launch(t.Context(), s); err == nil || !strings.Contains(err.Error(), "already there") {
				t.Errorf("a second launch of one name: %v", err)
			}
			if trouble, ok := r.Trouble(); ok {
				t.Errorf("trouble %+v", trouble)
			}
			if err := r.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-r.Exited()
			if text, err := os.ReadFile(s.LogPath); err != nil || !strings.Contains(string(text), "GET /x") {
				t.Errorf("the kept log: %q, %v", text, err)
			}
			if left, err := l.Find(t.Context(), launchRun); err != nil || len(left) != 0 {
				t.Errorf("left %v, %v", left, err)
			}
			if after := podsOf(t, c, "app=chat"); !slices.Equal(before, after) {
				t.Errorf("production's pods were %v, are %v", before, after)
			}
			if n := len(c.Processes()); n != 2 {
				t.Errorf("%d processes run, want production's two", n)
			}
		})
	}
}

// productionRuns: production's own pods are compared with the release's workload, and
// its GitOps owner is told by its own marks.
func productionRuns(t *testing.T, c *Cluster) {
	text := deployment("args: [--port, \"8123\"]", "")
	text = strings.Replace(text, "metadata: {name: chat}", "metadata: {name: chat, annotations: {argocd.argoproj.io/tracking-id: 'apps:apps/Deployment:dr-drill/chat'}}", 1)
	l := newLauncher(t, c, kubernetes.Options{})
	if _, err := l.Running(t.Context(), launchSpec(text)); err == nil || !strings.Contains(err.Error(), "no pod of Deployment/chat") {
		t.Errorf("nothing runs: %v", err)
	}
	if _, _, err := l.Owner(t.Context(), launchSpec(text)); err == nil {
		t.Error("an owner of what is not there")
	}
	apply(t, c, "dr-drill", text)
	defer stopProduction(t, c)
	until(t, "production's pods to tell their images", func() bool {
		all, err := l.Running(t.Context(), launchSpec(text))
		return err == nil && len(all) == 2 && len(all[0].Unsaid)+len(all[1].Unsaid) == 0
	})
	launch(t, l, launchSpec(text)) // the canary is not production
	all, err := l.Running(t.Context(), launchSpec(strings.Replace(text, "8123", "8124", 1)))
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, r := range all {
		if !slices.Equal(r.Images, []string{"sha256:" + strings.Repeat("ab", 32)}) || len(r.Differs) != 1 || !strings.Contains(r.Differs[0], `argument 2 is "8123", the release's "8124"`) {
			t.Errorf("%+v", r)
		}
	}
	if o, ok, err := l.Owner(t.Context(), launchSpec(text)); err != nil || !ok || o.Tool != "Argo CD" || o.Name != "apps" {
		t.Errorf("owner %+v, %v, %v", o, ok, err)
	}
}

// stopProduction: the subtests after this one count processes.
func stopProduction(t *testing.T, c *Cluster) {
	_ = c.Client.AppsV1().Deployments("dr-drill").Delete(context.Background(), "chat", metav1.DeleteOptions{})
	until(t, "production to end", func() bool { return len(podsOf(t, c, "app=chat")) == 0 })
}

// anotherProcess: after a kill -9 another process finds the canary by its label,
// reaches it at the address that it had, and takes it away by the undo's data alone.
func anotherProcess(t *testing.T, c *Cluster) {
	l := newLauncher(t, c, kubernetes.Options{})
	r := launch(t, l, launchSpec(deployment("args: [--port, \"8123\"]", "")))
	until(t, "the canary to serve", canaryHealthy(r))
	u, err := l.Undo(launchRun, launchName, filepath.Join(t.TempDir(), "late.log"))
	if err != nil {
		t.Fatal(err)
	}

	found, err := newLauncher(t, c, kubernetes.Options{}).Find(t.Context(), launchRun)
	if err != nil || len(found) != 1 || found[0].ID() != launchName {
		t.Fatalf("Find: %v, %v", found, err)
	}
	other := found[0].(*kubernetes.Replica)
	until(t, "it to be reached", canaryHealthy(other)) // the first process holds the port: another one is taken
	if found, err := l.Find(t.Context(), "another-run"); err != nil || len(found) != 0 {
		t.Errorf("of another run: %v, %v", found, err)
	}

	var args kubernetes.Args
	if err := json.Unmarshal(u.Args, &args); err != nil {
		t.Fatal(err)
	}
	args.Server = "https://elsewhere.example:6443"
	wrong, _ := json.Marshal(args)
	if err := kubernetes.UndoLaunch(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "the run was on") {
		t.Errorf("undo on another cluster: %v", err)
	}
	for range 2 { // it may be repeated
		if err := kubernetes.UndoLaunch(t.Context(), u.Args); err != nil {
			t.Fatal(err)
		}
	}
	if text, _ := os.ReadFile(args.Log); !strings.Contains(string(text), "Starting to load model") {
		t.Errorf("the kept log: %q", text)
	}
	if n := len(c.Processes()); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	select {
	case <-r.Exited():
	case <-time.After(10 * time.Second):
		t.Error("the first process does not see that its canary is gone")
	}
}

// documentedRoles: what docs/kubernetes.md asks for is enough for a whole life of a
// canary, and with the first role alone what is not seen is told, or refused.
func documentedRoles(t *testing.T, c *Cluster) {
	roles := documented(t, "../../docs/kubernetes.md")
	s := launchSpec(deployment("args: [--port, \"8123\"]", ""))
	t.Setenv("KUBECONFIG", limited(t, c, "drkit", roles["Role"].Rules...))
	l, err := kubernetes.New(kubernetes.Options{Context: "eu"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Check(t.Context(), s); err == nil || !strings.Contains(err.Error(), "listing priority classes") {
		t.Errorf("without the cluster's role: %v", err)
	}
	clusterRole(t, c, "drkit", roles["ClusterRole"].Rules...)
	until(t, "the role to count", func() bool {
		notes, err := l.Check(t.Context(), s)
		return err == nil && len(notes) == 0
	})
	r := launch(t, l, s)
	until(t, "the canary to serve", canaryHealthy(r))
	logUntil(t, r, "Application startup complete.")
	if out, err := r.Run(t.Context(), []string{"sh", "-c", "echo inside"}); err != nil || strings.TrimSpace(string(out)) != "inside" {
		t.Errorf("Run: %q, %v", out, err)
	}
	if trouble, ok := r.Trouble(); ok {
		t.Errorf("trouble: %+v", trouble)
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// apiServerKilled: an API server that goes and comes back ends neither the canary
// nor the way to it, and no proof of absence comes out of its silence.
func apiServerKilled(t *testing.T, c *Cluster) {
	l := newLauncher(t, c, kubernetes.Options{})
	r := launch(t, l, launchSpec(deployment("args: [--port, \"8123\"]", "")))
	until(t, "the canary to serve", canaryHealthy(r))
	url := r.Endpoint()
	c.KillAPIServer()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := r.Stop(ctx); err == nil || errext.StatusOf(err) != errext.Unclean {
		t.Errorf("Stop without an API server: %v", err)
	}
	if left, err := l.Find(t.Context(), launchRun); err == nil {
		t.Errorf("Find without an API server: %v", left)
	}
	select {
	case <-r.Exited():
		t.Errorf("it counts as ended: %s", r.ExitState())
	default:
	}
	c.RestartAPIServer(t)
	if got := r.Endpoint(); got != url {
		t.Errorf("its address was %s and is %s", url, got)
	}
	until(t, "the canary to be reached again", canaryHealthy(r))
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// causes: what keeps a canary from starting is named by class, in the words of
// scheduler and kubelet.
func causes(t *testing.T, c *Cluster) {
	l := newLauncher(t, c, kubernetes.Options{})
	for _, k := range []struct {
		name, more, rest, image string
		class, line             string
		fatal                   bool
	}{
		{"no GPU", "resources: {limits: {nvidia.com/gpu: 8}}", "", "", "Capacity", "Insufficient nvidia.com/gpu", false},
		{"another GPU", "", "nodeSelector: {gpu: h200}", "", "NodeSelector", "node affinity/selector", false},
		{"no image", "", "", "registry.example/llm/other@sha256:" + strings.Repeat("ef", 32), "ImagePull", "registry.example/llm/other", true},
		{"no secret", "env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: hub, key: token}}}]", "", "", "ContainerConfig", `"hub" not found`, true},
		{"init fails", "", "initContainers:\n- {name: fetch, image: 'sh:1', args: ['echo NoSuchBucket; exit 7'], terminationMessagePolicy: FallbackToLogsOnError}", "", "InitFailed", "exit status 7", true},
		{"out of memory", "command: [sh, -c, 'exit 137']", "", "", "OOMKilled", "OOMKilled", true},
		{"an end of its own", "command: [sh, -c, 'echo ValueError; exit 3']", "", "", "", "exit status 3", true},
		{"probe", "args: [--boot, 1h]\nstartupProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 1, failureThreshold: 2}", "", "", "ProbeKilled", "failed startup probe", true},
	} {
		t.Run(k.name, func(t *testing.T) {
			s := launchSpec(deployment(k.more, k.rest))
			if k.image != "" {
				s.Images[engineRef] = k.image
			}
			r := launch(t, l, s)
			if k.class == "" {
				<-r.Exited()
				if got := r.ExitState(); !strings.HasPrefix(got, k.line) {
					t.Errorf("ended %q", got)
				}
				return
			}
			var got drill.Trouble
			until(t, k.class, func() bool {
				got, _ = r.Trouble()
				return got.Class == k.class && got.Fatal == k.fatal
			})
			if !strings.Contains(got.Line, k.line) || got.Hint == "" {
				t.Errorf("%+v, want a line with %q", got, k.line)
			}
		})
	}
}

// refusals: what would keep a launch from working, or from being harmless, is told
// before anything is made.
func refusals(t *testing.T, c *Cluster) {
	core := c.Client.CoreV1()
	check := func(t *testing.T, o kubernetes.Options, s drill.Spec, want ...string) {
		t.Helper()
		_, err := newLauncher(t, c, o).Check(t.Context(), s)
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("Check = %v, want %q", err, w)
			}
		}
		if left := podsOf(t, c, kubernetes.LabelRun); len(left) != 0 {
			t.Errorf("Check left %v", left)
		}
	}
	plain := launchSpec(deployment("", ""))
	t.Run("a service by a kept label", func(t *testing.T) {
		apply(t, c, "dr-drill", "apiVersion: v1\nkind: Service\nmetadata: {name: front}\nspec: {selector: {app: chat}, ports: [{port: 80}]}")
		check(t, kubernetes.Options{KeepLabels: []string{"app"}}, plain, "Service front", "would send requests")
		if _, err := newLauncher(t, c, kubernetes.Options{KeepLabels: []string{"app"}}).Launch(t.Context(), plain); err == nil || !strings.Contains(err.Error(), "Service front") {
			t.Errorf("Launch: %v", err)
		}
		if _, err := newLauncher(t, c, kubernetes.Options{}).Check(t.Context(), plain); err != nil {
			t.Errorf("without the label: %v", err)
		}
	})
	t.Run("a budget of everything", func(t *testing.T) {
		budgets := c.Client.PolicyV1().PodDisruptionBudgets("dr-drill")
		if _, err := budgets.Create(t.Context(), parse[policyv1.PodDisruptionBudget](t, "metadata: {name: all}\nspec: {selector: {}, minAvailable: 1}"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		check(t, kubernetes.Options{}, plain, "PodDisruptionBudget all")
		_ = budgets.Delete(t.Context(), "all", metav1.DeleteOptions{})
	})
	t.Run("a router that finds every pod", func(t *testing.T) {
		apply(t, c, "default", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: router}\nspec:\n  replicas: 0\n  selector: {matchLabels: {app: router}}\n  template:\n    metadata: {labels: {app: router}}\n    spec: {containers: [{name: router, image: 'sh:1', args: [--service-discovery, k8s, --k8s-namespace, dr-drill]}]}")
		check(t, kubernetes.Options{}, plain, "Deployment default/router", "every pod of the namespace")
		_ = c.Client.AppsV1().Deployments("default").Delete(t.Context(), "router", metav1.DeleteOptions{})
	})
	t.Run("what it needs is not there", func(t *testing.T) {
		check(t, kubernetes.Options{}, launchSpec(deployment("envFrom: [{configMapRef: {name: settings}}]", "serviceAccountName: chat\nvolumes: [{name: w, persistentVolumeClaim: {claimName: weights}}]")),
			`persistentvolumeclaim "weights" is not in the cluster`, `configmap "settings"`, `serviceaccount "chat"`)
	})
	t.Run("a kind that the cluster does not know", func(t *testing.T) {
		s := launchSpec(deployment("", ""))
		s.Deploy = append(s.Deploy, drill.DeployFile{Path: "lws.yaml", Data: []byte("apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: big}")})
		check(t, kubernetes.Options{}, s, "does not know LeaderWorkerSet")
	})
	t.Run("quota", func(t *testing.T) {
		quotas := core.ResourceQuotas("dr-drill")
		if _, err := quotas.Create(t.Context(), parse[corev1.ResourceQuota](t, "metadata: {name: small}\nspec: {hard: {requests.nvidia.com/gpu: 1}}"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		s := launchSpec(deployment("resources: {limits: {nvidia.com/gpu: 2}}", ""))
		until(t, "the quota to be counted", func() bool {
			_, err := newLauncher(t, c, kubernetes.Options{}).Check(t.Context(), s)
			return err != nil && strings.Contains(err.Error(), "exceeded quota: small")
		})
		_ = quotas.Delete(t.Context(), "small", metav1.DeleteOptions{})
	})
	t.Run("namespace and context", func(t *testing.T) {
		check(t, kubernetes.Options{Namespace: "nowhere"}, plain, `"nowhere" not found`)
		if _, err := kubernetes.New(kubernetes.Options{Context: "us"}); err == nil || errext.StatusOf(err) != errext.Usage || !strings.Contains(err.Error(), `"us"`) {
			t.Errorf("no such context: %v", err)
		}
	})
	t.Run("a field that no pod has", func(t *testing.T) {
		check(t, kubernetes.Options{Patches: []kubernetes.Patch{{Name: "p", Data: []byte("spec: {containers: [{name: engine, resources: {limits: {cpu: none}}}]}")}}}, plain, "quantities must match")
	})
	t.Run("pre-emption", func(t *testing.T) {
		classes := c.Client.SchedulingV1().PriorityClasses()
		class := parse[schedulingv1.PriorityClass](t, "metadata: {name: batch}\nvalue: -100")
		if _, err := classes.Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		check(t, kubernetes.Options{}, plain, "could pre-empt those of class batch")
		never := parse[schedulingv1.PriorityClass](t, "metadata: {name: canary}\nvalue: -10\npreemptionPolicy: Never")
		if _, err := classes.Create(t.Context(), never, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		until(t, "the class to be known", func() bool {
			_, err := newLauncher(t, c, kubernetes.Options{}).Check(t.Context(), plain)
			return err == nil
		})
		launch(t, newLauncher(t, c, kubernetes.Options{}), plain)
		pod, err := core.Pods("dr-drill").Get(t.Context(), kubernetes.PodName(launchRun, launchName), metav1.GetOptions{})
		if err != nil || pod.Spec.PriorityClassName != "canary" || *pod.Spec.PreemptionPolicy != corev1.PreemptNever || *pod.Spec.Priority != -10 {
			t.Errorf("%+v, %v", pod.Spec, err)
		}
		_ = classes.Delete(t.Context(), "batch", metav1.DeleteOptions{})
		_ = classes.Delete(t.Context(), "canary", metav1.DeleteOptions{})
	})
	t.Run("permissions", func(t *testing.T) {
		user := limited(t, c, "watcher", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}})
		t.Setenv("KUBECONFIG", user)
		l, err := kubernetes.New(kubernetes.Options{Context: "eu"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Check(t.Context(), plain)
		for _, want := range []string{"not allowed in namespace dr-drill", "create pods", "patch pods", "delete pods", "get pods/log", "create pods/portforward"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Check = %v, want %q", err, want)
			}
		}
	})
}
