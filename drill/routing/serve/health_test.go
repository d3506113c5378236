package serve

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/pipenet"
)

// A hung worker and health checks, in virtual time.
func TestHangAndHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var net pipenet.Network
		defer net.Close()
		a, b := &engine{name: "a"}, &engine{name: "b"}
		for addr, e := range map[string]*engine{"a:1": a, "b:1": b} {
			if _, err := net.Serve(addr, e); err != nil {
				t.Fatal(err)
			}
		}
		r, err := New(Options{Home: "us", Transport: net.Client().Transport, Workers: []Worker{
			{URL: "http://a:1", Region: "us", Residency: "us"}, {URL: "http://b:1", Region: "eu", Residency: "eu"}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := net.Serve("router:1", r); err != nil {
			t.Fatal(err)
		}
		client := net.Client()
		post := func() (status int, worker string) {
			resp, err := client.Post("http://router:1/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"x"}`))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
			return resp.StatusCode, resp.Header.Get(HeaderWorker)
		}
		if status, _ := post(); status != http.StatusServiceUnavailable {
			t.Errorf("before the first check: HTTP %d, want 503", status)
		}
		go r.Run(t.Context())
		synctest.Wait()
		time.Sleep(time.Second)
		if status, w := post(); status != 200 || w != "http://a:1" {
			t.Errorf("HTTP %d from %s, want a", status, w)
		}
		a.set("hung") // takes connections and never answers
		begin := time.Now()
		if status, w := post(); status != 200 || w != "http://b:1" || time.Since(begin) != 2*time.Minute {
			t.Errorf("HTTP %d from %s after %v, want b after 2m", status, w, time.Since(begin))
		}
		a.set("sick")
		time.Sleep(5 * time.Second)
		if status, w := post(); status != 200 || w != "http://b:1" {
			t.Errorf("HTTP %d from %s, want b", status, w)
		}
		a.set("")
		time.Sleep(3 * time.Second) // one check every 2 s, one good one is enough
		if status, w := post(); status != 200 || w != "http://a:1" {
			t.Errorf("HTTP %d from %s, want a again", status, w)
		}
		a.set("sick")
		time.Sleep(2 * time.Second) // one failed check is not enough
		if _, w := post(); w != "http://a:1" {
			t.Errorf("after one failed check: %s, want a", w)
		}
		time.Sleep(2 * time.Second)
		if _, w := post(); w != "http://b:1" {
			t.Errorf("after two failed checks: %s, want b", w)
		}
	})
}
