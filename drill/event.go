package drill

import (
	"encoding/json"
	"time"
)

// Event is one line of a run's journal. Everything that is known of a run is
// folded from its events, so that a replay shows what the run showed.
type Event struct {
	Run     string          `json:"run"`
	Seq     uint64          `json:"seq"`
	Wall    time.Time       `json:"wall"` // UTC
	Mono    time.Duration   `json:"mono"` // nanoseconds since process Proc began; differences hold only inside one Proc
	Proc    int             `json:"proc"` // 1 for the process that began the run, 2 for the next one (abort)
	Step    string          `json:"step,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	Type    string          `json:"type"`
	Data    json.RawMessage `json:"data,omitempty"` // one struct a type; unknown types survive
	Prev    string          `json:"prev,omitempty"` // SHA-256 of the journal's line before, in hexadecimal; the journal sets it
}

// The types of events and the struct that each carries.
const (
	TypeRunStarted   = "run.started"    // RunStarted
	TypeRunFinished  = "run.finished"   // RunFinished
	TypeRunAborting  = "run.aborting"   // RunAborting
	TypeHeld         = "run.held"       // Held: nothing is undone, and the run waits for a person
	TypeResumed      = "run.resumed"    // Resumed: another process goes on
	TypeStepStarted  = "step.started"   // StepStarted
	TypeStepFinished = "step.finished"  // StepFinished
	TypeRechecked    = "step.rechecked" // Rechecked: whether a finished step still holds, seen by a later process
	TypeMemo         = "memo"           // Memo: what a later process has to know
	TypeInstant      = "instant"        // Instant
	TypeGate         = "gate"           // Gate
	TypeProof        = "proof"          // Proof
	TypeProblem      = "problem"        // Problem: found by a check before the clock
	TypeComponent    = "component"      // Component: which engine or router took part
	TypeIntent       = "change.intent"  // Intent: before a change is made
	TypeChanged      = "change.done"    // Changed: what came of it
	TypeUndone       = "change.undone"  // Undone: after it was taken back
	TypeKept         = "change.kept"    // Kept: it stays on purpose
	TypePhase        = "phase"          // Phase: a stretch of an engine's boot
	TypeTraffic      = "traffic"        // TrafficWindow
	TypeClass        = "class"          // Class: whether a class of traffic can be recovered at all
	TypeNote         = "note"           // Note
	TypeProgress     = "progress"       // Progress; may be dropped
	TypeLog          = "log"            // Log; may be dropped
)

// RunStarted opens a journal: it fixes objectives and plan before the clock.
type RunStarted struct {
	Service    string     `json:"service"`
	Mode       string     `json:"mode"`
	Demo       bool       `json:"demo,omitempty"` // a demonstration: never refreshes "last success"
	Playbook   string     `json:"playbook"`
	PlanHash   string     `json:"plan_hash"`
	Release    string     `json:"release"`
	Source     string     `json:"source"`
	Target     string     `json:"target"`
	Objectives Objectives `json:"objectives"`
	Steps      []StepPlan `json:"steps"`
	Tool       string     `json:"tool"`
	WorkDir    string     `json:"work_dir"`

	// What the evidence of a run says beside; absent: not known.
	By           string     `json:"by,omitempty"` // user@host of the operator, as the machine says
	PlaybookHash string     `json:"playbook_hash,omitempty"`
	PlaybookFile string     `json:"playbook_file,omitempty"` // named on the command line: where a resume finds it
	Binary       *Binary    `json:"binary,omitempty"`
	Parts        []Part     `json:"parts,omitempty"` // of the release's manifest
	Scenario     *Scenario  `json:"scenario,omitempty"`
	Ledger       *LedgerRef `json:"ledger,omitempty"` // where the run was announced before it began

	// What people did before the start, and who else took part, as the operator says.
	Live          bool       `json:"live,omitempty"`           // production may be moved
	WithoutLedger string     `json:"without_ledger,omitempty"` // why the run began although no ledger could be written: never better than status 6
	Consent       *Consent   `json:"consent,omitempty"`        // of a live run; absent: one approval is enough
	Approvals     []Approval `json:"approvals,omitempty"`
	Participants  []Person   `json:"participants,omitempty"`
	Observers     []string   `json:"observers,omitempty"`
	SelfTest      *SelfTest  `json:"self_test,omitempty"`
}

// Binary is the program that ran the drill.
type Binary struct {
	SHA256   string `json:"sha256,omitempty"` // of the executable
	Commit   string `json:"commit,omitempty"` // of its source
	Modified bool   `json:"modified,omitempty"`
}

// Part is what a release holds of one part of its manifest. SHA256 covers region,
// path, size and SHA-256 of each of its files, in the form of the release id.
type Part struct {
	Name   string `json:"name"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Scenario is what a person says of the occasion; an empty field was not said.
type Scenario struct {
	ID        string `json:"id,omitempty"`
	Severity  string `json:"severity,omitempty"`
	Trigger   string `json:"trigger,omitempty"`    // scheduled, change, incident
	ChangeRef string `json:"change_ref,omitempty"` // the ticket of the change
}

// LedgerRef names the ledger's record that announced a run.
type LedgerRef struct {
	Location string `json:"location"`
	Record   uint64 `json:"record"`
	SHA256   string `json:"sha256"`   // of the record
	Previous string `json:"previous"` // SHA-256 of the record before it
	Anchored bool   `json:"anchored"` // the record is held by an object lock
	Until    string `json:"until,omitempty"`
}

// Objectives are promised before the start and judged at the end.
type Objectives struct {
	RTO       time.Duration `json:"rto"`      // nanoseconds, declared → steady
	TTFTP99   time.Duration `json:"ttft_p99"` // nanoseconds; 0: not promised
	ErrorRate float64       `json:"error_rate"`
	Steady    Steady        `json:"steady"`
	Soak      time.Duration `json:"soak,omitempty"`       // nanoseconds after steady that the objectives hold; 0: not promised
	CacheWarm float64       `json:"cache_warm,omitempty"` // share of the baseline's hit rate to come back to; 0: not promised
	MustProve []string      `json:"must_prove"`
}

// Steady says when traffic counts as steady: so many windows in a row, each with
// at least MinRequests requests at Load of production's rate.
type Steady struct {
	Windows     int           `json:"windows"`
	Window      time.Duration `json:"window"`
	MinRequests int           `json:"min_requests"`
	Load        float64       `json:"load"`
}

// StepPlan is a step as the screen and the report show it.
type StepPlan struct {
	ID     string        `json:"id"`
	Kind   string        `json:"kind"`
	Text   string        `json:"text,omitempty"`
	Budget time.Duration `json:"budget,omitempty"`
	Group  string        `json:"group,omitempty"` // steps in a row of one group run side by side
	Who    string        `json:"who,omitempty"`   // who has to act in it
}

// RunFinished closes a run; Status is the exit status.
type RunFinished struct {
	Verdict string   `json:"verdict"`
	Status  int      `json:"status"`
	Reasons []Reason `json:"reasons,omitempty"`
}

// Reason is one cause of a run's status.
type Reason struct {
	Status int    `json:"status"`
	Name   string `json:"name"`
	What   string `json:"what"`
	Hint   string `json:"hint,omitempty"`
}

// RunAborting says that the run ends early and undo begins.
type RunAborting struct {
	Why    string `json:"why"`
	Signal string `json:"signal,omitempty"`
}

// Held says that the run stops here until a person goes on or aborts it. What it
// changed stays, and its clock goes on.
type Held struct {
	Why  string `json:"why"`
	Step string `json:"step,omitempty"` // at which it stopped; "": between two steps
	Next string `json:"next"`           // what to do to go on, with the command
	By   string `json:"by"`             // who held it: HeldByTool, or a person as the machine knows them
	For  string `json:"for,omitempty"`  // who has to act, as the playbook's step says
}

// HeldByTool is Held.By of a run that no person held.
const HeldByTool = "drkit"

// Resumed says that another process goes on with a run that was held, or whose
// process was gone.
type Resumed struct {
	By   string `json:"by,omitempty"`   // user@host of the operator, as the machine says
	Tool string `json:"tool,omitempty"` // version of the program that goes on

	Binary *Binary `json:"binary,omitempty"` // that program; absent: nothing is known of it
}

// Rechecked says whether what a finished step reached still holds when another
// process goes on. One that does not is run again, and every step after it.
type Rechecked struct {
	Holds bool   `json:"holds"`
	Why   string `json:"why,omitempty"` // not: what is another now
}

// Memo is what a step leaves to a later process of the run: the newest one of a
// step and key counts. It holds no secrets.
type Memo struct {
	Key  string          `json:"key"`
	Data json.RawMessage `json:"data"`
}

// StepStarted opens a step.
type StepStarted struct {
	Kind string `json:"kind"`
}

// StepFinished closes a step. Result is one of the Result constants.
type StepFinished struct {
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
	Hint   string `json:"hint,omitempty"`
	Status int    `json:"status,omitempty"`
}

// Results of steps and gates. Only Passed holds.
const (
	Passed     = "passed"
	Failed     = "failed"
	Skipped    = "skipped" // left out: never counts as passed
	NotReached = "not-reached"
	Unmeasured = "unmeasured" // could not be judged: never counts as passed
)

// Instants of the recovery clock, in order (design: the drill).
const (
	InstantDeclared       = "declared"
	InstantCapacity       = "capacity" // the platform found a place for the canary; only where it has to look for one
	InstantImage          = "image"    // its images are there
	InstantWeights        = "weights"  // restored and hashed; as deployed: loaded by production's own path
	InstantEngineReady    = "engine-ready"
	InstantCanaryVerified = "canary-verified"
	InstantCutover        = "cutover" // first token of a request through the router from the target
	InstantSteady         = "steady"
	InstantSteadyAgain    = "steady-again" // a later process saw what was steady hold; the judged figure stays the first one
	InstantCacheWarm      = "cache-warm"   // the engines' hit rate is back; outside of the judged figure
	InstantSourceBack     = "source-back"
)

// Instant stamps a moment of the recovery clock. At is nanoseconds on Mono's
// scale when the moment was earlier than the event, else 0.
type Instant struct {
	Name   string        `json:"name"`
	At     time.Duration `json:"at,omitempty"`
	Cached bool          `json:"cached,omitempty"` // served from what was already there
}

// Gate is one condition that was judged.
type Gate struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Expected string `json:"expected"`
	Observed string `json:"observed"`
	Result   string `json:"result"`
	Evidence string `json:"evidence,omitempty"` // what the observation rests on
	Hint     string `json:"hint,omitempty"`
	Status   int    `json:"status,omitempty"` // what a failed one stands for; 0: 4. An objective is 5, a clean-up 8

	Classes []string `json:"classes,omitempty"` // of traffic that it speaks of alone; empty: of all
}

// What a run can prove. A run proves only what its gates showed.
const (
	ProofCopy         = "copy"
	ProofBoot         = "boot"
	ProofBehaviour    = "behaviour"
	ProofRouter       = "router"
	ProofEdge         = "edge"
	ProofFullCapacity = "full-capacity"
	ProofCacheAware   = "cache-aware"
)

// Proof says that something was proven, or why it was not. It counts only when
// each gate that it rests on passed in this run (Run.Proof): those it names, or
// else all gates of its step, of which there must be one.
type Proof struct {
	Name   string   `json:"name"`
	Proven bool     `json:"proven"`
	Why    string   `json:"why"`
	Gates  []string `json:"gates,omitempty"` // ids of the gates that it rests on, of any step
}

// Problem is what a check found before the clock started; one is enough to
// refuse the run.
type Problem struct {
	What string `json:"what"`
	Hint string `json:"hint,omitempty"`
}

// Roles of components.
const (
	RoleEngine = "engine"
	RoleRouter = "router"
)

// Component says which engine or router took part, as it said of itself.
// Substitute marks drkit's own stand-in engine and reference router: a run that
// used one proves nothing of production, unless it is a demonstration.
type Component struct {
	Role       string `json:"role"`
	Name       string `json:"name"` // "target engine", "rehearsal router"
	Kind       string `json:"kind"` // vllm, vllm-router, stand-in, reference
	Version    string `json:"version,omitempty"`
	Substitute bool   `json:"substitute,omitempty"`
}

// Undo takes a change back. It is data, so that another process can run it
// after a kill -9; running it twice does no more than running it once.
type Undo struct {
	Kind string          `json:"kind"`
	Args json.RawMessage `json:"args"`
	Keep string          `json:"keep,omitempty"` // when the change stays at the end: one of the Keep constants; "": never
}

// Intent is journaled before a change is made.
type Intent struct {
	ID   string `json:"id"`
	What string `json:"what"`
	Undo Undo   `json:"undo"`
}

// Changed is journaled after a change was tried.
type Changed struct {
	ID    string `json:"id"`
	Error string `json:"error,omitempty"`
}

// Undone is journaled after a change was taken back; Error is set when the
// absence could not be proven.
type Undone struct {
	ID    string `json:"id"`
	What  string `json:"what"`
	Error string `json:"error,omitempty"`

	Untouched bool `json:"untouched,omitempty"` // the undo was refused before it changed anything
}

// Phase is one stretch of an engine's boot, read from its log. A stretch that no
// line explains is a gap and is shown as one.
type Phase struct {
	Replica string        `json:"replica"`
	Name    string        `json:"name"`
	Start   time.Duration `json:"start"` // nanoseconds since launch
	Length  time.Duration `json:"length"`
	Line    string        `json:"line,omitempty"`
	Gap     bool          `json:"gap,omitempty"`
}

// TrafficWindow counts the drill's own requests of one window by class.
type TrafficWindow struct {
	Class    string         `json:"class"`
	From     time.Duration  `json:"from"` // nanoseconds on Mono's scale
	To       time.Duration  `json:"to"`
	Sent     int            `json:"sent"`
	OK       int            `json:"ok"`
	Failed   int            `json:"failed"`
	Cut      int            `json:"cut"`      // streams that ended without finish reason and [DONE]
	TTFTP50  time.Duration  `json:"ttft_p50"` // nanoseconds; 0: no answer in the window
	TTFTP99  time.Duration  `json:"ttft_p99"`
	CacheHit *float64       `json:"cache_hit,omitempty"` // cached/prompt tokens as answers said; nil: not said
	ByRegion map[string]int `json:"by_region,omitempty"` // answers attributed to a region
	Phase    string         `json:"phase"`               // baseline, cutover, steady, failback
	Began    Stamp          `json:"-"`                   // From with its process, as the fold knows it
}

// Note is a sentence for the report: a thing that the run does not claim. With Waits it
// is what its step waits for: of interest while it waits, and no word on the result.
type Note struct {
	Text  string `json:"text"`
	Waits bool   `json:"waits,omitempty"`
}

// Progress tells how far long work is.
type Progress struct {
	Task  string `json:"task"`
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Unit  string `json:"unit"` // bytes, files
}

// Log is one line of a replica's or router's log.
type Log struct {
	From string `json:"from"`
	Line string `json:"line"`
}

// TypeApproval and TypeAdopted are what people did: see people.go.
const (
	TypeApproval = "approval"       // Approval
	TypeAdopted  = "change.adopted" // Adopted
)

// InstantApproved stamps that enough people had approved.
const InstantApproved = "approved"
