package deploy

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// placed is each argument as "text@line" or "text@line(VARIABLE)".
func placed(e EngineCommand) string {
	out := make([]string, len(e.Argv))
	for i, a := range e.Argv {
		out[i] = fmt.Sprintf("%s@%d", a, e.Places[i].Line)
		if env := e.Places[i].Env; env != "" {
			out[i] += "(" + env + ")"
		}
	}
	return strings.Join(out, " ")
}

// TestEngineResources reads every kind of resource that starts an engine and
// asserts each argument with its line.
func TestEngineResources(t *testing.T) {
	tests := []struct {
		name, yaml string
		entry      string
		version    string
		exact      bool
		want       string
		kinds      []string
	}{
		{"StatefulSet, SGLang", `apiVersion: apps/v1
kind: StatefulSet
spec:
  template:
    spec:
      containers:
        - name: engine
          image: lmsysorg/sglang:v0.5.9-cu126
          command: [python3, -m, sglang.launch_server]
          args:
            - --model-path
            - /models/a
            - --tp-size=2
`, "launch_server", "0.5.9", true, "--model-path@11 /models/a@12 --tp-size=2@13", []string{}},
		{"LeaderWorkerSet, script", `apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
spec:
  leaderWorkerTemplate:
    leaderTemplate:
      spec:
        containers:
          - name: leader
            image: vllm/vllm-openai:v0.30.0
            command:
              - sh
              - -c
              - |
                bash ray.sh leader
                vllm serve /models/a \
                  --port 8080 $EXTRA
            env:
              - name: EXTRA
                value: --max-model-len 4k
`, "vllm", "0.30.0", false, "serve@15 /models/a@15 --port@16 8080@16 --max-model-len@19(EXTRA) 4k@19(EXTRA)", []string{"11 engine-shell"}},
		{"LLMInferenceService, arguments", `apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
spec:
  model: {uri: "hf://a/b", name: chat}
  template:
    containers:
      - name: main
        args:
          - --max-model-len=32k
`, "vllm", "", false, "serve@9 /mnt/models@9 --max-model-len=32k@9", []string{"9 engine-runtime"}},
		{"LLMInferenceService, variable", `apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
spec:
  template:
    containers:
      - name: main
        image: vllm/vllm-openai:v0.24.0
        env:
          - name: VLLM_ADDITIONAL_ARGS
            value: |
              --tensor-parallel-size 2
              --no-such x
`, "vllm", "0.24.0", false,
			"serve@11 /mnt/models@11 --tensor-parallel-size@11(VLLM_ADDITIONAL_ARGS) 2@11(VLLM_ADDITIONAL_ARGS) --no-such@12(VLLM_ADDITIONAL_ARGS) x@12(VLLM_ADDITIONAL_ARGS)",
			[]string{"11 engine-runtime"}},
		{"InferenceService", `apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
spec:
  predictor:
    model:
      modelFormat: {name: vLLM}
      runtime: vllm-runtime
      storageUri: s3://bucket/model
      args:
        - --max-model-len
        - "4096"
`, "vllm", "", false, "serve@10 /mnt/models@10 --max-model-len@10 4096@11", []string{"10 engine-runtime"}},
		{"InferenceService, a container of its own", `apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
spec:
  predictor:
    containers:
      - name: kserve-container
        image: vllm/vllm-openai:v0.32.0
        args: [/mnt/models, --port=8080]
`, "vllm", "0.32.0", true, "serve@8 /mnt/models@8 --port=8080@8", []string{}},
		{"RayService", `apiVersion: ray.io/v1
kind: RayService
spec:
  serveConfigV2: |
    applications:
      - name: llms
        import_path: ray.serve.llm:build_openai_app
        args:
          llm_configs:
            - model_loading_config:
                model_id: chat
                model_source: org/model
              accelerator_type: L4
              engine_kwargs:
                tensor_parallel_size: 2
                enable_prefix_caching: false
                trust_remote_code: true
                hf_overrides: {rope_theta: 1.5}
                revision: null
`, "vllm", "", false,
			`serve@11 org/model@11 --served-model-name@11 chat@11 --tensor_parallel_size@15 2@15 --no-enable_prefix_caching@16 --trust_remote_code@17 --hf_overrides@18 {"rope_theta":1.5}@18`,
			[]string{"15 engine-runtime"}},
		{"production-stack values", `servingEngineSpec:
  modelSpec:
    - name: llama
      repository: lmcache/vllm-openai
      tag: v0.3.5
      modelURL: org/model
      enableLoRA: true
      vllmConfig:
        enableChunkedPrefill: false
        maxModelLen: 4096
        gpuMemoryUtilization: 0.85
        extraArgs: ["--disable-log-requests", "--trust-remote-code"]
      chatTemplate: chat.jinja
`, "vllm", "", true,
			"serve@6 org/model@6 --host@6 0.0.0.0@6 --port@6 8000@6 --enable-lora@7 --no-enable-chunked-prefill@9 --no-enable-prefix-caching@9 --max-model-len@10 4096@10 " +
				"--gpu_memory_utilization@11 0.85@11 --disable-log-requests@12 --trust-remote-code@12 --chat-template@13 /templates/chat.jinja@13", []string{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			facts, problems := Read("deploy/x.yaml", []byte(test.yaml))
			if len(facts.Engine) != 1 {
				t.Fatalf("%d engines: %+v", len(facts.Engine), facts.Engine)
			}
			e := facts.Engine[0]
			if e.Entry != test.entry || e.Version != test.version || e.Exact != test.exact {
				t.Errorf("entry %s, version %s, exact %v", e.Entry, e.Version, e.Exact)
			}
			if got := placed(e); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if got := kinds(problems); !reflect.DeepEqual(got, test.kinds) {
				t.Errorf("problems %q, want %q", got, test.kinds)
			}
		})
	}
}

// TestHuggingFaceServer: KServe's own server is no `vllm serve`.
func TestHuggingFaceServer(t *testing.T) {
	facts, problems := Read("x.yaml", []byte(`apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
spec: {predictor: {model: {modelFormat: {name: huggingface}, args: [--model_name=a, --max-model-len=5]}}}
`))
	if len(facts.Engine) != 0 || !has(problems, KindEngineRuntime) {
		t.Errorf("%+v %+v", facts.Engine, problems)
	}
}

// TestQuotedVariable: a shell does not split what stands in quotation marks, and
// eval reads its words once more.
func TestQuotedVariable(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - {command: [sh, -c, %q], env: [{name: A, value: --port 1}]}\n"
	for script, want := range map[string]string{
		`vllm serve /m "$A"`:               "serve@5 /m@5 --port 1@5",
		`vllm serve /m $A`:                 "serve@5 /m@5 --port@5(A) 1@5(A)",
		`vllm serve /m --x=${A}`:           "serve@5 /m@5 --x=--port@5 1@5",
		`eval "vllm serve /m --seed 1 $A"`: "serve@5 /m@5 --seed@5 1@5 --port@5(A) 1@5(A)",
		`sglang serve --model-path /m`:     "serve@5 --model-path@5 /m@5",
	} {
		facts, _ := Read("x.yaml", fmt.Appendf(nil, pod, script))
		if len(facts.Engine) != 1 || placed(facts.Engine[0]) != want {
			t.Errorf("%s: %+v, want %s", script, facts.Engine, want)
		}
	}
}

func TestCommandLine(t *testing.T) {
	e, ok := CommandLine([]string{"VLLM_X=1", "vllm", "serve", "/m"})
	if !ok || e.Entry != "vllm" || !reflect.DeepEqual(e.Argv, []string{"serve", "/m"}) || e.Env["VLLM_X"] != "1" {
		t.Errorf("%+v %v", e, ok)
	}
	if _, ok := CommandLine([]string{"nginx"}); ok {
		t.Error("nginx is no engine")
	}
}

// FuzzResources hands foreign YAML to the reader of resources.
func FuzzResources(f *testing.F) {
	f.Add([]byte("kind: RayService\nspec: {serveConfigV2: \"a: [{model_loading_config: {model_id: x}, engine_kwargs: {a: {b: [1]}}}]\"}\n"))
	f.Add([]byte("servingEngineSpec: {modelSpec: [{modelURL: a, vllmConfig: {extraArgs: [1, {a: b}]}}]}\n"))
	f.Add([]byte("kind: Pod\napiVersion: v1\nx: {command: [sh, -c, 'eval \"vllm serve $A \\\n b\"'], env: [{name: A, value: \"a\\nb\"}]}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		facts, _ := Read("x.yaml", data)
		for _, e := range facts.Engine {
			if len(e.Places) != len(e.Argv) {
				t.Errorf("%d places for %q", len(e.Places), e.Argv)
			}
		}
	})
}
