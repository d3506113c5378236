package probes_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"drkit/manifest/digest"
	"drkit/manifest/probes"
)

// answer makes a completion's answer whose second-best token is runner-up at
// the given distance below the chosen one.
func answer(ids []int, logprob, distance float64, runnerUp int) probes.Answer {
	a := probes.Answer{PromptIDs: []int{4, 422, 5}, TokenIDs: ids, Finish: "stop", Text: "The eu-west-1 region"}
	for _, id := range ids {
		a.Logprobs = append(a.Logprobs, logprob)
		a.Top = append(a.Top, map[int]float64{id: logprob, runnerUp: logprob - distance})
	}
	return a
}

func TestCompareCompletion(t *testing.T) {
	want := answer([]int{280, 415, 18}, -0.0024, 8.4, 38)
	nan := answer([]int{280, 415, 18}, -0.0024, 8.4, 38)
	nan.Logprobs[1] = math.NaN()
	otherPrompt := answer([]int{280, 415, 18}, -0.0024, 8.4, 38)
	otherPrompt.PromptIDs = []int{4, 421, 5}
	length := answer([]int{280, 415, 18}, -0.0024, 8.4, 38)
	length.Finish = "length"
	noTop := answer([]int{280, 415, 18}, -0.0024, 8.4, 38)
	noTop.Logprobs = nil
	for name, c := range map[string]struct {
		got  probes.Answer
		want string // part of the one difference; empty: none
	}{
		"equal":                 {answer([]int{280, 415, 18}, -0.0024, 8.4, 38), ""},
		"low bits differ":       {answer([]int{280, 415, 18}, -0.05, 8.4, 38), ""},
		"log probability far":   {answer([]int{280, 415, 18}, -0.2, 8.4, 38), "log probability of token 0"},
		"another token":         {answer([]int{280, 38, 18}, -0.0024, 8.4, 415), "greedy token 1"},
		"shorter":               {answer([]int{280, 415}, -0.0024, 8.4, 38), "length of the answer"},
		"longer":                {answer([]int{280, 415, 18, 7}, -0.0024, 8.4, 38), "length of the answer"},
		"NaN":                   {nan, "log probability of token 1"},
		"another prompt":        {otherPrompt, "prompt token ids differ from position 1"},
		"another finish":        {length, "finish reason"},
		"no log probabilities":  {noTop, "log probabilities"},
		"nothing at all":        {probes.Answer{PromptIDs: []int{4, 422, 5}}, "length of the answer"},
		"not a close call here": {answer([]int{38, 1, 1}, -0.0024, 0.01, 280), "greedy token 0"},
	} {
		found := probes.Compare(probes.Probe{ID: "q", Kind: probes.KindCompletion, Want: want}, c.got, 0.1)
		switch {
		case c.want == "" && len(found) > 0:
			t.Errorf("%s: unexpected %v", name, found)
		case c.want != "" && (len(found) != 1 || !strings.Contains(found[0].What, c.want)):
			t.Errorf("%s: got %v, want one difference about %q", name, found, c.want)
		}
	}
}

// TestCompareForgivesACloseCall: where both candidates are within the tolerance
// on both sides, low bits decide and the rest of the answer is not compared.
func TestCompareForgivesACloseCall(t *testing.T) {
	want := answer([]int{10, 11, 12}, -0.70, 0.02, 20)
	got := answer([]int{20, 99, 98, 97}, -0.71, 0.01, 10)
	p := probes.Probe{ID: "q", Kind: probes.KindCompletion, Want: want}
	if found := probes.Compare(p, got, 0.1); len(found) != 0 {
		t.Errorf("a close call is red: %v", found)
	}
	if found := probes.Compare(p, got, 0.015); len(found) != 1 {
		t.Errorf("outside the tolerance: got %v, want one difference", found)
	}
}

func TestCompareModels(t *testing.T) {
	p := probes.Probe{ID: "models", Kind: probes.KindModels, Want: probes.Answer{Models: []string{"tiny", "billing"}, MaxModelLen: 1024}}
	if found := probes.Compare(p, probes.Answer{Models: []string{"billing", "tiny"}, MaxModelLen: 1024}, 0.1); len(found) != 0 {
		t.Errorf("the order of models is red: %v", found)
	}
	if found := probes.Compare(p, probes.Answer{Models: []string{"tiny"}, MaxModelLen: 512}, 0.1); len(found) != 2 {
		t.Errorf("a lost adapter and a shorter context: got %v", found)
	}
}

func TestInert(t *testing.T) {
	base := answer([]int{280, 415}, -0.0024, 8, 38)
	if !probes.Inert(answer([]int{280, 415}, -0.0024, 8, 38), base) {
		t.Error("equal answers are inert")
	}
	if probes.Inert(answer([]int{280, 415}, -0.0025, 8, 38), base) {
		t.Error("a log probability that differs in the last digit shows that the adapter was applied")
	}
}

func TestDecodeRefusesWhatCannotJudge(t *testing.T) {
	good := probes.ProbeSet{
		Schema: probes.Schema, Engine: "vllm 0.32.0", Subject: digest.Digest{Algorithm: "sha256", Hex: strings.Repeat("a", 64)}, Tolerance: 0.1,
		Probes: []probes.Probe{{ID: "q", Kind: probes.KindCompletion, Model: "tiny", Request: []byte(`{}`), Want: answer([]int{1}, -0.1, 2, 3)}},
	}
	var out bytes.Buffer
	if err := probes.Encode(&out, good); err != nil {
		t.Fatal(err)
	}
	if _, err := probes.Decode(out.Bytes()); err != nil {
		t.Fatalf("a good set: %v", err)
	}
	for name, change := range map[string][2]string{
		"newer schema":    {"drkit.probes/1.1", "drkit.probes/2.0"},
		"no tolerance":    {`"tolerance": 0.1`, `"tolerance": 0`},
		"no completion":   {`"completion"`, `"tokenize"`},
		"unknown field":   {`"engine"`, `"engine_"`},
		"lost logprob":    {"-0.1\n", "\n"},
		"dangling differ": {`"model": "tiny",`, `"model": "tiny", "differs_from": "zz",`},
		"positive":        {"-0.1\n", "0.1\n"},
	} {
		text := strings.Replace(out.String(), change[0], change[1], 1)
		if text == out.String() {
			t.Fatalf("%s: the change does not apply", name)
		}
		if _, err := probes.Decode([]byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestRunnersUp: the other likely tokens of a place count, within twice the tolerance;
// rare ones do not.
func TestRunnersUp(t *testing.T) {
	want := answer([]int{280}, -0.5, 1, 38) // token 38 at -1.5
	for name, c := range map[string]struct {
		top  map[int]float64
		want string
	}{
		"equal":                  {map[int]float64{280: -0.5, 38: -1.5}, ""},
		"low bits":               {map[int]float64{280: -0.5, 38: -1.69}, ""},
		"too far":                {map[int]float64{280: -0.5, 38: -1.71}, "top log probabilities of token 0"},
		"gone":                   {map[int]float64{280: -0.5, 7: -1.9}, "top log probabilities of token 0"},
		"gone by a close call":   {map[int]float64{280: -0.5, 7: -1.6}, ""},
		"not a number":           {map[int]float64{280: -0.5, 38: math.NaN()}, "top log probabilities of token 0"},
		"likely in its own list": {map[int]float64{280: -0.5, 38: -1.5, 9: -1.6}, ""},
	} {
		got := probes.Answer{PromptIDs: want.PromptIDs, TokenIDs: want.TokenIDs, Logprobs: want.Logprobs, Finish: want.Finish, Top: []map[int]float64{c.top}}
		found := probes.Compare(probes.Probe{ID: "q", Kind: probes.KindCompletion, Want: want}, got, 0.1)
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || !strings.Contains(found[0].What, c.want)) {
			t.Errorf("%s: %v", name, found)
		}
	}
	rare := answer([]int{280}, -0.5, 2.5, 38)
	got := rare
	got.Top = []map[int]float64{{280: -0.5, 38: -4}}
	if found := probes.Compare(probes.Probe{ID: "q", Kind: probes.KindCompletion, Want: rare}, got, 0.1); len(found) > 0 {
		t.Errorf("a rare token counts: %v", found)
	}
}

// TestToolsAndJSON: which tool is called with what, and that JSON mode makes an object.
func TestToolsAndJSON(t *testing.T) {
	call := answer([]int{280}, -0.1, 8, 38)
	call.ToolCalls = []probes.ToolCall{{Name: "region_status", Arguments: `{"region":"eu-west-1"}`}}
	words, other := call, call
	words.ToolCalls = nil
	other.ToolCalls = []probes.ToolCall{{Name: "region_status", Arguments: `{"region":"us-east-1"}`}}
	object := answer([]int{280}, -0.5, 0.05, 38)
	object.Text = `{"region": "eu-west-1"}`
	broken := answer([]int{38}, -0.5, 0.05, 280) // a close call, after which all may differ
	broken.Text = "The region is eu-west-1."
	another := broken
	another.Text = `{"takes_over": "eu-west-1"}`
	cut := broken
	cut.Text, cut.Finish = `{"takes_over": "eu-`, "length"
	for name, c := range map[string]struct {
		kind      string
		want, got probes.Answer
		says      string
	}{
		"the same call":     {probes.KindTools, call, call, ""},
		"no call":           {probes.KindTools, call, words, "tool calls"},
		"a call too many":   {probes.KindTools, words, call, "tool calls"},
		"another argument":  {probes.KindTools, call, other, "tool calls"},
		"the same object":   {probes.KindJSON, object, object, ""},
		"words":             {probes.KindJSON, object, broken, "JSON mode"},
		"another object":    {probes.KindJSON, object, another, ""},
		"an object cut off": {probes.KindJSON, object, cut, ""},
	} {
		found := probes.Compare(probes.Probe{ID: "q", Kind: c.kind, Want: c.want}, c.got, 0.1)
		if c.says == "" && len(found) > 0 || c.says != "" && (len(found) != 1 || found[0].What != c.says) {
			t.Errorf("%s: %v", name, found)
		}
	}
}
