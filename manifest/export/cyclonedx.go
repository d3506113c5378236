package export

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/manifest/model"
)

// CycloneDX is the release as an ML-BOM of version 1.6: the service depends on
// its models, engines, files and images, an adapter or draft on the base model. A
// model's version is the root of its OMS statement.
func CycloneDX(m *manifest.Manifest) ([]byte, error) {
	b, err := bom(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(b, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("encoding the ML-BOM: %w", err)
	}
	return out.Bytes(), nil
}

func bom(m *manifest.Manifest) (*cdx.BOM, error) {
	models, err := models(m)
	if err != nil {
		return nil, err
	}
	components := slices.Concat(models, engines(m), loose(m), images(m))
	service := cdx.Component{Type: cdx.ComponentTypeApplication, BOMRef: "service", Name: m.Service, Version: m.Release}
	b := cdx.NewBOM()
	b.SerialNumber = serial(m.Release)
	b.Metadata = &cdx.Metadata{Component: &service}
	if m.Annotations.Tool != "" {
		b.Metadata.Tools = &cdx.ToolsChoice{Components: &[]cdx.Component{{Type: cdx.ComponentTypeApplication, Name: "drkit", Version: m.Annotations.Tool}}}
	}
	b.Components = &components
	b.Dependencies = dependencies(service.BOMRef, components)
	return b, nil
}

// serial is a UUID of version 8 made of the release, so that a release has one.
func serial(release string) string {
	u := sha256.Sum256([]byte("drkit-cyclonedx/1\n" + release))
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// models has one component a model, with its files inside.
func models(m *manifest.Manifest) ([]cdx.Component, error) {
	var all []cdx.Component
	for _, tree := range Trees(m) {
		s, err := Statement(m, tree)
		if err != nil {
			return nil, err
		}
		var files []cdx.Component
		for _, f := range sorted(m) {
			if treeOf(f) == tree {
				files = append(files, file(f, strings.TrimPrefix(f.Path, tree+"/")))
			}
		}
		all = append(all, cdx.Component{Type: cdx.ComponentTypeMachineLearningModel, BOMRef: "model/" + tree, Group: m.Service, Name: tree,
			Version: "sha256:" + s.Root, ModelCard: card(facts(m, tree)), Components: &files})
	}
	return all, nil
}

// facts are what was read out of a model; nil for an adapter.
func facts(m *manifest.Manifest, tree string) *model.Facts {
	if tree == Base {
		return m.Annotations.Model
	}
	for _, d := range m.Annotations.Drafts {
		if tree == "drafts/"+d.Name {
			return d.Facts
		}
	}
	return nil
}

// card states the architecture where it is known, and nothing that is not.
func card(f *model.Facts) *cdx.MLModelCard {
	if f == nil || f.Config == nil || (f.Config.ModelType == "" && len(f.Config.Architectures) == 0) {
		return nil
	}
	return &cdx.MLModelCard{ModelParameters: &cdx.MLModelParameters{
		ArchitectureFamily: f.Config.ModelType, ModelArchitecture: strings.Join(f.Config.Architectures, ", ")}}
}

func file(f manifest.File, name string) cdx.Component {
	hashes := []cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: f.Sums[digest.SHA256]}}
	if md5, ok := f.Sums[digest.MD5]; ok {
		hashes = append(hashes, cdx.Hash{Algorithm: cdx.HashAlgoMD5, Value: md5})
	}
	properties := []cdx.Property{{Name: "drkit:role", Value: string(f.Role)}, {Name: "drkit:size", Value: fmt.Sprint(f.Size)}}
	return cdx.Component{Type: cdx.ComponentTypeFile, BOMRef: f.Subject(), Name: name, Hashes: &hashes, Properties: inRegion(properties, f.Region)}
}

func inRegion(properties []cdx.Property, region string) *[]cdx.Property {
	if region != "" {
		properties = append(properties, cdx.Property{Name: "drkit:region", Value: region})
	}
	if len(properties) == 0 {
		return nil
	}
	return &properties
}

// engines has one component a kind and version of engine.
func engines(m *manifest.Manifest) []cdx.Component {
	var all []cdx.Component
	seen := map[string]bool{}
	for _, e := range m.Annotations.Engine {
		if ref := "engine:" + e.Kind + "@" + e.Version; e.Kind != "" && !seen[ref] {
			seen[ref] = true
			all = append(all, cdx.Component{Type: cdx.ComponentTypeFramework, BOMRef: ref, Name: e.Kind, Version: e.Version})
		}
	}
	slices.SortFunc(all, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	return all
}

// loose are the files of the engine and deploy parts.
func loose(m *manifest.Manifest) []cdx.Component {
	var all []cdx.Component
	for _, f := range sorted(m) {
		if f.Part != manifest.Model {
			all = append(all, file(f, string(f.Part)+"/"+f.Path))
		}
	}
	return all
}

func images(m *manifest.Manifest) []cdx.Component {
	var all []cdx.Component
	for _, i := range m.Contents.Images {
		c := cdx.Component{Type: cdx.ComponentTypeContainer, BOMRef: "image:" + i.Region + ":" + i.Reference, Name: i.Reference, Version: i.Digest.String()}
		switch i.Digest.Algorithm {
		case digest.SHA256:
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: i.Digest.Hex}}
		case digest.SHA512:
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA512, Value: i.Digest.Hex}}
		}
		c.Properties = inRegion(nil, i.Region)
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	return all
}

// dependencies: the service needs everything, what is laid over the base model
// needs that.
func dependencies(service string, components []cdx.Component) *[]cdx.Dependency {
	var refs []string
	var all []cdx.Dependency
	for _, c := range components {
		refs = append(refs, c.BOMRef)
		if c.Type == cdx.ComponentTypeMachineLearningModel && c.Name != Base {
			all = append(all, cdx.Dependency{Ref: c.BOMRef, Dependencies: &[]string{"model/" + Base}})
		}
	}
	all = append([]cdx.Dependency{{Ref: service, Dependencies: &refs}}, all...)
	return &all
}
