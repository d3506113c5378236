package step

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"drkit/drill"
	"drkit/drill/reach"
)

// Address is one place of a region that a canary of another region must not need.
type Address struct {
	What string // for people: "bucket prod-use1", "endpoint", "registry"
	URL  string // where it is asked, "" for a folder, which has no address
	// Words are what a file that names the place holds.
	Words []string
}

// What becomes of something that a check finds: it is demanded, or only reported in a
// note, and then nothing is claimed.
const (
	prove      = "prove"
	reportOnly = "report"
)

// asked is what a check demands unless the playbook says otherwise. A source that still
// half answers, or production that runs what it should not, must not keep an emergency
// from moving users away from it: there it is only reported.
func (w *World) asked(what string) string {
	if w.Mode == drill.ModeEmergency {
		return reportOnly
	}
	return what
}

// insideDeadline bounds the look from inside; each address has a few seconds, and all
// are tried at once.
const insideDeadline = 30 * time.Second

// isolated looks from inside the target's canary whether the source can be reached. What
// both regions share cannot tell them apart, and is not judged. Without anything to
// judge there is a note in place of the gate: nothing is claimed.
func (w *World) isolated(ctx context.Context, sc drill.Scope, r *replica, mode string) error {
	judged, shared := w.apart()
	if len(judged) == 0 {
		why := "no address of the source is known"
		if len(shared) > 0 {
			why = "both regions share what the source has: " + first(shared, 3)
		}
		return sc.Emit(drill.TypeNote, drill.Note{Text: "isolation is not proven: nothing could be tried from inside the canary, " + why})
	}
	g := drill.Gate{ID: "isolation", Title: "the source cannot be reached from inside " + r.name, Expected: fmt.Sprintf("none of %d addresses of %s answers", len(judged), w.Source.Name),
		Evidence: "connections and HTTP requests from inside the canary", Hint: "cut the canary off from the source region (a NetworkPolicy, a firewall, a machine in the target's network); with {isolation: report} the step boot only says what it found"}
	found, err := lookFromInside(ctx, r, w.Self, judged)
	if interrupted(ctx) {
		return context.Cause(ctx)
	}
	g.Observed, g.Result = judgeReach(found, judged, err)
	if len(shared) > 0 {
		g.Observed += "; not judged, as both regions share it: " + first(shared, 3)
	}
	return demand(sc, g, mode, "isolation is not proven, and not demanded")
}

// demand emits a gate; where it is not demanded and not green, a note in its place.
func demand(sc drill.Scope, g drill.Gate, mode, otherwise string) error {
	if mode == reportOnly && g.Result != drill.Passed {
		return sc.Emit(drill.TypeNote, drill.Note{Text: otherwise + ": " + g.Observed})
	}
	return gate(sc, g)
}

// judgeReach is red when one address answers. A probe that cannot even reach itself
// shows nothing.
func judgeReach(found reach.Result, asked []Address, err error) (observed, result string) {
	if err != nil {
		return "nobody could look from inside: " + err.Error(), drill.Unmeasured
	}
	var answered []string
	for i, a := range found.Tried {
		if a.Answered() {
			answered = append(answered, fmt.Sprintf("%s (%s): %s", asked[i].What, a.URL, a.How()))
		}
	}
	switch {
	case len(answered) > 0:
		return first(answered, 3), drill.Failed
	case !found.Self:
		return "the probe inside could not connect to itself: that it reached nothing else shows nothing", drill.Unmeasured
	}
	return fmt.Sprintf("none of them answers: %s", first(whats(asked), 4)), drill.Passed
}

func whats(all []Address) (texts []string) {
	for _, a := range all {
		texts = append(texts, a.What)
	}
	return texts
}

var errNotInside = errors.New("the launcher cannot run anything inside of its replicas")

// lookFromInside runs drkit's own probe beside the engine, or the same in Python where
// drkit is not.
func lookFromInside(ctx context.Context, r *replica, self []string, judged []Address) (reach.Result, error) {
	inside, ok := r.Replica.(drill.Inside)
	if !ok {
		return reach.Result{}, errNotInside
	}
	ctx, cancel := context.WithTimeoutCause(ctx, insideDeadline, fmt.Errorf("no result within %v", insideDeadline))
	defer cancel()
	var urls []string
	for _, a := range judged {
		urls = append(urls, a.URL)
	}
	var failed []error
	for _, program := range [][]string{self, {"python3", "-c", reach.Python}} {
		if len(program) == 0 {
			continue
		}
		out, err := inside.Run(ctx, append(append([]string{}, program...), urls...))
		if err == nil {
			var found reach.Result
			if found, err = reach.Decode(out, urls); err == nil {
				return found, nil
			}
		}
		failed = append(failed, fmt.Errorf("%s: %w", program[0], err))
	}
	return reach.Result{}, errors.Join(failed...)
}

// apart tells the source's addresses that only the source has from those that both
// regions share: a folder, this machine, a host that the target needs too.
func (w *World) apart() (judged []Address, shared []string) {
	needed := map[string]bool{}
	for _, a := range w.Target.Addresses {
		needed[hostOf(a.URL)] = true
	}
	seen := map[string]bool{}
	for _, a := range w.Source.Addresses {
		host := hostOf(a.URL)
		switch {
		case a.URL == "":
			shared = append(shared, a.What+" is a folder of this machine")
		case sameMachine(host):
			shared = append(shared, a.What+" is on this machine")
		case needed[host]:
			shared = append(shared, a.What+" is on "+host+", which the target needs too")
		case !seen[a.URL]:
			seen[a.URL] = true
			judged = append(judged, a)
		}
	}
	return judged, shared
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// sameMachine is where a canary of launcher process listens itself.
func sameMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && (ip.Equal(net.IPv4(127, 0, 0, 1)) || ip.Equal(net.IPv6loopback) || ip.IsUnspecified())
}
