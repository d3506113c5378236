package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"drkit/internal/redact"
	"drkit/manifest/deploy"
	"drkit/verify/metrics"
)

// monitoringJobs are the examples of docs/monitoring that start drkit in a cluster.
var monitoringJobs = []string{"cronjob.yaml", "verify-job.yaml"}

type podSpec struct {
	Containers []struct {
		Args         []string
		VolumeMounts []struct{ Name, MountPath string } `yaml:"volumeMounts"`
	}
	Volumes []struct{ Name string }
}

// workload is what is common to a Job and a CronJob.
type workload struct {
	Kind string
	Spec struct {
		Template    struct{ Spec podSpec }
		JobTemplate struct {
			Spec struct{ Template struct{ Spec podSpec } }
		} `yaml:"jobTemplate"`
	}
}

// TestMonitoringJobs: drkit's own reader understands the examples, their command
// lines exist, and every path that they name is mounted.
func TestMonitoringJobs(t *testing.T) {
	seen := 0
	for _, file := range monitoringJobs {
		data, err := os.ReadFile(filepath.Join("..", "..", "docs", "monitoring", file))
		if err != nil {
			t.Fatal(err)
		}
		facts, problems := deploy.Read(file, data)
		if len(problems) > 0 || len(facts.Images) == 0 {
			t.Errorf("%s: %+v, images %v", file, problems, facts.Images)
		}
		dec := yaml.NewDecoder(bytes.NewReader(data))
		for {
			var w workload
			if err := dec.Decode(&w); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			pod := w.Spec.Template.Spec
			if w.Kind == "CronJob" {
				pod = w.Spec.JobTemplate.Spec.Template.Spec
			}
			for _, c := range pod.Containers {
				seen++
				parsesAsDrkit(t, file, c.Args)
				for _, arg := range c.Args {
					mounted := !strings.HasPrefix(arg, "/")
					for _, m := range c.VolumeMounts {
						mounted = mounted || arg == m.MountPath || strings.HasPrefix(arg, m.MountPath+"/")
					}
					if !mounted {
						t.Errorf("%s: %s is not mounted", file, arg)
					}
				}
			}
		}
	}
	if seen != 3 {
		t.Errorf("%d containers", seen)
	}
}

// parsesAsDrkit looks whether a command line exists as it stands.
func parsesAsDrkit(t *testing.T, file string, args []string) {
	t.Helper()
	r := redact.New()
	root := newRoot(&streams{In: strings.NewReader(""), Out: r.Writer(io.Discard), Err: r.Writer(io.Discard), Redactor: r})
	c, rest, err := root.Find(args)
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil {
		err = c.Args(c, c.Flags().Args())
	}
	if err != nil || c == root {
		t.Errorf("%s: drkit %s: %v", file, strings.Join(args, " "), err)
	}
}

// TestCommandsOfPages: every command line of these pages exists.
func TestCommandsOfPages(t *testing.T) {
	for page, want := range map[string]int{"images.md": 1, "replication.md": 3, "batch.md": 2, "monitoring.md": 2} {
		data, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for line := range strings.Lines(string(data)) {
			if command, ok := strings.CutPrefix(strings.TrimSpace(line), "drkit "); ok {
				seen++
				parsesAsDrkit(t, page, strings.Fields(command))
			}
		}
		if seen != want {
			t.Errorf("%s: %d command lines, want %d", page, seen, want)
		}
	}
}

// TestPageNamesEveryMetric: docs/monitoring.md lists what is written, and no more.
func TestPageNamesEveryMetric(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for _, name := range metrics.Names() {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the page lacks %s", name)
		}
	}
	for _, m := range regexp.MustCompile("`(drkit_copy_[a-z_]+)`").FindAllStringSubmatch(page, -1) {
		if !slices.Contains(metrics.Names(), m[1]) {
			t.Errorf("the page names %s, which is not written", m[1])
		}
	}
}

// TestPageNamesEveryCheck: docs/replication.md lists every check of advise.
func TestPageNamesEveryCheck(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "replication.md"))
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob(filepath.Join("..", "..", "replicate", "advise", "*.go"))
	if err != nil || len(sources) == 0 {
		t.Fatal(err)
	}
	seen := 0
	for _, path := range sources {
		code, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`Check: "([a-z-]+)"`).FindAllStringSubmatch(string(code), -1) {
			seen++
			if !strings.Contains(string(page), m[1]) {
				t.Errorf("the page lacks %s", m[1])
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d checks", seen)
	}
}

// A pod that found something has written its file: to try it again costs a second
// reading and changes nothing. Others are tried again.
func TestARedShardIsNotTriedAgain(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "monitoring", "verify-job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var job struct {
		Spec struct {
			BackoffLimitPerIndex int `yaml:"backoffLimitPerIndex"`
			PodFailurePolicy     struct {
				Rules []struct {
					Action      string
					OnExitCodes struct {
						Values []int
					} `yaml:"onExitCodes"`
				}
			} `yaml:"podFailurePolicy"`
		}
	}
	if err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&job); err != nil {
		t.Fatal(err)
	}
	rules := job.Spec.PodFailurePolicy.Rules
	if job.Spec.BackoffLimitPerIndex < 1 || len(rules) == 0 || rules[0].Action != "FailIndex" || !slices.Contains(rules[0].OnExitCodes.Values, 4) || slices.Contains(rules[0].OnExitCodes.Values, 1) {
		t.Errorf("%+v", job.Spec)
	}
}
