package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	goflag "flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// chaosSeeds is small in CI; before a release: go test ./drill/launch/kubernetes -run TestChaos -chaos 5000
var chaosSeeds = goflag.Int("chaos", 50, "how many seeds TestChaos runs")

// TestChaos takes the API server away while an undo of another process looks for the
// canary, deletes it and proves that it is gone: no proof may be given while the pod is
// there, and once the server is back the undo comes to its end.
func TestChaos(t *testing.T) {
	proofs, failures := 0, 0
	for seed := range uint64(*chaosSeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed := undoUnderChaos(t, newFlaky(seed))
				failures += failed
				proofs++
			})
		})
	}
	if proofs < *chaosSeeds || failures == 0 {
		t.Errorf("%d seeds came to an end, %d undos failed on the way: the server was hardly ever away", proofs, failures)
	}
}

// undoUnderChaos tries as a run and the people after it do, with the minute that the
// runner gives an undo. It returns how many tries did not prove it.
func undoUnderChaos(t *testing.T, s *flaky) (failed int) {
	t.Helper()
	l, err := newLauncher(&rest.Config{Host: "http://api", Transport: s}, Options{Namespace: "dr"})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(s.begin)
	for range 6 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := l.undo(ctx, Args{Namespace: "dr", Run: "01R", Name: "target-canary"})
		cancel()
		if err == nil {
			if s.there() {
				t.Errorf("proven to be gone, and the pod is there; server away %v", s.away)
			}
			return failed
		}
		failed++
		time.Sleep(time.Minute)
	}
	t.Errorf("not undone although the server has been back for minutes; away %v", s.away)
	return failed
}

// outage is a time in which the API server does not serve, and how that looks.
type outage struct {
	from, to time.Time
	how      string // refused; lost: it does what it was asked for, and the answer is lost; hangs
}

func (o outage) String() string {
	return fmt.Sprintf("%s to %s: %s", o.from.Format(time.TimeOnly), o.to.Format(time.TimeOnly), o.how)
}

// flaky is an API server of one pod. It is the transport of its clients.
type flaky struct {
	away  []outage
	begin time.Duration // when the undo begins: often while the server is away
	grace time.Duration // from the deletion that is asked for until the pod is gone

	mu   sync.Mutex
	pod  bool
	gone time.Time // when the pod ends; zero: nobody asked
}

func newFlaky(seed uint64) *flaky {
	rng := rand.New(rand.NewPCG(seed, 11))
	upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	s := &flaky{pod: rng.IntN(8) > 0, begin: upTo(2 * time.Minute), grace: upTo(40 * time.Second)} // or the launch never came to it
	at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)                                              // where a bubble's clock begins
	for range 1 + rng.IntN(3) {
		from := at.Add(upTo(10 * time.Second))
		at = from.Add(time.Second + upTo(50*time.Second))
		s.away = append(s.away, outage{from, at, []string{"refused", "lost", "hangs"}[rng.IntN(3)]})
	}
	return s
}

func (s *flaky) there() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone.IsZero() && !time.Now().Before(s.gone) {
		s.pod = false
	}
	return s.pod
}

func (s *flaky) now() (how string) {
	for _, o := range s.away {
		if now := time.Now(); !now.Before(o.from) && now.Before(o.to) {
			return o.how
		}
	}
	return ""
}

// RoundTrip answers as an API server does, when it does.
func (s *flaky) RoundTrip(r *http.Request) (*http.Response, error) {
	switch how := s.now(); how {
	case "refused":
		return nil, errors.New("connection refused")
	case "hangs":
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	case "lost":
		s.answer(r)
		return nil, errors.New("connection reset by peer")
	}
	status, body := s.answer(r)
	raw, err := json.Marshal(body)
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(raw))), Request: r}, err
}

func (s *flaky) answer(r *http.Request) (int, any) {
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "canary", "namespace": "dr", "uid": "u-1",
		"labels": map[string]any{LabelRun: "01R", LabelReplica: "target-canary"}}}
	there := s.there()
	switch {
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/namespaces/dr/pods"):
		items := []any{}
		if there {
			items = append(items, pod)
		}
		return http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{}, "items": items}
	case !there:
		return http.StatusNotFound, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": http.StatusNotFound}
	case r.Method == http.MethodDelete:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.gone.IsZero() {
			s.gone = time.Now().Add(s.grace)
		}
	}
	return http.StatusOK, pod
}
