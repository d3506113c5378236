package drill

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// told makes a run of one step with these events, a minute apart.
func told(t *testing.T, events ...Event) (*Run, error) {
	t.Helper()
	r := &Run{}
	start := Event{Type: TypeRunStarted, Data: json.RawMessage(`{"steps":[{"id":"call","kind":"human"},{"id":"tell","kind":"notify"}]}`)}
	for i, e := range append([]Event{start}, events...) {
		e.Run, e.Seq, e.Proc, e.Mono = "R1", uint64(i+1), 1, time.Duration(i)*time.Minute
		if err := r.Apply(e); err != nil {
			return r, err
		}
	}
	return r, nil
}

func TestAsked(t *testing.T) {
	asked := Event{Step: "call", Type: TypeAsked, Data: json.RawMessage(`{"who":"on-call"}`)}
	given := Event{Step: "call", Type: TypeAcknowledged, Data: json.RawMessage(`{"who":"on-call","by":"alice","via":"screen"}`)}
	r, err := told(t, asked, asked, given, asked)
	if err != nil {
		t.Fatal(err)
	}
	// Asked at minute 1 and again at 2, answered at 3; asked anew at 4.
	if len(r.Asked) != 2 || r.Asked[0].By != "alice" || r.Asked[0].Waited().Elapsed != 2*time.Minute || r.Asked[1].By != "" || r.Asked[1].Waited().Measured {
		t.Errorf("asked %+v", r.Asked)
	}
	for name, e := range map[string][]Event{
		"acknowledges":                      {given},
		"does not say who acknowledged it":  {asked, {Step: "call", Type: TypeAcknowledged, Data: json.RawMessage(`{"who":"on-call"}`)}},
		"does not say which step asks whom": {{Step: "call", Type: TypeAsked, Data: json.RawMessage(`{}`)}},
		"contradicts itself":                {{Step: "tell", Type: TypeNotified, Data: json.RawMessage(`{"to":"x","delivered":true,"why":"it was not"}`)}},
		"who was notified":                  {{Step: "tell", Type: TypeNotified, Data: json.RawMessage(`{"delivered":true}`)}},
	} {
		if _, err := told(t, e...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	r, err = told(t, Event{Step: "tell", Type: TypeNotified, Data: json.RawMessage(`{"to":"#ops","text":"hello","delivered":true}`)})
	if err != nil || len(r.Notified) != 1 || r.Notified[0].To != "#ops" || r.Notified[0].Step != "tell" || !r.Notified[0].Delivered {
		t.Errorf("%v, notified %+v", err, r.Notified)
	}
}
