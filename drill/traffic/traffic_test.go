package traffic_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill/traffic"
	"drkit/internal/openai"
	"drkit/internal/pipenet"
	"drkit/manifest/region"
)

// engine answers streams after delay; every cutEvery-th stream ends without
// [DONE], every failEvery-th request is a 500.
type engine struct {
	delay               time.Duration
	cutEvery, failEvery int64
	asked               atomic.Int64
	tokenIDs            atomic.Int64
	empty               bool // streams end well and hold no token
	cached              int  // of 100 tokens of a prompt; 0: 80
	residency           atomic.Value
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := e.asked.Add(1)
	var body openai.CompletionRequest
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	if body.Prompt.IDs != nil {
		e.tokenIDs.Add(1)
	}
	e.residency.Store(r.Header.Get(traffic.HeaderResidency))
	if e.delay > 0 { // a timer of no time is fired by who looks at it, which the race detector in a bubble may not survive (Go 1.26)
		select {
		case <-time.After(e.delay):
		case <-r.Context().Done():
			return
		}
	}
	if e.failEvery > 0 && n%e.failEvery == 0 {
		http.Error(w, "broken", 500)
		return
	}
	w.Header().Set(traffic.HeaderRegion, "eu-west-1")
	if e.empty {
		fmt.Fprint(w, `data: {"choices":[{"text":"","finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		return
	}
	fmt.Fprint(w, `data: {"choices":[{"text":"hi","finish_reason":null}]}`+"\n\n")
	if e.cutEvery > 0 && n%e.cutEvery == 0 {
		return
	}
	fmt.Fprint(w, `data: {"choices":[{"text":"","finish_reason":"length"}]}`+"\n\n")
	fmt.Fprintf(w, `data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":1,"total_tokens":101,"prompt_tokens_details":{"cached_tokens":%d}}}`+"\n\n", cmp.Or(e.cached, 80))
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func send(t *testing.T, e *engine, shape traffic.Shape, length time.Duration) ([]traffic.Window, *traffic.Generator) {
	t.Helper()
	var net pipenet.Network
	defer net.Close()
	if _, err := net.Serve("router:80", e); err != nil {
		t.Fatal(err)
	}
	var windows []traffic.Window
	g, err := traffic.New(t.Context(), traffic.Options{
		Router: &openai.Client{BaseURL: "http://router", HTTP: net.Client()}, Model: "tiny",
		Classes: []traffic.Class{{Name: "us", Residency: []region.Residency{"us", "eu"}, Share: 1, Shape: shape}},
		Rate:    5, Families: 4, MaxTokens: 2, Window: 10 * time.Second, Timeout: 5 * time.Second, RunID: "run",
		Tokenize: func(context.Context, string) ([]int, error) { return []int{1, 2, 3}, nil },
		OnWindow: func(w traffic.Window) { windows = append(windows, w) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	g.Run(ctx)
	return windows, g
}

// 5 requests a second for 20.1 s are 100 requests; answers take 300 ms, so the
// first window of 10 s holds those sent until 9.7 s: 48, and the second 50.
func TestWindowsCountEachRequestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		windows, _ := send(t, &engine{delay: 300 * time.Millisecond}, traffic.Text, 20*time.Second+100*time.Millisecond)
		if len(windows) != 3 {
			t.Fatalf("got %d windows, want 3: two full ones and the rest", len(windows))
		}
		if windows[0].Sent != 48 || windows[1].Sent != 50 || windows[2].Sent != 2 {
			t.Errorf("sent %d, %d, %d; want 48, 50, 2", windows[0].Sent, windows[1].Sent, windows[2].Sent)
		}
		w := windows[0]
		if w.OK != 48 || w.Failed != 0 || w.TTFTP99 != 300*time.Millisecond || w.ByRegion["eu-west-1"] != 48 {
			t.Errorf("got %+v", w)
		}
		if w.CacheHit == nil || *w.CacheHit != 0.8 {
			t.Errorf("cache hit: got %v, want 0.8", w.CacheHit)
		}
	})
}

// An engine that finds more tokens than a prompt has, or fewer than none, says nothing
// of its cache: no share is made of it.
func TestACacheHitThatCannotBe(t *testing.T) {
	for _, cached := range []int{101, -1} {
		synctest.Test(t, func(t *testing.T) {
			windows, _ := send(t, &engine{cached: cached}, traffic.Text, 11*time.Second)
			if w := windows[0]; w.OK == 0 || w.CacheHit != nil {
				t.Errorf("%d of 100 tokens: %d answers, cache hit %v", cached, w.OK, w.CacheHit)
			}
		})
	}
}

func TestCutAndFailedRequestsAreNotOK(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{cutEvery: 5, failEvery: 4}
		windows, g := send(t, e, traffic.Text, 8*time.Second+100*time.Millisecond)
		all := traffic.Summarize(g.Results(time.Time{}))
		// 40 requests: every 4th is a 500 (10); of the others every 5th is cut: 5, 10,
		// 15, 25, 30, 35 (20 and 40 are among the 500s).
		if all.Sent != 40 || all.Failed != 16 || all.Cut != 6 || all.OK != 24 {
			t.Errorf("got %+v, want 40 sent, 16 failed, 6 of them cut", all)
		}
		if len(windows) != 1 || len(all.Problems) == 0 {
			t.Errorf("windows %d, problems %v", len(windows), all.Problems)
		}
	})
}

func TestARouterThatHangsFailsEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, g := send(t, &engine{delay: time.Minute}, traffic.Text, 3*time.Second+100*time.Millisecond)
		all := traffic.Summarize(g.Results(time.Time{}))
		if all.Sent != 15 || all.OK != 0 || all.TTFTP99 != 0 {
			t.Errorf("got %+v, want 15 sent and none OK", all)
		}
	})
}

// TestAStreamWithoutATokenIsNoAnswer: it ends as the protocol says and holds nothing.
func TestAStreamWithoutATokenIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, g := send(t, &engine{empty: true}, traffic.Text, 2*time.Second+100*time.Millisecond)
		if all := traffic.Summarize(g.Results(time.Time{})); all.Sent != 10 || all.OK != 0 {
			t.Errorf("got %+v, want 10 sent and none OK", all)
		}
	})
}

// TestHangingRequestsAreCounted while they are open, not first at their time-out.
func TestHangingRequestsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var net pipenet.Network
		defer net.Close()
		if _, err := net.Serve("router:80", &engine{delay: time.Hour}); err != nil {
			t.Fatal(err)
		}
		g, err := traffic.New(t.Context(), traffic.Options{
			Router: &openai.Client{BaseURL: "http://router", HTTP: net.Client()}, Model: "tiny",
			Classes: []traffic.Class{{Name: "us", Share: 1, Shape: traffic.Text}},
			Rate:    1, Families: 1, MaxTokens: 1, Window: 2 * time.Second, Timeout: time.Minute, RunID: "run",
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); g.Run(ctx) }()
		time.Sleep(5*time.Second + 100*time.Millisecond)
		// Sent at 1 to 5 s; older than the window of 2 s at 5.1 s: those of 1, 2 and 3 s.
		if got := g.Hanging(); got != 3 {
			t.Errorf("%d hanging, want 3", got)
		}
		cancel()
		<-done
		if got := g.Hanging(); got != 0 {
			t.Errorf("%d hanging after their time-out, want 0", got)
		}
	})
}

func TestShapeAndBorderReachTheRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		send(t, e, traffic.TokenIDs, 2*time.Second+100*time.Millisecond)
		if e.tokenIDs.Load() != 10 || e.residency.Load() != "us,eu" {
			t.Errorf("token-id prompts %d of 10, residency %q", e.tokenIDs.Load(), e.residency.Load())
		}
	})
}

func TestPercentileIsNearestRank(t *testing.T) {
	var v []time.Duration
	for i := range 200 {
		v = append(v, time.Duration(200-i))
	}
	if p50, p99 := traffic.Percentile(v, 50), traffic.Percentile(v, 99); p50 != 100 || p99 != 198 {
		t.Errorf("p50 %d, p99 %d; want 100 and 198", p50, p99)
	}
	if traffic.Percentile(nil, 99) != 0 || traffic.Percentile(v[:1], 99) != 200 {
		t.Error("none and one value")
	}
}
