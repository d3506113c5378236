package drill

// SelfTest is the newest self-test of the same program before a run: whether its
// checks were seen to go red.
type SelfTest struct {
	State  string         `json:"state"`         // one of the SelfTest constants
	Why    string         `json:"why,omitempty"` // why there is none, or what it did not try
	At     string         `json:"at,omitempty"`  // RFC 3339
	Tool   string         `json:"tool,omitempty"`
	SHA256 string         `json:"sha256,omitempty"` // of its result file
	Cases  []SelfTestCase `json:"cases,omitempty"`
}

// The states of a self-test.
const (
	SelfTestHolds  = "holds"   // every fault was red, the sound recovery green
	SelfTestFailed = "failed"  // a check was blind, or the sound recovery red
	SelfTestNotRun = "not-run" // none of this program is known
)

// SelfTestCase is one fault and whether it was found.
type SelfTestCase struct {
	ID      string `json:"id"`
	Want    string `json:"want"`    // red, or green for a control
	Outcome string `json:"outcome"` // red, green, other
}
