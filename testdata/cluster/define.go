//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Define makes the API server know a kind, as installing its controller would, and
// returns when it does. Objects of it lie in name spaces, and nobody looks at their fields.
func (c *Cluster) Define(t testing.TB, group, version, kind string) {
	t.Helper()
	if err := c.define(group, version, kind); err != nil {
		t.Fatalf("defining %s: %v", kind, err)
	}
}

func (c *Cluster) define(group, version, kind string) error {
	one := strings.ToLower(kind)
	text, err := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": one + "s." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"plural": one + "s", "singular": one, "kind": kind, "listKind": kind + "List"},
			"versions": []any{map[string]any{"name": version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
		},
	})
	if err != nil {
		return err
	}
	client := c.Client.Discovery().RESTClient()
	err = client.Post().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").SetHeader("Content-Type", "application/json").Body(text).Do(context.Background()).Error()
	if err != nil {
		return err
	}
	return c.wait("kube-apiserver", func(context.Context) error {
		known, err := c.Client.Discovery().ServerResourcesForGroupVersion(group + "/" + version)
		if err == nil && !slices.ContainsFunc(known.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind }) {
			err = fmt.Errorf("the API server serves no %s of %s/%s", kind, group, version)
		}
		return err
	})
}
