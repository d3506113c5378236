//go:build unix

package process

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"drkit/internal/errext"
)

// The labels that a replica and all its children carry.
const (
	labelRun      = "DRKIT_RUN"
	labelReplica  = "DRKIT_REPLICA"
	labelEndpoint = "DRKIT_ENDPOINT"
)

// passed are the variables that a replica takes over from drkit's environment.
// Cloud credentials, tokens and the Hugging Face cache are not among them: a
// canary has the restored copy and nothing else.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
	"LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH",
	"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHASHSEED", "XDG_CACHE_HOME",
	"CUDA_HOME", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES",
	"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
}

// passedPrefixes are families of variables that tune an engine.
var passedPrefixes = []string{"LC_", "VLLM_", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "NCCL_", "GLOO_", "TORCH_", "PYTORCH_", "TORCHINDUCTOR_"}

// forced keeps engines offline: no hub, no usage statistics, and a proxy at the
// discard port for every HTTP client that honours proxies. SPT_NOENV keeps
// setproctitle from wiping the labels.
var forced = map[string]string{
	"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1",
	"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "SPT_NOENV": "1",
	"http_proxy": deadProxy, "https_proxy": deadProxy, "all_proxy": deadProxy,
	"HTTP_PROXY": deadProxy, "HTTPS_PROXY": deadProxy, "ALL_PROXY": deadProxy,
	"no_proxy": loopback, "NO_PROXY": loopback,
}

const (
	deadProxy = "http://127.0.0.1:9"
	loopback  = "127.0.0.1,localhost,::1"
)

func hostEnvironment() map[string]string {
	env := map[string]string{}
	for _, kv := range os.Environ() {
		if name, v, ok := strings.Cut(kv, "="); ok {
			env[name] = v
		}
	}
	return env
}

// environment is what a replica gets before its spec adds to it.
func environment(host map[string]string) map[string]string {
	env := map[string]string{}
	for name, v := range host {
		if passes(name, v) {
			env[name] = v
		}
	}
	maps.Copy(env, forced)
	return env
}

func passes(name, value string) bool {
	if slices.Contains(passed, name) {
		return true
	}
	if secret(name) || serviceLink(name, value) {
		return false
	}
	return slices.ContainsFunc(passedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

func secret(name string) bool {
	return slices.ContainsFunc([]string{"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"},
		func(w string) bool { return strings.Contains(name, w) })
}

// serviceLink tells what Kubernetes injects for a Service named vllm
// (VLLM_PORT=tcp://…); vLLM takes VLLM_PORT for its own and dies of it.
func serviceLink(name, value string) bool {
	return strings.HasPrefix(name, "VLLM_PORT_") || strings.HasPrefix(name, "VLLM_SERVICE_") ||
		name == "VLLM_PORT" && strings.Contains(value, "://")
}

// checkEnv refuses variables of a spec that would undo what the launcher sets.
func checkEnv(env map[string]string) error {
	var errs []error
	for _, name := range sortedKeys(env) {
		want, isForced := forced[name]
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(env[name], "\x00"):
			errs = append(errs, fmt.Errorf("environment variable %q: not a possible name or value", name))
		case strings.HasPrefix(name, "DRKIT_"):
			errs = append(errs, fmt.Errorf("environment variable %s: names that begin with DRKIT_ are the launcher's labels", name))
		case isForced && env[name] != want:
			errs = append(errs, errext.WithHint(
				fmt.Errorf("environment variable %s: a canary runs with %s=%s", name, name, want),
				"take it out: a canary boots from the restored copy alone, offline"))
		}
	}
	return errors.Join(errs...)
}

func flatten(env map[string]string) []string {
	var out []string
	for _, name := range sortedKeys(env) {
		out = append(out, name+"="+env[name])
	}
	return out
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
