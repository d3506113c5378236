package pipenet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func get(ctx context.Context, c *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n Network
		defer n.Close()
		slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(15 * time.Minute)
			_, _ = io.WriteString(w, "done")
		})
		if _, err := n.Serve("a:80", slow); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		got, err := get(t.Context(), n.Client(), "http://a/")
		if err != nil || got != "done" || time.Since(start) != 15*time.Minute {
			t.Errorf("got %q, %v after %v", got, err, time.Since(start))
		}
	})
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n Network
		defer n.Close()
		hang := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		if _, err := n.Serve("a:80", hang); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := get(ctx, n.Client(), "http://a/"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
	})
}

func TestRefusedAndStopped(t *testing.T) {
	var n Network
	defer n.Close()
	c := n.Client()
	if _, err := get(t.Context(), c, "http://a:1/"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nobody listens: err = %v", err)
	}
	stop, err := n.Serve("a:1", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Listen("a:1"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("second listener: err = %v", err)
	}
	if _, err := get(t.Context(), c, "http://a:1/"); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := get(t.Context(), c, "http://a:1/"); err == nil {
		t.Error("a stopped server answered")
	}
}
