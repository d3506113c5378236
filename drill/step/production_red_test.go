package step_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"drkit/drill"
	"drkit/drill/step"
	"drkit/drill/traffic"
	"drkit/internal/errext"
	"drkit/manifest/region"
)

// TestEmergency: the source answers nothing any more. No baseline is asked for, the
// routers are moved, the figure is measured, and the cutover stays.
func TestEmergency(t *testing.T) {
	drilledLive(t, drill.ModeEmergency, func(l *lab, p *plant) {
		p.stopUS()
		for k := range l.release.us { // and its store is gone with it
			remove(l, l.us, k)
		}
	}, func(l *lab, p *plant, run *drill.Run) {
		l.wantEnd(run, drill.Recovered, 0)
		p.wantWorkers(t, prodEU)
		wantGate(t, run, "cutover-attribution", drill.Passed, "0 failed after the drain", "cannot be reached from here")
		wantGate(t, run, "steady-attribution", drill.Passed, "cannot be reached from here")
		if len(run.Kept()) != 1 || run.Kept()[0].Undo.Keep != drill.KeepHeld {
			t.Errorf("kept: %+v", run.Kept())
		}
	})
}

// TestEmergencyHoldsItsCutover: a red gate after it takes nothing back; a person does,
// once the source serves again. The verdict stays.
func TestEmergencyHoldsItsCutover(t *testing.T) {
	drilledLive(t, drill.ModeEmergency, func(l *lab, p *plant) {
		p.stopUS()
		l.promise(func(o *drill.Objectives) { o.TTFTP99 = 100 * time.Millisecond })
		l.step("steady").Timeout = time.Minute
	}, func(l *lab, p *plant, run *drill.Run) {
		l.wantEnd(run, drill.NotRecovered, 4)
		p.wantWorkers(t, prodEU)
		if k := run.Kept(); len(k) != 1 || !strings.Contains(k[0].Kept, "--undo-cutover") {
			t.Fatalf("kept: %+v", k)
		}
		again, err := drill.Abort(l.t.Context(), l.journal, "kim", l.undos())
		if err != nil || len(again.Kept()) != 1 {
			t.Errorf("abort by itself: %+v, %v", again.Kept(), err)
		}
		p.wantWorkers(t, prodEU)
		if again, err = drill.AbortAll(l.t.Context(), l.journal, "kim", l.undos()); errext.StatusOf(err) != errext.Unclean || !containsAll(err.Error(), []string{"nothing was changed", prodUS + " does not serve"}) {
			t.Errorf("the source is dead: %v", err)
		}
		p.wantWorkers(t, prodEU)
		for admin, r := range p.routers {
			if r.applied != 1 {
				t.Errorf("%s was changed %d times", admin, r.applied)
			}
		}
		if k := again.Kept(); len(k) != 1 || len(again.Left()) > 0 {
			t.Errorf("kept %+v, left %+v", k, again.Left())
		}
		p.startUS()
		defer func() { p.stopUS() }()
		if again, err = drill.AbortAll(l.t.Context(), l.journal, "kim", l.undos()); err != nil || again.Finished.Verdict != drill.NotRecovered || again.Finished.Status != 4 {
			t.Errorf("%+v, %v", again.Finished, err)
		}
		p.wantWorkers(t, prodUS)
	})
}

// TestTheSourceIsNotReadyToServe: what an undo would send requests to has to serve the
// release first, at the router as at the edge; otherwise both go on as they are.
func TestTheSourceIsNotReadyToServe(t *testing.T) {
	for name, tc := range map[string]struct {
		arrange func(*lab, *plant)
		want    []string
		adds    bool // the router is asked, and shows what the engine is to it
	}{
		"it is dead":                       {func(_ *lab, p *plant) { p.stopUS() }, []string{"does not serve"}, false},
		"it serves another model":          {func(_ *lab, p *plant) { p.us.real = http.HandlerFunc(otherModel) }, []string{"/v1/models lists [another], not support"}, false},
		"it loads yet":                     {func(_ *lab, p *plant) { p.us.real = http.HandlerFunc(loading) }, []string{"does not serve", "503"}, false},
		"the router cannot reach it":       {func(_ *lab, p *plant) { p.all(func(r *prodRouter) { r.blind = prodUS }) }, []string{"not as healthy"}, true},
		"one replica cannot be asked then": {func(_ *lab, p *plant) { p.routers["http://router-1:30000"].down = true; p.stopUS() }, []string{"does not serve"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			drilledLive(t, drill.ModePlanned, func(l *lab, p *plant) {
				p.edge, l.world.Production.Edge = &edge{now: step.Shares{"us-chat": {"us-east-1": 1}}}, &step.EdgeAt{Driver: "fake"}
			}, func(l *lab, p *plant, run *drill.Run) {
				l.wantEnd(run, drill.Recovered, 0)
				p.startUS() // the network of the run has ended with it
				defer func() { p.stopUS() }()
				tc.arrange(l, p)
				again, err := drill.AbortAll(l.t.Context(), l.journal, "kim", l.undos())
				if errext.StatusOf(err) != errext.Unclean || !containsAll(err.Error(), tc.want) {
					t.Errorf("%v", err)
				}
				p.wantWorkers(t, prodEU)
				if users := p.edge.now["us-chat"]; !tc.adds && users["eu-west-1"] != 1 {
					t.Errorf("the users are in %v", users)
				}
				if want := len(run.Kept()); !tc.adds && len(again.Kept()) != want || len(again.Left()) > 0 {
					t.Errorf("kept %+v, left %+v", again.Kept(), again.Left())
				}
				if again.Finished.Verdict != drill.Recovered {
					t.Errorf("%+v", again.Finished)
				}
			})
		})
	}
}

func loading(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
}

func otherModel(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprint(w, `{"object":"list","data":[{"id":"another"}]}`)
}

// TestTheCanaryTakesOver: the target has no engines of its own. The canary becomes
// production's worker and stays with all that it rests on.
func TestTheCanaryTakesOver(t *testing.T) {
	for mode, broken := range map[string]bool{drill.ModeEmergency: false, drill.ModePlanned: true} {
		t.Run(mode, func(t *testing.T) {
			drilledLive(t, mode, func(l *lab, p *plant) {
				l.world.Production.Target = nil
				if mode == drill.ModeEmergency {
					p.stopUS()
				}
				if broken {
					l.promise(func(o *drill.Objectives) { o.TTFTP99 = 100 * time.Millisecond })
					l.step("steady").Timeout = time.Minute
				}
			}, func(l *lab, p *plant, run *drill.Run) {
				running, _ := l.launcher.Find(l.t.Context(), runID)
				if broken { // planned, and not steady: everything goes back
					l.wantEnd(run, drill.NotRecovered, 4)
					l.wantGone(run)
					p.wantWorkers(t, prodUS)
					return
				}
				l.wantEnd(run, drill.Recovered, 0)
				p.wantWorkers(t, targetURL)
				if len(running) != 1 || len(l.restored()) == 0 || len(run.Kept()) != 3 {
					t.Errorf("%d processes, %d files, kept %+v", len(running), len(l.restored()), run.Kept())
				}
				wantGate(t, run, "cleanup", drill.Passed, "stays on purpose", "canary target-canary")
				if err := running[0].Stop(l.t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestProductionIsRed: what a live run must not take for a recovery. In planned mode
// the routers are as they were afterwards.
func TestProductionIsRed(t *testing.T) {
	us := []string{prodUS}
	for _, tc := range []struct {
		name    string
		arrange func(*lab, *plant)
		verdict string
		status  int
		gate    string // red
		reason  []string
		left    []string // workers of both replicas; nil: not looked at
	}{
		{"a router acknowledges and does nothing", func(_ *lab, p *plant) { p.all(func(r *prodRouter) { r.lies = true }) },
			drill.NotRecovered, 4, "cutover-attribution", []string{"the router lists [" + prodUS + "]"}, us},
		{"one of two replicas acknowledges and does nothing", func(_ *lab, p *plant) { p.routers["http://router-1:30000"].lies = true },
			drill.NotRecovered, 4, "", []string{"step cutover", "router-1", "it lists [" + prodUS + "]"}, us},
		{"one of two replicas sends as before", func(_ *lab, p *plant) { p.routers["http://router-1:30000"].sticky = true },
			drill.NotRecovered, 4, "cutover-attribution", []string{"the engine that was left still answered"}, us},
		{"the source answers other clients", func(l *lab, p *plant) {
			l.onStep["cutover"] = func() { go p.others() }
		}, drill.NotRecovered, 4, "cutover-attribution", []string{"the engine that was left still answered"}, us},
		{"a replica goes down before the change", func(l *lab, p *plant) {
			l.onStep["cutover"] = func() { p.routers["http://router-1:30000"].down = true }
		}, drill.NotRecovered, 4, "", []string{"step cutover", "nothing was changed", "router-1"}, us},
		{"a replica goes down in the change", func(l *lab, p *plant) {
			p.routers["http://router-0:30000"].onApply = func(drill.Change) error { p.routers["http://router-1:30000"].down = true; return nil }
		}, drill.NotRecovered, 8, "", []string{"is not proven to be taken back", "router-1"}, nil},
		{"the target's engine answers otherwise than recorded", func(_ *lab, p *plant) { p.eu.broken = true },
			drill.NotRecovered, 4, "cutover-behaviour", []string{"gate cutover-behaviour"}, us},
		{"answers come from a region outside the border", func(_ *lab, p *plant) { p.all(func(r *prodRouter) { r.outside = "ap-south-1" }) },
			drill.NotRecovered, 4, "cutover-residency", []string{"was answered in ap-south-1"}, us},
	} {
		t.Run(tc.name, func(t *testing.T) {
			drilledLive(t, drill.ModePlanned, tc.arrange, func(l *lab, p *plant, run *drill.Run) {
				l.wantEnd(run, tc.verdict, tc.status)
				if tc.gate != "" && !slices.Contains(redGates(run), tc.gate) {
					t.Errorf("red gates %v, want %s among them", redGates(run), tc.gate)
				}
				wantReason(t, run, tc.reason...)
				if ok, _ := run.Proof(drill.ProofRouter); ok {
					t.Error("the router is proven")
				}
				if tc.left != nil {
					l.wantGone(run)
					p.wantWorkers(t, tc.left...)
				}
				if len(run.Kept()) > 0 {
					t.Errorf("kept: %+v", run.Kept())
				}
			})
		})
	}
}

// TestOneOfSeveralEnginesAnswersWrongly once users are there: each is asked, and the one
// is named. A planned move is taken back; an emergency's stays, and a person is told how
// to take it back.
func TestOneOfSeveralEnginesAnswersWrongly(t *testing.T) {
	const second = "http://prod-eu-2:8000"
	for _, mode := range []string{drill.ModePlanned, drill.ModeEmergency} {
		t.Run(mode, func(t *testing.T) {
			drilledLive(t, mode, func(l *lab, p *plant) {
				if mode == drill.ModeEmergency {
					p.stopUS()
				}
				other := &engine{real: p.eu.real}
				if _, err := l.net.Serve("prod-eu-2:8000", other); err != nil {
					t.Fatal(err)
				}
				l.world.Production.Target = append(l.world.Production.Target, second)
				l.askServing()
				l.onStep["steady"] = other.turn
			}, func(l *lab, p *plant, run *drill.Run) {
				l.wantEnd(run, drill.NotRecovered, 4)
				wantGate(t, run, "cutover-behaviour-2", drill.Passed)
				wantGate(t, run, "served-behaviour", drill.Passed)
				wantGate(t, run, "served-behaviour-2", drill.Failed, "q1-base")
				wantReason(t, run, "gate served-behaviour-2")
				if ok, _ := run.Proof(drill.ProofBehaviour); ok {
					t.Error("the behaviour is proven")
				}
				if mode == drill.ModePlanned {
					p.wantWorkers(t, prodUS)
					return
				}
				p.wantWorkers(t, second, prodEU)
				for _, g := range run.Gates {
					if g.ID == "served-behaviour-2" && (!strings.Contains(g.Hint, "--undo-cutover") || !strings.Contains(g.Title, second)) {
						t.Errorf("%q, hint %q", g.Title, g.Hint)
					}
				}
			})
		})
	}
}

// TestAnEngineThatNobodyAsked: a run that is cut short between two engines has not asked
// the second one, and the step does not pass for it.
func TestAnEngineThatNobodyAsked(t *testing.T) {
	const second = "http://prod-eu-2:8000"
	drilledLive(t, drill.ModePlanned, func(l *lab, p *plant) {
		if _, err := l.net.Serve("prod-eu-2:8000", &engine{real: p.eu.real}); err != nil {
			t.Fatal(err)
		}
		l.world.Production.Target = append(l.world.Production.Target, second)
		l.askServing()
		l.onEvent = func(e drill.Event, r *drill.Run) {
			if e.Type == drill.TypeGate && r.Gates[len(r.Gates)-1].ID == "served-behaviour" {
				l.cancel(errors.New("cut short"))
			}
		}
	}, func(l *lab, _ *plant, run *drill.Run) {
		wantGate(t, run, "served-behaviour", drill.Passed)
		for _, g := range run.Gates {
			if g.ID == "served-behaviour-2" {
				t.Errorf("the second engine was asked: %+v", g)
			}
		}
		for _, s := range run.Steps {
			if s.ID == "served-behaviour" && s.Result == drill.Passed {
				t.Error("the step passed, and one of two engines was asked")
			}
		}
	})
}

func (p *plant) all(do func(*prodRouter)) {
	for _, r := range p.routers {
		do(r)
	}
}

// others asks the source's engine as a client that no router knows of.
func (p *plant) others() {
	for {
		select {
		case <-time.After(time.Second):
			p.us.count(0, 1)
		case <-p.lab.ctx.Done():
			return
		}
	}
}

// TestLiveIsRefused before anything is changed, with all problems at once.
func TestLiveIsRefused(t *testing.T) {
	class := func(name string, where ...region.Residency) traffic.Class {
		return traffic.Class{Name: name, Residency: where, Share: 0.2, Shape: traffic.Text}
	}
	for name, tc := range map[string]struct {
		arrange func(*lab, *plant)
		want    []string
	}{
		"in a rehearsal":            {func(l *lab, _ *plant) { l.start.Mode, l.world.Mode = drill.ModeRehearsal, drill.ModeRehearsal }, []string{"production's routers are touched in the modes planned, emergency and failback alone"}},
		"a replica cannot be asked": {func(_ *lab, p *plant) { p.routers["http://router-1:30000"].down = true }, []string{"router chat, replica http://router-1:30000", "connection refused"}},
		"a worker of nobody":        {func(_ *lab, p *plant) { p.routers["http://router-0:30000"].strange = "http://10.0.0.9:8000" }, []string{"nobody knows the region: http://10.0.0.9:8000"}},
		"no router":                 {func(l *lab, _ *plant) { l.world.Production.Routers = nil }, []string{"no router of target eu-west-1 is described"}},
		"no engine of the source":   {func(l *lab, _ *plant) { l.world.Production.Source = nil }, []string{"no engine of source us-east-1 is described"}},
		"one engine in both":        {func(l *lab, _ *plant) { l.world.Production.Target = []string{prodUS} }, []string{prodUS + " is an endpoint of both regions"}},
		"a class without a router":  {func(l *lab, _ *plant) { l.world.Classes = append(l.world.Classes, class("batch", "us", "eu")) }, []string{"no router of target eu-west-1 serves traffic class batch"}},
		"a border inside of a router": {func(l *lab, p *plant) {
			l.world.Classes = append(l.world.Classes, class("us-phi", "us"))
			l.world.Production.Routers[0].Serves = []string{"us-chat", "us-phi"}
		}, []string{"router chat serves us-phi", "over their border"}},
		"an edge that does not know a class": {func(l *lab, p *plant) {
			p.edge, l.world.Production.Edge = &edge{}, &step.EdgeAt{Driver: "fake"}
		}, []string{"the edge does not say where the users of us-chat are"}},
		"two routers for one class": {func(_ *lab, p *plant) { p.router("second", []string{"us-chat"}, "http://router-2:30000") }, []string{"us-chat is served by several routers (chat, second)"}},
		"the class may not leave":   {func(l *lab, _ *plant) { l.world.Classes[0].Residency = []region.Residency{"us"} }, []string{"no class has a lawful target"}},
	} {
		t.Run(name, func(t *testing.T) {
			drilledLive(t, drill.ModePlanned, tc.arrange, func(l *lab, p *plant, run *drill.Run) {
				l.wantEnd(run, drill.Refused, 3)
				wantReason(t, run, tc.want...)
				if len(run.Changes) > 0 {
					t.Errorf("changed: %+v", run.Changes)
				}
				for admin, r := range p.routers {
					if r.applied > 0 {
						t.Errorf("%s was changed", admin)
					}
				}
			})
		})
	}
}

// TestWhatIsMovedAlready is seen before anything is changed: a planned move and a way
// back have nothing to move; an emergency says so and makes sure.
func TestWhatIsMovedAlready(t *testing.T) {
	lists := func(p *plant, url string) {
		p.all(func(r *prodRouter) { r.workers, r.first = []drill.Worker{{URL: url, Health: drill.Yes}}, url })
	}
	unchanged := func(t *testing.T, l *lab, p *plant, run *drill.Run, words ...string) {
		l.wantEnd(run, drill.Refused, 3)
		wantReason(t, run, words...)
		if len(run.Changes) > 0 {
			t.Errorf("changed: %+v", run.Changes)
		}
		for admin, r := range p.routers {
			if r.applied > 0 {
				t.Errorf("%s was changed", admin)
			}
		}
	}
	t.Run("planned", func(t *testing.T) {
		drilledLive(t, drill.ModePlanned, func(l *lab, p *plant) { lists(p, prodEU) }, func(l *lab, p *plant, run *drill.Run) {
			unchanged(t, l, p, run, "router chat lists no worker of region us-east-1", "it is in eu-west-1 already")
			if len(run.Problems) != 1 || !strings.Contains(run.Problems[0].Hint, "--playbook failback") {
				t.Errorf("problems %+v", run.Problems)
			}
		})
	})
	t.Run("failback", func(t *testing.T) {
		drilledLive(t, drill.ModeFailback, func(l *lab, p *plant) { l.goesBack() }, func(l *lab, p *plant, run *drill.Run) {
			unchanged(t, l, p, run, "router chat lists no worker of region eu-west-1", "it is in us-east-1 already")
		})
	})
	t.Run("emergency", func(t *testing.T) {
		drilledLive(t, drill.ModeEmergency, func(l *lab, p *plant) {
			p.stopUS()
			lists(p, prodEU)
		}, func(l *lab, p *plant, run *drill.Run) {
			if run.Finished.Verdict == drill.Refused {
				t.Fatalf("refused: %s", reasons(run))
			}
			if notes := strings.Join(run.Notes, "\n"); !strings.Contains(notes, "router chat lists no worker of region us-east-1 before this run (it lists "+prodEU+")") {
				t.Errorf("notes: %s", notes)
			}
			p.wantWorkers(t, prodEU)
		})
	})
}

// TestAClassWithoutALawfulTarget: it is refused, its router is not touched, no request
// of it is sent, and the run passes for the others alone.
func TestAClassWithoutALawfulTarget(t *testing.T) {
	for _, mode := range []string{drill.ModePlanned, drill.ModeRehearsal} {
		t.Run(mode, func(t *testing.T) {
			judge := func(l *lab, run *drill.Run) {
				l.wantEnd(run, drill.Incomplete, 4)
				wantReason(t, run, "traffic class us-phi is refused", "it may be answered in [us]")
				got := map[string]string{}
				for _, v := range drill.ClassVerdicts(run) {
					got[v.Name] = v.Verdict
				}
				if got["us-phi"] != drill.Refused || got["us-chat"] != drill.Recovered {
					t.Errorf("verdicts %v", got)
				}
				for _, w := range run.Traffic {
					if w.Class == "us-phi" {
						t.Fatal("a request of it was sent")
					}
				}
			}
			phi := traffic.Class{Name: "us-phi", Residency: []region.Residency{"us"}, Share: 0.2, Shape: traffic.Text}
			if mode == drill.ModeRehearsal {
				drilled(t, func(l *lab) { l.world.Classes = append(l.world.Classes, phi) }, judge)
				return
			}
			drilledLive(t, mode, func(l *lab, p *plant) {
				l.world.Classes = append(l.world.Classes, phi)
				p.router("phi", []string{"us-phi"}, "http://router-2:30000")
			}, func(l *lab, p *plant, run *drill.Run) {
				judge(l, run)
				if got := p.routers["http://router-2:30000"].listed(); !slices.Equal(got, []string{prodUS}) || p.routers["http://router-2:30000"].applied > 0 {
					t.Errorf("its router was touched: %v", got)
				}
			})
		})
	}
}

// TestAClassThatNeverLeft: a way back does not fail for a class that only one of the two
// regions may answer: it was not moved there, so nothing of it has to come back.
func TestAClassThatNeverLeft(t *testing.T) {
	for residency, listed := range map[region.Residency]string{"us": prodUS, "eu": prodEU} {
		t.Run(string(residency), func(t *testing.T) {
			drilledLive(t, drill.ModeFailback, func(l *lab, p *plant) {
				l.world.Classes = append(l.world.Classes, traffic.Class{Name: "phi", Residency: []region.Residency{residency}, Share: 0.2, Shape: traffic.Text})
				p.router("phi", []string{"phi"}, "http://router-2:30000")
				p.all(func(r *prodRouter) { r.workers, r.first = []drill.Worker{{URL: prodEU, Health: drill.Yes}}, prodEU })
				phi := p.routers["http://router-2:30000"]
				phi.workers, phi.first = []drill.Worker{{URL: listed, Health: drill.Yes}}, listed
				l.goesBack()
			}, func(l *lab, p *plant, run *drill.Run) {
				l.wantEnd(run, drill.Recovered, 0)
				for _, v := range drill.ClassVerdicts(run) {
					if v.Name == "phi" && (v.Verdict != drill.NotAffected || !strings.Contains(v.Why, "it may be answered in ["+string(residency)+"]")) {
						t.Errorf("%s: %s", v.Verdict, v.Why)
					}
				}
				if phi := p.routers["http://router-2:30000"]; phi.applied > 0 {
					t.Errorf("its router was touched: %v", phi.listed())
				}
			})
		})
	}
}

// TestTwoPartitions: each class through its own router; both are moved and proven.
func TestTwoPartitions(t *testing.T) {
	for name, tc := range map[string]struct {
		arrange     func(*plant)
		verdict     string
		status      int
		chat, batch string
	}{
		"both follow": {func(*plant) {}, drill.Recovered, 0, drill.Recovered, drill.Recovered},
		"one lies":    {func(p *plant) { p.routers["http://router-2:30000"].sticky = true }, drill.NotRecovered, 4, "", drill.NotRecovered},
	} {
		t.Run(name, func(t *testing.T) {
			drilledLive(t, drill.ModePlanned, func(l *lab, p *plant) {
				l.world.Classes = append(l.world.Classes, traffic.Class{Name: "batch", Residency: []region.Residency{"us", "eu"}, Share: 1, Shape: traffic.TokenIDs})
				p.router("batch", []string{"batch"}, "http://router-2:30000")
				tc.arrange(p)
			}, func(l *lab, p *plant, run *drill.Run) {
				l.wantEnd(run, tc.verdict, tc.status)
				got := map[string]string{}
				for _, v := range drill.ClassVerdicts(run) {
					got[v.Name] = v.Verdict
				}
				if tc.chat != "" && got["us-chat"] != tc.chat || got["batch"] != tc.batch || got["us-chat"] == drill.Recovered && tc.chat == "" {
					t.Errorf("verdicts %v", got)
				}
				if tc.status == 0 {
					wantGate(t, run, "cutover-chat-attribution", drill.Passed)
					wantGate(t, run, "cutover-batch-attribution", drill.Passed)
					p.wantWorkers(t, prodEU)
				} else {
					p.wantWorkers(t, prodUS)
				}
			})
		})
	}
}

// TestKilledBetweenAddAndRemove: another process puts the routers back from the
// journal alone; in an emergency only when a person asks.
func TestKilledBetweenAddAndRemove(t *testing.T) {
	for mode, held := range map[string]bool{drill.ModePlanned: false, drill.ModeEmergency: true} {
		t.Run(mode, func(t *testing.T) {
			cut := 0
			drilledLive(t, mode, func(l *lab, p *plant) {
				p.routers["http://router-0:30000"].onApply = func(drill.Change) error {
					cut = len(l.journal.events) // the intent is journaled, the target added, the source not removed
					return errors.New("killed here")
				}
			}, func(l *lab, p *plant, run *drill.Run) {
				if run.Finished.Verdict != drill.NotRecovered {
					t.Errorf("%+v", run.Finished)
				}
				p.startUS()
				defer func() { p.stopUS() }()
				killed := &journal{events: slices.Clone(l.journal.events[:cut])}
				p.routers["http://router-0:30000"].onApply = nil
				if err := p.routers["http://router-0:30000"].Apply(l.t.Context(), drill.Change{Add: []drill.Worker{{URL: prodEU}}}); err != nil {
					t.Fatal(err)
				}
				again, err := drill.Abort(context.Background(), killed, "kim", l.undos())
				if err != nil || again.Finished.Verdict != drill.Aborted || again.Finished.Status != 130 {
					t.Fatalf("%+v, %v", again.Finished, err)
				}
				if got := p.routers["http://router-0:30000"].listed(); held != slices.Equal(got, []string{prodEU, prodUS}) {
					t.Errorf("after abort it lists %v", got)
				}
				if _, err := drill.AbortAll(context.Background(), killed, "kim", l.undos()); err != nil {
					t.Fatal(err)
				}
				p.wantWorkers(t, prodUS)
			})
		})
	}
}

// TestEdge: users count as moved only when the edge itself shows it, and nobody else
// may be moved with them.
func TestEdge(t *testing.T) {
	was := step.ByRegion{"us-east-1": 1}
	for name, tc := range map[string]struct {
		edge    edge
		verdict string
		status  int
		words   []string
	}{
		"moved, after a while":  {edge{slow: 20}, drill.Recovered, 0, []string{"us-chat: eu-west-1 1"}},
		"it does not show it":   {edge{blind: true}, drill.NotRecovered, 4, []string{"has not shown it within 5m0s", "the users of us-chat are in us-east-1 1, wanted in eu-west-1 1"}},
		"it takes others along": {edge{drags: "us-phi"}, drill.NotRecovered, 4, []string{"the users of us-phi were not to be moved"}},
	} {
		t.Run(name, func(t *testing.T) {
			drilledLive(t, drill.ModePlanned, func(l *lab, p *plant) {
				l.promise(func(o *drill.Objectives) { o.MustProve = append(o.MustProve, drill.ProofEdge) })
				e := tc.edge
				e.now = step.Shares{"us-chat": was, "us-phi": was}
				p.edge, l.world.Production.Edge = &e, &step.EdgeAt{Driver: "fake"}
			}, func(l *lab, p *plant, run *drill.Run) {
				l.wantEnd(run, tc.verdict, tc.status)
				ok, why := run.Proof(drill.ProofEdge)
				if ok != (tc.status == 0) || !containsAll(why, tc.words) {
					t.Errorf("proven %v: %s", ok, why)
				}
				if tc.status == 0 {
					wantGate(t, run, "cutover-edge", drill.Passed)
					return
				}
				wantGate(t, run, "cutover-edge", drill.Failed)
				p.wantWorkers(t, prodUS)
				if p.edge.now["us-chat"]["us-east-1"] != 1 {
					t.Errorf("the users are in %v", p.edge.now)
				}
			})
		})
	}
}

// goesBack makes a live playbook one that returns to the source.
func (l *lab) goesBack() {
	l.step("cutover").Kind = "failback"
	l.without("behaviour", "verify") // as the built-in playbook: the step itself looks at both
	l.world.Back = step.Back(l.playbook)
}

// TestFailback: a run of its own. The source climbs the whole ladder first.
func TestFailback(t *testing.T) {
	for name, tc := range map[string]struct {
		arrange func(*lab, *plant)
		verdict string
		status  int
		reason  []string
	}{
		"back": {func(l *lab, _ *plant) { l.askServing() }, drill.Recovered, 0, nil},
		"it answers wrongly once it serves": {func(l *lab, p *plant) {
			l.askServing()
			l.onStep["steady"] = p.us.turn
		}, drill.NotRecovered, 4, []string{"gate served-behaviour"}},
		"its copy was damaged": {func(l *lab, _ *plant) {
			k := key(l.release, shard)
			l.us.Damage(k, overwritten([]byte(l.us.Content()[k])))
			l.without("restore", "boot") // else the restore finds it first
		}, drill.NotRecovered, 4, []string{"gate failback-copy", shard + " diverged"}},
		"it answers wrongly":         {func(_ *lab, p *plant) { p.us.broken = true }, drill.NotRecovered, 4, []string{"gate failback-behaviour"}},
		"it does not answer":         {func(_ *lab, p *plant) { p.stopUS() }, drill.NotRecovered, 4, []string{"us-east-1 is not ready to take over"}},
		"the router does not follow": {func(_ *lab, p *plant) { p.all(func(r *prodRouter) { r.lies = true }) }, drill.NotRecovered, 4, []string{"gate failback-attribution"}},
	} {
		t.Run(name, func(t *testing.T) {
			drilledLive(t, drill.ModeFailback, func(l *lab, p *plant) {
				p.all(func(r *prodRouter) { r.workers, r.first = []drill.Worker{{URL: prodEU, Health: drill.Yes}}, prodEU })
				l.goesBack()
				tc.arrange(l, p)
			}, func(l *lab, p *plant, run *drill.Run) {
				l.wantEnd(run, tc.verdict, tc.status)
				if tc.reason == nil {
					p.wantWorkers(t, prodUS)
					wantGate(t, run, "steady", drill.Passed)
					if _, ok := run.Instant(drill.InstantSourceBack); !ok {
						t.Error("source-back was not stamped")
					}
					return
				}
				wantReason(t, run, tc.reason...)
				p.wantWorkers(t, prodEU)
			})
		})
	}
}
