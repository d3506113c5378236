package report_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"drkit/internal/store"
	"drkit/verify"
	"drkit/verify/report"
)

func gap(subject string, v verify.Verdict, e store.Evidence, why string) verify.Gap {
	return verify.Gap{Region: "eu", Subject: subject, Key: "support/id/" + subject, Verdict: v, Evidence: e, Why: why}
}

var red = verify.Result{
	Service: "support", Release: strings.Repeat("0123456789abcdef", 4), Region: "eu", Level: verify.Checksum, Require: store.Claimed,
	Gaps: []verify.Gap{
		gap("engine/vllm.yaml", verify.Match, store.Content, ""),
		gap("model/base/a.safetensors", verify.Diverged, store.Content, "sha256 is bb, want aa"),
		gap("model/base/b\x1b[31m.bin", verify.Extra, store.None, "the release does not list it"),
		gap("model/base/tokenizer.json", verify.Missing, store.None, "it is not there"),
	},
	Errors:   []verify.ObjectError{{Subject: "deploy/x", Key: "support/id/deploy/x", Err: errors.New("access denied")}},
	Compared: 3, BytesRead: 314_159,
}

func TestText(t *testing.T) {
	green := verify.Result{Service: "support", Release: red.Release, Region: "us", Level: verify.Checksum, Require: store.Claimed,
		Gaps: []verify.Gap{gap("engine/vllm.yaml", verify.Match, store.Claimed, ""), gap("manifest.json", verify.Match, store.Content, "")}, Compared: 2}
	presence := verify.Result{Level: verify.Presence, Require: store.Claimed, Gaps: []verify.Gap{gap("x", verify.Present, store.Size, "only its size was compared")}, Compared: 1}
	for name, c := range map[string]struct {
		results []verify.Result
		want    string
	}{
		"green and red": {[]verify.Result{green, red}, `us, release 0123456789ab of support: holds: 2 of 2 compared match (1 on content, 1 on claimed), 0 B read
  compared: every file of the release's manifest with the copy, at level checksum; a match needs evidence claimed
  evidence: content for 1 (drkit read the bytes); claimed for 1 (checksums stored at upload: damage since then does not show)
  to raise it: --level content reads the bytes of 1 more (0 B); --sample reads some of them
eu, release 0123456789ab of support: DOES NOT HOLD: 1 of 3 compared match (1 on content), 1 missing, 1 diverged, 1 extra, 1 with errors, 314.2 kB read
  compared: every file of the release's manifest with the copy, at level checksum; a match needs evidence claimed
  evidence: content for 1 (drkit read the bytes)
  missing   model/base/tokenizer.json   -        it is not there
  diverged  model/base/a.safetensors    content  sha256 is bb, want aa
  extra     "model/base/b\x1b[31m.bin"  -        the release does not list it
  error     deploy/x                    -        access denied

next: look at what is extra; drkit replicate --delete-extra removes it and copies what is missing or diverged
`},
		"presence": {[]verify.Result{presence}, `two places: DOES NOT HOLD: 0 of 1 compared match, 1 present, 0 B read
  compared: every object of the one place with the other, at level presence: names and sizes only, nothing was compared by checksum
  to raise it: --level checksum compares checksums, --level content reads 0 B
  present  x  size  only its size was compared

next: drkit verify --level content reads the bytes
`},
		"empty": {[]verify.Result{{Level: verify.Checksum, Require: store.Claimed}}, "two places: DOES NOT HOLD: 0 of 0 compared match, nothing was compared, 0 B read\n  compared: every object of the one place with the other, at level checksum; a match needs evidence claimed\n"},
		"none":  {nil, "nothing was compared\n"},
	} {
		var b strings.Builder
		if err := report.Text(&b, c.results...); err != nil || b.String() != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, b.String(), c.want)
		}
	}
}

func TestJSON(t *testing.T) {
	var sum store.Sum
	if err := json.Unmarshal([]byte(`{"digest": "crc32:00000000", "evidence": "claimed", "parts": 2}`), &sum); err != nil {
		t.Fatal(err)
	}
	r := red
	r.Gaps = append(r.Gaps[:1:1], verify.Gap{Subject: "x", Verdict: verify.Diverged, Evidence: store.Claimed, Got: []store.Sum{sum}})
	var b strings.Builder
	if err := report.JSON(&b, r); err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(b.String()), &doc); err != nil {
		t.Fatal(err)
	}
	copy := doc["copies"].([]any)[0].(map[string]any)
	if doc["schema"] != "drkit.verify/1.0" || doc["status"] != 4.0 || copy["holds"] != false {
		t.Errorf("%s", b.String())
	}
	if reasons := doc["reasons"].([]any); len(reasons) != 2 || reasons[0] != "gate-failed" || reasons[1] != "failed" {
		t.Errorf("reasons %v", reasons)
	}
	if v := copy["verdicts"].(map[string]any); v["match"] != 1.0 || v["diverged"] != 1.0 || v["not-comparable"] != 0.0 {
		t.Errorf("verdicts %v", v)
	}
	got := copy["gaps"].([]any)[1].(map[string]any)["got"].([]any)[0].(map[string]any)
	if got["digest"] != "crc32:00000000" || got["evidence"] != "claimed" || got["parts"] != 2.0 {
		t.Errorf("sum %v", got)
	}
	if e := copy["errors"].([]any)[0].(map[string]any); e["error"] != "access denied" || e["subject"] != "deploy/x" {
		t.Errorf("error %v", e)
	}
}

func TestNoResultIsNoSuccess(t *testing.T) {
	if d := report.NewDocument(); d.Status != 4 {
		t.Errorf("status %d", d.Status)
	}
}
