package lockfile

import (
	"os"
	"testing"
)

// TestContentHashes compares with the hashes that the tools' own code computed
// for the files in testdata/manifests: poetry 2.5.1, pdm 2.29.4, pipenv 2026.10.3
// and its plette. The manifests hold non-ASCII names, tables, arrays of tables,
// booleans, groups that include others, and group names to be normalised.
func TestContentHashes(t *testing.T) {
	poetry := func(groups bool) func(map[string]any) (string, error) {
		return func(raw map[string]any) (string, error) { return poetryHash(raw, groups) }
	}
	pipenv := func(canonical bool) func(map[string]any) (string, error) {
		return func(raw map[string]any) (string, error) { return pipfileHash(raw, canonical) }
	}
	tests := []struct {
		name, file, want string
		hash             func(map[string]any) (string, error)
	}{
		{"poetry without project", "poetry-legacy.toml", "26e1ee4b67c4aacb3d22fbaa3652dc5ae5bbc76223d7e858293493d04cc47178", poetry(true)},
		{"poetry with groups", "poetry-groups.toml", "f940b741933d4b37ee308b485d9d5cbb6cbaa4841e2ac9fba30e67d84394f034", poetry(true)},
		{"poetry before 2.3", "poetry-groups.toml", "588b234893467124f3a7d5bee613fd5412af415bcc1340f925d58716c8d93235", poetry(false)},
		{"pdm", "pdm-groups.toml", "ed34d578e6b96a64a6d2fbb3e0141a2bba2122af420a07a4fe9d6cca66833a6d", pdmProjectHash},
		{"pipenv", "Pipfile", "b0617cba70805d6b522294451794a3e345f95d9da4e88a4cec1c26c63faafd69", pipenv(true)},
		{"plette", "Pipfile", "fd92e91986beb29427d8137a5f7db765d4844c4607c42ba8e2905502eb7f0d7d", pipenv(false)},
	}
	for _, test := range tests {
		raw := map[string]any{}
		if err := decodeTOML(manifest(t, test.file), &raw); err != nil {
			t.Fatal(err)
		}
		got, err := test.hash(raw)
		if err != nil || got != test.want {
			t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
		}
	}
}

// TestPDMWorkspace compares with pdm 2.29.4's hash of a workspace with one member.
func TestPDMWorkspace(t *testing.T) {
	root := append(manifest(t, "pdm-groups.toml"), "\n[tool.pdm.workspace]\nmembers=[\"libs/*\"]\n"...)
	member := "[project]\nname=\"a\"\nversion=\"1\"\nrequires-python=\">=3.11\"\ndependencies=[\"idna\"]\n"
	l := newLedger(File{Path: "app/pdm.lock"}, []File{{"app/pyproject.toml", root}, {"app/libs/a/pyproject.toml", []byte(member)}})
	raw := map[string]any{}
	if err := decodeTOML(root, &raw); err != nil {
		t.Fatal(err)
	}
	got, err := l.pdmHash(raw)
	if want := "3e18738a39ec2c51d38142b37dd1c7f27760f8fa93d4d98d8570a75c406a4ba9"; err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func manifest(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/manifests/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The expected texts were printed by Python 3.11's json.dumps(v, sort_keys=True).
func TestPythonJSON(t *testing.T) {
	v := map[string]any{
		"z": nil, "a": []any{true, false, int64(-3), 1.5, 1.0, 1e16, 1e-7, 0.0001, 123456789.25},
		"é": "\x7f\u2028\u00ff😀\"\\/<>&\b\f\n\r\t\x01", "m": map[string]any{}, "l": []any{},
	}
	want := `{"a": [true, false, -3, 1.5, 1.0, 1e+16, 1e-07, 0.0001, 123456789.25], "l": [], "m": {}, "z": null, "\u00e9": "\u007f\u2028\u00ff\ud83d\ude00\"\\/<>&\b\f\n\r\t\u0001"}`
	if got, err := pythonJSON(v, ", ", ": "); err != nil || got != want {
		t.Errorf("%v\n%s\n%s", err, got, want)
	}
}
