package drill

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"drkit/playbooks"
)

// groups are the steps in the order in which they run: each alone, but those in a
// row that name the same group, which run side by side.
func groups(steps []playbooks.Step) [][]playbooks.Step {
	var all [][]playbooks.Step
	for i, s := range steps {
		if i > 0 && s.Group != "" && s.Group == steps[i-1].Group {
			all[len(all)-1] = append(all[len(all)-1], s)
			continue
		}
		all = append(all, []playbooks.Step{s})
	}
	return all
}

// groupFailed stops the steps of a group beside the one that failed.
type groupFailed struct{ step string }

func (g groupFailed) Error() string {
	return fmt.Sprintf("was stopped: step %s of its group failed", g.step)
}

// group runs steps side by side and waits for all of them. When one fails, the
// others are stopped, but not those that always run; when one is held, the others
// go on to their end.
func (rn *Runner) group(ctx context.Context, x *exec, g []playbooks.Step) outcome {
	if len(g) == 1 {
		return x.step(ctx, rn.Steps[g[0].Kind], g[0])
	}
	beside, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ends := make([]outcome, len(g))
	var all sync.WaitGroup
	for i, s := range g {
		all.Go(func() {
			its := beside
			if s.When == playbooks.Always {
				its = ctx
			}
			if ends[i] = x.step(its, rn.Steps[s.Kind], s); ends[i] == stepFailed {
				stop(groupFailed{s.ID})
			}
		})
	}
	all.Wait()
	for _, worst := range []outcome{stepFailed, stepHeld} {
		if slices.Contains(ends, worst) {
			return worst
		}
	}
	return stepDone
}
