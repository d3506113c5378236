package step_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
	"drkit/drill/step"
	"drkit/internal/errext"
	"drkit/internal/store/mem"
	"drkit/manifest"
)

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      containers:
        - name: engine
          image: 1.example/llm/vllm@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
          command: [vllm, serve, /models, --served-model-name, support, --enable-lora, --lora-modules, billing=/adapters/billing]
`

// deployedBase is the release with a deploy file of every region and one of the source's.
var deployedBase = built{make: func(t *testing.T) (published, error) {
	files := mem.New().Fill(map[string]string{"chat.yaml": deployment, "us.yaml": strings.Replace(deployment, "name: chat", "name: us", 1)})
	return newRelease(t, models+"support-tiny", func(in *manifest.Input) {
		in.DeployFiles = []manifest.PartFile{{Path: "chat.yaml", Source: files, Key: "chat.yaml"}, {Region: "us-east-1", Path: "us.yaml", Source: files, Key: "us.yaml"}}
	})
}}

// platform launches the lab's engines as a cluster does: from what lies there, after a
// wait for a place and for images.
type platform struct {
	*launcher
	trouble func(since time.Duration) (drill.Trouble, bool)
	problem error
	late    time.Duration // from launch until it says anything, by status and by log
	parts   time.Duration // from launch until all parts of the canary are there
	specs   []drill.Spec  // checked and launched
}

func (p *platform) Launch(ctx context.Context, s drill.Spec) (drill.Replica, error) {
	p.specs = append(p.specs, s)
	s.Model, s.Dir, s.Adapters = models+"support-tiny", models, map[string]string{"billing": models + "support-tiny-billing"}
	r, err := p.launcher.Launch(ctx, s)
	return &platformReplica{r.(*replica), p, time.Now()}, err
}

func (p *platform) check(_ context.Context, s drill.Spec) ([]string, error) {
	p.specs = append(p.specs, s)
	return []string{"pools may not be listed"}, p.problem
}

type platformReplica struct {
	*replica
	p     *platform
	began time.Time
}

func (r *platformReplica) Milestones() (out []drill.Milestone) {
	for _, m := range []drill.Milestone{{Name: drill.InstantCapacity, At: r.began.Add(10 * time.Second)}, {Name: drill.InstantImage, At: r.began.Add(20 * time.Second), Cached: true}} {
		if said := r.began.Add(r.p.late); m.At.Before(said) {
			m.At = said
		}
		if !time.Now().Before(m.At) {
			out = append(out, m)
		}
	}
	return out
}

func (r *platformReplica) Log(ctx context.Context) iter.Seq2[string, error] {
	time.Sleep(r.p.late)
	return r.replica.Log(ctx)
}

func (r *platformReplica) Trouble() (drill.Trouble, bool) {
	if r.p.trouble == nil {
		return drill.Trouble{}, false
	}
	return r.p.trouble(time.Since(r.began))
}

func (r *platformReplica) Whole() error {
	if time.Since(r.began) < r.p.parts {
		return errors.New("worker pod chat-1 is not ready")
	}
	return nil
}

// asDeployed drills with the target's canary on the platform.
func asDeployed(t *testing.T, arrange func(*lab, *platform), judge func(*lab, *platform, *drill.Run)) {
	t.Helper()
	t.Parallel()
	release := deployedBase.must(t)
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, release)
		p := &platform{launcher: l.launcher}
		l.world.Target.Command = nil
		l.world.Target.Deployed = &step.Deployed{Launcher: p, Check: p.check,
			Undo:   func(run, name, _ string) (drill.Undo, error) { return undoLaunch(run, name) },
			Images: func(*manifest.Manifest) (map[string]string, error) { return map[string]string{"a": "b"}, nil }}
		arrange(l, p)
		run := l.run()
		judge(l, p, run)
		l.wantGone(run)
	})
}

// TestAsDeployed: the clock of TestRecovery, with the canary on a platform. It is
// launched at 15.25 s, has a place 10 s later, its images 20 s later, and loads its
// weights when it opens its port, 39.9 s later.
func TestAsDeployed(t *testing.T) {
	var files []string
	asDeployed(t, func(l *lab, _ *platform) {
		l.world.Served = "another name" // what the deploy file says counts
		l.onStep["cleanup"] = func() { files = l.restored() }
	}, func(l *lab, p *platform, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		for name, at := range map[string]time.Duration{drill.InstantCapacity: 25250 * time.Millisecond, drill.InstantImage: 35250 * time.Millisecond,
			drill.InstantWeights: 55150 * time.Millisecond, drill.InstantEngineReady: 55250 * time.Millisecond} {
			if in, ok := run.Instant(name); !ok || in.At.Mono != at || in.Cached != (name == drill.InstantImage) {
				t.Errorf("%s: %+v, want %v", name, in, at)
			}
		}
		if rto, ok, why := run.RTO(); !ok || rto != 79750*time.Millisecond {
			t.Errorf("RTO %v %q", rto, why)
		}
		var segments []string
		for _, s := range run.Segments()[:4] {
			segments = append(segments, s.To+" "+s.Elapsed.String())
		}
		if want := []string{"capacity 10s", "image 10s", "weights 19.9s", "engine-ready 100ms"}; !slices.Equal(segments, want) {
			t.Errorf("segments %q, want %q", segments, want)
		}
		if len(files) == 0 || slices.ContainsFunc(files, func(f string) bool { return strings.Contains(f, "eu-west-1") }) {
			t.Errorf("restored: %v; want the source's files alone", files)
		}
		if _, why := run.Proof(drill.ProofBoot); !strings.Contains(why, "as deployed") {
			t.Errorf("the boot proves %q", why)
		}
		for _, s := range p.specs {
			if len(s.Deploy) != 1 || string(s.Deploy[0].Data) != deployment || !slices.Equal(s.Engines, []drill.DeployEngine{{Path: "chat.yaml", Kind: "Deployment", Name: "chat", Container: "engine"}}) || s.Served != "support" || s.Images["a"] != "b" {
				t.Errorf("the launcher got %+v", s)
			}
		}
		if len(p.specs) != 2 || p.specs[1].Name != "target-canary" || p.specs[1].Run != run.ID {
			t.Errorf("checked and launched: %+v", p.specs)
		}
		wantNote(t, run, "pools may not be listed")
		wantNote(t, run, "nothing is restored in eu-west-1")
	})
}

// TestServes: the command that the canary will run counts before the files, which may
// hold a placeholder. Here it says another name than the probes were recorded by.
func TestServes(t *testing.T) {
	asDeployed(t, func(l *lab, p *platform) {
		l.world.Target.Deployed.Serves = func(s drill.Spec) string {
			if len(s.Deploy) != 1 || string(s.Deploy[0].Data) != deployment {
				t.Errorf("it was given %+v", s)
			}
			return "as rendered"
		}
	}, func(l *lab, p *platform, run *drill.Run) {
		l.wantEnd(run, drill.Refused, int(errext.Refused))
		if said := fmt.Sprintf("%+v", run.Finished); !strings.Contains(said, "the canaries serve as rendered") {
			t.Errorf("refused for %s", said)
		}
	})
}

// TestLateWord: the engine serves 40 s after its launch, and the cluster's word of what
// it had before and its log come 0.4 s later. None of it counts as later than that, and
// the figure that is judged does not wait for it.
func TestLateWord(t *testing.T) {
	asDeployed(t, func(_ *lab, p *platform) { p.late = 40400 * time.Millisecond }, func(l *lab, _ *platform, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		for _, name := range []string{drill.InstantCapacity, drill.InstantImage, drill.InstantWeights, drill.InstantEngineReady} {
			if in, ok := run.Instant(name); !ok || in.At.Mono != 55250*time.Millisecond {
				t.Errorf("%s: %+v, want 55.25 s", name, in)
			}
		}
		if _, ok, why := run.RTO(); !ok {
			t.Errorf("no RTO: %s", why)
		}
	})
}

// TestWholeGroup: an engine that answers 40 s after its launch, for parts of which the
// last is there after 60 s, has booted after 60 s; one that stays without has not.
func TestWholeGroup(t *testing.T) {
	t.Run("late", func(t *testing.T) {
		asDeployed(t, func(_ *lab, p *platform) { p.parts = time.Minute }, func(l *lab, _ *platform, run *drill.Run) {
			l.wantEnd(run, drill.Recovered, 0)
			if in, ok := run.Instant(drill.InstantEngineReady); !ok || in.At.Mono != 75250*time.Millisecond {
				t.Errorf("engine ready: %+v, want 75.25 s", in)
			}
		})
	})
	t.Run("never", func(t *testing.T) {
		asDeployed(t, func(_ *lab, p *platform) { p.parts = 24 * time.Hour }, func(l *lab, _ *platform, run *drill.Run) {
			l.wantEnd(run, drill.NotRecovered, 4)
			wantGate(t, run, "boot-eu-west-1", drill.Failed, "worker pod chat-1 is not ready")
			if proven, why := run.Proof(drill.ProofBoot); proven {
				t.Errorf("the boot counts as proven: %s", why)
			}
		})
	})
}

// TestPlatformTrouble: a cause that waiting does not change ends the boot at once, by
// its class, also before a cause that the log shows; one that may pass is told and waited for.
func TestPlatformTrouble(t *testing.T) {
	pull := drill.Trouble{Class: "ImagePull", Line: "manifest unknown", Hint: "look at the registry", Fatal: true}
	wait := drill.Trouble{Class: "Capacity", Line: "3 Insufficient nvidia.com/gpu", Hint: "no node has room"}
	oom := drill.Trouble{Class: "OOMKilled", Line: "container engine: OOMKilled", Hint: "raise the limit", Fatal: true}
	after := func(d time.Duration, tr drill.Trouble) func(time.Duration) (drill.Trouble, bool) {
		return func(since time.Duration) (drill.Trouble, bool) { return tr, since >= d }
	}
	for name, tc := range map[string]struct {
		arrange  func(*lab, *platform)
		observed []string
		within   time.Duration // from launch to the end of the step
	}{
		"image": {func(_ *lab, p *platform) { p.trouble = after(3*time.Second, pull) }, []string{"ImagePull", "manifest unknown"}, 10 * time.Second},
		"no capacity for longer than the step may take": {func(l *lab, p *platform) {
			p.trouble, l.launcher.engines["target-canary"].boot = after(time.Second, wait), 24*time.Hour
		}, []string{"Capacity", "Insufficient"}, 21 * time.Minute},
		"out of memory, beside a line of its log": {func(l *lab, p *platform) {
			p.trouble = after(39*time.Second, oom)
			l.launcher.engines["target-canary"].exits = "ValueError: No available memory for the cache blocks"
		}, []string{"OOMKilled"}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			asDeployed(t, tc.arrange, func(l *lab, _ *platform, run *drill.Run) {
				l.wantEnd(run, drill.NotRecovered, 4)
				wantGate(t, run, "boot-eu-west-1", drill.Failed, tc.observed...)
				boot := stepOf(run, "boot")
				if took := boot.Ended.Mono - boot.Started.Mono; took > tc.within {
					t.Errorf("the boot was given up after %v", took)
				}
			})
		})
	}
}

// TestCapacityWait: a wait that ends is told, and its time is a segment of its own.
func TestCapacityWait(t *testing.T) {
	asDeployed(t, func(_ *lab, p *platform) {
		p.trouble = func(since time.Duration) (drill.Trouble, bool) {
			return drill.Trouble{Class: "Capacity", Line: "3 Insufficient nvidia.com/gpu", Hint: "no node has room"}, since < 10*time.Second
		}
	}, func(l *lab, _ *platform, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		wantNote(t, run, "target-canary waits: Capacity: 3 Insufficient nvidia.com/gpu")
	})
}

// TestNotLaunchable: what the platform refuses before the clock refuses the run.
func TestNotLaunchable(t *testing.T) {
	asDeployed(t, func(_ *lab, p *platform) {
		p.problem = errors.Join(errext.WithHint(errors.New("exceeded quota"), "raise it"), errors.New("no namespace"))
	}, func(l *lab, _ *platform, run *drill.Run) {
		l.wantEnd(run, drill.Refused, 3)
		wantReason(t, run, "canary of region eu-west-1", "exceeded quota")
		wantReason(t, run, "canary of region eu-west-1", "no namespace")
	})
}

// TestRunningPods: production's pods are compared before the clock: what differs refuses
// the run, what is the same is a gate, and what cannot be seen is told and counts for nothing.
func TestRunningPods(t *testing.T) {
	image := "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, tc := range map[string]struct {
		running step.Running
		err     error
		verdict string
		status  int
		judge   func(*testing.T, *drill.Run)
	}{
		"the release": {step.Running{Where: "pod chat-1", Images: []string{image}}, nil, drill.Recovered, 0,
			func(t *testing.T, run *drill.Run) {
				wantGate(t, run, "production", drill.Passed, "pod chat-1 (eu-west-1)")
			}},
		"another image": {step.Running{Where: "pod chat-1", Images: []string{"sha256:" + strings.Repeat("f", 64)}}, nil, drill.Refused, 3,
			func(t *testing.T, run *drill.Run) {
				wantReason(t, run, "pod chat-1 (eu-west-1)", "an image is sha256:ffff")
			}},
		"another argument": {step.Running{Where: "pod chat-1", Images: []string{image}, Differs: []string{"argument 2 is 1"}}, nil, drill.Refused, 3,
			func(t *testing.T, run *drill.Run) { wantReason(t, run, "pod chat-1 (eu-west-1): argument 2 is 1") }},
		"nothing to be seen": {step.Running{}, errors.New("no pod runs"), drill.Recovered, 0, func(t *testing.T, run *drill.Run) {
			wantNote(t, run, "what production runs is not known: pods of region eu-west-1: no pod runs")
			if slices.ContainsFunc(run.Gates, func(g drill.GateState) bool { return g.ID == "production" }) {
				t.Error("a gate about what nobody saw")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			asDeployed(t, func(l *lab, _ *platform) {
				l.world.Target.Deployed.Running = func(context.Context, drill.Spec) ([]step.Running, error) {
					if tc.err != nil {
						return nil, tc.err
					}
					return []step.Running{tc.running}, nil
				}
			}, func(l *lab, _ *platform, run *drill.Run) {
				l.wantEnd(run, tc.verdict, tc.status)
				tc.judge(t, run)
			})
		})
	}
}

// TestForeignDeployFile: a deploy file that is not the release's launches nothing.
func TestForeignDeployFile(t *testing.T) {
	asDeployed(t, func(l *lab, _ *platform) {
		k := key(l.release, "deploy/chat.yaml")
		l.eu.Damage(k, []byte(strings.Replace(l.eu.Content()[k], "serve", "SERVE", 1)))
	}, func(l *lab, p *platform, run *drill.Run) {
		l.wantEnd(run, drill.Refused, 3)
		wantReason(t, run, "deploy/chat.yaml in region eu-west-1 is not the release's file")
		if len(p.specs) != 0 {
			t.Errorf("launched %+v", p.specs)
		}
	})
}
