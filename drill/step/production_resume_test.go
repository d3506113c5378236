package step_test

import (
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
)

// TestLiveRunIsResumed: killed at each step, and gone on with by another process. Of
// the routers it asks what they list; what was moved is not moved twice, and the
// snapshot that stays is the one from before the first change.
func TestLiveRunIsResumed(t *testing.T) {
	for mode, steps := range map[string][]string{drill.ModePlanned: {"traffic", "cutover", "steady", "cleanup"}, drill.ModeEmergency: {"boot", "steady"}} {
		for _, id := range steps {
			t.Run(mode+" "+id, func(t *testing.T) {
				t.Parallel()
				p := mustRelease(t)
				if _, err := real(); err != nil {
					t.Fatal(err)
				}
				synctest.Test(t, func(t *testing.T) {
					l := newLab(t, p)
					defer l.net.Close()
					prod := l.production(mode)
					if mode == drill.ModeEmergency {
						prod.stopUS()
					}
					l.killedAt(id)
					time.Sleep(time.Minute)
					run, err := l.resumed()
					if err != nil {
						t.Fatal(err)
					}
					l.wantEnd(run, drill.Recovered, 0)
					l.wantGone(run)
					prod.wantWorkers(t, prodEU)
					applied := prod.routers["http://router-1:30000"].applied
					if kept := run.Kept(); len(kept) != 1 || applied != 1 {
						t.Errorf("kept %+v, the router was changed %d times", kept, applied)
					}
				})
			})
		}
	}
}

// TestLiveResumeSeesTheRouters: somebody moved them back meanwhile. In planned mode
// the cutover is taken back and done again; what was moved in an emergency is never
// taken back, and yet ends at the target.
func TestLiveResumeSeesTheRouters(t *testing.T) {
	for _, mode := range []string{drill.ModePlanned, drill.ModeEmergency} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := mustRelease(t)
			if _, err := real(); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, p)
				defer l.net.Close()
				prod := l.production(mode)
				if mode == drill.ModeEmergency {
					prod.stopUS()
				}
				l.killedAt("steady")
				prod.all(func(r *prodRouter) {
					l.must(r.Apply(l.ctx, drill.Change{Add: []drill.Worker{{URL: prodUS}}, Remove: []string{prodEU}}))
				})
				run, err := l.resumed()
				if err != nil {
					t.Fatal(err)
				}
				l.wantEnd(run, drill.Recovered, 0)
				prod.wantWorkers(t, prodEU)
				if s := stepOf(run, "cutover"); s.Attempts != 2 {
					t.Errorf("the cutover was done %d times", s.Attempts)
				}
			})
		})
	}
}
