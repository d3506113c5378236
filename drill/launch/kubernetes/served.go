package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// served is what the API server said that it serves, by group and version. client-go's
// own discovery would do; it brings the types of all of Kubernetes along, which double
// the memory of every command.
type served struct {
	mu  sync.Mutex
	all map[schema.GroupVersion][]metav1.APIResource
}

// resources lists what the API server serves of a group and version; none where it
// does not know them.
func (l *Launcher) resources(ctx context.Context, gv schema.GroupVersion) ([]metav1.APIResource, error) {
	l.served.mu.Lock()
	defer l.served.mu.Unlock()
	if all, ok := l.served.all[gv]; ok {
		return all, nil
	}
	path := "/apis/" + gv.String()
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	asked, cancel := asking(ctx)
	defer cancel()
	raw, err := l.core.Get().AbsPath(path).Do(asked).Raw()
	var list metav1.APIResourceList
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, fmt.Errorf("reading what %s serves: %w", path, err)
		}
	}
	if l.served.all == nil {
		l.served.all = map[schema.GroupVersion][]metav1.APIResource{}
	}
	l.served.all[gv] = list.APIResources
	return list.APIResources, nil
}

// knows reports whether the API server serves a kind.
func (l *Launcher) knows(ctx context.Context, k schema.GroupVersionKind) (bool, error) {
	all, err := l.resources(ctx, k.GroupVersion())
	return slices.ContainsFunc(all, func(r metav1.APIResource) bool {
		return r.Kind == k.Kind && !strings.Contains(r.Name, "/") // those with a slash are parts, such as pods/log
	}), err
}

// serves reports whether the API server serves a resource.
func (l *Launcher) serves(ctx context.Context, r schema.GroupVersionResource) (bool, error) {
	all, err := l.resources(ctx, r.GroupVersion())
	return slices.ContainsFunc(all, func(a metav1.APIResource) bool { return a.Name == r.Resource }), err
}
