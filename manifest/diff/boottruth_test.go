package diff_test

import (
	"io"
	"slices"
	"strings"
	"testing"

	"drkit/manifest"
	"drkit/manifest/diff"
	"drkit/manifest/internal/boottruth"
)

// built is a case's manifest, read back from its JSON, with its files.
type built struct {
	m     *manifest.Manifest
	files *manifest.Files
	err   error
}

func build(t *testing.T, c boottruth.Case) built {
	t.Helper()
	in, err := c.Input()
	if err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
	m, files, err := manifest.Build(t.Context(), in)
	if err != nil {
		return built{err: err}
	}
	data, err := manifest.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = manifest.Decode(data); err != nil {
		t.Fatal(err)
	}
	return built{m: m, files: files}
}

func (b built) side(t *testing.T, texts bool) diff.Side {
	s := diff.Side{Manifest: b.m}
	if texts {
		s.Text = func(f manifest.File) ([]byte, bool) {
			body, err := b.files.Body(f)
			if err != nil {
				t.Fatal(err)
			}
			r, err := body.Open(t.Context(), 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			data, err := io.ReadAll(r)
			return data, err == nil
		}
	}
	return s
}

// harmless are cases that a comparison of texts shows to do nothing. Other
// harmless changes are more than it can know: that a file is not read, or that a
// field states its default.
var harmless = []string{"ok-json-reordered", "ok-json-compact", "ok-transformers-version", "ok-generation-same-as-config", "ok-license-removed",
	"ok-template-moved", "ok-shards-symlinked", "ok-hf-download-dir",
	"yaml-space", "rope-legacy-block", "rope-legacy-only"}

// TestBootTruth compares each broken repository with the one that it was made
// from, with and without texts. What did not boot or answered otherwise must
// matter, and the file that was changed must be named; with texts, the field.
func TestBootTruth(t *testing.T) {
	cases, err := boottruth.Read("../../testdata/boot-truth")
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]built{}
	for _, c := range cases {
		made[c.ID] = build(t, c)
	}
	digestOnly := 0
	for _, c := range cases {
		from, to := made[c.Ref], made[c.ID]
		if to.err != nil {
			if c.Harmless || c.Control {
				t.Errorf("%s does not build: %v", c.ID, to.err)
			}
			continue
		}
		if slices.Contains(c.Rules, "digest") {
			digestOnly++
		}
		for _, texts := range []bool{false, true} {
			r := diff.Compare(from.side(t, texts), to.side(t, texts))
			check(t, c, r, texts)
		}
	}
	if digestOnly < 10 {
		t.Errorf("only %d cases that a content hash alone can know", digestOnly)
	}
}

func check(t *testing.T, c boottruth.Case, r diff.Result, texts bool) {
	t.Helper()
	files, fields := c.Touched()
	bad := c.Outcome != "boots-same-output" || slices.Contains(c.Rules, "digest")
	switch {
	case c.Control && c.ID == c.Ref && (len(r.Differences) > 0 || len(r.Files) > 0):
		t.Errorf("%s against itself: %+v", c.ID, r)
	case texts && slices.Contains(harmless, c.ID) && r.Matters(false):
		t.Errorf("%s (%s) matters: %s", c.ID, c.Mutation, show(r))
	case bad && !r.Matters(false):
		t.Errorf("texts %v: %s (%s, %s) does not matter: %s", texts, c.ID, c.Mutation, c.Outcome, show(r))
	case bad && len(files) > 0 && !namesOne(r, files):
		t.Errorf("texts %v: %s (%s): none of %v is named: %s", texts, c.ID, c.Mutation, files, show(r))
	}
	if !texts || c.Control {
		return
	}
	for _, want := range fields {
		file, field, _ := strings.Cut(want, " ")
		named := slices.ContainsFunc(r.Differences, func(d diff.Difference) bool {
			return d.Path == file && (d.Field == field || strings.HasPrefix(d.Field, field+".") || strings.HasPrefix(field, d.Field+"."))
		})
		if !named && !c.Removes(file) && bad {
			t.Errorf("%s (%s): the field %s of %s is not named: %s", c.ID, c.Mutation, field, file, show(r))
		}
	}
}

// namesOne reports whether a file that matters is one of those that were changed.
func namesOne(r diff.Result, files []string) bool {
	return slices.ContainsFunc(files, func(want string) bool {
		return slices.ContainsFunc(r.Files, func(f diff.File) bool {
			if !f.Severity.FailsGate(false) {
				return false
			}
			was := f.Path
			if f.From != nil {
				was = f.From.Path
			}
			return f.Path == want || was == want || strings.HasPrefix(f.Path, want+"/") || want == "*.safetensors" && strings.HasSuffix(f.Path, ".safetensors")
		})
	})
}

func show(r diff.Result) string {
	var b strings.Builder
	for _, d := range r.Differences {
		b.WriteString("\n    " + string(d.Severity) + " " + d.Kind + " " + string(d.Part) + "/" + d.Path + ": " + d.Message + " [" + d.Field + "]")
	}
	for _, f := range r.Files {
		b.WriteString("\n    " + string(f.Severity) + " " + f.Change + " " + string(f.Part) + "/" + f.Path + ": " + f.Message)
	}
	return b.String()
}
