package bootlog

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"drkit/drill"
)

func read(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []string
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		lines = append(lines, s.Text())
	}
	return lines
}

func engineLog(t *testing.T, name string) []string {
	return read(t, filepath.Join("..", "..", "testdata", "enginelogs", name))
}

var clock = regexp.MustCompile(`(?:^[WE]\d{4} |[A-Z]+ \d\d-\d\d )(\d\d:\d\d:\d\d)`)

// arrivals takes each line's arrival from its own time stamp, to the second; a
// line without one arrives with the line before it.
func arrivals(t *testing.T, lines []string, launch string) []Line {
	t.Helper()
	zero, err := time.Parse(time.TimeOnly, launch)
	if err != nil {
		t.Fatal(err)
	}
	var all []Line
	var at time.Duration
	for _, l := range lines {
		if m := clock.FindStringSubmatch(l); m != nil {
			now, err := time.Parse(time.TimeOnly, m[1])
			if err != nil {
				t.Fatal(err)
			}
			at = now.Sub(zero)
		}
		all = append(all, Line{At: at, Text: l})
	}
	return all
}

// TestRealBoot reads vLLM's own log of a boot that was launched at 22:38:45 and
// answered /health 63 s later; the figures were taken from its lines by hand.
func TestRealBoot(t *testing.T) {
	lines := arrivals(t, engineLog(t, "vllm-0.32.0-cpu-boot.log"), "22:38:45")
	got := Phases("target", lines, 63*time.Second)
	want := []drill.Phase{
		{Name: PhaseStart, Start: 0, Length: 15 * time.Second},
		{Name: PhaseConfig, Start: 15 * time.Second, Length: 28 * time.Second},
		{Name: PhaseCore, Start: 43 * time.Second, Length: 15 * time.Second},
		{Name: PhaseWeights, Start: 58 * time.Second, Length: 0},
		{Name: PhaseProfile, Start: 58 * time.Second, Length: time.Second},
		{Name: PhaseInit, Start: 59 * time.Second, Length: 3 * time.Second},
		{Name: PhaseServing, Start: 62 * time.Second, Length: time.Second},
	}
	if len(got) != len(want) {
		t.Fatalf("got %d phases: %+v", len(got), got)
	}
	for i, w := range want {
		g := got[i]
		if g.Name != w.Name || g.Start != w.Start || g.Length != w.Length || g.Gap || g.Line == "" || g.Replica != "target" {
			t.Errorf("phase %d: got %+v, want %+v", i, g, w)
		}
	}
	if f, ok := Classify(engineLog(t, "vllm-0.32.0-cpu-boot.log")); ok {
		t.Errorf("a good boot was taken for a failure: %+v", f)
	}
}

func TestRealFailures(t *testing.T) {
	for name, want := range map[string]struct{ class, line string }{
		"tokenizer-missing.log": {"TokenizerMissing", "ValueError: Couldn't instantiate the backend tokenizer from one of:"},
		"shard-truncated.log":   {"ShardDamaged", "Error while deserializing header: incomplete metadata, file not fully covered"},
		"port-in-use.log":       {"PortInUse", "OSError: [Errno 98] Address already in use"},
	} {
		f, ok := Classify(engineLog(t, name))
		if !ok || f.Class != want.class || !strings.HasSuffix(f.Line, want.line) || f.Hint == "" {
			t.Errorf("%s: got %+v", name, f)
		}
	}
}

// TestErrorLines holds the last line that vLLM 0.32.0 wrote on 94 damaged model
// folders and command lines, each with the class that the damage calls for.
func TestErrorLines(t *testing.T) {
	prefixes := []string{"", "(EngineCore pid=812) ERROR 11-29 22:39:28 [core.py:1170] ", "(Worker_TP0 pid=9) "}
	for i, row := range read(t, "testdata/error_lines.tsv") {
		id, rest, _ := strings.Cut(row, "\t")
		want, line, _ := strings.Cut(rest, "\t")
		line = prefixes[i%len(prefixes)] + line
		f, ok := Classify([]string{"(APIServer pid=1) INFO 11-29 22:39:00 [a.py:1] hello", line, "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}"})
		if ok != (want != "-") || ok && f.Class != want {
			t.Errorf("%s: %q is %q, want %s", id, line, f.Class, want)
		}
	}
}

// TestClassesOfTheSource holds lines whose wording is in vLLM's source but needs
// a GPU or a cluster to be seen.
func TestClassesOfTheSource(t *testing.T) {
	for line, want := range map[string]string{
		"ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`":                                        "NoKVMemory",
		"ValueError: To serve at least one request with the model's max seq len (131072), (40.00 GiB KV cache is needed":                       "KVTooSmall",
		"ValueError: Free memory on device cuda:0 (3.1/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB)":       "GPUBusy",
		"ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 75. Current capability: 70.":        "QuantUnsupported",
		"TimeoutError: Timed out waiting for engine core processes to start. This is often caused by slow weight loading for large models.":    "EngineReadyTimeout",
		"RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver combination": "DriverMismatch",
		"ValueError: VLLM_PORT 'tcp://10.0.0.1:8000' appears to be a URI. This may be caused by a Kubernetes service discovery issue":          "ServiceLinks",
		"KeyboardInterrupt: terminated":                     "ProbeBudget",
		"KeyError: 'getpwuid(): uid not found: 1000650000'": "UnknownUID",
		"ValueError: As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template": "ChatTemplate",
		"huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://huggingface.co/api":                                  "OfflineAsset",
		"(stand-in engine) ERROR: address already in use":                                                                       "PortInUse",
	} {
		if f, ok := Classify([]string{line}); !ok || f.Class != want {
			t.Errorf("%q: got %+v, want %s", line, f, want)
		}
	}
	if f, ok := Classify([]string{"INFO nothing is wrong", ""}); ok {
		t.Errorf("no failure was shown, got %+v", f)
	}
}

// TestClassesAreDocumented keeps docs/drill.md whole.
func TestClassesAreDocumented(t *testing.T) {
	doc := strings.Join(read(t, filepath.Join("..", "..", "docs", "drill.md")), "\n")
	for _, c := range append(slices.Clone(classes()), refused, python) {
		if !strings.Contains(doc, c.name) {
			t.Errorf("docs/drill.md does not name %s", c.name)
		}
		if c.hint == "" {
			t.Errorf("%s has no hint", c.name)
		}
	}
}

// TestTheOutermostError: for an error without a class the last one counts.
func TestTheOutermostError(t *testing.T) {
	f, _ := Classify([]string{"KeyError: 'inner'", "During handling of the above exception, another exception occurred:", "custom.module.LoadError: outer", "RuntimeError: Engine core initialization failed. See root cause above."})
	if f.Class != "PythonError" || f.Line != "custom.module.LoadError: outer" {
		t.Errorf("%+v", f)
	}
}

// TestBothSpellings takes the lines of GPU boots of older and newer versions;
// arrival in seconds, then the phases as name@start+length.
func TestBothSpellings(t *testing.T) {
	type at = struct {
		s    float64
		text string
	}
	for name, tc := range map[string]struct {
		lines []at
		end   float64
		want  string
	}{
		"newer": {[]at{
			{10, "(APIServer pid=1) INFO 08-17 10:00:00 [api_utils.py:311] vLLM server version 0.28.0, serving model /m"},
			{14, "(EngineCore pid=7) INFO 08-17 10:00:00 [core.py:123] Initializing a V1 LLM engine (v0.28.0) with config: model='/m', quantization=fp8"},
			{20, "(Worker_TP0 pid=9) INFO 08-17 10:00:00 [gpu_model_runner.py:1] Starting to load model /m..."},
			{50, "(Worker_TP0 pid=9) INFO 08-17 10:00:00 [default_loader.py:431] Loading weights took 12.50 seconds"},
			{51, "(Worker_TP1 pid=9) INFO 08-17 10:00:00 [default_loader.py:431] Loading weights took 13.50 seconds"},
			{52, "(Worker_TP0 pid=9) INFO 08-17 10:00:00 [gpu_model_runner.py:5516] Model loading took 33.1 GiB memory and 32.000000 seconds"},
			{53, "(Worker_TP1 pid=9) INFO 08-17 10:00:00 [default_loader.py:431] Loading weights took 13.50 seconds"},
			{60, "INFO [backends.py:1156] Dynamo bytecode transform time: 7.50 s"},
			{62, "INFO [backends.py:293] Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 1.800 s"},
			{63, "INFO [monitor.py] torch.compile took 9.80 s in total"},
			{70, "INFO [gpu_worker.py] Available KV cache memory: 30.10 GiB"},
			{70, "INFO [kv_cache_utils.py:1876] GPU KV cache size: 1,024 tokens, Maximum concurrency for 512 tokens per request: 2.00x"},
			{90, "INFO [gpu_model_runner.py:7049] Graph capturing finished in 20 secs, took 0.50 GiB"},
			{91, "INFO [core.py:338] init engine (profile, create kv cache, warmup model) took 38.10 s (compilation: 9.80 s)"},
			{95, "INFO:     Application startup complete."},
		}, 120, "start@0+10 config@10+4 core@14+6 ?@20+17.5 weights@37.5+13.5 load@51+1 dynamo@52+8 cache@60+2 compile@62+1 profile@63+7 graphs@70+20 init@90+1 serving@91+4 ?@95+25"},
		"older": {[]at{
			{9, "INFO 01-02 10:00:00 [api_server.py:1] vLLM server version 0.8.5"},
			{20, "INFO 01-02 10:00:00 [x.py:1] Starting to load model m..."},
			{30, "INFO 01-02 10:00:00 [loader.py:458] Loading weights took 10.00 seconds"},
			{31, "INFO 01-02 10:00:00 [gpu_model_runner.py:1347] Model loading took 14.99 GiB and 10.80 seconds"},
			{50, "INFO 01-02 10:00:00 [backends.py:148] Compiling a graph for compile range (1, 2048) takes 17.90 s"},
			{51, "INFO 01-02 10:00:00 [monitor.py:33] torch.compile takes 24.30 s in total"},
			{52, "INFO 01-02 10:00:00 [core.py:159] init engine (profile, create kv cache, warmup model) took 21.00 seconds"},
		}, 52.4, "start@0+9 core@9+11 weights@20+10 load@30+1 ?@31+1.1 compile@32.1+18.9 init@51+1"},
	} {
		var lines []Line
		for _, l := range tc.lines {
			lines = append(lines, Line{time.Duration(l.s * 1e9), l.text})
		}
		var got []string
		for _, p := range Phases("r", lines, time.Duration(tc.end*1e9)) {
			name := map[string]string{PhaseCore: "core", PhaseLoad: "load", PhaseCached: "cache", PhaseCompile: "compile", PhaseProfile: "profile",
				PhaseGraphs: "graphs", PhaseInit: "init", PhaseServing: "serving", PhaseGap: "?"}[p.Name]
			if name == "" {
				name = p.Name
			}
			if (p.Name == PhaseGap) != p.Gap {
				t.Errorf("%s: %+v", name, p)
			}
			got = append(got, name+"@"+trim(p.Start)+"+"+trim(p.Length))
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", name, s, tc.want)
		}
	}
}

func trim(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

func FuzzLog(f *testing.F) {
	f.Add("(Worker pid=1) INFO 11-29 22:39:43 [default_loader.py:501] Loading weights took 1e999 seconds", int64(5), int64(3))
	f.Fuzz(func(t *testing.T, text string, at, end int64) {
		var sum time.Duration
		for _, p := range Phases("r", []Line{{time.Duration(at), text}, {time.Duration(at) + 1, text}}, time.Duration(end)) {
			if p.Start != sum || p.Length < 0 {
				t.Fatalf("%+v does not follow %v", p, sum)
			}
			sum += p.Length
		}
		Classify([]string{text})
	})
}

// TestReportedBoots holds logs of vLLM 0.32.0 that end as public reports do, with
// the class, the quoted line and what is named as missing.
func TestReportedBoots(t *testing.T) {
	for name, want := range map[string]struct{ class, line, model string }{
		"engine-repo-id.log":        {"OfflineAsset", "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder", "acme/support-8b"},
		"engine-code-elsewhere.log": {"OfflineAsset", "", ""},
		"engine-terminated.log":     {"ProbeBudget", "KeyboardInterrupt: terminated", ""},
	} {
		lines := read(t, filepath.Join("testdata", "reports", name))
		f, ok := Classify(lines)
		if !ok || f.Class != want.class || !strings.HasPrefix(f.Line, want.line) || f.Hint == "" {
			t.Errorf("%s: got %+v", name, f)
		}
		if want.line == "" && !strings.HasPrefix(f.Line, "OSError: We couldn't connect to 'https://huggingface.co'") && !strings.HasPrefix(f.Line, "huggingface_hub.errors.LocalEntryNotFoundError") {
			t.Errorf("%s: quoted %q", name, f.Line)
		}
		if got := HubModel(lines); got != want.model {
			t.Errorf("%s: the model is %q, want %q", name, got, want.model)
		}
	}
}
