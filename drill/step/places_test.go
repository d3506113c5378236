package step_test

import (
	"path/filepath"
	"slices"
	"testing"

	"drkit/drill"
	"drkit/internal/redact"
)

// TestASecretInAPlace: what is to be taken back has to stand whole in the journal. A place
// of the run whose name holds a secret is told with all else that speaks against the run,
// and not in the middle of a recovery.
func TestASecretInAPlace(t *testing.T) {
	for name, c := range map[string]struct {
		secret func(l *lab, p *plant) string
		want   string
	}{
		"a router": {func(_ *lab, p *plant) string {
			var all []string
			for admin := range p.routers {
				all = append(all, admin)
			}
			return slices.Min(all)
		}, "how router chat is reached holds a secret"},
		"the run's folder": {func(l *lab, _ *plant) string { return filepath.Base(l.world.WorkDir) + "-of-it" }, "the folder of the runs holds a secret"},
	} {
		t.Run(name, func(t *testing.T) {
			drilledLive(t, drill.ModeEmergency, func(l *lab, p *plant) {
				p.stopUS()
				secret := c.secret(l, p)
				if name == "the run's folder" {
					l.world.WorkDir = filepath.Join(filepath.Dir(l.world.WorkDir), secret)
				}
				l.world.Redact = redact.New(secret)
			}, func(l *lab, _ *plant, run *drill.Run) {
				l.wantEnd(run, drill.Refused, 3)
				wantReason(t, run, c.want)
				if len(run.Changes) > 0 {
					t.Errorf("changed: %+v", run.Changes)
				}
			})
		})
	}
}
