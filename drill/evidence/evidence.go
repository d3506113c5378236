// Package evidence makes the record of a run that an auditor reads, and finds out
// whether such a record still says what happened.
//
// New folds a journal into an Evidence: a pure function, so that anybody who has
// the journal makes the same bytes. Seal writes it beside the journal and closes
// the run in the ledger. Audit reads ledger, journals and evidence again, and says
// where one of them contradicts another.
//
//	entry, err := evidence.Seal(ctx, chain, dir, run, by)
//	audit, err := evidence.Check(ctx, chain, evidence.Options{Dirs: []string{dir}})
//
// What was not measured or not told is null, with its reason in "unknown" or in the
// "why" beside it; it is never 0. docs/evidence.md describes the fields.
package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/drill/report"
)

// Schema names the version of evidence.json. 1.1 added who approved, took part,
// observed and was notified, and why a run began without its ledger; 1.2 who might
// approve, and that a live run is judged by it. Files of 1.0 and 1.1 are still judged.
const Schema = "drkit.evidence/1.2"

// FileName is evidence.json's name in its run's folder.
const FileName = "evidence.json"

// Evidence is what a run showed, and what that rests on.
type Evidence struct {
	Schema      string                   `json:"schema"`
	Sum         string                   `json:"sum"` // SHA-256 of the file's own bytes, with 64 zeros in this place
	RunID       string                   `json:"run_id"`
	Kind        string                   `json:"kind"` // drill, demo, tabletop, real
	Service     string                   `json:"service"`
	Mode        string                   `json:"mode"`
	Scenario    Scenario                 `json:"scenario"`
	Plan        Plan                     `json:"plan"`
	Manifest    Manifest                 `json:"manifest"`
	Tool        Tool                     `json:"tool"`
	SelfTest    *drill.SelfTest          `json:"self_test,omitempty"` // absent: the run's program did not say
	Operator    Operator                 `json:"operator"`
	Consent     *drill.Consent           `json:"consent,omitempty"` // who may approve and how many must; absent: the run is not live
	Approvers   *[]Approver              `json:"approvers"`
	People      *[]drill.Person          `json:"participants"`
	Observers   *[]string                `json:"observers"`
	Notified    *[]string                `json:"notified"`
	Environment Environment              `json:"environment"`
	Components  []drill.Component        `json:"components"`
	Objectives  Objectives               `json:"objectives"`
	Clock       Clock                    `json:"clock"`
	Measured    map[string]report.Figure `json:"measured"`
	Segments    []report.Segment         `json:"segments"`
	Problems    []Problem                `json:"problems"`
	Steps       []Step                   `json:"steps"`
	Gates       []Gate                   `json:"gates"`
	Proofs      []Proof                  `json:"proofs"`
	Traffic     []report.Traffic         `json:"traffic"`
	Classes     []report.Class           `json:"classes,omitempty"` // of traffic, with the verdict on each
	Deviations  []string                 `json:"deviations"`
	Cleanup     Cleanup                  `json:"cleanup"`
	TakenBack   []report.TakenBack       `json:"taken_back,omitempty"` // after the end, which it leaves as it was
	Failback    Failback                 `json:"failback"`
	Findings    []Finding                `json:"findings"`
	Lessons     *[]string                `json:"lessons"`
	Notes       []string                 `json:"notes"`
	Controls    []Control                `json:"controls"`
	Journal     ledger.Sealed            `json:"journal"`
	Ledger      *Ledger                  `json:"ledger"`
	NoLedger    *string                  `json:"without_ledger"` // why it began without; null: it did not
	Outcome     *Outcome                 `json:"outcome"`        // null: the journal has no end
	Unknown     []Unknown                `json:"unknown"`
}

// Scenario is the occasion, as a person told it.
type Scenario struct {
	ID        *string `json:"id"`
	Severity  *string `json:"severity"`
	Trigger   *string `json:"trigger"`
	ChangeRef *string `json:"change_ref"`
}

// Plan is what was going to be done: the hash covers playbook, objectives, canaries,
// router and traffic.
type Plan struct {
	Playbook       string  `json:"playbook"`
	SHA256         string  `json:"sha256"`
	PlaybookSHA256 *string `json:"playbook_sha256"`
}

// Manifest is the release that was recovered.
type Manifest struct {
	Release *string       `json:"release"` // SHA-256 of its canonical contents
	Parts   *[]drill.Part `json:"parts"`
}

// Tool is the program that ran the drill.
type Tool struct {
	Version string  `json:"version"`
	Commit  *string `json:"commit"`
	Dirty   *bool   `json:"dirty"` // built from a changed checkout
	SHA256  *string `json:"sha256"`
}

// Operator is who ran it, and how that is known.
type Operator struct {
	ID     *string `json:"id"`
	Method string  `json:"method"`
}

// Approver is a person whose approval of the plan counted.
type Approver struct {
	ID        string     `json:"id"`
	Method    string     `json:"method"` // kind of key, or that it was only typed
	KeyID     *string    `json:"key_id"` // as ssh-keygen -l prints it; null: no key proves it
	Self      bool       `json:"self_attested"`
	ChangeRef string     `json:"change_ref"`
	At        time.Time  `json:"at"`
	Expires   *time.Time `json:"expires"`
	Record    *uint64    `json:"ledger_record"`   // that holds it; null: none does
	SHA256    *string    `json:"sha256"`          // of that record
	AsOf      uint64     `json:"as_of,omitempty"` // newest record of the ledger when it was counted
}

// Environment is where it happened. The regions are as drkit.yaml calls them: a run of
// mode failback goes from the target to the source.
type Environment struct {
	SourceRegion   string    `json:"source_region"`
	TargetRegion   string    `json:"target_region"`
	Accounts       *[]string `json:"accounts"`
	Clusters       *[]string `json:"clusters"`
	IsolationProof *string   `json:"isolation_proof"`
}

// Objectives were fixed before the start.
type Objectives struct {
	report.Objectives
	RTONanoseconds int64 `json:"rto_ns"`
}

// Clock is the recovery clock. Instants of one process are exact against each other.
type Clock struct {
	Began     time.Time  `json:"began"`
	Ended     *time.Time `json:"ended"`
	Instants  []Instant  `json:"instants"`
	NTPOffset *float64   `json:"ntp_offset_seconds"`
}

// Instant is a stamp of the recovery clock.
type Instant struct {
	Name    string    `json:"name"`
	Step    string    `json:"step"`
	Process int       `json:"process"`
	Mono    int64     `json:"mono_ns"` // since that process began
	Wall    time.Time `json:"wall"`
	Cached  bool      `json:"cached"`
}

// Problem was found before the clock; one refuses the run.
type Problem struct {
	Step string `json:"step"`
	What string `json:"what"`
	Hint string `json:"hint"`
}

// Step is a step of the plan.
type Step struct {
	ID       string     `json:"id"`
	Kind     string     `json:"kind"`
	Anchor   string     `json:"playbook_anchor"`
	By       string     `json:"by"` // tool, human
	Start    *time.Time `json:"start"`
	End      *time.Time `json:"end"`
	Elapsed  *float64   `json:"elapsed_seconds"`
	Budget   *float64   `json:"budget_seconds"`
	Result   string     `json:"result"`
	Attempts int        `json:"attempts"`
	Status   int        `json:"status"` // what a failed one stands for
	Error    string     `json:"error"`
	Hint     string     `json:"hint"`
}

// Gate is a condition that was judged, with what the judgement rests on.
type Gate struct {
	Step     string    `json:"step"`
	ID       string    `json:"id"`
	Title    string    `json:"title"`
	Expected string    `json:"expected"`
	Observed string    `json:"observed"`
	Result   string    `json:"result"`
	Status   int       `json:"status"` // what a red one stands for; 0: 4
	RestsOn  string    `json:"rests_on"`
	Hint     string    `json:"hint"`
	At       time.Time `json:"at"`
	Event    uint64    `json:"journal_event"`     // the event that holds it
	Classes  []string  `json:"classes,omitempty"` // of traffic that it speaks of alone
}

// Proof is what a step says to have proven, and whether its gates carry it.
type Proof struct {
	Name     string   `json:"name"`
	Step     string   `json:"step"`
	Claimed  bool     `json:"claimed"`
	Gates    []string `json:"gates"` // it rests on these; none: on all gates of its step
	Holds    bool     `json:"holds"`
	Required bool     `json:"required"`
	Why      string   `json:"why"`
}

// Cleanup says whether everything that was changed is proven to be taken back, at the
// end of the run. What was done since stands beside each change.
type Cleanup struct {
	Status    string   `json:"status"` // verified, incomplete, nothing-changed
	Changes   []Change `json:"changes"`
	Leftovers []string `json:"leftovers"`
}

// The states of a clean-up.
const (
	CleanVerified   = "verified"
	CleanIncomplete = "incomplete"
	CleanNothing    = "nothing-changed"
)

// Change is what the run changed.
type Change struct {
	ID     string `json:"id"`
	Step   string `json:"step"`
	What   string `json:"what"`
	Undo   string `json:"undo"`
	Done   bool   `json:"done"`
	Error  string `json:"error"`
	Undone bool   `json:"undone"`
	Why    string `json:"undo_error"`
	By     string `json:"adopted,omitempty"` // who took over what it made
	Kept   string `json:"kept,omitempty"`    // why it stays on purpose

	Later *report.Later `json:"after_the_end,omitempty"` // what became of it since
}

// Failback is whether the source was shown to be able to serve again.
type Failback struct {
	Result *string `json:"result"`
}

// Finding is what the run found wrong, for people to own.
type Finding struct {
	ID     string  `json:"id"`
	What   string  `json:"what"`
	Hint   string  `json:"hint"`
	Status string  `json:"status"` // open
	Owner  *string `json:"owner"`
	Due    *string `json:"due"`
	Ticket *string `json:"ticket"`
}

// Ledger is where the run was announced before it began.
type Ledger struct {
	drill.LedgerRef
	Tail string `json:"tail"` // anchored or unanchored, and what that means
}

// Outcome follows from the rest by Rules.
type Outcome struct {
	Verdict  string             `json:"verdict"`
	Status   int                `json:"status"`
	Reasons  []drill.Reason     `json:"reasons"`
	Aborting *drill.RunAborting `json:"cut_short"` // null: it was not
	Rules    []string           `json:"rules"`
}

// Unknown says why a field is null. A * in the field stands for each element.
type Unknown struct {
	Field  string `json:"field"` // JSON pointer
	Reason string `json:"reason"`
}

// Encode writes evidence.json; equal evidence gives equal bytes.
func (e Evidence) Encode() ([]byte, error) {
	e.Sum = ledger.NoRecord
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("encoding the evidence of run %s: %w", e.RunID, err)
	}
	return ledger.WithSum(b.Bytes()), nil
}
