package engine

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// step is what changed between two releases, as their sources say
// (testdata/vllm-changes.json).
type step struct {
	From, To string
	Added    []string
	Removed  []struct{ Name, Use, Basis string }
	Default  map[string][2]any
	Choices  map[string]struct{ Added, Removed []any }
	Fields   map[string]struct{ Added, Removed []string } `json:"json_fields"`

	Deprecated []struct{ Name, Removal, Use string }
}

func steps(t *testing.T) []step {
	t.Helper()
	data, err := os.ReadFile("testdata/vllm-changes.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Steps []step }
	if err := json.Unmarshal(data, &file); err != nil || len(file.Steps) != 14 {
		t.Fatalf("%d steps, %v", len(file.Steps), err)
	}
	return file.Steps
}

func parseFlag(version string, flags ...string) Result {
	return Parse(Command{Argv: append([]string{"serve", "/m"}, flags...), Version: version})
}

// TestSteps asserts of every step that a removed option is unknown afterwards, and
// an added one before, each with what the message says of it.
func TestSteps(t *testing.T) {
	for _, s := range steps(t) {
		for _, gone := range s.Removed {
			flag := "--" + gone.Name
			if before := parseFlag(s.From, flag); slices.Contains(before.Unknown, flag) {
				t.Errorf("%s is unknown in %s", flag, s.From)
			}
			after := parseFlag(s.To, flag)
			if exitOf(after.WouldExit) != 2 || !reflect.DeepEqual(after.Unknown, []string{flag}) && gone.Name != "disable-log-requests" {
				// a longer option may begin with the one that is gone
				if !slices.ContainsFunc(after.Problems, func(p Problem) bool { return p.Kind == KindAbbreviated }) {
					t.Errorf("%s in %s: %d %q", flag, s.To, exitOf(after.WouldExit), after.Unknown)
				}
				continue
			}
			if gone.Use != "" && !strings.Contains(after.Problems[0].What, "--"+gone.Use) {
				t.Errorf("%s in %s: %q does not name %s", flag, s.To, after.Problems[0].What, gone.Use)
			}
		}
		for _, name := range s.Added {
			if before := parseFlag(s.From, "--"+name); exitOf(before.WouldExit) != 2 {
				t.Errorf("--%s in %s: exit %d", name, s.From, exitOf(before.WouldExit))
			}
			if after := parseFlag(s.To, "--"+name); slices.Contains(after.Unknown, "--"+name) {
				t.Errorf("--%s is unknown in %s", name, s.To)
			}
		}
		for _, d := range s.Deprecated {
			o := catalogueOf(VLLM, s.To).byFlag["--"+d.Name]
			if o == nil || !o.Deprecated || o.Removal != d.Removal {
				t.Errorf("--%s in %s: %+v, want it to be announced for %q", d.Name, s.To, o, d.Removal)
			}
		}
	}
}

// TestStepDefaults asserts that Changes names exactly the defaults that changed.
func TestStepDefaults(t *testing.T) {
	for _, s := range steps(t) {
		got := map[string][2]any{}
		for _, c := range Changes(Command{Argv: []string{"serve", "/m"}, Version: s.From}, s.To) {
			if c.Kind != ChangeDefault {
				t.Errorf("%s → %s: %+v", s.From, s.To, c)
				continue
			}
			got[strings.TrimPrefix(c.Option, "--")] = [2]any{c.From, c.To}
		}
		for name, want := range s.Default {
			if strings.HasPrefix(text(want[0]), "<") || strings.HasPrefix(text(want[1]), "<") {
				continue // objects, compared by their fields
			}
			if !reflect.DeepEqual(asJSON(t, got[name]), asJSON(t, want)) {
				t.Errorf("%s → %s: --%s %v, want %v", s.From, s.To, name, got[name], want)
			}
			delete(got, name)
		}
		if len(got) > 0 {
			t.Errorf("%s → %s: also %v", s.From, s.To, got)
		}
	}
}

// TestStepValues asserts that a value or field that is gone is refused afterwards,
// and that Changes says so.
func TestStepValues(t *testing.T) {
	checked := 0
	for _, s := range steps(t) {
		for name, c := range s.Choices {
			for _, v := range c.Removed {
				checked++
				if got := changesOf(s, "--"+name, text(v)); !slices.Contains(got, "refused --"+name) {
					t.Errorf("%s → %s --%s %v: %q", s.From, s.To, name, v, got)
				}
			}
		}
		for class, c := range s.Fields {
			o := optionOf(s.To, class)
			if o == nil || o.Late || catalogueOf(VLLM, s.From).byFlag["--"+o.Name] == nil {
				continue
			}
			for _, field := range c.Removed {
				checked++
				want := "refused --" + o.Name
				if !catalogueOf(VLLM, s.To).since("0.13.0") {
					want = "silent --" + o.Name
				}
				if got := changesOf(s, "--"+o.Name, `{"`+field+`": null}`); !slices.Contains(got, want) {
					t.Errorf("%s → %s %s.%s: %q", s.From, s.To, class, field, got)
				}
			}
		}
	}
	if checked < 30 {
		t.Errorf("only %d values and fields were checked", checked)
	}
}

func changesOf(s step, flag, value string) (out []string) {
	for _, c := range Changes(Command{Argv: []string{"serve", "/m", flag, value}, Version: s.From}, s.To) {
		out = append(out, c.Kind+" "+c.Option)
	}
	return out
}

// optionOf is the option whose JSON is of a class.
func optionOf(version, class string) *option {
	for _, o := range catalogueOf(VLLM, version).options {
		if o.Class == class {
			return o
		}
	}
	return nil
}

func TestVersions(t *testing.T) {
	tests := []struct {
		engine, version, used, note string
	}{
		{VLLM, "", "0.32.0", ""},
		{VLLM, "v0.30.0", "0.30.0", ""},
		{VLLM, "0.11.2+cu129", "0.11.2", ""},
		{VLLM, "0.30.0rc1", "0.30.0", "0.30.0"},
		{VLLM, "0.31.0", "0.31.0", "is recorded, but not their defaults"},
		{VLLM, "0.32.1", "0.32.0", "nearest older"},
		{VLLM, "0.99.0", "0.33.0", "nearest older"},
		{VLLM, "0.6.3", "0.10.2", "the oldest known"},
		{VLLM, "latest", "0.32.0", "names no release"},
		{SGLang, "", "0.5.23", ""},
		{SGLang, "0.4.6.post5", "0.4.6.post5", ""},
		{SGLang, "0.4.6", "0.4.6.post5", "the oldest known"},
		{SGLang, "v0.5.10-cu126", "0.5.9", "nearest older"},
	}
	for _, test := range tests {
		got, note := tableOf(test.engine, test.version)
		if got.version != test.used || (note == "") != (test.note == "") || !strings.Contains(note, test.note) {
			t.Errorf("%s %s: %s, %q", test.engine, test.version, got.version, note)
		}
	}
	for tag, want := range map[string]string{"v0.32.0": "0.32.0", "0.5.9-cu126": "0.5.9", "latest": "", "v1": "", "0.4.6.post5": "0.4.6.post5"} {
		if got := VersionOf(tag); got != want {
			t.Errorf("VersionOf(%q) = %q, want %q", tag, got, want)
		}
	}
}

// TestBetween: 0.31.0 has no catalogue, but which options it has is recorded
// (aux-output-config and log-level came with 0.31.0 and 0.32.0).
func TestBetween(t *testing.T) {
	data, err := os.ReadFile("testdata/vllm-changes.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Seen map[string][]string }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for name, span := range file.Seen {
		for _, version := range []string{"0.17.1", "0.25.1", "0.31.0"} {
			has := slices.Compare(numbers(span[0]), numbers(version)) <= 0 && (len(span) < 2 || slices.Compare(numbers(span[1]), numbers(version)) >= 0)
			table, _ := tableOf(VLLM, version)
			checked++
			if got := table.byFlag["--"+name] != nil; got != has {
				t.Errorf("--%s in %s: %v, want %v", name, version, got, has)
			}
		}
	}
	if checked < 600 || len(catalogueOf(VLLM, "0.30.0").byFlag["--dtype"].Choices) != 6 {
		t.Errorf("%d checked; catalogues must not be changed by it", checked)
	}
}

// TestBehaviour asserts how releases differ in reading the same words.
func TestBehaviour(t *testing.T) {
	files := map[string][]byte{"e.yaml": []byte("compilation-config: {mode: 3}\n"), "f.yaml": []byte("enable-lora: false\n"), "e.json": nil}
	tests := []struct {
		name    string
		version string
		entry   Entry
		argv    string
		exit    int
		kinds   []string
	}{
		{"YAML dicts before 0.16", "0.14.1", "", "serve /m --config e.yaml", 2, []string{"1 bad-value"}},
		{"YAML dicts since 0.16", "0.16.0", "", "serve /m --config e.yaml", -1, []string{}},
		{"unknown fields before 0.13", "0.12.0", "", `serve /m --compilation-config {"nope":1}`, -1, []string{"0 field-dropped"}},
		{"unknown fields since 0.13", "0.13.0", "", `serve /m --compilation-config {"nope":1}`, 2, []string{"0 unknown-field"}},
		{"--model in 0.10.2", "0.10.2", "", "serve --model /m", 1, []string{"0 bad-value"}},
		{"--model later", "0.11.2", "", "serve --model /m", -1, []string{}},
		{"names first before 0.18", "0.16.0", "", "serve --served-model-name a", -1, []string{}},
		{"names first since 0.18", "0.18.1", "", "serve --served-model-name a", 1, []string{"0 model-missing"}},
		{"automatic length before 0.14", "0.13.0", "", "serve /m --max-model-len auto", 2, []string{"0 bad-value"}},
		{"automatic length since 0.14", "0.14.1", "", "serve /m --max-model-len auto", -1, []string{}},
		{"inverse before 0.33", "0.32.0", "", "serve /m --disable-log-requests", 2, []string{"0 unknown-option"}},
		{"inverse since 0.33", "0.33.0", "", "serve /m --disable-log-requests", -1, []string{}},
		{"api_server before 0.28", "0.26.0", EntryAPIServer, "--model /m --config f.yaml", -1, []string{"1 false-dropped"}},
		{"api_server since 0.28", "0.28.0", EntryAPIServer, "--model /m --config f.yaml", -1, []string{}},
		{"null among choices before 0.32", "0.30.0", "", "serve /m --mm-encoder-attn-dtype None", 2, []string{"0 bad-value"}},
		{"null among choices since 0.32", "0.32.0", "", "serve /m --mm-encoder-attn-dtype None", -1, []string{}},
		{"SGLang underscores", "0.5.9", EntryLaunch, "--model_path /m", 2, []string{"0 model-missing"}},
		{"SGLang without --config", "0.4.6.post5", EntryLaunch, "--model-path /m --config e.yaml", 2, []string{"0 unknown-option"}},
		{"SGLang --config=", "0.5.9", EntryLaunch, "--model-path /m --config=e.yaml", -1, []string{"0 config-equals"}},
		{"SGLang suffix", "0.5.9", EntryLaunch, "--model-path /m --config e.json", 1, []string{"0 bad-suffix"}},
		{"sglang serve MODEL", "0.5.23", EntrySGLang, "serve /m --tp-size 2", -1, []string{}},
		{"sglang version", "0.5.23", EntrySGLang, "version", -1, []string{"0 other-command"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := Parse(Command{Argv: strings.Fields(test.argv), Entry: test.entry, Version: test.version, Files: files})
			if exitOf(r.WouldExit) != test.exit {
				t.Errorf("exit %d (%s), want %d", exitOf(r.WouldExit), r.Error, test.exit)
			}
			got := kinds(slices.DeleteFunc(r.Problems, func(p Problem) bool { return p.Kind == KindDeprecated }))
			if !reflect.DeepEqual(got, test.kinds) {
				t.Errorf("problems %q, want %q\n%+v", got, test.kinds, r.Problems)
			}
		})
	}
}

// TestSources: every effective option says where it was given.
func TestSources(t *testing.T) {
	r := Parse(Command{Argv: []string{"serve", "/m", "--seed", "1", "--config", "e.yaml", "--no-such"}, Path: "pod.yaml", Line: 3,
		Sources: []Source{{Path: "pod.yaml", Line: 3}, {Path: "pod.yaml", Line: 4}, {Path: "pod.yaml", Line: 5, Env: "ARGS"}, {Path: "pod.yaml", Line: 5, Env: "ARGS"}},
		Files:   map[string][]byte{"e.yaml": []byte("# c\nport: 9\n")}})
	if !reflect.DeepEqual(r.Sources, map[string]Source{"--no-such": {Path: "pod.yaml", Line: 3}}) {
		t.Errorf("%+v", r.Sources)
	}
	r = Parse(Command{Argv: []string{"serve", "/m", "--seed", "1", "--config", "e.yaml"}, Path: "pod.yaml", Line: 3,
		Sources: []Source{{Path: "pod.yaml", Line: 3}, {Path: "pod.yaml", Line: 4}, {Path: "pod.yaml", Line: 5, Env: "ARGS"}},
		Files:   map[string][]byte{"e.yaml": []byte("# c\nport: 9\n")}})
	want := map[string]Source{"model_tag": {Path: "pod.yaml", Line: 4}, "seed": {Path: "pod.yaml", Line: 5, Env: "ARGS"}, "port": {Path: "e.yaml", Line: 2}}
	if !reflect.DeepEqual(r.Sources, want) {
		t.Errorf("%+v, want %+v", r.Sources, want)
	}
}

// TestChanges reads one command line under two releases.
func TestChanges(t *testing.T) {
	cmd := Command{Argv: []string{"serve", "/m", "--task", "embed", "--kv-transfer-config", `{"kv_connector": "x", "kv_rank": 1}`, "--seed", "1", "--config", "e.yaml"},
		Version: "0.11.2", Env: map[string]string{"VLLM_FLAT_LOGPROBS": "1", "HOME": "/root"},
		Files: map[string][]byte{"e.yaml": []byte("mamba-cache-mode: align\nhf-overrides: {a: 1}\n")}}
	var got []string
	for _, c := range Changes(cmd, "0.32.0") {
		if c.Kind != ChangeDefault {
			got = append(got, c.Kind+" "+c.Option)
		}
	}
	want := []string{"removed --task", "refused --kv-transfer-config", "silent ", "added --mamba-cache-mode", "accepted --hf-overrides"}
	slices.Sort(got)
	slices.Sort(want)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if c := Changes(cmd, "0.11.2"); c != nil {
		t.Errorf("the same release: %+v", c)
	}
}

// TestReleaseOf: what rules ask of a release.
func TestReleaseOf(t *testing.T) {
	old, _ := ReleaseOf(VLLM, "0.20.2")
	newer, note := ReleaseOf(VLLM, "0.32.0")
	if !slices.Contains(old.LoadFormats, "bitsandbytes") || slices.Contains(newer.LoadFormats, "bitsandbytes") || note != "" {
		t.Errorf("%v %v %q", old.LoadFormats, newer.LoadFormats, note)
	}
	if !slices.Contains(newer.Architectures["text"], "LlamaForCausalLM") || newer.PreviouslySupported["MotifForCausalLM"] != "0.10.2" {
		t.Error("architectures are missing")
	}
	sglang, _ := ReleaseOf(SGLang, "0.5.9")
	if !slices.Contains(sglang.Architectures[""], "LlamaForCausalLM") {
		t.Error("SGLang's architectures are missing")
	}
}
