package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/internal/service"
)

// TestDependence: what a drill needs to its end must not lie in what is lost with the
// source, by folder, link, bucket or server.
func TestDependence(t *testing.T) {
	base := `apiVersion: drkit/v1
kind: Service
metadata: {name: support}
model: {source: ./model}
regions:
  - {name: us, role: source, residency: us, store: SOURCE, SOURCEMORE}
  - {name: eu, role: target, residency: eu, store: TARGET, TARGETMORE}
waivers: WAIVERS
run: {RUN}
`
	for name, c := range map[string]struct {
		change []string // pairs
		demo   bool
		without,
		want string
	}{
		"apart":                      {nil, false, "", ""},
		"run.dir in the source":      {[]string{"RUN", "dir: ./us/runs"}, false, "", "run.dir (./us/runs) lies in what region us keeps"},
		"run.dir through a link":     {[]string{"RUN", "dir: ./link/runs"}, false, "", "run.dir (./link/runs)"},
		"ledger in the source":       {[]string{"RUN", "ledger: ./us/ledger"}, false, "", "run.ledger (./us/ledger)"},
		"ledger given up":            {[]string{"RUN", "ledger: ./us/ledger"}, false, "it is lost", ""},
		"state in the source":        {[]string{"TARGETMORE", "state: ./us/state"}, false, "", "the state of region eu"},
		"ledger in its bucket":       {[]string{"SOURCE", "s3://use1/llm", "TARGET", "s3://euw1/llm", "RUN", "ledger: s3://use1/audit"}, false, "", "run.ledger (s3://use1/audit)"},
		"ledger in another bucket":   {[]string{"SOURCE", "s3://use1/llm", "TARGET", "s3://euw1/llm", "RUN", "ledger: s3://audit/x"}, false, "", ""},
		"one bucket for both":        {[]string{"SOURCE", "s3://llm/us", "TARGET", "s3://llm/eu"}, false, "", "the store of region eu (s3://llm/eu)"},
		"one registry":               {[]string{"SOURCEMORE", "registry: reg.example/us", "TARGETMORE", "registry: reg.example/eu"}, false, "", "the registry of region eu is on reg.example, as the registry of region us is"},
		"one registry, accepted":     {[]string{"SOURCEMORE", "registry: reg.example/us", "TARGETMORE", "registry: reg.example/eu", "WAIVERS", "[{path: host/reg.example, reason: global, owner: mei, expires: 2999-01-01}]"}, false, "", ""},
		"one registry, until then":   {[]string{"SOURCEMORE", "registry: reg.example/us", "TARGETMORE", "registry: reg.example/eu", "WAIVERS", "[{path: host/reg.example, reason: global, owner: mei, expires: 2001-01-01}]"}, false, "", "on reg.example"},
		"two registries":             {[]string{"SOURCEMORE", "registry: a.example/llm", "TARGETMORE", "registry: b.example/llm"}, false, "", ""},
		"a router on an endpoint":    {[]string{"SOURCEMORE", `endpoints: ["http://10.0.0.1:8000"]`, "TARGETMORE", `routers: [{name: r, driver: reference, replicas: [{admin: "http://10.0.0.1:8000"}]}]`}, false, "", "router r of region eu is on 10.0.0.1:8000"},
		"one object store":           {[]string{"SOURCE", "s3://use1/llm", "SOURCEMORE", `s3: {endpoint: "https://s3.example"}`, "TARGET", "s3://euw1/llm", "TARGETMORE", `s3: {endpoint: "https://s3.example"}`}, false, "", "the store's endpoint of region eu is on s3.example"},
		"one machine, demonstration": {[]string{"SOURCEMORE", "registry: reg.example/us", "TARGETMORE", "registry: reg.example/eu"}, true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, "us"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("us", filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			text := base
			for i := 0; i+1 < len(c.change); i += 2 {
				text = strings.Replace(text, c.change[i], c.change[i+1], 1)
			}
			for _, left := range [][2]string{{"SOURCEMORE", "layout: drkit"}, {"TARGETMORE", "layout: drkit"}, {"SOURCE", "./us"}, {"TARGET", "./eu"}, {"WAIVERS", "[]"}, {"RUN", "dir: .drkit"}} {
				text = strings.Replace(text, left[0], left[1], 1)
			}
			svc, err := service.Parse([]byte(text), filepath.Join(dir, "drkit.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			d := &drillPlan{svc: svc, source: copyOf{region: svc.Source()}, target: copyOf{region: svc.Targets()[0]}}
			d.o.Demo, d.o.WithoutLedger = c.demo, c.without
			got := ""
			for _, err := range d.dependence() {
				got += err.Error() + "\n"
			}
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
