package engine

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// kinds is each problem as "line kind".
func kinds(problems []Problem) []string {
	out := []string{}
	for _, p := range problems {
		out = append(out, fmt.Sprintf("%d %s", p.Line, p.Kind))
	}
	return out
}

// TestFileProblems asserts what is reported of a file, and on which line.
func TestFileProblems(t *testing.T) {
	tests := []struct {
		name, yaml string
		exit       int // -1: none
		problems   []string
		what       string // in the first problem
	}{
		{"clean", "model: /m\nport: 9000\n", -1, []string{}, ""},
		{"tab in the indentation", "model: /m\ncompilation-config:\n\tmode: 3\n", 1, []string{"3 yaml-syntax"}, "tab"},
		{"tab after the colon", "model: /m\nport:\t9000\n", 1, []string{"2 yaml-syntax"}, "tab"},
		{"unclosed", "model: [a\n", 1, []string{"1 yaml-syntax"}, ""},
		{"second document", "port: 1\n---\nport: 2\n", 1, []string{"2 yaml-syntax"}, "second document"},
		{"not UTF-8", "port: 1\nroot-path: \xff\n", 1, []string{"2 yaml-syntax"}, "UTF-8"},
		{"empty", "", 1, []string{"1 not-a-mapping"}, "empty"},
		{"list", "- port\n", 1, []string{"1 not-a-mapping"}, "list"},
		{"key twice", "port: 1\nseed: 2\nport: 3\n", -1, []string{"3 duplicate-key"}, "port"},
		{"key in two spellings", "max-num-seqs: 1\nmax_num_seqs: 2\n", -1, []string{"2 repeated-option"}, "--max-num-seqs"},
		{"unknown", "port: 1\nmax-model-length: 5\n", 2, []string{"2 unknown-option"}, "did you mean --max-model-len?"},
		{"unknown, nothing near", "zzz-yyy-xxx: 5\n", 2, []string{"1 unknown-option"}, "no option of vLLM 0.32.0"},
		{"unknown and false", "zzz: false\n", -1, []string{"1 false-dropped"}, "no option"},
		{"false that is the default", "trust-remote-code: false\n", -1, []string{}, ""},
		{"false that the engine decides", "enable-prefix-caching: false\n", -1, []string{"1 false-dropped"}, "no-enable-prefix-caching: true"},
		{"false against a true default", "use_tqdm_on_load: false\n", -1, []string{"1 false-dropped"}, "no-use-tqdm-on-load: true"},
		{"false of a no- key", "no-enforce-eager: false\n", -1, []string{"1 false-dropped"}, "enforce-eager: true"},
		{"null that is harmless", "quantization: null\n", -1, []string{}, ""},
		{"null as text", "tokenizer: null\n", -1, []string{"1 null-value"}, `the text "None"`},
		{"null for a number", "seed: 1\nport:\n", 2, []string{"2 null-value"}, "--port"},
		{"value of a switch", "enforce-eager: 1\n", 2, []string{"1 extra-value"}, "enforce-eager: true"},
		{"bad number", "port: http\n", 2, []string{"1 bad-value"}, "whole number"},
		{"bad choice", "dtype: fp16\n", 2, []string{"1 bad-value"}, "bfloat16"},
		{"abbreviated", "tensor-parallel-s: 2\n", -1, []string{"1 abbreviated-option"}, "--tensor-parallel-size"},
		{"ambiguous", "max-num: 2\n", 2, []string{"1 ambiguous-option"}, "--max-num-seqs"},
		{"field of a class", "seed: 1\ncompilation-config:\n  mode: 3\n  nope: 1\n", 2, []string{"2 unknown-field"}, "nope"},
		{"value of a class", "kernel-config: {moe_backend: fastest}\n", -1, []string{"1 uncertain-value"}, "fastest"},
		{"nested configuration", "config: b.yaml\n", -1, []string{"1 config-in-config"}, "never read"},
		{"deprecated", "disable-cascade-attn: true\n", -1, []string{"1 deprecated-option"}, "0.33.0"},
		{"companion", "enable-auto-tool-choice: true\n", 1, []string{"1 missing-companion"}, "--tool-call-parser"},
		{"key that is a switch", "on: 1\n", 1, []string{"1 bad-key"}, "quotation marks"},
		{"date in JSON", "additional-config:\n  since: 2026-01-02\n", 1, []string{"1 bad-value"}, "date"},
		{"cycle", "hf-overrides: &a {x: *a}\n", -1, []string{"1 not-judged"}, "itself"},
		{"secret", "seed: 1\napi-key: abcdefgh\n", -1, []string{"2 plain-secret"}, "--api-key"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			facts, problems := ReadFile("engine/e.yaml", []byte(test.yaml))
			if exit := exitOf(facts.WouldExit); exit != test.exit {
				t.Errorf("exit %d, want %d: %s", exit, test.exit, facts.Error)
			}
			if got := kinds(problems); !reflect.DeepEqual(got, test.problems) {
				t.Fatalf("problems %q, want %q\n%+v", got, test.problems, problems)
			}
			if len(problems) == 0 {
				return
			}
			if p := problems[0]; !strings.Contains(p.What, test.what) || p.Path != "engine/e.yaml" {
				t.Errorf("%+v does not say %q", p, test.what)
			}
			if test.exit > 0 && problems[0].Seen == "" {
				t.Error("the engine's own words are missing")
			}
		})
	}
}

func exitOf(exit *int) int {
	if exit == nil {
		return -1
	}
	return *exit
}

// TestCommandProblems asserts what is reported of a command line.
func TestCommandProblems(t *testing.T) {
	files := map[string][]byte{"e.yaml": []byte("model: /b\nenable-prefix-caching: false\n")}
	tests := []struct {
		argv     string
		entry    Entry
		exit     int
		judged   bool
		problems []string
	}{
		{"serve /a --config e.yaml", "", -1, true, []string{"2 false-dropped", "1 model-twice"}},
		{"serve /a --config=e.yaml", "", -1, true, []string{"7 config-equals"}},
		{"serve /a --config other.yaml", "", -1, false, []string{"7 config-missing"}},
		{"serve --config other.yaml", "", -1, false, []string{"7 config-missing"}},
		{"serve /a --config e.json", "", 1, true, []string{"7 bad-suffix"}},
		{"serve /a --config e.yaml --config e.yaml", "", 1, true, []string{"7 two-configs"}},
		{"serve /a --config", "", 1, true, []string{"7 config-missing"}},
		{"serve /a --help", "", 0, true, []string{"7 exits-at-once"}},
		{"bench latency", "", -1, false, []string{"7 other-command"}},
		{"", "", -1, false, []string{"7 other-command"}},
		{"--config e.yaml", EntryAPIServer, -1, true, []string{}},
		{"/a --port 1", EntryAPIServer, -1, true, []string{"7 model-ignored"}},
		{"serve --model", "", 1, true, []string{"7 bad-value"}},
		{"serve /a -cc.mode 3 --compilation-config {}", "", -1, true, []string{}},
		{"serve /a --compilation-config.mode 3 --compilation-config {}", "", -1, true, []string{"7 overridden"}},
		{"serve /a --hf-tokem abcdefgh", "", 2, true, []string{"7 unknown-option"}},
		{"serve /a --lora-modules a=b=c", "", -1, true, []string{}},
		{`serve /a --lora-modules {"name":"x"}`, "", 2, true, []string{"7 unknown-field"}},
	}
	for _, test := range tests {
		t.Run(test.argv, func(t *testing.T) {
			r := Parse(Command{Argv: strings.Fields(test.argv), Entry: test.entry, Files: files, Path: "pod.yaml", Line: 7})
			if exitOf(r.WouldExit) != test.exit || r.Judged != test.judged {
				t.Errorf("exit %d (%s), judged %v", exitOf(r.WouldExit), r.Error, r.Judged)
			}
			if got := kinds(r.Problems); !reflect.DeepEqual(got, test.problems) {
				t.Errorf("problems %q, want %q\n%+v", got, test.problems, r.Problems)
			}
		})
	}
}

// TestAPIServerFalse: this entry point finds the --no- form, by its exact spelling.
func TestAPIServerFalse(t *testing.T) {
	files := map[string][]byte{"e.yaml": []byte("enable-prefix-caching: false\nenable_log_deltas: false\n")}
	r := Parse(Command{Argv: []string{"--model", "/a", "--config", "e.yaml"}, Entry: EntryAPIServer, Files: files})
	if want := map[string]any{"model": "/a", "enable_prefix_caching": false}; !reflect.DeepEqual(r.Options, want) {
		t.Errorf("options %v, want %v", r.Options, want)
	}
	if got := kinds(r.Problems); !reflect.DeepEqual(got, []string{"2 false-dropped"}) {
		t.Errorf("problems %q", got)
	}
}

func TestOtherVersion(t *testing.T) {
	r := Parse(Command{Argv: []string{"serve", "/a"}, Version: "0.31.0"})
	if r.Judged || len(r.Problems) != 1 || r.Problems[0].What != "which options vLLM 0.31.0 has is recorded, but not their defaults and values; those of 0.30.0, the nearest older release, are used" {
		t.Errorf("%+v", r)
	}
	r = Parse(Command{Argv: []string{"serve", "--config", "e.yaml"}, Version: "0.31.0", Files: map[string][]byte{"e.yaml": []byte("{}")}})
	if got := kinds(r.Problems); !reflect.DeepEqual(got, []string{"0 version-not-known", "0 model-missing"}) {
		t.Errorf("%q", got)
	}
	if r := Parse(Command{Argv: []string{"serve", "/a"}, Version: "v0.32.0"}); !r.Judged || len(r.Problems) > 0 {
		t.Errorf("%+v", r)
	}
}

func TestRecovery(t *testing.T) {
	yaml := `model: /models/llama
tokenizer: /tok
served-model-name: [chat, default]
max-model-len: 32k
enable-lora: true
lora-modules: ["billing=/adapters/billing", '{"name": "legal", "path": "/adapters/legal"}']
chat-template: /t.jinja
quantization: fp8
trust-remote-code: true
generation-config: vllm
kv-cache-dtype: fp8
block-size: 32
tensor-parallel-size: 4
speculative-config: {method: eagle3, model: /drafts/e}
`
	facts, problems := ReadFile("e.yaml", []byte(yaml))
	if len(problems) > 0 {
		t.Fatalf("%+v", problems)
	}
	want := Recovery{Model: "/models/llama", Tokenizer: "/tok", ServedNames: []string{"chat", "default"}, MaxModelLen: 32000, EnableLoRA: true, MaxLoRARank: 16,
		LoRAModules: map[string]string{"billing": "/adapters/billing", "legal": "/adapters/legal"}, ChatTemplate: "/t.jinja", Quantization: "fp8",
		LoadFormat: "auto", TrustRemoteCode: true, GenerationConfig: "vllm", DType: "auto", KVCacheDType: "fp8", BlockSize: 32, TensorParallelSize: 4, DraftModel: "/drafts/e"}
	if !reflect.DeepEqual(facts.Recovery, want) {
		t.Errorf("got  %+v\nwant %+v", facts.Recovery, want)
	}
	facts, _ = ReadFile("e.yaml", []byte("port: 1\n"))
	if facts.Recovery.Model != "" || facts.Recovery.ServedNames != nil || !reflect.DeepEqual(facts.Options, map[string]any{"port": int64(1)}) {
		t.Errorf("%+v", facts)
	}
	if rec := Parse(Command{Argv: []string{"serve", "/m"}}).Recovery(); !reflect.DeepEqual(rec.ServedNames, []string{"/m"}) {
		t.Errorf("%+v", rec)
	}
}

// TestNoSecretIsShown gives a secret in every way and looks for it in everything
// that is returned.
func TestNoSecretIsShown(t *testing.T) {
	const secret = "Zq7-very-secret"
	for _, argv := range [][]string{
		{"serve", "/a", "--api-key", secret, secret + "2"},
		{"serve", "/a", "--api_key=" + secret},
		{"serve", "/a", "--hf-token", secret},
		{"serve", "/a", "--api-kye", secret, "--port", "x"},
		{"serve", "/a", "--api-kye=" + secret},
		{"serve", "/a", "--my-password", secret},
		{"serve", "/a", "--no-such", `{"access_token": "` + secret + `"}`},
		{"serve", "/a", "--kv-transfer-config", `{"kv_connector_extra_config": {"api_key": "` + secret + `"}}`, "--max-num", "1"},
		{"serve", "/a", "--kv-transfer-config.kv_connector_extra_config.password", secret, "--port", "x"},
		{"serve", "/a", "--kv-transfer-config", `{"password": "` + secret + `"}`},
		{"serve", "/a", "--kv-transfer-config", `{'password': '` + secret + `'}`},
		{"serve", "/a", "--speculative-config", `{"token": "` + secret + `", "model": "/d"}`, "--tensor-parallel-s", "1"},
		{"serve", "/a", "--lora-modules", `{"name": "x", "secret": "` + secret + `"}`},
		{"serve", "/a", "--config", "e.yaml"},
	} {
		r := Parse(Command{Argv: argv, Files: map[string][]byte{"e.yaml": []byte("api-key: [" + secret + "]\nhf_token: " + secret + "\n")}})
		if shown := fmt.Sprintf("%+v", r); strings.Contains(shown, secret) {
			t.Errorf("%q shows the secret: %s", argv, shown)
		}
		if len(r.Problems) == 0 {
			t.Errorf("%q: no problem", argv)
		}
	}
	facts, problems := ReadFile("e.yaml", []byte("api-key: "+secret+"\n"))
	if shown := fmt.Sprintf("%+v %+v", facts, problems); strings.Contains(shown, secret) {
		t.Error(shown)
	}
}

// TestMissingFilesAreNotJudged: what lies outside of the given files may come
// from an image or a volume.
func TestMissingFilesAreNotJudged(t *testing.T) {
	cmd := Command{Argv: []string{"serve", "/a", "--chat-template", "/etc/t.jinja"}}
	if r := Parse(cmd); r.WouldExit != nil {
		t.Errorf("%+v", r)
	}
	cmd.AllFiles = true
	if r := Parse(cmd); exitOf(r.WouldExit) != 1 || kinds(r.Problems)[0] != "0 template-missing" {
		t.Errorf("%+v", r)
	}
	cmd.Files = map[string][]byte{"/etc/t.jinja": nil}
	if r := Parse(cmd); r.WouldExit != nil {
		t.Errorf("%+v", r)
	}
}

// TestAliasBombs: files that grow a thousandfold when aliases are followed end
// quickly and are not judged.
func TestAliasBombs(t *testing.T) {
	lists, merges := "a0: &a0 [x, x, x, x, x, x, x, x]\n", "a0: &a0 {k: 1}\n"
	for i := 1; i < 12; i++ {
		lists += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 8), ", "))
		merges += fmt.Sprintf("a%d: &a%d {<<: [%s]}\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 8), ", "))
	}
	for _, bomb := range []string{lists, merges} {
		args, problems := Flatten([]byte(bomb))
		if args != nil || len(problems) != 1 || problems[0].Kind != KindNotJudged {
			t.Errorf("%d arguments, %+v", len(args), problems)
		}
	}
}

// FuzzParse hands foreign bytes to the reader of files and of command lines.
func FuzzParse(f *testing.F) {
	f.Add([]byte("a: [1, {b: 2026-01-02}]\n<<: {c: .inf}\n"), "serve\x00/a\x00--config\x00e.yaml")
	f.Add([]byte("api-key: 1\nport:\t9\n"), "--config\x00e.yaml\x00-cc.a.b+=1,2\x00-O3\x00--\x00x")
	f.Add([]byte("compilation-config: '{\"mode\": 15.5k, \"a\": [\"\\\\ud83d\\\\ude00\"]}'"), "serve\x00--model=/a\x00-tp=2\x00--lora-modules\x00{")
	f.Add([]byte("a: &x [*x, !!set {b}]\nb: !!int 0x_\n"), "serve\x00-q8\x00-.5\x00--a.b")
	f.Fuzz(func(t *testing.T, yaml []byte, line string) {
		argv := strings.Split(line, "\x00")
		for _, from := range []Command{{}, {Entry: EntryAPIServer}, {Version: "0.10.2"}, {Version: "0.33.0"}, {Entry: EntryLaunch}, {Entry: EntrySGLang, Version: "0.5.9"}} {
			cmd := Command{Argv: argv, Entry: from.Entry, Version: from.Version, Files: map[string][]byte{"e.yaml": yaml}, AllFiles: true}
			Changes(cmd, "0.24.0")
			r := Parse(cmd)
			if r.WouldExit != nil && *r.WouldExit != 0 && len(r.Problems) == 0 {
				t.Errorf("exit %d without a problem", *r.WouldExit)
			}
			for _, p := range r.Problems {
				if p.Kind == "" || p.What == "" {
					t.Errorf("problem %+v", p)
				}
			}
		}
		ReadFile("e.yaml", yaml)
	})
}

// TestAdapterPathWithEquals: releases before the change vllm#53353 split name=path at
// every equals sign, and ended on a path that has one.
func TestAdapterPathWithEquals(t *testing.T) {
	for version, exit := range map[string]int{"0.28.0": 1, "0.32.0": -1} {
		r := Parse(Command{Argv: []string{"serve", "/a", "--lora-modules", "a=/runs/r=3"}, Version: version})
		if exitOf(r.WouldExit) != exit {
			t.Errorf("%s: exit %d, want %d", version, exitOf(r.WouldExit), exit)
		}
	}
}
