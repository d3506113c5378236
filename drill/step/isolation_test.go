package step_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
	"drkit/drill/reach"
	"drkit/drill/step"
	"drkit/internal/store/mem"
	"drkit/manifest"
)

// seen lets the probe inside find that some addresses answer.
func seen(self bool, answering ...string) func(argv []string) ([]byte, error) {
	return func(argv []string) ([]byte, error) {
		if argv[0] != "probe" {
			return nil, errors.New("not there")
		}
		r := reach.Result{Schema: reach.Schema, Self: self}
		for _, u := range argv[1:] {
			a := reach.Address{URL: u, Connect: "connection refused", HTTP: "connection refused"}
			for _, s := range answering {
				if s == u {
					a.Connect, a.HTTP, a.Status = "", "", 403
				}
			}
			r.Tried = append(r.Tried, a)
		}
		return reach.Encode(r)
	}
}

// far gives the two regions addresses of their own, and one that both need.
func far(l *lab, inside func(argv []string) ([]byte, error)) {
	l.world.Self = []string{"probe"}
	l.world.Source.Addresses = []step.Address{
		{What: "bucket prod-use1", URL: "https://prod-use1.s3.us-east-1.amazonaws.com/", Words: []string{"s3://prod-use1", "prod-use1"}},
		{What: "endpoint vllm-0.use1:8000", URL: "http://vllm-0.use1:8000", Words: []string{"vllm-0.use1:8000"}},
		{What: "registry registry.example", URL: "https://registry.example/v2/", Words: []string{"registry.example"}},
	}
	l.world.Target.Addresses = []step.Address{{What: "registry registry.example", URL: "https://registry.example/v2/", Words: []string{"registry.example"}}}
	l.launcher.inside = inside
}

const bucketURL = "https://prod-use1.s3.us-east-1.amazonaws.com/"

func TestIsolation(t *testing.T) {
	drilledAs := func(name string, inside func(argv []string) ([]byte, error), judge func(*testing.T, *lab, *drill.Run)) {
		t.Run(name, func(t *testing.T) {
			drilled(t, func(l *lab) { far(l, inside) }, func(l *lab, run *drill.Run) { judge(t, l, run) })
		})
	}
	drilledAs("nothing answers", seen(true), func(t *testing.T, l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		wantGate(t, run, "isolation", drill.Passed, "bucket prod-use1", "endpoint vllm-0.use1:8000", "not judged, as both regions share it: registry registry.example")
		wantGate(t, run, "independent", drill.Passed)
	})
	drilledAs("the bucket answers", seen(true, bucketURL), func(t *testing.T, l *lab, run *drill.Run) {
		l.wantEnd(run, drill.NotRecovered, 4)
		wantGate(t, run, "isolation", drill.Failed, "bucket prod-use1", "status 403")
		if ok, _ := run.Proof(drill.ProofBoot); ok {
			t.Error("the boot counts as proven")
		}
	})
	drilledAs("the probe reaches nothing at all", seen(false), func(t *testing.T, l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Incomplete, 4)
		wantGate(t, run, "isolation", drill.Unmeasured, "could not connect to itself")
	})
	drilledAs("nobody can look inside", nil, func(t *testing.T, l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Incomplete, 4)
		wantGate(t, run, "isolation", drill.Unmeasured, "nothing runs here")
	})
	drilledAs("the probe writes nonsense", func([]string) ([]byte, error) { return []byte("hello\n"), nil }, func(t *testing.T, l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Incomplete, 4)
		wantGate(t, run, "isolation", drill.Unmeasured, "it wrote no result")
	})
}

// TestIsolationByPython: where drkit's own program is not inside, Python does the same.
func TestIsolationByPython(t *testing.T) {
	inside := func(argv []string) ([]byte, error) {
		if argv[0] != "python3" || argv[1] != "-c" || argv[2] != reach.Python {
			return nil, errors.New("executable file not found")
		}
		return seen(true, bucketURL)(append([]string{"probe"}, argv[3:]...))
	}
	drilled(t, func(l *lab) { far(l, inside) }, func(l *lab, run *drill.Run) {
		l.wantEnd(run, drill.NotRecovered, 4)
		wantGate(t, run, "isolation", drill.Failed, "bucket prod-use1")
	})
}

// TestIsolationThatIsOnlyReported: a playbook may take note of it, and claims nothing.
func TestIsolationThatIsOnlyReported(t *testing.T) {
	drilled(t, func(l *lab) {
		far(l, seen(true, bucketURL))
		l.step("boot").With = node(t, "{region: target, isolation: report}")
	}, func(l *lab, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		wantNote(t, run, "isolation is not proven", "bucket prod-use1")
		for _, g := range run.Gates {
			if g.ID == "isolation" {
				t.Errorf("%+v", g)
			}
		}
	})
}

// TestSharedHosts: what both regions share proves nothing, and is said.
func TestSharedHosts(t *testing.T) {
	for name, addresses := range map[string][]step.Address{
		"folders":         {{What: "store /regions/us"}},
		"this machine":    {{What: "endpoint 127.0.0.1:8000", URL: "http://127.0.0.1:8000"}, {What: "endpoint localhost:9", URL: "http://localhost:9"}},
		"one S3 endpoint": {{What: "bucket a", URL: "https://s3.example/a"}},
		"nothing":         nil,
	} {
		t.Run(name, func(t *testing.T) {
			drilled(t, func(l *lab) {
				l.world.Source.Addresses = addresses
				l.world.Target.Addresses = []step.Address{{What: "bucket b", URL: "https://S3.example./b"}}
			}, func(l *lab, run *drill.Run) {
				l.wantEnd(run, drill.Recovered, 0)
				wantNote(t, run, "isolation is not proven: nothing could be tried")
				for _, g := range run.Gates {
					if g.ID == "isolation" {
						t.Errorf("%+v", g)
					}
				}
			})
		})
	}
}

// TestSourceInTheRendering: the target's command names the source's bucket.
func TestSourceInTheRendering(t *testing.T) {
	for name, tc := range map[string]struct {
		arg string
		red bool
	}{
		"by its URL":             {"s3://prod-use1/llm", true},
		"by its name alone":      {"--bucket=prod-use1", true},
		"the endpoint":           {"http://vllm-0.use1:8000/v1", true},
		"another bucket":         {"s3://my-prod-use1-copy/llm", false},
		"what both regions need": {"registry.example/llm", false},
	} {
		t.Run(name, func(t *testing.T) {
			drilled(t, func(l *lab) {
				far(l, seen(true))
				l.world.Target.Command = append(l.world.Target.Command, tc.arg)
			}, func(l *lab, run *drill.Run) {
				if !tc.red {
					l.wantEnd(run, drill.Recovered, 0)
					return
				}
				l.wantEnd(run, drill.NotRecovered, 4)
				wantGate(t, run, "independent", drill.Failed, "canary.command[2] of region eu-west-1 names")
				if l.launcher.engines["target-canary"].asked > 0 {
					t.Error("the canary was started")
				}
			})
		})
	}
}

func wantNote(t *testing.T, run *drill.Run, words ...string) {
	t.Helper()
	for _, n := range run.Notes {
		if containsAll(n, words) {
			return
		}
	}
	t.Errorf("no note says %q: %s", words, strings.Join(run.Notes, "\n"))
}

// TestSourceInTheTargetsFiles: a deploy file of the target's own names the source's
// bucket, with and without a waiver.
func TestSourceInTheTargetsFiles(t *testing.T) {
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {weights: s3://prod-use1/llm}\n"
	p, err := newRelease(t, models+"support-tiny", func(in *manifest.Input) {
		files := mem.New().Fill(map[string]string{"c.yaml": text})
		in.DeployFiles = []manifest.PartFile{{Region: "eu-west-1", Path: "c.yaml", Role: manifest.Kubernetes, Source: files, Key: "c.yaml"}}
		in.Regions = []manifest.RegionSummary{{Name: "us-east-1", Role: "source", Places: manifest.RegionPlaces{Buckets: []string{"prod-use1"}}}, {Name: "eu-west-1", Role: "target"}}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, waivers := range [][]manifest.Waiver{nil, {{Rule: "R-1", Owner: "ada", Reason: "read in tests only", Expires: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}}} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, p)
			far(l, seen(true))
			l.world.Waivers = waivers
			run := l.run()
			if waivers != nil {
				l.wantEnd(run, drill.Recovered, 0)
				return
			}
			l.wantEnd(run, drill.NotRecovered, 4)
			wantGate(t, run, "independent", drill.Failed, "deploy/@eu-west-1/c.yaml:4 names bucket prod-use1 of the source")
		})
	}
}

// TestAnEmergencyIsNotKept: a source that half answers, and production that runs another
// model, do not keep users on it; nothing is claimed of either.
func TestAnEmergencyIsNotKept(t *testing.T) {
	drilledLive(t, drill.ModeEmergency, func(l *lab, p *plant) {
		p.stopUS()
		far(l, seen(true, bucketURL))
		l.world.Target.Command = append(l.world.Target.Command, "s3://prod-use1/llm")
		r := produced(l)
		r.Base = "support-v2"
		l.world.Serving = fixed{all: []step.Running{r}}
	}, func(l *lab, p *plant, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		p.wantWorkers(t, prodEU)
		wantNote(t, run, "isolation is not proven, and not demanded", "bucket prod-use1")
		wantNote(t, run, "not shown to be independent", "canary.command[2]")
		wantNote(t, run, "production is not the release", "support-v2")
		for _, id := range []string{"isolation", "independent", "production"} {
			wantNoGate(t, run, id)
		}
	})
}
