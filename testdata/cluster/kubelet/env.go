//go:build linux

package kubelet

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plan translates what the container asks for into a command of this machine. n
// counts its starts. The errors are those that a real kubelet names CreateContainerConfigError.
func (c *container) plan(ctx context.Context, image Image, n int) (command, error) {
	paths, err := c.paths(image)
	if err != nil {
		return command{}, err
	}
	env, err := c.environment(ctx, image, paths)
	if err != nil {
		return command{}, err
	}
	argv := image.Entrypoint
	args := image.Cmd
	if len(c.spec.Command) > 0 {
		argv, args = c.spec.Command, nil
	}
	if len(c.spec.Args) > 0 {
		args = c.spec.Args
	}
	argv = slices.Concat(argv, args)
	if len(argv) == 0 {
		return command{}, fmt.Errorf("no command specified")
	}
	for i := range argv {
		argv[i] = paths.rewrite(expand(argv[i], env))
	}
	if image.Rewrite != nil {
		argv = image.Rewrite(c.p.ip, argv)
	}
	dir := paths.rewrite(c.spec.WorkingDir)
	if dir == "" {
		if dir, err = c.p.scratch("work"); err != nil {
			return command{}, err
		}
	}
	out := command{argv: argv, dir: dir, mark: fmt.Sprintf("%s/%s/%d/", c.p.dir, c.spec.Name, n)}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out.env = append(out.env, name+"="+env[name])
	}
	return out, nil
}

// environment is what the container sees and nothing of this process's own but PATH.
func (c *container) environment(ctx context.Context, image Image, paths table) (map[string]string, error) {
	home, err := c.p.scratch("home")
	if err != nil {
		return nil, err
	}
	tmp, err := c.p.scratch("tmp")
	if err != nil {
		return nil, err
	}
	env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": home, "TMPDIR": tmp, "HOSTNAME": c.p.api.Name}
	maps.Copy(env, c.p.k.Env)
	maps.Copy(env, image.Env)
	if links := c.p.api.Spec.EnableServiceLinks; links == nil || *links {
		if err := c.serviceLinks(ctx, env); err != nil {
			return nil, err
		}
	}
	for _, from := range c.spec.EnvFrom {
		if err := c.envFrom(ctx, from, env); err != nil {
			return nil, err
		}
	}
	for _, v := range c.spec.Env {
		value, ok, err := expand(v.Value, env), true, error(nil)
		if v.ValueFrom != nil {
			value, ok, err = c.valueFrom(ctx, v.ValueFrom)
		}
		if err != nil {
			return nil, err
		}
		if ok {
			env[v.Name] = paths.rewrite(value)
		}
	}
	return env, nil
}

// serviceLinks adds the variables of the services in the pod's name space: a
// Service named vllm makes VLLM_PORT, which ends vLLM.
func (c *container) serviceLinks(ctx context.Context, env map[string]string) error {
	list, err := c.p.k.Client.CoreV1().Services(c.p.api.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, s := range list.Items {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.Ports) == 0 {
			continue
		}
		name := strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
		env[name+"_SERVICE_HOST"] = s.Spec.ClusterIP
		env[name+"_SERVICE_PORT"] = fmt.Sprint(s.Spec.Ports[0].Port)
		env[name+"_PORT"] = fmt.Sprintf("%s://%s:%d", strings.ToLower(string(s.Spec.Ports[0].Protocol)), s.Spec.ClusterIP, s.Spec.Ports[0].Port)
	}
	return nil
}

func (c *container) envFrom(ctx context.Context, from corev1.EnvFromSource, env map[string]string) error {
	switch {
	case from.ConfigMapRef != nil:
		data, err := c.p.configMap(ctx, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		for k, v := range data {
			env[from.Prefix+k] = string(v)
		}
		return err
	case from.SecretRef != nil:
		data, err := c.p.secret(ctx, from.SecretRef.Name, from.SecretRef.Optional)
		for k, v := range data {
			env[from.Prefix+k] = string(v)
		}
		return err
	}
	return nil
}

func (c *container) valueFrom(ctx context.Context, from *corev1.EnvVarSource) (value string, ok bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = c.p.field(from.FieldRef.FieldPath)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		data, err := c.p.configMap(ctx, r.Name, r.Optional)
		return key(data, "configmap", r.Name, r.Key, r.Optional, err)
	case from.SecretKeyRef != nil:
		r := from.SecretKeyRef
		data, err := c.p.secret(ctx, r.Name, r.Optional)
		return key(data, "secret", r.Name, r.Key, r.Optional, err)
	}
	return "", false, fmt.Errorf("the test kubelet knows no such source of a variable")
}

func key(data map[string][]byte, kind, name, key string, optional *bool, err error) (string, bool, error) {
	if err != nil {
		return "", false, err
	}
	value, ok := data[key]
	if !ok && (optional == nil || !*optional) {
		return "", false, fmt.Errorf("couldn't find key %s in %s %s", key, kind, name)
	}
	return string(value), ok, nil
}

func (p *pod) configMap(ctx context.Context, name string, optional *bool) (map[string][]byte, error) {
	m, err := p.k.Client.CoreV1().ConfigMaps(p.api.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{}
	for k, v := range m.Data {
		data[k] = []byte(v)
	}
	maps.Copy(data, m.BinaryData)
	return data, nil
}

func (p *pod) secret(ctx context.Context, name string, optional *bool) (map[string][]byte, error) {
	s, err := p.k.Client.CoreV1().Secrets(p.api.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s.Data, nil
}

var mapField = regexp.MustCompile(`^metadata\.(annotations|labels)\['([^']*)'\]$`)

// field is what the downward API says.
func (p *pod) field(path string) (string, error) {
	if m := mapField.FindStringSubmatch(path); m != nil {
		if m[1] == "labels" {
			return p.api.Labels[m[2]], nil
		}
		return p.api.Annotations[m[2]], nil
	}
	switch path {
	case "metadata.name":
		return p.api.Name, nil
	case "metadata.namespace":
		return p.api.Namespace, nil
	case "metadata.uid":
		return string(p.api.UID), nil
	case "spec.nodeName":
		return p.api.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return p.api.Spec.ServiceAccountName, nil
	case "status.podIP":
		return p.ip, nil
	case "status.hostIP":
		return p.k.hostIP(), nil
	}
	return "", fmt.Errorf("the test kubelet does not know the field %s", path)
}

var reference = regexp.MustCompile(`\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)`)

// expand replaces $(NAME) where NAME is known; $$ stands for one $.
func expand(text string, env map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(m string) string {
		if m == "$$" {
			return "$"
		}
		if v, ok := env[m[2:len(m)-1]]; ok {
			return v
		}
		return m
	})
}
