package vllmrouter

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"drkit/drill"
)

// api is the router's admin interface.
type api struct {
	base string
	http *http.Client
}

const maxAnswer = 4 << 20 // bytes; a list of ten thousand workers is smaller

// call sends a request and gives status and body, whatever the status is.
func (a api) call(ctx context.Context, method, path string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: reading the answer: %w", method, a.base+path, err)
	}
	return resp.StatusCode, body, nil
}

// get decodes a 200 answer.
func (a api) get(ctx context.Context, path string, into any) error {
	status, body, err := a.call(ctx, http.MethodGet, path)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("GET %s: HTTP %d: %s", a.base+path, status, words(body))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("GET %s: the answer is not the JSON expected: %w", a.base+path, err)
	}
	return nil
}

func words(body []byte) string {
	s := strings.TrimSpace(string(body))
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

type workerList struct {
	Workers []workerInfo `json:"workers"`
}

type workerInfo struct {
	URL     string `json:"url"`
	Healthy *bool  `json:"is_healthy"`
}

// Registered reads /list_workers, which is the list that counts, and takes the
// health from /workers. A worker of only the first has unknown health.
func (r *Router) Registered(ctx context.Context) ([]drill.Registered, error) {
	var list struct {
		URLs *[]string `json:"urls"`
	}
	if err := r.admin.get(ctx, "/list_workers", &list); err != nil {
		return nil, err
	}
	if list.URLs == nil {
		return nil, fmt.Errorf("GET %s/list_workers: the answer has no urls", r.admin.base)
	}
	var more workerList
	if err := r.admin.get(ctx, "/workers", &more); err != nil {
		return nil, err
	}
	health := map[string]drill.Tri{}
	for _, w := range more.Workers {
		health[w.URL] = tri(w.Healthy)
	}
	var out []drill.Registered
	for _, raw := range *list.URLs {
		u, err := drill.NormalURL(raw)
		if err != nil {
			u = raw // not a URL that drkit would add: shown as it is, touched only when named
		}
		out = append(out, drill.Registered{Worker: drill.Worker{URL: u, ID: raw, Health: health[raw]}, Raw: raw})
	}
	return out, nil
}

func tri(b *bool) drill.Tri {
	switch {
	case b == nil:
		return drill.Unknown
	case *b:
		return drill.Yes
	}
	return drill.No
}

// Register asks for a worker. The router answers once the worker's /health does,
// or 400 when it has the worker already.
func (r *Router) Register(ctx context.Context, w drill.Worker) error {
	return r.change(ctx, "/add_worker", w.URL)
}

// Unregister asks to remove a worker; the answer says nothing (see the package
// comment).
func (r *Router) Unregister(ctx context.Context, raw string) error {
	return r.change(ctx, "/remove_worker", raw)
}

func (r *Router) change(ctx context.Context, path, worker string) error {
	status, body, err := r.admin.call(ctx, http.MethodPost, path+"?url="+url.QueryEscape(worker))
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("POST %s: HTTP %d: %s", r.admin.base+path, status, words(body))
	}
	return nil
}
