//go:build linux

package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mountAll makes every volume, or tries until the pod is to end.
func (p *pod) mountAll(ctx context.Context) bool {
	for {
		ok := true
		for _, v := range p.api.Spec.Volumes {
			path, err := p.mount(ctx, v)
			if err != nil {
				p.event(corev1.EventTypeWarning, "FailedMount", "MountVolume.SetUp failed for volume %q : %v", v.Name, err)
				ok = false
				continue
			}
			p.volumes[v.Name] = path
		}
		if ok || !p.sleep(time.Second) {
			return ok && !p.stopped()
		}
	}
}

func (p *pod) mount(ctx context.Context, v corev1.Volume) (string, error) {
	switch {
	case v.HostPath != nil:
		return hostPath(v.HostPath)
	case v.EmptyDir != nil:
		return p.scratch("volumes/" + v.Name)
	case v.PersistentVolumeClaim != nil:
		return p.claim(ctx, v.PersistentVolumeClaim.ClaimName)
	}
	files, err := p.files(ctx, v.VolumeSource)
	if err != nil {
		return "", err
	}
	dir, err := p.scratch("volumes/" + v.Name)
	if err != nil {
		return "", err
	}
	for name, data := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return "", err
		}
		if err := os.WriteFile(file, data, 0o666); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func hostPath(v *corev1.HostPathVolumeSource) (string, error) {
	kind := corev1.HostPathUnset
	if v.Type != nil {
		kind = *v.Type
	}
	info, err := os.Stat(v.Path)
	switch {
	case kind == corev1.HostPathDirectoryOrCreate:
		return v.Path, os.MkdirAll(v.Path, 0o777)
	case kind == corev1.HostPathDirectory && (err != nil || !info.IsDir()):
		return "", fmt.Errorf("hostPath type check failed: %s is not a directory", v.Path)
	case kind == corev1.HostPathFile && (err != nil || !info.Mode().IsRegular()):
		return "", fmt.Errorf("hostPath type check failed: %s is not a file", v.Path)
	}
	return v.Path, nil
}

// claim is the folder of the volume that a claim is bound to.
func (p *pod) claim(ctx context.Context, name string) (string, error) {
	claim, err := p.k.Client.CoreV1().PersistentVolumeClaims(p.api.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return "", fmt.Errorf("persistentvolumeclaim %q is not bound", name)
	}
	v, err := p.k.Client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	switch {
	case err != nil:
		return "", err
	case v.Spec.HostPath != nil:
		return hostPath(v.Spec.HostPath)
	case v.Spec.Local != nil:
		return v.Spec.Local.Path, nil
	}
	return "", fmt.Errorf("the test kubelet mounts hostPath and local volumes only, and %s is another", v.Name)
}

// files are those of a volume that the API server's objects fill.
func (p *pod) files(ctx context.Context, v corev1.VolumeSource) (map[string][]byte, error) {
	switch {
	case v.ConfigMap != nil:
		data, err := p.configMap(ctx, v.ConfigMap.Name, v.ConfigMap.Optional)
		return items(data, v.ConfigMap.Items), err
	case v.Secret != nil:
		data, err := p.secret(ctx, v.Secret.SecretName, v.Secret.Optional)
		return items(data, v.Secret.Items), err
	case v.DownwardAPI != nil:
		return p.downward(v.DownwardAPI.Items)
	case v.Projected != nil:
		return p.projected(ctx, v.Projected.Sources)
	}
	return nil, fmt.Errorf("the test kubelet does not know volumes of this kind")
}

func (p *pod) projected(ctx context.Context, sources []corev1.VolumeProjection) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, s := range sources {
		var files map[string][]byte
		var err error
		switch {
		case s.ConfigMap != nil:
			files, err = p.configMap(ctx, s.ConfigMap.Name, s.ConfigMap.Optional)
			files = items(files, s.ConfigMap.Items)
		case s.Secret != nil:
			files, err = p.secret(ctx, s.Secret.Name, s.Secret.Optional)
			files = items(files, s.Secret.Items)
		case s.DownwardAPI != nil:
			files, err = p.downward(s.DownwardAPI.Items)
		case s.ServiceAccountToken != nil:
			files, err = p.token(ctx, s.ServiceAccountToken)
		default:
			err = fmt.Errorf("the test kubelet does not know projections of this kind")
		}
		if err != nil {
			return nil, err
		}
		for name, data := range files {
			all[name] = data
		}
	}
	return all, nil
}

func (p *pod) token(ctx context.Context, s *corev1.ServiceAccountTokenProjection) (map[string][]byte, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: s.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.api.Name, UID: p.api.UID},
	}}
	if s.Audience != "" {
		request.Spec.Audiences = []string{s.Audience}
	}
	answer, err := p.k.Client.CoreV1().ServiceAccounts(p.api.Namespace).CreateToken(ctx, p.api.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return map[string][]byte{s.Path: []byte(answer.Status.Token)}, nil
}

func (p *pod) downward(list []corev1.DownwardAPIVolumeFile) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, f := range list {
		if f.FieldRef == nil {
			return nil, fmt.Errorf("the test kubelet knows fieldRef only, which %s is not", f.Path)
		}
		text, err := p.field(f.FieldRef.FieldPath)
		if err != nil {
			return nil, err
		}
		files[f.Path] = []byte(text)
	}
	return files, nil
}

// items picks keys and names their files; no list means all of them.
func items(data map[string][]byte, list []corev1.KeyToPath) map[string][]byte {
	if len(list) == 0 {
		return data
	}
	files := map[string][]byte{}
	for _, i := range list {
		if value, ok := data[i.Key]; ok {
			files[i.Path] = value
		}
	}
	return files
}

// table holds paths as a container sees them and where they are, longest first.
type table []struct{ inside, here string }

func (c *container) paths(image Image) (table, error) {
	var t table
	for inside, here := range image.Files {
		t = append(t, struct{ inside, here string }{inside, here})
	}
	for _, m := range c.spec.VolumeMounts {
		here := filepath.Join(c.p.volumes[m.Name], m.SubPath)
		t = append(t, struct{ inside, here string }{filepath.Clean(m.MountPath), here})
	}
	sort.SliceStable(t, func(i, j int) bool { return len(t[i].inside) > len(t[j].inside) })
	return t, nil
}

// rewrite replaces paths where they stand as paths: "/models" in "/models/a",
// "--model=/models" and "x:/models", not in "/models2" or "/old/models".
func (t table) rewrite(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		if n := t.match(text, i, &out); n > 0 {
			i += n
			continue
		}
		out.WriteByte(text[i])
		i++
	}
	return out.String()
}

func (t table) match(text string, at int, out *strings.Builder) int {
	if at > 0 && !strings.ContainsRune(`=:,;"' `, rune(text[at-1])) {
		return 0
	}
	for _, p := range t {
		rest, ok := strings.CutPrefix(text[at:], p.inside)
		if ok && (rest == "" || strings.ContainsRune(`/=:,;"' `, rune(rest[0]))) {
			out.WriteString(p.here)
			return len(p.inside)
		}
	}
	return 0
}
