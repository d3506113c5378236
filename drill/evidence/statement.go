package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"drkit/drill"
	"drkit/drill/ledger"
)

// The names of the in-toto attestation framework that a signature uses.
const (
	statementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://in-toto.io/attestation/test-result/v0.1"
)

// statement is an in-toto statement with the predicate "test result": what a run
// showed, bound to the bytes of its evidence and of its journal.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     testResult `json:"predicate"`
}

type resource struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type testResult struct {
	Result        string     `json:"result"`
	Configuration []resource `json:"configuration"`
	Passed        []string   `json:"passedTests"`
	Warned        []string   `json:"warnedTests"`
	Failed        []string   `json:"failedTests"`
}

func resourceOf(name, sha256 string) resource {
	return resource{name, map[string]string{"sha256": sha256}}
}

// Statement is the in-toto statement of an evidence.json. The result is PASSED only
// for a run that counts and recovered in time.
func Statement(data []byte) ([]byte, error) {
	e, err := Decode(data)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(statementOf(e, data)); err != nil {
		return nil, fmt.Errorf("encoding the statement of run %s: %w", e.RunID, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func statementOf(e *Evidence, data []byte) statement {
	s := statement{Type: statementType, PredicateType: PredicateType,
		Subject:   []resource{resourceOf(FileName, ledger.SealOf(data).SHA256), resourceOf(ledger.FileName, e.Journal.SHA256)},
		Predicate: testResult{Result: e.result(), Configuration: []resource{}, Passed: []string{}, Warned: []string{}, Failed: []string{}}}
	p := &s.Predicate
	if e.Plan.SHA256 != "" {
		p.Configuration = append(p.Configuration, resourceOf("plan", e.Plan.SHA256))
	}
	if e.Manifest.Release != nil {
		p.Configuration = append(p.Configuration, resourceOf("release", *e.Manifest.Release))
	}
	for _, g := range e.Gates {
		to := map[string]*[]string{drill.Passed: &p.Passed, drill.Failed: &p.Failed}[g.Result]
		if to == nil {
			to = &p.Warned
		}
		*to = append(*to, g.Step+"/"+g.ID)
	}
	return s
}

// result is the run in the three words that the predicate has.
func (e *Evidence) result() string {
	switch o := e.Outcome; {
	case o == nil:
		return "FAILED"
	case o.Verdict == drill.Recovered && o.Status == 0 && e.real():
		return "PASSED"
	case o.Verdict == drill.Recovered && o.Status == 0, o.Verdict == drill.ObjectiveMissed && e.real():
		return "WARNED"
	}
	return "FAILED"
}

// CheckStatement compares a signed statement with the evidence that it must be of.
func CheckStatement(payload, data []byte) []ledger.Fault {
	var s statement
	e, err := Decode(data)
	if err == nil {
		err = json.Unmarshal(payload, &s)
	}
	if err != nil {
		return []ledger.Fault{{Where: "signature", What: err.Error()}}
	}
	fault := func(what string) []ledger.Fault {
		return []ledger.Fault{{Where: "signature", Run: e.RunID, What: what, Hint: hintRun}}
	}
	want := statementOf(e, data)
	switch {
	case s.Type != want.Type || s.PredicateType != want.PredicateType:
		return fault(fmt.Sprintf("the signed statement is no test result but a %.80q", s.PredicateType))
	case !reflect.DeepEqual(s.Subject, want.Subject):
		return fault("it signs other bytes than this evidence.json and its journal: one of them was changed after it was signed")
	case !reflect.DeepEqual(s.Predicate, want.Predicate):
		return fault("the signed result is not the one of this evidence")
	}
	return nil
}
