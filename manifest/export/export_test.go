package export_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/manifest"
	"drkit/manifest/digest"
	"drkit/manifest/export"
	"drkit/manifest/model"
	"drkit/manifest/oms"
)

var update = flag.Bool("update", false, "write the golden files anew; scripts/conformance then judges them")

const golden = "../../testdata/oms/"

// sum is a digest that only has to look like one.
func sum(digit string) digest.Set { return digest.Set{digest.SHA256: strings.Repeat(digit, 64)} }

// release is a service whose base model is the golden one of model_signing.
func release(t *testing.T) *manifest.Manifest {
	t.Helper()
	var listing struct {
		Files []struct {
			Path, SHA256 string
			Size         int64
		}
	}
	data, err := os.ReadFile(golden + "mini.listing.json")
	if err == nil {
		err = json.Unmarshal(data, &listing)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := &manifest.Manifest{Schema: manifest.Schema, Service: "support"}
	for _, f := range listing.Files {
		m.Contents.Files = append(m.Contents.Files, manifest.File{Part: manifest.Model, Path: "base/" + f.Path, Size: f.Size, Role: manifest.Other, Sums: digest.Set{digest.SHA256: f.SHA256}})
	}
	m.Contents.Files = append(m.Contents.Files,
		manifest.File{Part: manifest.Deploy, Region: "eu", Path: "pod.yaml", Size: 7, Role: manifest.Kubernetes, Sums: sum("1")},
		manifest.File{Part: manifest.Engine, Path: "vllm.yaml", Size: 8, Role: manifest.EngineConfig, Sums: digest.Set{digest.SHA256: strings.Repeat("2", 64), digest.MD5: strings.Repeat("3", 32)}},
		manifest.File{Part: manifest.Model, Path: "adapters/billing/adapter_config.json", Size: 9, Role: manifest.AdapterFile, Sums: sum("4")},
		manifest.File{Part: manifest.Model, Path: "drafts/small/config.json", Size: 10, Role: manifest.Draft, Sums: sum("5")},
	)
	m.Contents.Images = []manifest.Image{
		{Reference: "b.example/vllm:1", Region: "eu"},
		{Reference: "a.example/vllm:1", Digest: digest.Digest{Algorithm: digest.SHA256, Hex: strings.Repeat("6", 64)}},
	}
	m.Annotations = manifest.Annotations{
		Tool:   "1.0",
		Model:  &model.Facts{Config: &model.Config{Architectures: []string{"LlamaForCausalLM"}, ModelType: "llama"}},
		Drafts: []manifest.DraftFacts{{Name: "small", Facts: &model.Facts{Config: &model.Config{ModelType: "qwen2"}}}},
		Engine: []manifest.EngineFacts{{Kind: "vllm", Version: "0.32.0"}, {Region: "eu", Kind: "vllm", Version: "0.32.0"}},
	}
	m.Release = manifest.ReleaseID(m.Contents)
	return m
}

// shuffled has the same contents in another order.
func shuffled(m *manifest.Manifest) *manifest.Manifest {
	other := *m
	other.Contents.Files, other.Contents.Images = slices.Clone(m.Contents.Files), slices.Clone(m.Contents.Images)
	slices.Reverse(other.Contents.Files)
	slices.Reverse(other.Contents.Images)
	return &other
}

// model_signing signed this very model as a folder.
func TestStatementIsThatOfTheFolder(t *testing.T) {
	data, err := os.ReadFile(golden + "mini.sig")
	if err != nil {
		t.Fatal(err)
	}
	pub, err := os.ReadFile(golden + "key.pub.pem")
	if err != nil {
		t.Fatal(err)
	}
	key, err := oms.PublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	b, err := oms.ReadBundle(data)
	if err != nil {
		t.Fatal(err)
	}
	want, err := b.Verify(key)
	if err != nil {
		t.Fatal(err)
	}
	got, err := export.Statement(release(t), export.Base)
	if err != nil || got.Root != want.Root || !slices.Equal(got.Resources, want.Resources) {
		t.Fatalf("%+v, %v, want %+v", got, err, want)
	}
	if want := []string{".cache/huggingface", ".git", ".gitattributes", ".github", ".gitignore"}; got.Name != "support" || !slices.Equal(got.Serialization.IgnorePaths, want) {
		t.Errorf("%+v", got)
	}
	files, err := export.Files(release(t), export.Base)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := want.CheckDigests(files, export.LeftOut, oms.Options{}); err != nil || res.Tampered(false) || res.Matched != 13 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestTrees(t *testing.T) {
	m := shuffled(release(t))
	if got, want := export.Trees(m), []string{"base", "adapters/billing", "drafts/small"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	s, err := export.Statement(m, "adapters/billing")
	if err != nil || s.Name != "billing" || len(s.Resources) != 1 || s.Resources[0] != oms.File("adapter_config.json", strings.Repeat("4", 64)) {
		t.Errorf("%+v, %v", s, err)
	}
	for _, tree := range []string{"", "adapters", "adapters/bill", "adapters/billing/", "engine"} {
		if _, err := export.Statement(m, tree); errext.StatusOf(err) != errext.Usage || !strings.Contains(errext.Hint(err), "adapters/billing") {
			t.Errorf("%q: %v", tree, err)
		}
	}
	if s, err := export.Statement(m, "base", "a"); err != nil || len(s.Resources) != 12 || s.Covers("a/b") || !s.Covers("a.b") {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSHA256Sum(t *testing.T) {
	m := release(t)
	m.Contents.Files = m.Contents.Files[14:17] // base/重み/層.bin, deploy, engine
	want := strings.Repeat("1", 64) + "  deploy/@eu/pod.yaml\n" + strings.Repeat("2", 64) + "  engine/vllm.yaml\n" +
		"0bfe935e70c321c7ca3afc75ce0d0ca2f98b5422e008bb31c00c6d7f1f1c0ad6  model/base/重み/層.bin\n"
	if got := string(export.SHA256Sum(m)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// scripts/conformance judges the golden file against the schema.
func TestCycloneDX(t *testing.T) {
	got, err := export.CycloneDX(release(t))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("testdata/release.cdx.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/release.cdx.json")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, got\n%s", err, got)
	}
	if again, err := export.CycloneDX(shuffled(release(t))); err != nil || !bytes.Equal(again, got) {
		t.Errorf("another order of the contents gives other bytes, %v", err)
	}
}

// Every reference leads to one component, and every file of the release is one.
func TestCycloneDXIsWhole(t *testing.T) {
	m := release(t)
	data, err := export.CycloneDX(m)
	if err != nil {
		t.Fatal(err)
	}
	type component struct {
		Ref        string `json:"bom-ref"`
		Components []component
	}
	var bom struct {
		Metadata     struct{ Component component }
		Components   []component
		Dependencies []struct {
			Ref       string
			DependsOn []string
		}
	}
	if err := json.Unmarshal(data, &bom); err != nil {
		t.Fatal(err)
	}
	refs := map[string]int{bom.Metadata.Component.Ref: 1}
	for _, c := range bom.Components {
		refs[c.Ref]++
		for _, f := range c.Components {
			refs[f.Ref]++
		}
	}
	for _, f := range m.Contents.Files {
		if refs[f.Subject()] != 1 {
			t.Errorf("%s stands %d times", f.Subject(), refs[f.Subject()])
		}
	}
	for _, d := range bom.Dependencies {
		for _, ref := range append(d.DependsOn, d.Ref) {
			if refs[ref] != 1 {
				t.Errorf("%s leads to %d components", ref, refs[ref])
			}
		}
	}
	if n := len(bom.Dependencies); n != 3 || len(bom.Dependencies[0].DependsOn) != len(bom.Components) {
		t.Errorf("%d dependencies: %+v", n, bom.Dependencies)
	}
}
