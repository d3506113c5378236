package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"drkit/internal/faultproxy"
)

func TestRun(t *testing.T) {
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "through") }))
	defer behind.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-upstream", behind.URL, "-seed", "3", "-rule", "503,nth=1"}, w)
		w.Close()
	}()
	out := bufio.NewReader(r)
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{503, 200} {
		resp, err := http.Get(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("status %d, want %d", resp.StatusCode, want)
		}
	}
	cancel()
	rest, err := io.ReadAll(out)
	if err != nil || string(rest) != "503 1\n" {
		t.Errorf("at the end it said %q, %v", rest, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The example in the documentation, and each fault of its table, are rules.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/faultproxy.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile(`-rule (\S+)`).FindAllSubmatch(page, -1)
	for _, m := range examples {
		if _, err := faultproxy.ParseRule(string(m[1])); err != nil {
			t.Error(err)
		}
	}
	for _, kind := range faultproxy.Kinds {
		if !strings.Contains(string(page), "`"+string(kind)+"`") {
			t.Errorf("the page does not explain %s", kind)
		}
	}
	if len(examples) != 2 {
		t.Errorf("%d examples", len(examples))
	}
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"-upstream", "nonsense"}, {"-upstream", "http://127.0.0.1:1", "-rule", "nonsense"}, {"-upstream", "http://127.0.0.1:1", "503"}, {"-upstream", "http://127.0.0.1:1", "-listen", "nonsense"}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}
