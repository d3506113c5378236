package faultproxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/faultproxy"
	"drkit/internal/pipenet"
)

const content = "0123456789"

// upstream answers every GET with content and keeps what is put.
type upstream struct {
	mu    sync.Mutex
	puts  []string
	lists int
}

// got is what was put so far.
func (u *upstream) got() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.puts)
}

// listed is how many listings were answered.
func (u *upstream) listed() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lists
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case r.Method == http.MethodPut:
		data, _ := io.ReadAll(r.Body)
		u.puts = append(u.puts, string(data))
	case r.URL.RawQuery == "list":
		u.lists++
		io.WriteString(w, strings.Repeat("x", u.lists))
	default:
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, content)
	}
}

func serve(t *testing.T, o faultproxy.Options) (*faultproxy.Proxy, *upstream, string) {
	t.Helper()
	u := &upstream{}
	p := faultproxy.New(u, o)
	srv := httptest.NewServer(p)
	t.Cleanup(func() { p.Close(); srv.Close() })
	return p, u, srv.URL
}

// get reads a whole answer.
func get(t *testing.T, u string) (status int, body string, length int64, err error) {
	t.Helper()
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer c.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(r)
	if err != nil {
		return 0, "", 0, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), resp.ContentLength, err
}

func TestBodyFaults(t *testing.T) {
	for _, c := range []struct {
		rule   faultproxy.Rule
		body   string
		length int64
		fails  bool
	}{
		{faultproxy.Rule{Kind: faultproxy.Truncate, At: 4}, "0123", 10, true},
		{faultproxy.Rule{Kind: faultproxy.Short, At: 4}, "0123", 4, false},
		{faultproxy.Rule{Kind: faultproxy.WrongBytes, At: 4}, "0123\x9156789", 10, false}, // '4' is 0x34
		{faultproxy.Rule{Kind: faultproxy.Truncate, At: 100}, content, 10, false},
	} {
		p, _, u := serve(t, faultproxy.Options{Rules: []faultproxy.Rule{c.rule}})
		status, body, length, err := get(t, u+"/k")
		if body != c.body || length != c.length || (err != nil) != c.fails || status != 200 || p.Counts()[c.rule.Kind] != 1 {
			t.Errorf("%v: %d %q of %d, %v", c.rule.Kind, status, body, length, err)
		}
	}
	p, _, u := serve(t, faultproxy.Options{Rules: []faultproxy.Rule{{Kind: faultproxy.Short, At: 4}}})
	if resp, err := http.Head(u + "/k"); err != nil || resp.ContentLength != 10 || len(p.Injected()) != 0 {
		t.Errorf("a HEAD was shortened: %v, %v", resp, err)
	}
	p, _, u = serve(t, faultproxy.Options{Rules: []faultproxy.Rule{{Kind: faultproxy.Reset, At: 4}}})
	if _, body, _, err := get(t, u+"/k"); err == nil || len(body) > 4 || p.Counts()[faultproxy.Reset] != 1 {
		t.Errorf("reset: %q, %v", body, err)
	}
}

func TestRefusals(t *testing.T) {
	for kind, want := range map[faultproxy.Kind]struct {
		status int
		text   string
	}{
		faultproxy.InternalError: {500, "<Code>InternalError</Code>"},
		faultproxy.SlowDown:      {503, "<Code>SlowDown</Code>"},
		faultproxy.ClockSkew:     {403, "<Code>RequestTimeTooSkewed</Code>"},
		faultproxy.Expired:       {400, "<Code>ExpiredToken</Code>"},
		faultproxy.Temporary:     {307, "<Code>TemporaryRedirect</Code>"},
		faultproxy.Permanent:     {301, "s3.eu-west-1.amazonaws.com"},
	} {
		p, up, u := serve(t, faultproxy.Options{Rules: []faultproxy.Rule{{Kind: kind, Limit: 1}}})
		status, body, _, err := get(t, u+"/k?list")
		if err != nil || status != want.status || !strings.Contains(body, want.text) || up.listed() != 0 || p.Counts()[kind] != 1 {
			t.Errorf("%s: %d %s, %v", kind, status, body, err)
		}
		if status, _, _, _ = get(t, u+"/k?list"); status != 200 || up.listed() != 1 {
			t.Errorf("%s: %d after its limit", kind, status)
		}
	}
}

// A client that follows a temporary redirect arrives at the same place.
func TestTemporaryRedirectIsFollowed(t *testing.T) {
	_, _, u := serve(t, faultproxy.Options{Rules: []faultproxy.Rule{{Kind: faultproxy.Temporary, Nth: 1}}})
	resp, err := http.Get(u + "/a%2Bb")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if data, _ := io.ReadAll(resp.Body); string(data) != content || resp.Request.URL.EscapedPath() != "/a%2Bb" {
		t.Errorf("%q from %s", data, resp.Request.URL)
	}
}

func TestRequestFaults(t *testing.T) {
	put := func(u string) error {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, u, strings.NewReader(content))
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	_, up, u := serve(t, faultproxy.Options{Rules: []faultproxy.Rule{{Kind: faultproxy.WrongUpload, At: 4, Nth: 1}, {Kind: faultproxy.LostAnswer, Nth: 1}}})
	if err := put(u); err != nil || up.got()[0] != "0123\x9156789" {
		t.Errorf("wrong upload: %q, %v", up.got(), err)
	}
	if err := put(u); err == nil || len(up.got()) != 2 || up.got()[1] != content {
		t.Errorf("lost answer: %q, %v", up.got(), err)
	}
}

func TestStaleList(t *testing.T) {
	p, _, u := serve(t, faultproxy.Options{Rules: []faultproxy.Rule{{Kind: faultproxy.StaleList, Query: regexp.MustCompile("list"), Limit: 2}}})
	for i, want := range []string{"x", "x", "x", "xx"} {
		if _, body, _, err := get(t, u+"/?list"); body != want || err != nil {
			t.Errorf("listing %d: %q, %v, want %q", i+1, body, err, want)
		}
	}
	if p.Counts()[faultproxy.StaleList] != 2 {
		t.Errorf("counts %v", p.Counts())
	}
}

func TestRulesChoose(t *testing.T) {
	r, err := faultproxy.ParseRule(`503,method=GET|HEAD,path=^/b/model/.*\.safetensors$,query=versionId,nth=2,limit=1`)
	if err != nil {
		t.Fatal(err)
	}
	_, _, u := serve(t, faultproxy.Options{Rules: []faultproxy.Rule{r}})
	for i, c := range []struct {
		path string
		want int
	}{
		{"/b/model/x.safetensors?versionId=1", 200}, {"/b/other/x.safetensors?versionId=1", 200}, {"/b/model/x.safetensors", 200},
		{"/b/model/x.safetensors?versionId=1", 503}, {"/b/model/x.safetensors?versionId=1", 200},
	} {
		if got, _, _, _ := get(t, u+c.path); got != c.want {
			t.Errorf("request %d: %d, want %d", i, got, c.want)
		}
	}
	for _, bad := range []string{"", "nonsense", "503,path=(", "503,chance=2", "503,chance=0", "503,nth=x", "503,nth=-1", "503,limit=-1", "reset,at=-1", "503,colour=red", "latency", "latency,delay=fast"} {
		if _, err := faultproxy.ParseRule(bad); err == nil {
			t.Errorf("rule %q was read", bad)
		}
	}
	for _, k := range faultproxy.Kinds {
		if _, err := faultproxy.ParseRule(string(k) + ",delay=1ms,at=1,location=http://x,region=r"); err != nil {
			t.Error(err)
		}
	}
}

// The same seed meets the same requests whatever order they come in.
func TestSeed(t *testing.T) {
	hit := func(seed uint64, backwards bool) map[string]int {
		p, _, u := serve(t, faultproxy.Options{Seed: seed, Rules: []faultproxy.Rule{{Kind: faultproxy.SlowDown, Chance: 0.3}}})
		var wg sync.WaitGroup
		for i := range 100 {
			if backwards {
				i = 99 - i
			}
			wg.Go(func() { get(t, fmt.Sprintf("%s/%d", u, i)) })
		}
		wg.Wait()
		all := map[string]int{}
		for _, i := range p.Injected() {
			all[i.Path]++
		}
		return all
	}
	first := hit(7, false)
	if !maps.Equal(first, hit(7, true)) {
		t.Error("the same seed met other requests")
	}
	// 100 trials of 0.3: outside 15 to 45 with a chance below 1 in 1,000.
	if n := len(first); n < 15 || n > 45 || maps.Equal(first, hit(8, false)) {
		t.Errorf("%d of 100, other seed %v", n, hit(8, false))
	}
}

func TestHangAndLatencyInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := faultproxy.New(&upstream{}, faultproxy.Options{Rules: []faultproxy.Rule{{Kind: faultproxy.Hang, Nth: 1}, {Kind: faultproxy.Latency, Delay: time.Minute, Nth: 1}}})
		var n pipenet.Network
		defer n.Close()
		defer p.Close()
		if _, err := n.Serve("s3:80", p); err != nil {
			t.Fatal(err)
		}
		c := n.Client()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://s3/k", nil)
		if _, err := c.Do(r); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Hour {
			t.Errorf("hang: %v after %v", err, time.Since(began))
		}
		began = time.Now()
		resp, err := c.Get("http://s3/k")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if data, _ := io.ReadAll(resp.Body); string(data) != content || time.Since(began) != time.Minute {
			t.Errorf("latency: %q after %v", data, time.Since(began))
		}
	})
}

// In front of another server the Host header, the escaped path and the body
// arrive as they were sent: a signature covers them.
func TestToPassesRequestsOnUnchanged(t *testing.T) {
	var got *http.Request
	var body []byte
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("ETag", `"1"`)
	}))
	defer behind.Close()
	target, _ := url.Parse(behind.URL)
	p := faultproxy.To(target, faultproxy.Options{})
	front := httptest.NewServer(p)
	defer front.Close()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, front.URL+"/b//a%2Bb%20c?x=%2B&y", bytes.NewReader([]byte("body")))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 x")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got.Host != r.URL.Host || got.RequestURI != "/b//a%2Bb%20c?x=%2B&y" || string(body) != "body" || got.Header.Get("Authorization") != "AWS4-HMAC-SHA256 x" || got.Header.Get("X-Forwarded-For") != "" || resp.Header.Get("ETag") != `"1"` {
		t.Errorf("%s %s %v, %q", got.Host, got.RequestURI, got.Header, body)
	}
}
