package drill

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drkit/internal/errext"
)

func TestNormalURL(t *testing.T) {
	tests := []struct{ raw, want string }{
		{"http://127.0.0.1:8101", "http://127.0.0.1:8101"},
		{"http://127.0.0.1:8101/", "http://127.0.0.1:8101"},
		{"HTTP://Host:8101//", "http://host:8101"},
		{"http://host", "http://host:80"},
		{"https://host/", "https://host:443"},
		{"http://[::1]:8000", "http://[::1]:8000"},
		{" http://host:1 ", "http://host:1"},
	}
	for _, tt := range tests {
		if got, err := NormalURL(tt.raw); got != tt.want || err != nil {
			t.Errorf("NormalURL(%q) = %q, %v, want %q", tt.raw, got, err, tt.want)
		}
	}
	for _, raw := range []string{"", "host:8000", "127.0.0.1:8000", "ftp://host", "http://", "http://h:1/v1", "http://h:1?x=1", "http://u:hunter2@h:1", "http://u:hunter2@h:x1"} {
		got, err := NormalURL(raw)
		if err == nil {
			t.Errorf("NormalURL(%q) = %q, want an error", raw, got)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("NormalURL(%q) shows the password: %v", raw, err)
		}
	}
}

// list is a router in memory. The hooks make it lie or lag.
type list struct {
	mu                  sync.Mutex
	workers             []Registered
	calls               []string
	ignoreAdd, ignoreRm bool
	unhealthy           bool
	registerErr         error
	lag                 time.Duration
	wasEmpty            bool
}

func newList(raws ...string) *list {
	l := &list{}
	for _, raw := range raws {
		l.put(raw)
	}
	return l
}

func (l *list) put(raw string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u, _ := NormalURL(raw)
	h := Yes
	if l.unhealthy {
		h = No
	}
	l.workers = append(l.workers, Registered{Worker{URL: u, Health: h}, raw})
}

func (l *list) Registered(ctx context.Context) ([]Registered, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wasEmpty = l.wasEmpty || len(l.workers) == 0
	return slices.Clone(l.workers), nil
}

func (l *list) Register(_ context.Context, w Worker) error {
	l.calls = append(l.calls, "add "+w.URL)
	switch {
	case l.registerErr != nil:
		return l.registerErr
	case l.ignoreAdd:
	case l.lag > 0:
		time.AfterFunc(l.lag, func() { l.put(w.URL) })
	default:
		l.put(w.URL)
	}
	return nil
}

func (l *list) Unregister(_ context.Context, raw string) error {
	l.calls = append(l.calls, "remove "+raw)
	if !l.ignoreRm {
		l.workers = slices.DeleteFunc(l.workers, func(w Registered) bool { return w.Raw == raw })
	}
	return nil
}

const urlA, urlB = "http://a:1", "http://b:1"

func TestApplyChange(t *testing.T) {
	swap := Change{Add: []Worker{{URL: urlB + "/"}}, Remove: []string{urlA}}
	tests := []struct {
		name   string
		list   *list
		change Change
		want   string // part of the error
		status errext.Status
		calls  []string
		end    []string
		takes  time.Duration
	}{
		{name: "add before remove", list: newList(urlA), change: swap, calls: []string{"add " + urlB, "remove " + urlA}, end: []string{urlB}},
		{name: "twice is once", list: newList(urlB), change: swap, end: []string{urlB}},
		{name: "every spelling is removed", list: newList(urlA, urlA+"/", urlB), change: Change{Remove: []string{urlA}},
			calls: []string{"remove " + urlA, "remove " + urlA + "/"}, end: []string{urlB}},
		{name: "others stay", list: newList("http://c:1", urlA), change: swap, calls: []string{"add " + urlB, "remove " + urlA}, end: []string{"http://c:1", urlB}},
		{name: "the last one stays", list: newList(urlA), change: Change{Remove: []string{urlA}}, want: "without a worker", status: errext.Refused, end: []string{urlA}},
		{name: "unknown removal", list: newList(urlA), change: Change{Remove: []string{urlB}}, end: []string{urlA}},
		{name: "add that does nothing", list: &list{ignoreAdd: true, workers: newList(urlA).workers}, change: swap,
			want: "after 10s its list does not show the worker", status: errext.Failed, calls: []string{"add " + urlB}, end: []string{urlA}, takes: 10 * time.Second},
		{name: "removal that does nothing", list: &list{ignoreRm: true, workers: newList(urlA).workers}, change: swap,
			want: "after 10s its list still shows the worker", status: errext.Failed, calls: []string{"add " + urlB, "remove " + urlA}, end: []string{urlA, urlB}, takes: 10 * time.Second},
		{name: "never healthy", list: &list{unhealthy: true, workers: newList(urlA).workers}, change: swap,
			want: "not as healthy", status: errext.Failed, calls: []string{"add " + urlB}, end: []string{urlA, urlB}, takes: 10 * time.Second},
		{name: "listed late", list: &list{lag: 1950 * time.Millisecond, workers: newList(urlA).workers}, change: swap,
			calls: []string{"add " + urlB, "remove " + urlA}, end: []string{urlB}, takes: 2 * time.Second},
		{name: "refused", list: &list{registerErr: errors.New("no such host"), workers: newList(urlA).workers}, change: swap,
			want: "adding http://b:1 to the router: no such host", status: errext.Failed, calls: []string{"add " + urlB}, end: []string{urlA}},
		{name: "both added and removed", list: newList(urlA), change: Change{Add: []Worker{{URL: urlB}}, Remove: []string{urlB + "/"}}, want: "both added and removed", status: errext.Usage, end: []string{urlA}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				err := ApplyChange(t.Context(), tt.list, tt.change, Pace{})
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error = %v, want %q", err, tt.want)
				}
				if got := errext.StatusOf(err); got != tt.status {
					t.Errorf("status = %v, want %v", got, tt.status)
				}
				if !slices.Equal(tt.list.calls, tt.calls) {
					t.Errorf("calls = %q, want %q", tt.list.calls, tt.calls)
				}
				var end []string
				for _, w := range tt.list.workers {
					end = append(end, w.Raw)
				}
				if !slices.Equal(end, tt.end) {
					t.Errorf("list at the end = %q, want %q", end, tt.end)
				}
				if took := time.Since(begin); took != tt.takes {
					t.Errorf("took %v, want %v", took, tt.takes)
				}
				if tt.list.wasEmpty {
					t.Error("the router was without a worker")
				}
			})
		})
	}
}

func TestApplyChangeKeepsTheLastHealthyWorker(t *testing.T) {
	l := newList(urlA, urlB)
	l.workers[1].Health = Unknown // not known is not healthy
	err := ApplyChange(t.Context(), l, Change{Remove: []string{urlA}}, Pace{})
	if err == nil || !strings.Contains(err.Error(), "no healthy worker would be left") || len(l.calls) != 0 {
		t.Errorf("error = %v, calls %q", err, l.calls)
	}
}

func TestApplyChangeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		l := newList(urlA)
		l.ignoreAdd = true
		err := ApplyChange(ctx, l, Change{Add: []Worker{{URL: urlB}}}, Pace{})
		if !errors.Is(err, cause) {
			t.Errorf("error = %v", err)
		}
	})
}
