package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"drkit/drill"
)

// TestPeople: who was asked and told, and what nobody said or took, in every report.
func TestPeople(t *testing.T) {
	at := func(minute int) drill.Stamp {
		return drill.Stamp{Proc: 1, Mono: time.Duration(minute) * time.Minute, Wall: time.Unix(int64(minute)*60, 0)}
	}
	later := at(50)
	later.Proc = 2
	r := &drill.Run{ID: "R1", Asked: []drill.AskedState{
		{Step: "call", Who: "on-call", At: at(10), By: "alice", Via: "screen", Given: at(13)},
		{Step: "decide", Who: "commander", At: at(20), By: "bob <b>", Via: "command line", Given: later},
		{Step: "tell", Who: "communications", At: at(60)},
	}, Notified: []drill.NotifiedState{
		{Notified: drill.Notified{To: "#ops", Text: "it moves | now", Delivered: true}, Step: "tell-ops"},
		{Notified: drill.Notified{To: "#all", Text: "it moves", Why: "the webhook answered 404"}, Step: "tell-all"},
	}}
	var markdown, html, raw bytes.Buffer
	if err := Markdown(&markdown, r); err != nil {
		t.Fatal(err)
	}
	if err := HTML(&html, r); err != nil {
		t.Fatal(err)
	}
	if err := JSON(&raw, r); err != nil {
		t.Fatal(err)
	}
	for text, wants := range map[string][]string{
		markdown.String(): {"| call | on-call | alice (screen) | 3m |", "| decide | commander | bob &lt;b&gt; (command line) | 30m, by the wall clock |", "| tell | communications | nobody yet | – |",
			`| tell-ops | #ops | it moves \| now | the webhook took it |`, "| tell-all | #all | it moves | not delivered: the webhook answered 404 |"},
		html.String(): {"alice (screen)</td><td class=\"n\">3m</td>", "bob &lt;b&gt; (command line)</td><td class=\"n\">30m, by the wall clock", `<tr class="late"><td>tell</td><td>communications</td><td>nobody yet</td>`,
			"the webhook took it", "not delivered: the webhook answered 404"},
	} {
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("does not say %q:\n%s", want, text)
			}
		}
	}
	var res Result
	if err := json.Unmarshal(raw.Bytes(), &res); err != nil {
		t.Fatal(err)
	}
	if a := res.Asked; len(a) != 3 || *a[0].Waited != 180 || *a[1].Waited != 1800 || a[1].Clock != drill.ClockWall || a[2].Waited != nil || a[2].By != "" {
		t.Errorf("asked %+v", a)
	}
	if n := res.Notified; len(n) != 2 || !n[0].Delivered || n[1].Delivered || n[1].Why == "" {
		t.Errorf("notified %+v", n)
	}
}

// TestApprovals: who approved, how that is known, and what counted nothing.
func TestApprovals(t *testing.T) {
	r := &drill.Run{ID: "R1", Approvals: []drill.Approval{
		{Approver: "mei", Method: "ssh-ed25519", KeyID: "SHA256:abc", ChangeRef: "CHG-7", Record: 3},
		{Approver: "kim", Method: drill.MethodTyped, Self: true},
		{Approver: "eve", Method: "ssh-ed25519", Record: 4, Why: "drkit.yaml does not know its key"},
	}}
	var md, page bytes.Buffer
	if err := errors.Join(Markdown(&md, r), HTML(&page, r)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| mei | CHG-7 | ssh-ed25519 SHA256:abc, record 3 of the ledger | counts |", "typed by the operator, not authenticated; the operator's own", "counts nothing: drkit.yaml does not know its key"} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("Markdown does not say %q:\n%s", want, md.String())
		}
	}
	for _, want := range []string{"<h2>Approvals</h2>", "SHA256:abc", "counts nothing"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if got := New(r).Approvals; len(got) != 3 || got[2].Why == "" {
		t.Errorf("%+v", got)
	}
}
