package report

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"drkit/drill"
)

// TestReasonsForReaders: two engines that were drkit's own are one reason, with the way
// on, in every form; the end itself keeps what was judged.
func TestReasonsForReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := recovery()
		own["boot"] = func(ctx context.Context, sc drill.Scope) error {
			return emit(sc, drill.Component{Role: drill.RoleEngine, Name: "source canary", Kind: "stand-in", Substitute: true},
				drill.Component{Role: drill.RoleEngine, Name: "target canary", Kind: "stand-in", Substitute: true},
				drill.Component{Role: drill.RoleRouter, Name: "another router", Kind: "reference", Substitute: true},
				drill.Instant{Name: drill.InstantEngineReady})
		}
		r, err := drill.Replay(run(t, own, undoes, t.Context()).Events())
		if err != nil {
			t.Fatal(err)
		}
		const what = "the engine was drkit's own (stand-in)"
		judged := 0
		for _, x := range r.Finished.Reasons {
			if strings.Contains(x.What, what) {
				judged++
			}
		}
		if judged != 2 {
			t.Errorf("the end has %d such reasons: %+v", judged, r.Finished.Reasons)
		}
		for name, write := range map[string]func(*bytes.Buffer) error{
			"markdown": func(b *bytes.Buffer) error { return Markdown(b, r) },
			"html":     func(b *bytes.Buffer) error { return HTML(b, r) },
			"json":     func(b *bytes.Buffer) error { return JSON(b, r) },
		} {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(b.String(), "&#39;", "'")
			if n := strings.Count(text, what); n != 1 || strings.Count(text, "drkit drill run --demo") != 1 || !strings.Contains(text, "the router was drkit's own (reference)") {
				t.Errorf("%s: the reason stands %d times: %s", name, n, text)
			}
		}
		if said := TestCases(r).Verdict; strings.Count(said, what) != 1 {
			t.Errorf("junit: %s", said)
		}
	})
}

// TestWords: a report explains the words that its tables use.
func TestWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := drill.Replay(run(t, recovery(), undoes, t.Context()).Events())
		if err != nil {
			t.Fatal(err)
		}
		var md, page bytes.Buffer
		if err := Markdown(&md, r); err != nil {
			t.Fatal(err)
		}
		if err := HTML(&page, r); err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"★", "gate", "budget", "slack", "unmeasured"} {
			if !strings.Contains(md.String(), "\n- **"+word+"**: ") || !strings.Contains(page.String(), "<dt>"+word+"</dt><dd>") {
				t.Errorf("%s is not explained", word)
			}
		}
	})
}
