# A service with real engines on the CPU and a real router, for scripts that drill it.
# To be sourced after checks.sh. Needs $work, $VLLM, $VLLM_ROUTER and engine=.

export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1

# start_engine PORT COMMAND...: starts an engine in a process group of its own and
# waits for /health, at most five minutes.
start_engine() {
  local port=$1
  shift
  setsid "$@" >"$work/engine.log" 2>&1 &
  engine=$!
  for _ in $(seq 600); do
    if python3 -c "import urllib.request as u; u.urlopen('http://127.0.0.1:$port/health', timeout=2)" 2>/dev/null; then return 0; fi
    kill -0 "$engine" 2>/dev/null || break
    sleep 0.5
  done
  bad "engine on port $port did not become ready"
  tail -n 20 "$work/engine.log" | sed 's/^/      | /'
  return 1
}

stop_engine() {
  kill -TERM -- "-$engine" 2>/dev/null
  for _ in $(seq 60); do kill -0 "$engine" 2>/dev/null || break; sleep 0.5; done
  kill -KILL -- "-$engine" 2>/dev/null
  wait "$engine" 2>/dev/null
  engine=
}

# service FILE SHAPE TARGET_COMMAND...: writes a drkit.yaml whose target canary is
# launched by the given command.
service() {
  local file=$1 shape=$2
  shift 2
  python3 - "$file" "$shape" "$VLLM_ROUTER" "$VLLM" "$@" <<'PY'
import json, sys
file, shape, router, vllm, *prefix = sys.argv[1:]
engine = [vllm, "serve", "{{model}}", "--host", "{{host}}", "--port", "{{port}}", "--served-model-name", "{{served}}", "--max-model-len", "1024",
          "--dtype", "bfloat16", "--block-size", "32", "--enforce-eager", "--enable-prompt-tokens-details", "--enable-lora", "--max-lora-rank", "16",
          "--lora-modules", "billing={{adapter:billing}}"]
route = [router, "--host", "{{host}}", "--port", "{{port}}", "--prometheus-host", "{{host}}", "--prometheus-port", "{{metrics_port}}",
         "--policy", "cache_aware", "--worker-urls", "{{worker}}", "--health-check-interval-secs", "2", "--worker-startup-check-interval", "1"]
open(file, "w").write(f"""apiVersion: drkit/v1
kind: Service
metadata: {{name: support}}
model: {{source: ./models/support-tiny, adapters: [{{name: billing, source: ./models/billing}}]}}
engine: {{kind: vllm, version: 0.32.0, configs: [engine/vllm.yaml], probes: engine/probes.json}}
deploy: {{files: [deploy/**]}}
regions:
  - {{name: us-east-1, role: source, residency: us, store: ./regions/us-east-1, canary: {{launcher: process, command: {json.dumps(engine)}}}}}
  - {{name: eu-west-1, role: target, residency: eu, store: ./regions/eu-west-1, canary: {{launcher: process, command: {json.dumps(prefix + engine)}}}}}
rehearsal: {{source: canary, router: {{driver: vllm-router, command: {json.dumps(route)}}}}}
traffic: [{{name: chat, residency: [us, eu], share: 1, shape: {shape}}}]
objectives: {{rto: 30m, ttft_p99: 10s, error_rate: 0.01, steady: {{windows: 3, window: 5s, min_requests: 10, load: 0.2}}}}
""")
PY
}

# start_vllm: starts vLLM on the service's model, as its canaries run it, on $port.
start_vllm() {
  port=$(free_port)
  start_engine "$port" "$VLLM" serve "$PWD/models/support-tiny" --host 127.0.0.1 --port "$port" --served-model-name support --max-model-len 1024 \
    --dtype bfloat16 --block-size 32 --enforce-eager --enable-prompt-tokens-details --enable-lora --max-lora-rank 16 --lora-modules "billing=$PWD/models/billing"
}
