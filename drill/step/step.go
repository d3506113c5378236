// Package step holds the handlers of a drill's steps, one kind a file. They
// share a World: what the command wired in, and what earlier steps made.
//
// A step judges by gates that it emits with what was expected and what was
// observed; a red gate is the step's error too, with the status of a failed gate.
package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"drkit/drill"
	"drkit/drill/approval"
	"drkit/drill/traffic"
	"drkit/internal/errext"
	"drkit/internal/openai"
	"drkit/internal/redact"
	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/probes"
	"drkit/manifest/region"
	"drkit/manifest/rules"
	"drkit/playbooks"
)

// Region is one side of the drill. Location and StateLocation name the stores
// for people and for undo from another process.
type Region struct {
	Name                    string
	Residency               region.Residency
	Store, State            store.ReadWriter
	Location, StateLocation string
	Command                 []string          // canary command of launcher process
	Env                     map[string]string // added to the canary's environment
	Deployed                *Deployed         // its canary is made from the deploy files; nil: Command starts it from restored files
	Addresses               []Address         // where its store, registry, engines and routers are
}

// RouterCommand starts the rehearsal router.
type RouterCommand struct {
	Driver  string
	Command []string
}

// RouterFactory makes a driver for a router's admin and metrics addresses.
type RouterFactory func(driver, admin, metrics string) (drill.Router, error)

// World is what the steps of one run share. The exported fields are wired in
// before the run; the rest is what steps leave to later ones.
type World struct {
	Service        string
	Release        string // asked for; empty: the one that the target publishes
	Source, Target Region
	Served         string   // served model name that the canaries are started with
	Adapters       []string // that the service names, for checks before the release is known
	WorkDir        string   // the run's own folder
	Resumed        string   // the run's id where it goes on; "": it begins
	By             string   // who runs it, for the lock
	Launcher       drill.Launcher
	UndoLaunch     func(run, name string) (drill.Undo, error)
	Validate       func(drill.Spec) error             // problems of a launch before it
	OpenDir        func(path string) store.ReadWriter // a folder to restore into
	NewRouter      RouterFactory
	Router         RouterCommand
	Classes        []traffic.Class
	Objectives     drill.Objectives
	Waivers        []manifest.Waiver
	HTTP           *http.Client
	Self           []string // drkit's own command that tries addresses (package reach), for isolation; nil: there is none
	// Measured is how long an earlier canary of a release took to start in the
	// target; false where there was none. nil: nobody knows.
	Measured func(release string) (rules.Start, bool)
	// Serving says what runs in production now, to be compared with the release; nil:
	// nobody knows.
	Serving Serving
	// Approvals weighs what the ledger holds of people's approvals of this run; nil:
	// nobody can approve.
	Approvals func(ctx context.Context, run string) (approval.Tally, error)
	// Production is what a live run moves. Back says that the source takes over again
	// (the function Back).
	Production Production
	Back       bool

	// For a playbook's own steps.
	Mode        string                                     // of the run
	Dir         string                                     // drkit.yaml's folder, which commands are relative to
	LookupEnv   func(string) (string, bool)                // nil: os.LookupEnv
	Redact      *redact.Redactor                           // learns the secrets that steps use; nil: nobody learns them
	Web         *http.Client                               // speaks to places outside of the drill; nil: HTTP
	People      *People                                    // nil: nobody is there, human steps pause the run
	UndoCommand func(run, name string) (drill.Undo, error) // ends what a command left; nil: UndoLaunch

	mu       sync.Mutex
	manifest *manifest.Manifest
	probes   probes.ProbeSet
	replicas map[string]*replica // by region name
	router   *rehearsalRouter
	traffic  *running
	cutover  *switched
	routed   []*move   // of the cutover
	warming  *warming  // of the engines that it went to
	opened   []*fleet  // routers of production
	checked  bool      // checkProduction has told its problems
	remarks  []string  // of the checks
	compared *compared // with production
}

// Kinds returns the handlers by the kind of step that each runs.
func Kinds(w *World) map[string]drill.StepHandler {
	if w.Mode == drill.ModeTabletop {
		return tabletop(w)
	}
	return kinds(w)
}

func kinds(w *World) map[string]drill.StepHandler {
	return map[string]drill.StepHandler{
		"preflight":  preflight{w},
		"verify":     verifyStep{w},
		"restore":    restoreStep{w},
		"boot":       boot{w},
		"traffic":    trafficStep{w},
		"declare":    declare{w},
		"behaviour":  behaviour{w},
		"cutover":    cutover{w},
		"steady":     steady{w},
		"soak":       soak{w},
		"cache-warm": cacheWarm{w},
		"failback":   failback{w},
		"cleanup":    cleanup{w},
		"approve":    approve{w},
		"run":        run{w},
		"http":       httpStep{w},
		"wait":       waitStep{w},
		"human":      human{w},
		"notify":     notify{w},
	}
}

// side is the region that a step's option names: source or target.
func (w *World) side(name string) (*Region, error) {
	switch name {
	case "":
		return w.takesOver(), nil
	case string(region.Target):
		return &w.Target, nil
	case string(region.Source):
		return &w.Source, nil
	}
	return nil, errext.WithStatus(fmt.Errorf("region %q: want source or target", name), errext.Usage)
}

// regionOption is the option of the steps that work on either side.
type regionOption struct {
	Region string `yaml:"region" strict:"enum=source|target"`
}

func (w *World) regionOf(s playbooks.Step) (*Region, error) {
	var o regionOption
	if err := s.Decode(&o); err != nil {
		return nil, err
	}
	return w.side(o.Region)
}

// isTarget tells the two regions apart.
func (w *World) isTarget(r *Region) bool { return r == &w.Target }

// takesOver is the region whose recovery is timed, and that the proofs speak of: the
// target, or the source in a run that goes back to it.
func (w *World) takesOver() *Region {
	if w.Back {
		return &w.Source
	}
	return &w.Target
}

// Back says that a playbook goes back to the source: it moves production there, and
// nothing to the target.
func Back(p playbooks.Playbook) bool {
	forth, back := false, false
	for _, s := range p.Steps {
		var o routerOption
		if !s.In(p.Mode) || s.Kind != "cutover" && s.Kind != "failback" || s.Decode(&o) != nil {
			continue
		}
		forth, back = forth || s.Kind == "cutover", back || s.Kind == "failback" && o.live()
	}
	return back && !forth
}

// CheckWay refuses a playbook of mode failback whose steps do not take production back:
// the run would be called what it is not.
func CheckWay(p playbooks.Playbook) error {
	if p.Mode != playbooks.Failback || Back(p) {
		return nil
	}
	return errext.WithHint(errext.WithStatus(fmt.Errorf("playbook %q is of mode failback, and its steps do not go back to the source alone", p.Name), errext.Usage),
		"it needs a step of kind failback with router: production, and none of kind cutover; a move to the target is of mode planned")
}

// restored is the folder that a region's release is restored into.
func (w *World) restored(r *Region) string { return filepath.Join(w.WorkDir, "restored", r.Name) }

// gate emits a judged condition; a failed one is an error too.
func gate(sc drill.Scope, g drill.Gate) error {
	if err := sc.Emit(drill.TypeGate, g); err != nil {
		return err
	}
	if g.Result == drill.Failed {
		err := fmt.Errorf("gate %s: expected %s, observed %s", g.ID, g.Expected, g.Observed)
		return errext.WithHint(errext.WithStatus(err, errext.Gate), g.Hint)
	}
	return nil
}

func result(ok bool) string {
	if ok {
		return drill.Passed
	}
	return drill.Failed
}

// undo makes an Undo of a kind and its arguments.
func undo(kind string, args any) (drill.Undo, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return drill.Undo{}, fmt.Errorf("encoding undo %s: %w", kind, err)
	}
	return drill.Undo{Kind: kind, Args: raw}, nil
}

// client speaks to an endpoint of the drill.
func (w *World) client(url string) *openai.Client {
	return &openai.Client{BaseURL: url, HTTP: w.HTTP}
}

// wait polls until done says so, its error, or the end of ctx; the context's
// cause is then wrapped with what was waited for.
func wait(ctx context.Context, every time.Duration, what string, done func(context.Context) (bool, error)) error {
	for {
		ok, err := done(ctx)
		if err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-time.After(every):
		}
	}
}

const (
	pollEvery    = 250 * time.Millisecond
	pollDeadline = 5 * time.Second // of one question: a hung engine accepts connections
)

var errNoAnswer = fmt.Errorf("no answer within %v", pollDeadline)

// question bounds one question to an engine or a router.
func question(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, pollDeadline, errNoAnswer)
}

// interrupted says that a person or a failed journal ended the run: what was
// under way is then neither red nor late. A step that ran out of its own time is
// no interruption.
func interrupted(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// first shows up to n of the texts and how many more there are.
func first(texts []string, n int) string {
	if len(texts) <= n {
		return strings.Join(texts, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(texts[:n], "; "), len(texts)-n)
}

var errNotYet = errors.New("an earlier step of the playbook did not run")

// missing is the error of a step whose predecessor is not in the playbook.
func missing(what, kind string) error {
	return errext.WithHint(errext.WithStatus(fmt.Errorf("%s: %w", what, errNotYet), errext.Usage), "put a step of kind "+kind+" before it in the playbook")
}

// KindNames returns the kinds of steps that a playbook may have, sorted.
func KindNames() []string { return slices.Sorted(maps.Keys(Kinds(&World{}))) }

// CheckOptions checks the options of every step, strictly, without running or
// reaching anything.
func CheckOptions(p playbooks.Playbook) []error {
	var problems []error
	for _, s := range p.Steps {
		if err := CheckStep(s); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// CheckStep is CheckOptions of one step.
func CheckStep(s playbooks.Step) error {
	o := optionsOf(s.Kind)
	if err := s.Decode(o); err != nil {
		return err
	}
	if o, ok := o.(interface{ faults(playbooks.Step) error }); ok {
		return o.faults(s)
	}
	return nil
}

func optionsOf(kind string) any {
	switch kind {
	case "verify":
		return &verifyOptions{}
	case "behaviour":
		return &behaviourOptions{}
	case "preflight":
		return &preflightOptions{}
	case "restore":
		return &regionOption{}
	case "boot":
		return &bootOptions{}
	case "traffic":
		return &trafficOptions{}
	case "run":
		return &runOptions{}
	case "http":
		return &httpOptions{}
	case "wait":
		return &waitOptions{}
	case "human":
		return &humanOptions{}
	case "notify":
		return &notifyOptions{}
	case "cutover", "steady", "failback", "soak", "cache-warm":
		return &routerOption{}
	}
	return &struct{}{}
}
