package service

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"drkit/internal/errext"
	"drkit/internal/strictyaml"
	"drkit/manifest/region"
)

var update = flag.Bool("update", false, "rewrite the expected errors of testdata/invalid")

// TestInvalid compares everything that is wrong with each fixture, lines
// included, with a list that was checked by hand against the fixture.
func TestInvalid(t *testing.T) {
	for _, file := range fixtures(t, "invalid/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, err := Load(file)
			if err == nil {
				t.Fatal("is accepted")
			}
			if got := errext.StatusOf(err); got != errext.Usage {
				t.Errorf("status %v, want usage", got)
			}
			var all *strictyaml.Errors
			if !errors.As(err, &all) {
				t.Fatalf("%T holds no list", err)
			}
			var lines []string
			for _, e := range all.List {
				lines = append(lines, e.String())
			}
			got := strings.Join(lines, "\n") + "\n"
			golden := strings.TrimSuffix(file, ".yaml") + ".errors"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// TestSecretsAreNotEchoed: the fixture's made-up secrets all hold these words.
func TestSecretsAreNotEchoed(t *testing.T) {
	_, err := Load("testdata/invalid/secrets.yaml")
	if err == nil {
		t.Fatal("is accepted")
	}
	for _, secret := range []string{"esame", "SESAME", "wJalr"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error holds a secret: %v", err)
		}
	}
}

func TestValid(t *testing.T) {
	for _, file := range fixtures(t, "valid/*.yaml") {
		if _, err := Load(file); err != nil {
			t.Error(err)
		}
	}
}

func TestDefaults(t *testing.T) {
	s, err := Load("testdata/valid/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := Objectives{RTO: 30 * time.Minute, ErrorRate: 0.01, MustProve: []string{"copy", "boot", "behaviour", "router"}}
	want.Steady = Steady{Windows: 3, Window: 10 * time.Second, MinRequests: 100, Load: 0.2}
	if !reflect.DeepEqual(s.Objectives, want) {
		t.Errorf("objectives %+v", s.Objectives)
	}
	us := s.Source()
	if us.Layout != "drkit" || us.Canary.Launcher != "process" || us.Canary.Weights != "restore" || us.S3.Checksums != "auto" {
		t.Errorf("region %+v", us)
	}
	if s.Engine.Kind != "vllm" || s.Playbook != "rehearsal" || s.Rehearsal.Source != "canary" || s.Rehearsal.Router.Driver != "vllm-router" {
		t.Errorf("service %+v", s)
	}
	dir, err := filepath.Abs("testdata/valid")
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		s.Run.Dir.Path:      filepath.Join(dir, ".drkit"),
		us.Store.Path:       filepath.Join(dir, "stores", "us"),
		us.State.Path:       filepath.Join(dir, "stores", "us", ".drkit"),
		s.Model.Source.Path: filepath.Join(dir, "model"),
	} {
		if got != want {
			t.Errorf("path %s, want %s", got, want)
		}
	}
	if s.Model.Source.Raw != "model" || us.Store.Raw != "stores/us" {
		t.Error("what was written is lost")
	}
	if len(s.Targets()) != 0 || len(s.Unused()) != 0 {
		t.Errorf("targets %v, unused %v", s.Targets(), s.Unused())
	}
}

func TestWrittenValues(t *testing.T) {
	s, err := Load("testdata/valid/process.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if s.Objectives.ErrorRate != 0 || s.Objectives.Steady.Load != 0 {
		t.Error("a written 0 was taken for nothing")
	}
	eu := s.Region("eu")
	if eu == nil || eu != s.Targets()[0] || eu.Role != region.Target {
		t.Fatalf("region %+v", eu)
	}
	if want := []string{"vllm", "serve", "{{model}}", "--port", "{{port}}"}; !reflect.DeepEqual(eu.Canary.Command, want) {
		t.Errorf("an alias gave %q", eu.Canary.Command)
	}
	if want := []region.Residency{"us", "eu"}; !reflect.DeepEqual(s.Traffic[0].Residency, want) || s.Traffic[0].Share != 1 {
		t.Errorf("traffic %+v", s.Traffic)
	}
	if s.Model.Source.Path != filepath.FromSlash("/srv/models/llama") {
		t.Errorf("file URL gave %q", s.Model.Source.Path)
	}
	if p, ok := s.PlaybookFile(); !ok || p != filepath.Join(s.Dir, "dr", "monthly.yaml") {
		t.Errorf("playbook %q %v", p, ok)
	}
}

func TestFull(t *testing.T) {
	s, err := Load("testdata/valid/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.PlaybookFile(); ok {
		t.Error("rehearsal is taken for a file")
	}
	w := s.Waivers[0]
	if w.Line != 44 || w.Expires.Before(time.Date(2027, 3, 31, 23, 59, 59, 0, time.UTC)) || !w.Expires.Before(time.Date(2027, 4, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("waiver %+v: it holds to the end of its day", w)
	}
	if got := s.Region("eu-west-1").State.String(); got != "s3://prod-euw1-drkit" {
		t.Errorf("state %q", got)
	}
	if got := s.Source().State.String(); got != "s3://prod-use1/llm/.drkit" {
		t.Errorf("default state %q", got)
	}
	if s.Model.Drafts[0].Source.Scheme != SchemeHF {
		t.Errorf("draft %+v", s.Model.Drafts[0])
	}
	dir, err := filepath.Abs("testdata/valid")
	if err != nil {
		t.Fatal(err)
	}
	want := []Repository{
		{"acme/impl", Location{Raw: "./repos/acme/impl", Scheme: SchemeFile, Path: filepath.Join(dir, "repos", "acme", "impl")}, "1f2e3d4c5b6a79880123456789abcdef01234567"},
		{"gpt2", Location{Raw: "hf://openai-community/gpt2@main", Scheme: SchemeHF, Path: "openai-community/gpt2@main"}, ""}}
	if got := s.Model.Repositories; !reflect.DeepEqual(got, want) {
		t.Errorf("repositories %+v, want %+v", got, want)
	}
}

// TestUnused: the fixture writes every key; what this version does not use must
// be named once, in the order of the lines.
func TestUnused(t *testing.T) {
	s, err := Load("testdata/valid/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]int{}
	last := 0
	for _, n := range s.Unused() {
		if n.Line < last {
			t.Errorf("%s on line %d comes after line %d", n.Path, n.Line, last)
		}
		last = n.Line
		if lines[n.Path] != 0 {
			t.Errorf("%s is named twice", n.Path)
		}
		lines[n.Path] = n.Line
	}
	for path, line := range map[string]int{"regions[1].capacity": 32} {
		if lines[path] != line {
			t.Errorf("%s: line %d, want %d", path, lines[path], line)
		}
	}
	for _, used := range []string{"model.source", "regions[0].store", "objectives.rto", "regions[0].layout", "regions[0].registry", "regions[0].endpoints", "regions[1].s3.assume_role", "regions[1].allowed_differences", "objectives.must_prove[0]", "regions[1].canary.launcher", "regions[1].canary.context", "regions[1].canary.weights"} {
		if lines[used] != 0 {
			t.Errorf("%s is used", used)
		}
	}
}

func TestLoadMissing(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "drkit.yaml"))
	if !errors.Is(err, os.ErrNotExist) || errext.StatusOf(err) != errext.Usage || errext.Hint(err) == "" {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/valid/*.yaml", "testdata/invalid/*.yaml"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if data, err := os.ReadFile(file); err == nil {
				f.Add(data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data, "drkit.yaml")
		if (s == nil) == (err == nil) {
			t.Errorf("service %v with error %v", s, err)
		}
		if err == nil && s.Source() == nil {
			t.Error("a service without a source was accepted")
		}
	})
}
