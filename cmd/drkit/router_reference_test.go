package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"drkit/drill"
	"drkit/drill/router/reference"
	"drkit/drill/router/vllmrouter"
	"drkit/drill/routing/serve"
)

// TestReferenceDriverAgainstTheRouter joins the driver and the router that it
// drives, which know nothing of each other.
func TestReferenceDriverAgainstTheRouter(t *testing.T) {
	engine := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"choices":[{"index":0,"text":%q,"finish_reason":"stop"}]}`, name)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	a, b := engine("a"), engine("b")
	router, err := serve.New(serve.Options{Home: "us-east-1", Workers: []serve.Worker{{URL: a, Region: "us-east-1", Residency: "us"}}})
	if err != nil {
		t.Fatal(err)
	}
	go router.Run(t.Context())
	srv := httptest.NewServer(router)
	t.Cleanup(srv.Close)
	ask := func() string {
		resp, err := http.Post(srv.URL+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"`+strings.Repeat("x", 200)+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.Header.Get(serve.HeaderRegion)
	}
	d, err := reference.New(srv.URL, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		if w, err := d.Workers(t.Context()); err == nil && len(w) == 1 && w[0].Health == drill.Yes {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the first worker is not healthy after 10 s")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if info, err := d.Probe(t.Context()); err != nil || !info.Reference || info.Policy != "cache-aware-regional" {
		t.Fatalf("Probe = %+v, %v", info, err)
	}
	if got := ask(); got != "us-east-1" {
		t.Errorf("before the cutover %q answered", got)
	}
	c := drill.Change{Add: []drill.Worker{{URL: b, Region: "eu-west-1", Attrs: map[string]string{"residency": "eu"}}}, Remove: []string{a}}
	for range 2 {
		if err := d.Apply(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if got := ask(); got != "eu-west-1" {
			t.Errorf("after the cutover %q answered", got)
		}
	}
	counts, err := d.Counters(t.Context())
	if err != nil || counts[a].OK != 1 || counts[b].OK != 2 || counts[a].Epoch == "" {
		t.Errorf("Counters = %+v, %v", counts, err)
	}
	if hits, misses, blind, err := d.CacheDecisions(t.Context()); hits != 1 || misses != 2 || blind != 0 || err != nil {
		t.Errorf("CacheDecisions = %d, %d, %d, %v", hits, misses, blind, err)
	}
	other, err := vllmrouter.New(srv.URL, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "but the drkit reference router") {
		t.Errorf("the vllm-router driver says %v", err)
	}
}
