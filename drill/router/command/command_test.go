package command

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
)

// script writes a shell script that keeps what it reads in FILE.in, and answers with
// FILE.out; more is what else it does.
func script(t *testing.T, dir, name, more string) []string {
	t.Helper()
	path := filepath.Join(dir, name)
	text := "#!/bin/sh\ncat > " + path + ".in\n" + more + "\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func sent(t *testing.T, path string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestRouter: the documents are those of docs/live.md.
func TestRouter(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "list.json")
	write(t, list, `{"version":1,"kind":"nginx","router_version":"1.29","workers":[{"url":"http://us:8000/","healthy":true}],"counters":{"http://us:8000/":{"ok":7,"failed":1,"epoch":"a"}}}`)
	c := Commands{Dir: dir, Observe: script(t, dir, "observe", "cat "+list),
		Apply: script(t, dir, "apply", `grep -q '"add"' apply.in && cp both.json list.json; grep -q '"remove"' apply.in && cp after.json list.json; true`)}
	write(t, filepath.Join(dir, "both.json"), `{"version":1,"workers":[{"url":"http://us:8000/","healthy":true},{"url":"http://eu:8000","healthy":true}]}`)
	write(t, filepath.Join(dir, "after.json"), `{"version":1,"workers":[{"url":"http://eu:8000","healthy":true}]}`)
	r, err := New(c, "http://router-0:30000", "http://router-0:29000/metrics")
	if err != nil {
		t.Fatal(err)
	}
	info, err := r.Probe(t.Context())
	if err != nil || info != (drill.RouterInfo{Kind: "nginx", Version: "1.29"}) {
		t.Errorf("%+v, %v", info, err)
	}
	want := map[string]any{"version": 1.0, "action": "observe", "router": map[string]any{"admin": "http://router-0:30000", "metrics": "http://router-0:29000/metrics"}}
	if got := sent(t, filepath.Join(dir, "observe.in")); !reflect.DeepEqual(got, want) {
		t.Errorf("observe was given %v", got)
	}
	if counts, err := r.Counters(t.Context()); err != nil || counts["http://us:8000"].OK != 7 || counts["http://us:8000"].Epoch != "a" {
		t.Errorf("%+v, %v", counts, err)
	}
	err = r.Apply(t.Context(), drill.Change{Add: []drill.Worker{{URL: "http://eu:8000", Region: "eu-west-1", Attrs: map[string]string{"residency": "eu"}}}, Remove: []string{"http://us:8000"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := sent(t, filepath.Join(dir, "apply.in")); !reflect.DeepEqual(got["remove"], []any{"http://us:8000/"}) {
		t.Errorf("it is removed by another spelling than its own: %v", got)
	}
	if w, err := r.Workers(t.Context()); err != nil || len(w) != 1 || w[0].URL != "http://eu:8000" {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := r.Counters(t.Context()); !errors.Is(err, drill.ErrNotCounted) {
		t.Errorf("no counters: %v", err)
	}
}

// TestRouterThatDoesNotFollow: apply ends well and nothing happens, or it fails, hangs
// or talks nonsense.
func TestRouterThatDoesNotFollow(t *testing.T) {
	us := `echo '{"version":1,"workers":[{"url":"http://us:8000","healthy":true}]}'`
	for name, tc := range map[string]struct{ observe, apply, want string }{
		"apply does nothing":      {us, "true", "although it answered the request with success"},
		"apply fails":             {us, "echo no right to do that >&2; exit 3", "no right to do that"},
		"apply hangs":             {us, "sleep 60 & wait", "it has not answered the request"},
		"observe fails":           {"echo no route >&2; exit 1", "true", "no route"},
		"observe says nothing":    {"true", "true", "not the JSON expected"},
		"observe without workers": {`echo '{"version":1}'`, "true", "has no workers"},
		"another version":         {`echo '{"version":2,"workers":[]}'`, "true", "of version 2"},
		"a worker of nonsense":    {`echo '{"version":1,"workers":[{"url":"x"}]}'`, "true", "want http://host:port"},
		"an endless answer":       {"yes", "true", "it wrote more than"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r, err := New(Commands{Dir: dir, Observe: script(t, dir, "observe", tc.observe), Apply: script(t, dir, "apply", tc.apply)}, "http://router-0:1", "")
			if err != nil {
				t.Fatal(err)
			}
			r.Pace = drill.Pace{Every: 10 * time.Millisecond, Within: 300 * time.Millisecond}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err = r.Apply(ctx, drill.Change{Add: []drill.Worker{{URL: "http://eu:8000"}}})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	if _, err := New(Commands{Apply: []string{"x"}}, "", ""); errext.StatusOf(err) != errext.Usage {
		t.Errorf("without observe: %v", err)
	}
}

// TestEdge: the documents are those of docs/live.md.
func TestEdge(t *testing.T) {
	dir := t.TempDir()
	e, err := NewEdge(Commands{Dir: dir, Observe: script(t, dir, "observe", "cat state.json"), Apply: script(t, dir, "apply", "true")})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "state.json"), `{"version":1,"classes":{"us-chat":{"us-east-1":0.9,"eu-west-1":0.1}}}`)
	got, err := e.Observe(t.Context())
	if err != nil || !reflect.DeepEqual(got, Shares{"us-chat": {"us-east-1": 0.9, "eu-west-1": 0.1}}) {
		t.Errorf("%v, %v", got, err)
	}
	if err := e.Apply(t.Context(), Shares{"us-chat": {"eu-west-1": 1}}); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"version": 1.0, "action": "apply", "classes": map[string]any{"us-chat": map[string]any{"eu-west-1": 1.0}}}
	if got := sent(t, filepath.Join(dir, "apply.in")); !reflect.DeepEqual(got, want) {
		t.Errorf("apply was given %v", got)
	}
	for text, words := range map[string]string{
		`{"version":1,"classes":{"c":{"us":0.5}}}`:           "add up to 0.5",
		`{"version":1,"classes":{"c":{"us":1.5,"eu":-0.5}}}`: "is -0.5",
		`{"version":3}`: "of version 3",
		`[]`:            "not the JSON expected",
	} {
		write(t, filepath.Join(dir, "state.json"), text)
		if _, err := e.Observe(t.Context()); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
