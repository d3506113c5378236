package kubernetes

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json" // whole numbers stay whole
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"drkit/drill"
)

// coreScheme knows the types of the core group. It is made when a cluster is asked:
// no other command pays for it.
var coreScheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := corev1.AddToScheme(s); err != nil {
		panic(err) // a scheme of our own and types of the library
	}
	return s
})

// parameters writes options of a request into its URL.
func parameters() runtime.ParameterCodec { return runtime.NewParameterCodec(coreScheme()) }

// object is one resource of a deploy file.
type object struct {
	drill.DeployFile
	unstructured.Unstructured
}

func (o object) String() string {
	return fmt.Sprintf("%s/%s of %s", o.GetKind(), o.GetName(), o.Path)
}

// objects are the resources of a file, those of lists too.
func objects(f drill.DeployFile) (all []object, err error) {
	defer func() {
		if r := recover(); r != nil { // foreign bytes must never take drkit down
			err = fmt.Errorf("%s: the YAML parser gave up: %v", f.Path, r)
		}
	}()
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(f.Data)))
	for {
		doc, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		text, err := sigsyaml.YAMLToJSONStrict(doc)
		var fields map[string]any
		if err == nil {
			err = json.Unmarshal(text, &fields)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		all = append(all, listed(f, unstructured.Unstructured{Object: fields})...)
	}
}

func listed(f drill.DeployFile, u unstructured.Unstructured) (all []object) {
	if u.GetKind() == "" || u.GetAPIVersion() == "" {
		return nil // no resource: Helm values, Compose
	}
	items, isList, err := unstructured.NestedSlice(u.Object, "items")
	if err != nil || !isList {
		return []object{{f, u}}
	}
	for _, item := range items {
		if fields, ok := item.(map[string]any); ok {
			all = append(all, listed(f, unstructured.Unstructured{Object: fields})...)
		}
	}
	return all
}

// into reads a part of a resource strictly: a field that no Kubernetes type has is an
// error, as the API server would say.
func into(fields map[string]any, to any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(fields, to, true)
}
