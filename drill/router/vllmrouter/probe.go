package vllmrouter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"drkit/drill"
	"drkit/internal/errext"
)

// Probe tells a vLLM Router from the programs that answer at such an address,
// by what only it answers: its name would not do (two routers are called
// vllm-router), nor its version. The policy shows in its metrics once it has
// routed a request; before that it is "", and what it sees is unknown.
func (r *Router) Probe(ctx context.Context) (drill.RouterInfo, error) {
	status, body, err := r.admin.call(ctx, http.MethodGet, "/list_workers")
	if err != nil {
		return drill.RouterInfo{}, errext.WithHint(fmt.Errorf("probing the router: %w", err), "see that it runs and that the address is its admin port")
	}
	if status == http.StatusOK && has(body, "urls") {
		return r.info(ctx), nil
	}
	what := r.admin.identify(ctx)
	return drill.RouterInfo{}, errext.WithStatus(errext.WithHint(
		fmt.Errorf("%s is not a vLLM Router but %s", r.admin.base, what), "name the driver that fits it, or the right address"), errext.Usage)
}

func (r *Router) info(ctx context.Context) drill.RouterInfo {
	info := drill.RouterInfo{Kind: Driver}
	if r.metrics == nil {
		return info
	}
	m, err := r.scrape(ctx)
	if err != nil {
		return info // an optional reading; Counters reports the error
	}
	seen := m.By(policies, "policy")
	if len(seen) == 0 {
		seen = m.By(decisions, "policy")
	}
	for p := range seen {
		if len(seen) == 1 { // several: one for prefill and one for decode; none is "the" policy
			info.Policy = p
		}
	}
	if info.Policy == "cache_aware" || info.Policy == "kv_aware" {
		// Their trees hold token ids, and text is not tokenized for HTTP workers.
		info.SeesText, info.SeesTokens = drill.No, drill.Yes
	}
	return info
}

func has(body []byte, field string) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(body, &m) == nil && m[field] != nil
}

// identify says what answers here, by the questions that each kind alone answers.
func (a api) identify(ctx context.Context) string {
	for _, k := range []struct {
		path, what string
		is         func(body []byte) bool
	}{
		{"/drkit/info", "the drkit reference router", func(b []byte) bool { return strings.Contains(string(b), "drkit reference router") }},
		{"/get_loads", "smg", isSMG},
		{"/get_server_info", "sglang-router", func(b []byte) bool { return has(b, "router_manager") }},
		{"/health", "production-stack's router", func(b []byte) bool { return has(b, "dynamic_config") }},
		{"/v1/models", "an engine or a program that serves the OpenAI API like one", func(b []byte) bool { return has(b, "data") }},
	} {
		status, body, err := a.call(ctx, http.MethodGet, k.path)
		if err == nil && status == http.StatusOK && k.is(body) {
			return k.what
		}
	}
	return "something that drkit does not know"
}

func isSMG(body []byte) bool {
	var v struct{ Version string }
	return json.Unmarshal(body, &v) == nil && strings.HasPrefix(v.Version, "smg-")
}
