// Package report writes what a run showed: a JSON result for programs, Markdown
// for people, and one line an event while it runs. All three come from the run's
// folded journal alone, so a replay writes the same bytes.
//
// A figure that was not measured is null in JSON and a dash in Markdown, with the
// reason beside it; it is never 0.
package report

import (
	"encoding/json"
	"io"
	"time"

	"drkit/drill"
)

// Schema names the version of the JSON result.
const Schema = "drkit.drill-result/1.0"

// Result is a run as the JSON result has it; docs/drill.md describes its fields.
// Times are in seconds, to the millisecond.
type Result struct {
	Schema     string            `json:"schema"`
	Run        string            `json:"run"`
	Service    string            `json:"service"`
	Mode       string            `json:"mode"`
	Demo       bool              `json:"demo"`
	Playbook   string            `json:"playbook"`
	PlanHash   string            `json:"plan_hash"`
	Release    string            `json:"release"`
	Source     string            `json:"source"` // as drkit.yaml calls the regions
	Target     string            `json:"target"`
	From       string            `json:"from"` // the region that the traffic leaves: in a failback the target
	To         string            `json:"to"`   // the one that takes over
	Tool       string            `json:"tool"`
	SelfTest   *drill.SelfTest   `json:"self_test,omitempty"`
	Began      time.Time         `json:"began"`
	Ended      *time.Time        `json:"ended"`   // null: not ended
	Verdict    *string           `json:"verdict"` // null: not ended
	Status     *int              `json:"status"`
	Reasons    []drill.Reason    `json:"reasons"`
	Objectives Objectives        `json:"objectives"`
	Proves     map[string]Proof  `json:"proves"`
	Measured   map[string]Figure `json:"measured"`
	Segments   []Segment         `json:"segments"`
	Steps      []Step            `json:"steps"`
	Gates      []Gate            `json:"gates"`
	Components []drill.Component `json:"components"`
	Boot       []Phase           `json:"boot"`
	Traffic    []Traffic         `json:"traffic"`
	Classes    []Class           `json:"classes"`
	Changes    []Change          `json:"changes"`
	TakenBack  []TakenBack       `json:"taken_back,omitempty"` // after the end; the verdict is not touched by it
	Notes      []string          `json:"notes"`
	Approvals  []Approval        `json:"approvals,omitempty"`
	Asked      []Asked           `json:"asked,omitempty"`    // steps that waited for people
	Notified   []Notified        `json:"notified,omitempty"` // what people were told

	afterTheEnd []string
}

// Objectives are what was promised before the start; null: not promised.
type Objectives struct {
	RTO       float64  `json:"rto_seconds"`
	TTFTP99   *float64 `json:"ttft_p99_seconds"`
	ErrorRate float64  `json:"error_rate"`
	Steady    Steady   `json:"steady"`
	Soak      *float64 `json:"soak_seconds,omitempty"` // absent: not promised
	CacheWarm float64  `json:"cache_warm,omitempty"`   // share of the baseline's hit rate; absent: not promised
	MustProve []string `json:"must_prove"`
}

// Steady is when traffic counts as steady.
type Steady struct {
	Windows     int     `json:"windows"`
	Window      float64 `json:"window_seconds"`
	MinRequests int     `json:"min_requests"`
	Load        float64 `json:"load"`
}

// Proof is what the run says of one thing that a run can prove.
type Proof struct {
	Proven   bool   `json:"proven"`
	Required bool   `json:"required"`
	Why      string `json:"why"`
}

// Figure is a measured value, or null and why.
type Figure struct {
	Value *float64 `json:"value"`
	Unit  string   `json:"unit"`
	Why   string   `json:"why,omitempty"`
	Clock string   `json:"clock,omitempty"`
}

// Segment is a stretch of the recovery clock.
type Segment struct {
	From    string   `json:"from"`
	To      string   `json:"to"`
	Elapsed *float64 `json:"elapsed_seconds"`
	Budget  *float64 `json:"budget_seconds"`
	Slack   *float64 `json:"slack_seconds"`
	Cached  bool     `json:"cached"`
	Clock   string   `json:"clock,omitempty"`
	Why     string   `json:"why,omitempty"`
}

// Step is a step of the plan.
type Step struct {
	ID       string   `json:"id"`
	Kind     string   `json:"kind"`
	Result   string   `json:"result"` // "" while it runs
	Attempts int      `json:"attempts"`
	Elapsed  *float64 `json:"elapsed_seconds"`
	Budget   *float64 `json:"budget_seconds"`
	Error    string   `json:"error,omitempty"`
	Hint     string   `json:"hint,omitempty"`
}

// Gate is a condition that was judged.
type Gate struct {
	Step     string `json:"step"`
	ID       string `json:"id"`
	Title    string `json:"title"`
	Result   string `json:"result"`
	Expected string `json:"expected"`
	Observed string `json:"observed"`
	Evidence string `json:"evidence,omitempty"`
	Hint     string `json:"hint,omitempty"`
}

// Phase is a stretch of an engine's boot.
type Phase struct {
	Replica string  `json:"replica"`
	Name    string  `json:"name"`
	Start   float64 `json:"start_seconds"` // since launch
	Length  float64 `json:"length_seconds"`
	Gap     bool    `json:"gap"`
	Line    string  `json:"line,omitempty"`
}

// Change is what the run changed and how it was taken back.
type Change struct {
	ID     string `json:"id"`
	Step   string `json:"step"`
	What   string `json:"what"`
	Undo   string `json:"undo"` // its kind
	Done   bool   `json:"done"`
	Error  string `json:"error,omitempty"`
	Undone bool   `json:"undone"`
	Why    string `json:"undo_error,omitempty"`
	Kept   string `json:"kept,omitempty"`          // why it stays on purpose
	Later  *Later `json:"after_the_end,omitempty"` // what became of it after the end
}

// Later is what became of a change after the end of its run; the verdict rests on what
// it was at the end.
type Later struct {
	At        time.Time `json:"at"`
	By        string    `json:"by,omitempty"` // as the machine says
	Undone    bool      `json:"undone"`
	Why       string    `json:"undo_error,omitempty"`
	Untouched bool      `json:"untouched,omitempty"` // the undo was refused before it changed anything
	Kept      string    `json:"kept,omitempty"`
	Adopted   string    `json:"adopted,omitempty"`
}

// LaterOf is that of a change, nil when nothing was done about it.
func LaterOf(c drill.ChangeState) *Later {
	l := c.Later
	if l == nil {
		return nil
	}
	return &Later{At: l.At.Wall, By: l.By, Undone: l.Undone, Why: l.Error, Untouched: l.Untouched, Kept: l.Kept, Adopted: l.Adopted}
}

// TakenBack is a time after the end at which somebody took changes back.
type TakenBack struct {
	At  time.Time `json:"at"`
	By  string    `json:"by"` // as the machine says
	Why string    `json:"why"`

	Gone   int `json:"gone"`       // changes that were proven to be taken back
	Failed int `json:"not_proven"` // and that were not
}

// TakenBacks are those of a run, in their order.
func TakenBacks(r *drill.Run) (all []TakenBack) {
	for _, b := range r.TakenBack {
		all = append(all, TakenBack{b.At.Wall, b.By, b.Why, b.Gone, b.Failed})
	}
	return all
}

// Class is the verdict on one class of traffic: as of the run, or refused (it has
// no lawful target), or not-affected (the source may not answer it).
type Class struct {
	Name      string   `json:"name"`
	Residency []string `json:"residency"`
	Share     float64  `json:"share"`
	Router    string   `json:"router,omitempty"`
	Lawful    bool     `json:"lawful_target"` // false: the target may not answer it, and no run passes for it
	Verdict   *string  `json:"verdict"`       // null: the run has not ended
	Why       string   `json:"why,omitempty"`
}

// New takes the result out of a run.
func New(r *drill.Run) Result {
	p := r.Plan
	res := Result{
		Schema: Schema, Run: r.ID, Service: p.Service, Mode: p.Way(), Demo: p.Demo, Playbook: p.Playbook, PlanHash: p.PlanHash,
		Release: p.Release, Source: p.Source, Target: p.Target, From: p.From(), To: p.To(), Tool: p.Tool, SelfTest: p.SelfTest, Began: r.Begun.Wall,
		Objectives: objectives(p.Objectives), Proves: proves(r), Measured: measured(r), Segments: segments(r),
		Steps: steps(r), Gates: gates(r), Components: list(r.Components), Boot: boot(r), Traffic: traffic(r), Classes: Classes(r), Changes: changes(r), TakenBack: TakenBacks(r), afterTheEnd: r.AfterTheEnd(),
		Notes: list(r.Notes), Approvals: approvals(r), Asked: asked(r), Notified: notified(r), Reasons: []drill.Reason{},
	}
	if f := r.Finished; f != nil {
		res.Ended, res.Verdict, res.Status, res.Reasons = &r.Ended.Wall, &f.Verdict, &f.Status, list(r.Told())
	}
	return res
}

// JSON writes the result.
func JSON(w io.Writer, r *drill.Run) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(New(r))
}

// list keeps an empty list from becoming null.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// seconds rounds to the millisecond, halves away from zero.
func seconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}

// SecondsIf is a time as results have it: a pointer to the seconds, rounded to the
// millisecond, nil when they are not known.
func SecondsIf(d time.Duration, known bool) *float64 {
	if !known {
		return nil
	}
	s := seconds(d)
	return &s
}

func objectives(o drill.Objectives) Objectives {
	return Objectives{
		RTO: seconds(o.RTO), TTFTP99: SecondsIf(o.TTFTP99, o.TTFTP99 > 0), ErrorRate: o.ErrorRate, MustProve: list(o.MustProve),
		Soak: SecondsIf(o.Soak, o.Soak > 0), CacheWarm: o.CacheWarm,
		Steady: Steady{Windows: o.Steady.Windows, Window: seconds(o.Steady.Window), MinRequests: o.Steady.MinRequests, Load: o.Steady.Load},
	}
}
