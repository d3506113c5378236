package reach

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// places are a server, a port that takes connections and says nothing, one that nobody
// listens on, and what is no address.
func places(t *testing.T) (urls []string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "denied", http.StatusForbidden) }))
	t.Cleanup(s.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	return []string{s.URL + "/bucket", "http://" + silent.Addr().String(), "http://" + gone.Addr().String(), "mailto:nobody"}
}

func wantPlaces(t *testing.T, r Result) {
	t.Helper()
	if !r.Self {
		t.Error("it cannot reach itself")
	}
	var answered []bool
	for _, a := range r.Tried {
		answered = append(answered, a.Answered())
	}
	if !slices.Equal(answered, []bool{true, true, false, false}) {
		t.Fatalf("%+v", r.Tried)
	}
	if how := r.Tried[0].How(); how != "it answers HTTP with status 403" {
		t.Error(how)
	}
	if how := r.Tried[1].How(); how != "it takes connections" {
		t.Error(how)
	}
	if how := r.Tried[2].How(); !strings.Contains(strings.ToLower(how), "refused") {
		t.Error(how)
	}
}

func TestTry(t *testing.T) {
	wantPlaces(t, Try(t.Context(), places(t)))
}

// TestPython: the two probes agree.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on this machine")
	}
	urls := places(t)
	out, err := exec.Command(python, append([]string{"-c", Python}, urls...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Decode(out, urls)
	if err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	wantPlaces(t, r)
}

// TestProxies: HTTP goes through the environment's proxies, a bare connection does not.
func TestProxies(t *testing.T) {
	for _, name := range []string{"http_proxy", "HTTP_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:9")
	}
	if python, err := exec.LookPath("python3"); err == nil {
		l, err := net.Listen("tcp", "127.0.0.2:0")
		if err != nil {
			t.Skip("no second loopback address on this machine")
		}
		defer l.Close()
		urls := []string{"http://" + l.Addr().String()}
		out, err := exec.Command(python, append([]string{"-c", Python}, urls...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		r, err := Decode(out, urls)
		if err != nil || r.Tried[0].HTTP == "" || r.Tried[0].Connect != "" {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

func TestDecode(t *testing.T) {
	urls := []string{"http://a"}
	line, err := Encode(Result{Schema: Schema, Self: true, Tried: []Address{{URL: "http://a", Connect: "no", HTTP: "no"}}})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Decode(append([]byte("a warning\n"), line...), urls); err != nil || !r.Self || r.Tried[0].Answered() {
		t.Errorf("%+v, %v", r, err)
	}
	for name, tc := range map[string]struct {
		out  string
		urls []string
	}{
		"nothing":           {"", urls},
		"something else":    {`{"schema":"x"}`, urls},
		"another address":   {string(line), []string{"http://b"}},
		"an address is out": {string(line), []string{"http://a", "http://b"}},
		"cut off":           {string(line[:20]), urls},
	} {
		if _, err := Decode([]byte(tc.out), tc.urls); err == nil {
			t.Errorf("%s was taken for a result", name)
		}
	}
}
