package drill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"drkit/internal/errext"
)

// ErrNotCounted says that a router has no such counter: it has not begun to
// count, or never will. It is not a count of 0.
var ErrNotCounted = errors.New("not counted by the router")

// Registry is the raw list of workers of one router, as a driver reads and
// writes it. ApplyChange makes Router.Apply's promises out of it.
type Registry interface {
	// Registered lists the workers that the router has now.
	Registered(ctx context.Context) ([]Registered, error)
	// Register asks the router to add a worker. An error need not mean that it
	// was not added, nor nil that it was: the list says.
	Register(ctx context.Context, w Worker) error
	// Unregister asks the router to remove what it calls raw.
	Unregister(ctx context.Context, raw string) error
}

// Registered is a worker with the router's own spelling of it: routers compare
// URLs as strings, so http://h:1/ is removed by that spelling alone.
type Registered struct {
	Worker
	Raw string
}

// Pace is how patient a change is. A zero value takes the default.
type Pace struct {
	Every  time.Duration // between two readings of the list; default 100 ms
	Within time.Duration // for one worker to be added or removed; default 10 s
}

// NormalURL is the form in which workers are compared: scheme, host and port in
// lower case, the port always written, no trailing slash. localhost and
// 127.0.0.1 stay two, as they do in routers.
func NormalURL(raw string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return "", errors.New("not a URL") // the parser's words could hold a password
	}
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	switch {
	case u.User != nil:
		return "", errors.New("a worker's URL holds no user or password")
	case scheme != "http" && scheme != "https" || host == "":
		return "", fmt.Errorf("%q: want http://host:port", raw)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("%q: a worker's URL ends after the port", raw)
	case port == "" && scheme == "http":
		port = "80"
	case port == "":
		port = "443"
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

// ApplyChange adds the workers of c and waits until the list shows them healthy;
// then it removes those of c, each after a fresh reading that shows a healthy
// worker which stays. What already holds is left alone, so that a change can be
// applied twice. A router that answers 200 and does nothing is an error: only
// the list counts.
func ApplyChange(ctx context.Context, r Registry, c Change, p Pace) error {
	c, err := normalChange(c)
	if err != nil {
		return errext.WithStatus(fmt.Errorf("changing the router: %w", err), errext.Usage)
	}
	now, err := r.Registered(ctx)
	if err != nil {
		return fmt.Errorf("reading the router's workers before the change: %w", err)
	}
	if leavesNone(now, c) {
		return errext.WithStatus(errext.WithHint(errors.New("changing the router: it would be left without a worker"),
			"add the worker that takes over in the same change"), errext.Refused)
	}
	for _, w := range c.Add {
		if err := within(ctx, p, func(ctx context.Context) error { return add(ctx, r, w, p) }); err != nil {
			return fmt.Errorf("adding %s to the router: %w", w.URL, err)
		}
	}
	for _, u := range c.Remove {
		if err := within(ctx, p, func(ctx context.Context) error { return remove(ctx, r, u, c.Remove, p) }); err != nil {
			return fmt.Errorf("removing %s from the router: %w", u, err)
		}
	}
	return nil
}

func normalChange(c Change) (Change, error) {
	var out Change
	var errs []error
	for _, w := range c.Add {
		u, err := NormalURL(w.URL)
		if err != nil {
			errs = append(errs, fmt.Errorf("worker to add: %w", err))
			continue
		}
		w.URL = u
		out.Add = append(out.Add, w)
	}
	for _, raw := range c.Remove {
		u, err := NormalURL(raw)
		if err != nil {
			errs = append(errs, fmt.Errorf("worker to remove: %w", err))
			continue
		}
		if indexURL(out.Add, u) >= 0 {
			errs = append(errs, fmt.Errorf("%s is to be both added and removed", u))
		}
		out.Remove = append(out.Remove, u)
	}
	return out, errors.Join(errs...)
}

func indexURL(workers []Worker, u string) int {
	return slices.IndexFunc(workers, func(w Worker) bool { return w.URL == u })
}

func leavesNone(now []Registered, c Change) bool {
	if len(c.Remove) == 0 || len(c.Add) > 0 {
		return false
	}
	stays := func(w Registered) bool { return !slices.Contains(c.Remove, w.URL) }
	goes := func(w Registered) bool { return slices.Contains(c.Remove, w.URL) }
	return slices.ContainsFunc(now, goes) && !slices.ContainsFunc(now, stays)
}

var errDeadline = errors.New("the change has taken too long")

func within(ctx context.Context, p Pace, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.within(), errDeadline)
	defer cancel()
	return do(ctx)
}

func (p Pace) within() time.Duration {
	if p.Within > 0 {
		return p.Within
	}
	return 10 * time.Second
}

func (p Pace) every() time.Duration {
	if p.Every > 0 {
		return p.Every
	}
	return 100 * time.Millisecond
}

// add registers a worker unless it is in the list, and waits for it there.
func add(ctx context.Context, r Registry, w Worker, p Pace) error {
	now, err := r.Registered(ctx)
	if err != nil {
		return fmt.Errorf("reading the list: %w", err)
	}
	if find(now, w.URL) == nil {
		if asked := r.Register(ctx, w); asked != nil {
			if ctx.Err() != nil {
				return notSeen(ctx, p, "it has not answered the request: it waits for the worker, or hangs")
			}
			if now, err = r.Registered(ctx); err != nil {
				return errors.Join(asked, err)
			}
			if find(now, w.URL) == nil {
				return errext.WithHint(asked, "see that the worker answers /health to the router, not only to drkit")
			}
		}
	}
	state := "its list does not show the worker, although it answered the request with success"
	return poll(ctx, r, p, &state, func(now []Registered) bool {
		found := find(now, w.URL)
		if found == nil {
			return false
		}
		if state = "the worker is in its list, but not as healthy"; found.Draining {
			state = "the worker is in its list, but draining"
		}
		return found.Health == Yes && !found.Draining
	})
}

// remove takes a worker out under every spelling that the list has of it.
func remove(ctx context.Context, r Registry, u string, leaving []string, p Pace) error {
	now, err := r.Registered(ctx)
	if err != nil {
		return fmt.Errorf("reading the list: %w", err)
	}
	if find(now, u) == nil {
		return nil
	}
	serves := func(w Registered) bool {
		return w.Health == Yes && !w.Draining && !slices.Contains(leaving, w.URL)
	}
	if !slices.ContainsFunc(now, serves) {
		return errext.WithHint(errors.New("no healthy worker would be left: it stays"), "bring another worker to health first")
	}
	for _, w := range now {
		if w.URL != u {
			continue
		}
		if err := r.Unregister(ctx, w.Raw); err != nil && ctx.Err() != nil {
			return notSeen(ctx, p, "it has not answered the request")
		} else if err != nil {
			return err
		}
	}
	state := "its list still shows the worker, although it answered the request with success"
	return poll(ctx, r, p, &state, func(now []Registered) bool { return find(now, u) == nil })
}

func find(all []Registered, u string) *Registered {
	i := slices.IndexFunc(all, func(w Registered) bool { return w.URL == u })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// poll reads the list until done, and says what it last saw when time is up.
func poll(ctx context.Context, r Registry, p Pace, state *string, done func([]Registered) bool) error {
	t := time.NewTicker(p.every())
	defer t.Stop()
	for {
		now, err := r.Registered(ctx)
		if err == nil && done(now) {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			*state = "its list cannot be read: " + err.Error()
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return notSeen(ctx, p, *state)
		}
	}
}

func notSeen(ctx context.Context, p Pace, state string) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, errDeadline) {
		return fmt.Errorf("%s: %w", state, cause)
	}
	return errext.WithHint(fmt.Errorf("after %v %s", p.within(), state),
		"look at the router's log; the change is not acknowledged and is taken back at clean-up")
}
