package selftest

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"gopkg.in/yaml.v3"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/drill/router/reference"
	"drkit/drill/step"
	"drkit/drill/traffic"
	"drkit/internal/pipenet"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/internal/store/mem"
	"drkit/manifest/region"
	"drkit/playbooks"
)

// bench is one rehearsal with everything around it, ready for a fault.
type bench struct {
	net            pipenet.Network
	launcher       *launcher
	source, target *mem.Store
	prefix         string // of the release in the target's store
	world          *step.World
	playbook       playbooks.Playbook
	start          drill.RunStarted
	state          *mem.Store
	onStep         map[string]func() // called when a step begins
}

// runID is the id of each case's run: a case has its own world.
const runID = "SELFTEST"

// sourceBucket is where the source's copy would be, if it could be reached.
const sourceBucket = "source-bucket"

// The traffic of a case: enough for the windows below on a slow machine.
const (
	rate   = 12 // requests a second
	window = 500 * time.Millisecond
)

func newBench(p published, workDir string) (*bench, error) {
	b := &bench{onStep: map[string]func(){}, source: mem.New().Fill(p.source), target: mem.New().Fill(p.target), state: mem.New().Fill(p.state), prefix: service + "/" + p.manifest.Release + "/"}
	b.launcher = &launcher{net: &b.net, running: map[string]*replica{}}
	var err error
	if b.playbook, err = playbooks.Builtin(playbooks.Rehearsal, step.KindNames()...); err != nil {
		return nil, err
	}
	for i := range b.playbook.Steps {
		b.playbook.Steps[i].Timeout = min(b.playbook.Steps[i].Timeout, 2*time.Minute)
	}
	if err := b.options("traffic", fmt.Sprintf("{rate: %d, families: 2, max_tokens: 2, request_timeout: 30s}", rate)); err != nil {
		return nil, err
	}
	objectives := drill.Objectives{RTO: 30 * time.Minute, ErrorRate: 0.01, MustProve: []string{drill.ProofCopy, drill.ProofBoot, drill.ProofBehaviour, drill.ProofRouter},
		Steady: drill.Steady{Windows: 2, Window: window, MinRequests: 2, Load: 0.1}}
	b.start = drill.RunStarted{Service: service, Mode: playbooks.Rehearsal, Demo: true, Release: p.manifest.Release, Source: sourceName, Target: targetName, Objectives: objectives}
	command := []string{"stand-in", "{{dir}}"}
	b.world = &step.World{
		Service: service, Served: served, WorkDir: workDir, By: "self-test",
		Source: step.Region{Name: sourceName, Residency: "us", Store: b.source, State: mem.New().Fill(p.sourceSt), Location: "mem:a", StateLocation: "mem:a/.drkit", Command: command,
			Addresses: []step.Address{{What: "bucket " + sourceBucket, URL: "http://" + sourceBucket + "/", Words: []string{"s3://" + sourceBucket}}}},
		Target: step.Region{Name: targetName, Residency: "eu", Store: b.target, State: b.state, Location: "mem:b", StateLocation: "mem:b/.drkit", Command: command},
		Self:   []string{"probe"}, Launcher: b.launcher, UndoLaunch: undoLaunch, Validate: func(drill.Spec) error { return nil },
		OpenDir:   func(path string) store.ReadWriter { return dir.Plain(path) },
		NewRouter: b.router, Router: step.RouterCommand{Driver: reference.Driver}, Objectives: objectives, HTTP: b.net.Client(),
		Classes: []traffic.Class{{Name: "chat", Residency: []region.Residency{"us", "eu"}, Share: 1, Shape: traffic.TokenIDs}},
	}
	return b, nil
}

// promise changes the objectives in both places that hold them.
func (b *bench) promise(change func(*drill.Objectives)) {
	change(&b.start.Objectives)
	b.world.Objectives = b.start.Objectives
}

func (b *bench) step(id string) *playbooks.Step {
	for i := range b.playbook.Steps {
		if b.playbook.Steps[i].ID == id {
			return &b.playbook.Steps[i]
		}
	}
	return &playbooks.Step{} // a change of it has no effect, and the case shows that
}

func (b *bench) options(id, text string) error {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return err
	}
	b.step(id).With = *doc.Content[0]
	return nil
}

func (b *bench) router(_, admin, metrics string) (drill.Router, error) {
	r, err := reference.New(admin, metrics, b.world.HTTP)
	if err != nil {
		return nil, err
	}
	r.Pace = drill.Pace{Within: 2 * time.Second}
	return r, nil
}

// Event stands for the journal, which nobody reads again. It lets a fault wait for the
// beginning of a step.
func (b *bench) Event(e drill.Event, _ *drill.Run) error {
	if f := b.onStep[e.Step]; f != nil && e.Type == drill.TypeStepStarted {
		f()
	}
	return nil
}

// run rehearses and returns the run that the steps and the judge made.
func (b *bench) run(ctx context.Context) (*drill.Run, error) {
	defer b.net.Close()
	undos := step.Undos(b.router)
	undos[ledger.UndoLock] = ledger.ReleaseUndo(func(context.Context, string) (store.ReadWriter, error) { return b.state, nil })
	undos[undoStop] = b.launcher.undo
	runner := drill.Runner{Playbook: b.playbook, Handlers: []drill.Handler{b}, Steps: step.Kinds(b.world), Undo: undos}
	run, err := runner.Run(ctx, runID, b.start)
	if cerr := b.world.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	return run, context.Cause(ctx)
}

func (b *bench) key(subject string) string { return b.prefix + filepath.ToSlash(subject) }
