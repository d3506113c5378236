// Package reach tries addresses from where it runs, and says which of them answered: by
// a bare connection, and by HTTP as the environment's proxies let it through. It is run
// inside a canary, to see that the region which counts as lost cannot be reached there.
//
//	found := reach.Try(ctx, []string{"https://bucket.s3.us-east-1.amazonaws.com"})
//	text, err := reach.Encode(found)
//
// A probe that can connect to nothing would prove nothing: each result says whether it
// could reach itself.
package reach

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Schema names the format of the output.
const Schema = "drkit.reach/1.0"

// Result is what a probe found.
type Result struct {
	Schema string    `json:"schema"`
	Self   bool      `json:"self"` // it could connect to a port of its own: its tools work
	Tried  []Address `json:"tried"`
}

// Address is one address and what became of it. Empty texts: it answered.
type Address struct {
	URL     string `json:"url"`
	Connect string `json:"connect"`          // why no connection came about, "" when one did
	HTTP    string `json:"http"`             // why there was no answer, "" when there was one
	Status  int    `json:"status,omitempty"` // of the HTTP answer
}

// Answered reports whether the address was there, in either way.
func (a Address) Answered() bool { return a.Connect == "" || a.HTTP == "" }

// How says in which way the address answered, or why it did not.
func (a Address) How() string {
	switch {
	case a.HTTP == "":
		return fmt.Sprintf("it answers HTTP with status %d", a.Status)
	case a.Connect == "":
		return "it takes connections"
	}
	return a.Connect
}

// patience is how long one address may take to answer in one way.
const patience = 3 * time.Second

// Try tries all addresses at once. A URL without a port has that of its scheme.
func Try(ctx context.Context, urls []string) Result {
	res := Result{Schema: Schema, Self: self(ctx), Tried: make([]Address, len(urls))}
	var all sync.WaitGroup
	for i, u := range urls {
		all.Go(func() { res.Tried[i] = try(ctx, u) })
	}
	all.Wait()
	return res
}

func try(ctx context.Context, raw string) Address {
	a := Address{URL: raw}
	target, err := HostPort(raw)
	if err != nil {
		a.Connect, a.HTTP = err.Error(), err.Error()
		return a
	}
	var both sync.WaitGroup
	both.Go(func() { a.Connect = reason(connect(ctx, target)) })
	both.Go(func() {
		status, err := ask(ctx, raw)
		a.Status, a.HTTP = status, reason(err)
	})
	both.Wait()
	return a
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// HostPort is where a URL leads, with the port of its scheme when it names none.
func HostPort(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return "", errors.New("not a URL with a host")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	if port == "" {
		return "", errors.New("a URL without a port, and of a scheme that implies none")
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

func connect(ctx context.Context, target string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", target)
	if err != nil {
		return err
	}
	return conn.Close()
}

// ask sends one request as any program would, through the environment's proxies. Any
// answer is one, whatever its status.
func ask(ctx context.Context, raw string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, raw, nil)
	if err != nil {
		return 0, err
	}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	c := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// self connects to a port that the probe opens.
func self(ctx context.Context) bool {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return false
	}
	defer l.Close()
	return connect(ctx, l.Addr().String()) == nil
}

// Encode writes a result as one line.
func Encode(r Result) ([]byte, error) {
	line, err := json.Marshal(r)
	return append(line, '\n'), err
}

// Decode finds a result in what a program wrote: its line may stand between others. It
// has to be of the addresses that were asked for.
func Decode(output []byte, urls []string) (Result, error) {
	for line := range bytes.Lines(output) {
		var r Result
		if json.Unmarshal(line, &r) != nil || r.Schema != Schema {
			continue
		}
		if len(r.Tried) != len(urls) {
			return r, fmt.Errorf("it tried %d addresses of %d", len(r.Tried), len(urls))
		}
		for i, a := range r.Tried {
			if a.URL != urls[i] {
				return r, fmt.Errorf("it tried %s, not %s", a.URL, urls[i])
			}
		}
		return r, nil
	}
	return Result{}, errors.New("it wrote no result")
}
