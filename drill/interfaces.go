package drill

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"drkit/playbooks"
)

// Handler takes events in order, one at a time, and must not emit any itself. The
// journal is always first, sees the run as it was before the event, and syncs
// all but progress and log; its error stops the run. The others see the run with
// the event folded in; an error of theirs ends only their own part.
type Handler interface {
	Event(e Event, r *Run) error
}

// Journal is a run's event file, opened to be read and continued.
type Journal interface {
	Handler
	Events() iter.Seq2[Event, error]
}

// Keeper is an ability of a journal, found by type assertion: to say whether it keeps
// the arguments of an undo as they are. It takes secrets out of what it writes, and
// arguments without them take nothing back after a kill -9. The error names the places.
type Keeper interface {
	Keeps(args json.RawMessage) error
}

// Scope is what a step sees of the run. It is safe for concurrent use, and may
// be used by work that outlives its step (a replica's log, traffic), until the
// run is over.
type Scope interface {
	// Emit journals an event of the step. Data is the struct that the type
	// carries; a struct that does not fit its type is an error and is not journaled.
	Emit(typ string, data any) error
	// Change journals the intent with its undo, does the change, and journals
	// the result. The undo runs at cleanup, on failure and after a kill -9, and
	// also when do failed: half a change is left behind often enough. The undo's
	// arguments are journaled: nothing is changed when they hold a secret (Keeper), or
	// when the kill switch is set.
	Change(ctx context.Context, what string, u Undo, do func(context.Context) error) error
	// RunID is the id that labels everything the run makes.
	RunID() string
	// Mono is a moment on the scale of Event.Mono, for data that names an
	// earlier moment than the event's own.
	Mono(t time.Time) time.Duration
}

// Cleaner is an ability of a Scope, found by type assertion: to take back now
// everything that the run changed so far, newest first. What it could not prove
// gone is in the error, is tried again when the run ends, and makes the status 8.
type Cleaner interface {
	UndoAll(ctx context.Context) error
	// Kept says what of the changes stays on purpose (Undo.Keep).
	Kept() []string
}

// Recaller is an ability of a Scope, found by type assertion: what a step left as a
// Memo (Emit TypeMemo), in this process or in an earlier one of the same run. Step ""
// is the newest of any step.
type Recaller interface {
	Recall(step, key string) (data json.RawMessage, known bool)
}

// StepHandler is one kind of step. Do's error ends the run; the status comes
// from errext.StatusOf, and an error that wraps ErrSkip leaves the step out. A
// red gate of the step's own makes it fail whatever Do returns. Do ends soon
// after its context does. One step of a playbook stamps InstantDeclared: before
// it no recovery time is measured.
type StepHandler interface {
	// Check finds all problems before the clock starts; it changes nothing.
	Check(ctx context.Context, s playbooks.Step) []error
	Do(ctx context.Context, s playbooks.Step, sc Scope) error
}

// Rechecker is an ability of a StepHandler, found by type assertion: to say whether
// what a step reached in an earlier process still holds, and to take up again what
// the steps after it need. A finished step without it is run again when a run is
// resumed, and so is every step after it where it changed or stamped something.
type Rechecker interface {
	// Recheck returns nil when it holds. An error makes the step and every step
	// after it run again, with what they changed taken back before; one of status
	// Refused keeps the run held as it is.
	Recheck(ctx context.Context, s playbooks.Step, sc Scope) error
}

// UndoFunc takes back one kind of change and proves that it is gone. It is
// idempotent: nothing left to undo is success.
type UndoFunc func(ctx context.Context, args []byte) error

// Spec is a replica to launch.
type Spec struct {
	Run      string            // run id, the label
	Name     string            // unique in the run: "target", "source"
	Model    string            // directory of the restored base model
	Served   string            // served model name
	Port     int               // 0: the launcher takes a free one
	Command  []string          // process launcher: command with {{placeholders}}
	Dir      string            // working directory: the restored release
	Env      map[string]string // added to a minimal environment
	Adapters map[string]string // name → directory
	Values   map[string]string // further placeholders: {{metrics_port}}, {{worker}}; a key ending in _port is a port that must be free
	LogPath  string            // where stdout and stderr go

	// For launchers that derive the replica from the release's deploy files.
	Deploy  []DeployFile
	Engines []DeployEngine    // containers in them that start the engine
	Images  map[string]string // reference as a file names it → by digest, in the region's registry
}

// DeployFile is a deploy file of the release as the region's copy holds it, hashed.
// Region is empty for a file of every region.
type DeployFile struct {
	Region, Path string
	Data         []byte
}

// DeployEngine names a container of a deploy file that starts an engine.
type DeployEngine struct {
	Path, Kind, Name, Container string
}

// Launcher starts replicas and finds those that a run left.
type Launcher interface {
	Launch(ctx context.Context, s Spec) (Replica, error)
	// Find lists what is left of a run, after a kill -9 too; an empty list is
	// the proof of absence.
	Find(ctx context.Context, run string) ([]Replica, error)
}

// Replica is one running engine.
type Replica interface {
	ID() string
	Endpoint() string // base URL without a trailing slash
	// Log yields the log's lines from its beginning and ends with the replica.
	Log(ctx context.Context) iter.Seq2[string, error]
	// Exited is closed when the replica has ended by itself or was stopped.
	Exited() <-chan struct{}
	// ExitState says how it ended ("exit status 1", "signal: killed"), "" while it runs.
	ExitState() string
	// Stop is idempotent; nil once absence is seen.
	Stop(ctx context.Context) error
}

// Trouble is what keeps a replica from starting, in the words of the platform that
// it was launched on.
type Trouble struct {
	Class string // one word, stable
	Line  string // quoted from the platform
	Hint  string
	Fatal bool // waiting changes nothing; false: the platform may still get over it
}

// Troubled is an optional ability of a Replica whose platform says what is wrong.
type Troubled interface {
	Trouble() (Trouble, bool)
}

// Composite is an optional ability of a Replica of several parts, one of which answers
// for all and may do so before the others are there. Whole is nil once every part runs;
// else it says what is lacking.
type Composite interface {
	Whole() error
}

// Milestone is a moment of a replica's start that its platform showed: Name is one
// of the Instant constants. Cached says that there was nothing to wait for.
type Milestone struct {
	Name   string
	At     time.Time // of this machine's clock, when it was seen
	Cached bool
}

// Milestones is an optional ability of a Replica.
type Milestones interface {
	Milestones() []Milestone // in the order in which they were seen
}

// Tri is yes, no or not known; not known is never read as yes.
type Tri int

// The values of Tri.
const (
	Unknown Tri = iota
	Yes
	No
)

// Worker is one backend of a router. Region is drkit's own label, "" if not known.
type Worker struct {
	URL, ID, Region string
	Health          Tri
	Draining        bool
	Weight          int
	Attrs           map[string]string // round-trips through Apply
}

// RouterInfo is what a router says of itself.
type RouterInfo struct {
	Kind, Version, Policy string
	// SeesText says whether the cache-aware policy sees text prompts, SeesTokens
	// whether it sees prompts of token ids.
	SeesText, SeesTokens Tri
	Reference            bool // drkit's own: fit for rehearsals and demonstrations, proves nothing of production's router
}

// Change is what Apply does: only the workers named are touched.
type Change struct {
	Add    []Worker
	Remove []string // URLs
}

// Count is a router's counter of one worker. OK and Failed count attempts,
// requests or picks, as Unit says; counts of different Epochs give no delta.
type Count struct {
	OK, Failed  uint64
	Unit, Epoch string
}

// Router is one residency partition of a router, all its replicas. Apply adds
// before it removes, never passes through zero workers, reads again before it
// writes, and returns only after the list shows the change.
type Router interface {
	Probe(ctx context.Context) (RouterInfo, error)
	Workers(ctx context.Context) ([]Worker, error)
	Apply(ctx context.Context, c Change) error
	Counters(ctx context.Context) (map[string]Count, error) // by normalised URL; absent: unknown
}

// CachePolicy is an optional ability of a Router: how many decisions of its
// cache-aware policy rested on a known prefix, were made without one, or could
// not see the prompt at all.
type CachePolicy interface {
	CacheDecisions(ctx context.Context) (hits, misses, blind uint64, err error)
}
