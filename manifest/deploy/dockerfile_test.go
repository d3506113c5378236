package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestDockerfiles reads each Dockerfile of testdata/dockerfiles and compares with
// the expectation beside it, whose values and lines come from BuildKit's parser.
func TestDockerfiles(t *testing.T) {
	folders, err := filepath.Glob("testdata/dockerfiles/*")
	if err != nil || len(folders) != 15 {
		t.Fatalf("%d folders, %v", len(folders), err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(folder, "Dockerfile"))
			if err != nil {
				t.Fatal(err)
			}
			expectation, err := os.ReadFile(filepath.Join(folder, "expect.json"))
			if err != nil {
				t.Fatal(err)
			}
			var want struct {
				Images   []wantImage
				Readable bool
			}
			if err := json.Unmarshal(expectation, &want); err != nil {
				t.Fatal(err)
			}
			facts, problems := Read("Dockerfile", data)
			if facts.Role != Dockerfile {
				t.Errorf("role %s", facts.Role)
			}
			if broken := has(problems, KindDockerfile); broken == want.Readable {
				t.Errorf("problems %+v, readable %v", problems, want.Readable)
			}
			compareImages(t, want.Images, facts.Images, problems)
		})
	}
}

type wantImage struct {
	Ref                 string
	Line                int
	Kind                string
	Pinned              bool
	FromArgs            bool `json:"from_args"`
	Unresolved, Invalid bool
}

func compareImages(t *testing.T, want []wantImage, got []Image, problems []Problem) {
	t.Helper()
	for _, w := range want {
		switch {
		case w.Unresolved:
			needProblem(t, problems, KindImageUnresolved, w.Line)
		case w.Invalid:
			needProblem(t, problems, KindImageInvalid, w.Line)
		case len(got) == 0:
			t.Errorf("%s is missing", w.Ref)
		default:
			g := got[0]
			got = got[1:]
			if g.Reference != w.Ref || g.Line != w.Line || g.Pinned() != w.Pinned || g.FromArgs != w.FromArgs || g.Frontend != (w.Kind == "frontend") {
				t.Errorf("got %+v\nwant %+v", g, w)
			}
		}
	}
	if len(got) > 0 {
		t.Errorf("too many images: %+v", got)
	}
}

func has(problems []Problem, kind string) bool {
	for _, p := range problems {
		if p.Kind == kind {
			return true
		}
	}
	return false
}

func needProblem(t *testing.T, problems []Problem, kind string, line int) {
	t.Helper()
	for _, p := range problems {
		if p.Kind == kind && p.Line == line {
			return
		}
	}
	t.Errorf("no problem %s in line %d: %+v", kind, line, problems)
}
