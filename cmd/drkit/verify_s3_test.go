package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/s3"
	"drkit/internal/store/s3/s3test"
)

// gate lets the objects be read that it does not hold back, and keeps the readers
// of the others waiting.
type gate struct {
	s *s3test.Server

	mu   sync.Mutex
	held func(path string) bool // nil: none
	read map[string]int
	gone chan struct{}
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/model/") {
		g.mu.Lock()
		held := g.held != nil && g.held(r.URL.Path)
		if !held {
			g.read[r.URL.Path]++
		}
		g.mu.Unlock()
		if held {
			select {
			case <-g.gone:
			case <-r.Context().Done():
			}
			return
		}
	}
	g.s.ServeHTTP(w, r)
}

// hold says which objects are held back from now on, and forgets what was read.
func (g *gate) hold(held func(path string) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held, g.read = held, map[string]int{}
}

// count returns how many objects were read since.
func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.read)
}

// lines counts the lines of a file that is there.
func lines(path string) int {
	data, _ := os.ReadFile(path)
	return bytes.Count(data, []byte("\n"))
}

// bucketOfObjects serves a bucket with so many objects below model/ in both east
// and west.
func bucketOfObjects(t *testing.T, n int) (*gate, string) {
	t.Helper()
	g := &gate{s: s3test.New(s3test.Options{}).CreateBucket("models", s3test.BucketOptions{}), read: map[string]int{}, gone: make(chan struct{})}
	srv := httptest.NewServer(g)
	t.Cleanup(func() {
		close(g.gone)
		srv.Close()
	})
	for _, kv := range []string{"AWS_ACCESS_KEY_ID=" + s3test.DefaultAccessKey, "AWS_SECRET_ACCESS_KEY=" + s3test.DefaultSecretKey, "AWS_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true"} {
		k, v, _ := strings.Cut(kv, "=")
		t.Setenv(k, v)
	}
	for _, side := range []string{"east", "west"} {
		bucket, err := s3.New(t.Context(), s3.Options{Bucket: "models", Prefix: side, Endpoint: srv.URL, Region: "us-east-1", PathStyle: true})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if _, err := bucket.Put(t.Context(), fmt.Sprintf("model/f%02d", i), store.BytesBody(fmt.Appendf(nil, "content of %d", i)), store.Cond{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return g, "s3://models/%s?path_style=true&endpoint=" + srv.URL
}

// TestAKilledVerificationGoesOn: kill -9 in the middle loses what was in flight, no
// more, and the next run reads the rest alone.
func TestAKilledVerificationGoesOn(t *testing.T) {
	const objects, proven = 24, 10
	g, url := bucketOfObjects(t, objects)
	state := filepath.Join(t.TempDir(), "state.jsonl")
	args := []string{"verify", fmt.Sprintf(url, "east"), fmt.Sprintf(url, "west"), "--level", "content", "--state", state, "--output", "json", "--progress", "quiet"}

	// The largest are read first, those with two digits, in the order of their names.
	g.hold(func(path string) bool { return !strings.Contains(path, "/model/f1") })
	first := exec.Command("drkit", args...)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	tick, late := time.NewTicker(5*time.Millisecond), time.After(patience)
	for waiting := true; waiting && lines(state) < 1+proven; { // a header first
		select {
		case <-tick.C:
		case <-late:
			waiting = false
		}
	}
	tick.Stop()
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	if n := lines(state); n != 1+proven {
		t.Fatalf("the state has %d lines, want a header and %d proofs", n, proven)
	}

	g.hold(nil)
	out, err := exec.Command("drkit", args...).Output()
	var doc struct {
		Status int
		Copies []struct {
			Holds    bool
			Resumed  struct{ Objects int }
			Evidence map[string]int
		}
	}
	if err != nil || json.Unmarshal(out, &doc) != nil || !doc.Copies[0].Holds || doc.Copies[0].Resumed.Objects != proven || doc.Copies[0].Evidence["content"] != objects {
		t.Fatalf("%v: %s", err, out)
	}
	if g.count() != 2*(objects-proven) {
		t.Errorf("%d objects were read, want both sides of %d", g.count(), objects-proven)
	}
	if _, err := os.Stat(state); err == nil {
		t.Error("the state is still there though everything has a verdict")
	}

	// Nothing is taken over from a verification that came to its end.
	g.hold(nil)
	if out, err := exec.Command("drkit", args...).Output(); err != nil || g.count() != 2*objects {
		t.Errorf("%v: %d objects were read, want %d: %s", err, g.count(), 2*objects, out)
	}
}

// TestPlanOfBuckets: what is planned is at least what is then asked, and at level
// content nothing is read for the plan.
func TestPlanOfBuckets(t *testing.T) {
	g, url := bucketOfObjects(t, 5)
	var r reportRun
	args := []string{"verify", fmt.Sprintf(url, "east"), fmt.Sprintf(url, "west"), "--output", "json", "--level", "content"}
	if status := r.run(t, append(args, "--plan")...); status != errext.Holds || g.count() != 0 {
		t.Fatalf("status %v, read %d: %s", status, g.count(), r.err.String())
	}
	var plan struct {
		Plans []struct {
			Places []struct {
				GetRequests int   `json:"get_requests"`
				BytesRead   int64 `json:"bytes_read"`
				Cost        *float64
			}
		}
	}
	if err := json.Unmarshal(r.out.Bytes(), &plan); err != nil || len(plan.Plans) != 1 || len(plan.Plans[0].Places) != 2 {
		t.Fatalf("%v %s", err, r.out.String())
	}
	for _, p := range plan.Plans[0].Places {
		// "content of 0" has 12 bytes. The endpoint is no AWS, so its prices are not known.
		if p.GetRequests != 5 || p.BytesRead != 60 || p.Cost != nil {
			t.Errorf("%+v", p)
		}
	}
	if status := r.run(t, args...); status != errext.Holds || g.count() != 10 {
		t.Errorf("status %v, read %d: %s", status, g.count(), r.err.String())
	}
}

// TestErrorsOfBuckets: what stands in the way is named with what to do, the status
// is 1, and 4 beside a verdict that is red; the others are compared all the same.
func TestErrorsOfBuckets(t *testing.T) {
	for name, c := range map[string]struct {
		change func(g *gate, url *string)
		status errext.Status
		says   []string
		match  int
	}{
		"nothing": {func(*gate, *string) {}, errext.Holds, nil, 6},
		"one object is denied": {func(g *gate, _ *string) { g.s.Deny("models", "west/model/f03", "GetObject") }, errext.Failed,
			[]string{"model/f03", "access denied"}, 5},
		"one is denied, another rotten": {func(g *gate, _ *string) {
			g.s.Deny("models", "west/model/f03", "GetObject")
			g.s.Rot("models", "west/model/f05", 0, []byte("X"))
		}, errext.Gate, []string{"model/f03", "diverged", "model/f05"}, 4},
		"no such bucket":   {func(_ *gate, url *string) { *url = strings.Replace(*url, "models", "modelz", 1) }, errext.Failed, []string{"modelz"}, 0},
		"listing denied":   {func(g *gate, _ *string) { g.s.Deny("models", "west/", "ListObjectsV2") }, errext.Failed, []string{"ListBucket"}, 6},
		"expired token":    {func(g *gate, _ *string) { g.s.ExpireCredentials(true) }, errext.Failed, []string{"expired"}, 0},
		"clock skew":       {func(g *gate, _ *string) { g.s.SetSkew(time.Hour) }, errext.Failed, []string{"clock"}, 0},
		"the wrong region": {func(_ *gate, url *string) { *url += "&region=eu-west-1" }, errext.Failed, []string{"region"}, 0},
		"nobody listens":   {func(_ *gate, url *string) { *url = "s3://models/%s?path_style=true&endpoint=http://127.0.0.1:1" }, errext.Failed, []string{"127.0.0.1:1"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g, url := bucketOfObjects(t, 6)
			east, west := fmt.Sprintf(url, "east"), url
			c.change(g, &west)
			var r reportRun
			status := r.run(t, "verify", east, fmt.Sprintf(west, "west"), "--level", "content", "--output", "json")
			text := r.out.String() + r.err.String()
			if status != c.status {
				t.Errorf("status %v, want %v: %.2000s", status, c.status, text)
			}
			for _, want := range c.says {
				if !strings.Contains(text, want) {
					t.Errorf("nothing says %q: %.2000s", want, text)
				}
			}
			if c.status != errext.Holds && !strings.Contains(text, `"hint"`) && !strings.Contains(text, "hint:") {
				t.Errorf("no hint: %.2000s", text)
			}
			if n := strings.Count(r.out.String(), `"verdict": "match"`); n != c.match {
				t.Errorf("%d match, want %d", n, c.match)
			}
			if n := len(g.s.Requests()); n > 300 {
				t.Errorf("%d requests", n)
			}
		})
	}
}
