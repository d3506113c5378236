package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/drill/report"
)

// CheckFile judges an evidence.json by itself: its own sum, that each null has a
// reason, and that its outcome, its recovery time and its clean-up follow from the
// rest. Whether it says what happened only the journal and the ledger can say.
func CheckFile(data []byte) []ledger.Fault {
	e, err := Decode(data)
	if err != nil {
		return []ledger.Fault{{What: err.Error()}}
	}
	var all []ledger.Fault
	add := func(field, what string) {
		all = append(all, ledger.Fault{Run: e.RunID, Field: field, What: what, Hint: hintRun})
	}
	if err := ledger.CheckSum(data, e.Sum); err != nil {
		add("/sum", err.Error())
	}
	if e.Schema == Schema && len(all) == 0 {
		if own, err := e.Encode(); err != nil || !bytes.Equal(own, data) {
			add("", "it is not written as drkit writes it: a field is missing, stands twice, or is spelled in another way, so that readers may take it for something else")
		}
	} else if name := twin(json.NewDecoder(bytes.NewReader(data))); name != "" {
		add("", fmt.Sprintf("%q stands twice in one object, perhaps in other letters: readers may take either", name))
	}
	for _, field := range reasonless(data, e.Unknown) {
		add(field, "it is null, and nothing says why")
	}
	e.contradictions(add)
	return all
}

// Decode reads an evidence.json strictly. One of another major version is an error.
func Decode(data []byte) (*Evidence, error) {
	var e Evidence
	if s := schemaOf(data); !strings.HasPrefix(s, "drkit.evidence/1.") {
		return nil, fmt.Errorf("it is no evidence of drkit, or of another version: its schema is %.60q, and this version reads %s", s, Schema)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if schemaOf(data) == Schema {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(&e); err != nil {
		return nil, fmt.Errorf("it is no evidence of drkit: %w", err)
	}
	return &e, nil
}

// twin is a name that an object of a document has twice, "" for none. Letters count as
// encoding/json compares names, which takes the last; RFC 8259, section 4, leaves it open.
func twin(d *json.Decoder) string {
	t, _ := d.Token()
	open, ok := t.(json.Delim)
	if !ok {
		return ""
	}
	seen := map[string]bool{}
	for d.More() {
		if open == '{' {
			t, _ := d.Token()
			name, _ := t.(string)
			folded := strings.ToLower(strings.ToUpper(name))
			if seen[folded] {
				return name
			}
			seen[folded] = true
		}
		if name := twin(d); name != "" {
			return name
		}
	}
	_, _ = d.Token() // the end
	return ""
}

// contradictions compares what follows from the rest with what is written.
func (e *Evidence) contradictions(add func(field, what string)) {
	r := e.Run()
	for i, in := range e.Clock.Instants {
		if slices.ContainsFunc(e.Clock.Instants[:i], func(x Instant) bool { return x.Name == in.Name }) {
			add(fmt.Sprintf("/clock/instants/%d", i), fmt.Sprintf("%s is stamped twice: the recovery clock has each instant once", in.Name))
		}
	}
	if o := e.Outcome; o != nil {
		want := drill.Judge(r)
		switch {
		case want.Verdict != o.Verdict:
			add("/outcome/verdict", fmt.Sprintf("it says %s, and the rest of it says %s%s", o.Verdict, want.Verdict, firstReason(want.Reasons)))
		case want.Status != o.Status:
			add("/outcome/status", fmt.Sprintf("it says %d, and the rest of it says %d%s", o.Status, want.Status, firstReason(want.Reasons)))
		case !slices.Equal(want.Reasons, o.Reasons) && len(want.Reasons)+len(o.Reasons) > 0:
			add("/outcome/reasons", "they do not follow from the rest of it")
		}
	}
	if c := cleanup(r); c.Status != e.Cleanup.Status || !slices.Equal(c.Leftovers, e.Cleanup.Leftovers) {
		add("/cleanup/status", fmt.Sprintf("it says %s, and its changes say %s", e.Cleanup.Status, c.Status))
	}
	e.checkLater(add)
	e.checkApprovers(add)
	e.checkTimes(r, add)
	e.checkProofs(r, add)
	if c := controls(e); !reflect.DeepEqual(c, e.Controls) {
		add("/controls", "they claim something else than the results support")
	}
}

func firstReason(all []drill.Reason) string {
	if len(all) == 0 {
		return ""
	}
	return ": " + all[0].What
}

// checkLater: what was taken back after the end was taken back by somebody, and once.
// Its times are of another process, and are not compared.
func (e *Evidence) checkLater(add func(field, what string)) {
	for i, c := range e.Cleanup.Changes {
		l, at := c.Later, fmt.Sprintf("/cleanup/changes/%d/after_the_end", i)
		if l == nil {
			continue
		}
		told := slices.ContainsFunc(e.TakenBack, func(b report.TakenBack) bool { return b.By == l.By })
		switch {
		case c.Undone:
			add(at, "the change was taken back at the end already")
		case e.Clock.Ended == nil:
			add(at, "the run has no end")
		case l.Undone && l.Why != "":
			add(at, "it says both that the change was taken back and why it was not")
		case !told && l.Adopted == "":
			add(at, "nothing in taken_back says who did it")
		}
	}
}

func (e *Evidence) checkTimes(r *drill.Run, add func(field, what string)) {
	d, ok, _ := r.RTO()
	got := e.Measured["rto"].Value
	want := report.SecondsIf(d, ok)
	if (want == nil) != (got == nil) || want != nil && *want != *got {
		add("/measured/rto/value", fmt.Sprintf("it says %s, and the instants of the clock say %s", text(got), text(want)))
	}
	if e.Objectives.RTO != *report.SecondsIf(time.Duration(e.Objectives.RTONanoseconds), true) {
		add("/objectives/rto_seconds", "it is not rto_ns in seconds")
	}
}

func (e *Evidence) checkProofs(r *drill.Run, add func(field, what string)) {
	for i, p := range e.Proofs {
		if holds, _ := r.Proof(p.Name); holds != p.Holds {
			add(fmt.Sprintf("/proofs/%d/holds", i), "it does not follow from its gates")
		}
		if required := slices.Contains(e.Objectives.MustProve, p.Name); required != p.Required {
			add(fmt.Sprintf("/proofs/%d/required", i), "it does not follow from must_prove")
		}
	}
}

// reasonless lists the nulls that nothing explains.
func reasonless(data []byte, known []Unknown) []string {
	var doc any
	if decodeNumbers(data, &doc) != nil {
		return nil
	}
	var all []string
	walk("", "", doc, func(field, pattern string, beside map[string]any) {
		if why, ok := beside["why"].(string); ok && why != "" {
			return
		}
		if !slices.ContainsFunc(known, func(u Unknown) bool { return (u.Field == field || u.Field == pattern) && u.Reason != "" }) {
			all = append(all, field)
		}
	})
	slices.Sort(all)
	return all
}

// walk calls null for each null, with its pointer, the pointer with * for indices,
// and the object that it stands in.
func walk(field, pattern string, doc any, null func(field, pattern string, beside map[string]any)) {
	switch v := doc.(type) {
	case map[string]any:
		for k, x := range v {
			if x == nil {
				null(field+"/"+k, pattern+"/"+k, v)
			}
			walk(field+"/"+k, pattern+"/"+k, x, null)
		}
	case []any:
		for i, x := range v {
			if x == nil {
				null(fmt.Sprintf("%s/%d", field, i), pattern+"/*", nil)
			}
			walk(fmt.Sprintf("%s/%d", field, i), pattern+"/*", x, null)
		}
	}
}
