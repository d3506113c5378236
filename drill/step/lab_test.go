package step_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/drill/probe"
	"drkit/drill/step"
	"drkit/drill/traffic"
	"drkit/internal/openai"
	"drkit/internal/pipenet"
	"drkit/internal/standin"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/internal/store/mem"
	"drkit/manifest"
	"drkit/manifest/probes"
	"drkit/manifest/region"
	"drkit/manifest/release"
	"drkit/playbooks"
	"drkit/replicate"
	"drkit/verify"
)

const (
	models  = "../../testdata/models/"
	service = "support-chat"
	shard   = "model/base/model-00002-of-00002.safetensors"
	adapter = "model/adapters/billing/adapter_model.safetensors"
	runID   = "01JD0Z0000RVN000000000000A"
)

// published is the release of support-tiny with its adapter and recorded probes,
// as two regions hold it.
type published struct {
	manifest               *manifest.Manifest
	us, eu, usState, euSta map[string]string
}

// built is a release that all tests share, made for the first that asks, outside of any
// bubble.
type built struct {
	make func(*testing.T) (published, error)

	once sync.Once
	published
	err error
}

func (b *built) must(t *testing.T) published {
	t.Helper()
	b.once.Do(func() { b.published, b.err = b.make(t) })
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.published
}

var base = built{make: func(t *testing.T) (published, error) { return newRelease(t, models+"support-tiny") }}

// newRelease makes a release of the model in a folder: built, recorded, built
// with its probes, and replicated.
func newRelease(t *testing.T, model string, change ...func(*manifest.Input)) (published, error) {
	ctx := context.Background()
	in := manifest.Input{Service: service, Tool: "test",
		Model:    manifest.Tree{Source: dir.Plain(model)},
		Adapters: []manifest.Tree{{Name: "billing", Source: dir.Plain(models + "support-tiny-billing")}},
		Engine:   manifest.EngineInput{Kind: "vllm", Version: "0.32.0", Args: []string{"--enable-lora", "--lora-modules", "billing=/adapters/billing"}},
	}
	for _, c := range change {
		c(&in)
	}
	m, _, err := manifest.Build(ctx, in)
	if err != nil {
		return published{}, err
	}
	var set probes.ProbeSet
	// In a bubble an answer has all the time that a busy machine needs for it.
	synctest.Test(t, func(*testing.T) { set, err = record(ctx, m, model) })
	if err != nil {
		return published{}, err
	}
	var recorded bytes.Buffer
	if err := probes.Encode(&recorded, set); err != nil {
		return published{}, err
	}
	own := mem.New().Fill(map[string]string{"probes.json": recorded.String()})
	in.EngineFiles = []manifest.PartFile{{Path: "probes.json", Role: manifest.Probes, Source: own, Key: "probes.json"}}
	m, files, err := manifest.Build(ctx, in)
	if err != nil {
		return published{}, err
	}
	return publish(ctx, m, files.Body)
}

// record asks the stand-in engine over the network what a right engine answers.
func record(ctx context.Context, m *manifest.Manifest, model string) (probes.ProbeSet, error) {
	e, err := standin.Load(model, standin.LoadOptions{ServedModelNames: []string{"support"}, Adapters: []standin.Adapter{{Name: "billing", Dir: models + "support-tiny-billing"}}})
	if err != nil {
		return probes.ProbeSet{}, err
	}
	var net pipenet.Network
	defer net.Close()
	if _, err := net.Serve("known-good:80", e.Handler()); err != nil {
		return probes.ProbeSet{}, err
	}
	set, err := probe.Record(ctx, &openai.Client{BaseURL: "http://known-good", HTTP: net.Client()}, probe.Recording{
		Subject: manifest.SubjectOf(m), Questions: probe.DefaultQuestions[:2], HardwareClass: "cpu", Residency: "us", Tolerance: probe.DefaultTolerance, MaxTokens: 8})
	// Its thousand tokens would take most of the time of these tests.
	set.Probes = slices.DeleteFunc(set.Probes, func(p probes.Probe) bool { return p.ID == "long-context" })
	return set, err
}

func publish(ctx context.Context, m *manifest.Manifest, content func(manifest.File) (store.Body, error)) (published, error) {
	us, eu, usState, euState := mem.New(), mem.New(), mem.New(), mem.New()
	regions := []replicate.Region{
		{Name: "us-east-1", Role: region.Source, Store: us, State: usState},
		{Name: "eu-west-1", Role: region.Target, Store: eu, State: euState},
	}
	opts := verify.Options{Level: verify.ByContent, Require: store.Content}
	found, err := replicate.Survey(ctx, m, regions, opts)
	if err != nil {
		return published{}, err
	}
	plan, err := replicate.NewPlan(replicate.PlanInput{Manifest: m, Found: found})
	if err != nil {
		return published{}, err
	}
	_, err = replicate.Execute(ctx, plan, replicate.ExecuteInput{Manifest: m, Regions: regions, Content: content, Verify: opts})
	return published{m, us.Content(), eu.Content(), usState.Content(), euState.Content()}, err
}

// lab is a world of two regions in which a drill can run: everything that is not
// drkit's is a fake with faults to switch on.
type lab struct {
	t        *testing.T
	ctx      context.Context
	cancel   context.CancelCauseFunc
	net      pipenet.Network
	release  published
	us, eu   *mem.Store
	euState  *mem.Store
	launcher *launcher
	router   *router
	world    *step.World
	playbook playbooks.Playbook
	start    drill.RunStarted
	journal  *journal
	onStep   map[string]func() // called when a step begins
	dirs     map[string]*mem.Store
	sink     drill.Handler // nil: journal
	onEvent  func(drill.Event, *drill.Run)
}

// openDir is a folder as any process finds it: what was removed from the disk is gone.
func (l *lab) openDir(path string) store.ReadWriter {
	if _, err := os.Stat(path); err != nil || l.dirs[path] == nil {
		l.dirs[path] = mem.New()
	}
	return quickDir{l.dirs[path], path}
}

func newLab(t *testing.T, p published) *lab {
	t.Helper()
	l := &lab{t: t, release: p, us: mem.New().Fill(p.us), eu: mem.New().Fill(p.eu), euState: mem.New().Fill(p.euSta), journal: &journal{}, onStep: map[string]func(){}, dirs: map[string]*mem.Store{}}
	l.ctx, l.cancel = context.WithCancelCause(t.Context())
	l.launcher = &launcher{lab: l, engines: map[string]*engine{"source-canary": {boot: 4900 * time.Millisecond}, "target-canary": {boot: 39900 * time.Millisecond}}, running: map[string]*replica{}}
	l.router = &router{lab: l, sees: drill.Yes}
	objectives := drill.Objectives{RTO: 30 * time.Minute, TTFTP99: time.Second, ErrorRate: 0.01, MustProve: []string{drill.ProofCopy, drill.ProofBoot, drill.ProofBehaviour, drill.ProofRouter},
		Steady: drill.Steady{Windows: 3, Window: 10 * time.Second, MinRequests: 45, Load: 0.2}}
	var err error
	if l.playbook, err = playbooks.Builtin(playbooks.Rehearsal, step.KindNames()...); err != nil {
		t.Fatal(err)
	}
	l.start = drill.RunStarted{Service: service, Mode: playbooks.Rehearsal, Demo: true, Release: p.manifest.Release, Source: "us-east-1", Target: "eu-west-1", Objectives: objectives}
	l.world = &step.World{
		Service: service, Served: "support", WorkDir: filepath.Join(t.TempDir(), runID), By: "tester@lab",
		Source:   step.Region{Name: "us-east-1", Residency: "us", Store: l.us, State: mem.New().Fill(p.usState), Location: "mem:us", StateLocation: "mem:us/.drkit", Command: []string{"engine", "{{dir}}"}},
		Target:   step.Region{Name: "eu-west-1", Residency: "eu", Store: l.eu, State: l.euState, Location: "mem:eu", StateLocation: "mem:eu/.drkit", Command: []string{"engine", "{{dir}}"}},
		Launcher: l.launcher, UndoLaunch: undoLaunch, Validate: func(drill.Spec) error { return nil },
		OpenDir:   l.openDir,
		NewRouter: l.newRouter, Router: step.RouterCommand{Driver: "fake"}, Objectives: objectives, HTTP: l.net.Client(),
		Classes: []traffic.Class{{Name: "us-chat", Residency: []region.Residency{"us", "eu"}, Share: 1, Shape: traffic.Text}},
	}
	return l
}

// promise changes the objectives in both places that hold them.
func (l *lab) promise(change func(*drill.Objectives)) {
	change(&l.start.Objectives)
	l.world.Objectives = l.start.Objectives
}

// without leaves steps out of the playbook.
func (l *lab) without(ids ...string) {
	var left []playbooks.Step
	for _, s := range l.playbook.Steps {
		if !strings.Contains(" "+strings.Join(ids, " ")+" ", " "+s.ID+" ") {
			left = append(left, s)
		}
	}
	l.playbook.Steps = left
}

func (l *lab) step(id string) *playbooks.Step {
	for i := range l.playbook.Steps {
		if l.playbook.Steps[i].ID == id {
			return &l.playbook.Steps[i]
		}
	}
	l.t.Fatalf("no step %s", id)
	return nil
}

func (l *lab) undos() map[string]drill.UndoFunc {
	all := step.Undos(l.newRouter)
	maps.Copy(all, step.LiveUndos(l.world.Production))
	all[ledger.UndoLock] = ledger.ReleaseUndo(func(context.Context, string) (store.ReadWriter, error) { return l.euState, nil })
	all[undoStop] = l.launcher.undo
	return all
}

// run drills and closes the world, as the command does.
func (l *lab) run() *drill.Run {
	l.t.Helper()
	defer l.net.Close()
	run, err := l.runner().Run(l.ctx, runID, l.start)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := l.world.Close(); err != nil {
		l.t.Error(err)
	}
	return run
}

func (l *lab) runner() *drill.Runner {
	return &drill.Runner{Playbook: l.playbook, Handlers: []drill.Handler{l.sinkOr(), handler(l.watch)}, Steps: step.Kinds(l.world), Undo: l.undos()}
}

func (l *lab) sinkOr() drill.Handler {
	if l.sink != nil {
		return l.sink
	}
	return l.journal
}

func (l *lab) watch(e drill.Event, r *drill.Run) error {
	if l.onEvent != nil {
		l.onEvent(e, r)
	}
	if f := l.onStep[e.Step]; f != nil && e.Type == drill.TypeStepStarted {
		f()
	}
	return nil
}

type handler func(drill.Event, *drill.Run) error

func (h handler) Event(e drill.Event, r *drill.Run) error { return h(e, r) }

// journal keeps the events in memory.
type journal struct{ events []drill.Event }

func (j *journal) Event(e drill.Event, _ *drill.Run) error {
	j.events = append(j.events, e)
	return nil
}

func (j *journal) Events() iter.Seq2[drill.Event, error] {
	return func(yield func(drill.Event, error) bool) {
		for _, e := range j.events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// wantEnd checks the verdict and that the journal replays to the same run
// without a contradiction.
func (l *lab) wantEnd(run *drill.Run, verdict string, status int) {
	l.t.Helper()
	if run.Finished.Verdict != verdict || run.Finished.Status != status {
		l.t.Errorf("got %s (%d), want %s (%d): %s", run.Finished.Verdict, run.Finished.Status, verdict, status, reasons(run))
	}
	replayed, err := drill.Replay(l.journal.Events())
	if err != nil {
		l.t.Fatal(err)
	}
	if !reflect.DeepEqual(replayed, run) {
		l.t.Error("the journal replays to another run")
	}
	if err := drill.Verify(replayed); err != nil {
		l.t.Error(err)
	}
}

// wantGone checks that nothing of the run is left, whatever the journal says:
// no replica, no lock, no restored file; and that the router's list is as it was.
func (l *lab) wantGone(run *drill.Run) {
	l.t.Helper()
	if left := run.Left(); len(left) > 0 {
		l.t.Errorf("not undone: %+v", left)
	}
	if left := l.launcher.all(); len(left) > 0 {
		l.t.Errorf("left running: %s", left[0].ID())
	}
	if _, err := l.euState.Stat(l.t.Context(), "eu-west-1/"+service+"/DRILL"); !errors.Is(err, store.ErrNotFound) {
		l.t.Errorf("the lock is still there: %v", err)
	}
	if got := l.restored(); len(got) > 0 {
		l.t.Errorf("files are left: %v", got)
	}
	if got := l.router.listed(); len(got) > 0 && !reflect.DeepEqual(got, []string{sourceURL}) {
		l.t.Errorf("the router lists %v, at the beginning %s", got, sourceURL)
	}
	for name, want := range l.release.us {
		if got := l.us.Content()[name]; got != want {
			l.t.Errorf("the source region was written to: %s", name)
		}
	}
	if len(l.us.Content()) != len(l.release.us) {
		l.t.Error("the source region was written to")
	}
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// damageRestored overwrites a part of a file that was restored.
func (l *lab) damageRestored(region, subject string) {
	dir := filepath.Join(l.world.WorkDir, "restored", region, "release")
	s := l.dirs[dir]
	s.Damage(subject, overwritten([]byte(s.Content()[subject])))
}

// restored lists the files in the run's folder.
func (l *lab) restored() []string {
	var all []string
	_ = filepath.WalkDir(l.world.WorkDir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			name, _ := filepath.Rel(l.world.WorkDir, path)
			all = append(all, name)
		}
		return nil
	})
	return all
}

func reasons(run *drill.Run) string {
	text, _ := json.MarshalIndent(run.Finished.Reasons, "", " ")
	return string(text)
}

// wantReason looks for a reason with all the words.
func wantReason(t *testing.T, run *drill.Run, words ...string) {
	t.Helper()
	for _, r := range run.Finished.Reasons {
		if containsAll(r.What, words) {
			return
		}
	}
	t.Errorf("no reason says %q: %s", words, reasons(run))
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// wantGate checks one gate's result and what it says it observed.
func wantGate(t *testing.T, run *drill.Run, id, result string, words ...string) {
	t.Helper()
	for _, g := range run.Gates {
		if g.ID != id {
			continue
		}
		if g.Result != result || !containsAll(g.Observed, words) {
			t.Errorf("gate %s is %s: %q; want %s with %q", id, g.Result, g.Observed, result, words)
		}
		return
	}
	t.Errorf("gate %s was not judged; gates: %+v", id, run.Gates)
}

// redGates lists the gates that failed.
func redGates(run *drill.Run) []string {
	var all []string
	for _, g := range run.Gates {
		if g.Result == drill.Failed {
			all = append(all, g.ID)
		}
	}
	return all
}

// damage overwrites 4096 bytes in the middle of a file.
func damage(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, overwritten(data), 0o644)
}

func overwritten(data []byte) []byte {
	data = bytes.Clone(data)
	copy(data[len(data)/2:], bytes.Repeat([]byte{0x3f}, 4096))
	return data
}

func key(p published, subject string) string {
	return release.Prefix(service, p.manifest.Release) + subject
}

func mustRelease(t *testing.T) published {
	t.Helper()
	return base.must(t)
}
