package step

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/internal/openai"
	"drkit/playbooks"
)

// Production is what a live run moves. The routers are those of the target: they
// must be there when the source is gone.
type Production struct {
	Routers        []ProductionRouter
	Source, Target []string // base URLs of the engines of each region; no Target: the run's own canary takes over
	OpenRouter     func(RouterAt) (drill.Router, error)
	Edge           *EdgeAt // nil: nothing described moves the users
	OpenEdge       func(EdgeAt) (Edge, error)
	HTTP           *http.Client // asks the engines that an undo would send requests to
}

// ProductionRouter is one residency partition of production's router.
type ProductionRouter struct {
	Name     string
	Replicas []RouterAt
	Serves   []string // classes of traffic
}

// RouterAt says how one replica of a router is reached. It is in the journal, as a
// part of an undo's arguments, and holds no secrets.
type RouterAt struct {
	Driver  string   `json:"driver"`
	Admin   string   `json:"admin"`
	Metrics string   `json:"metrics,omitempty"`
	URL     string   `json:"url,omitempty"` // where requests go; "": Admin
	Apply   []string `json:"apply,omitempty"`
	Observe []string `json:"observe,omitempty"`
	Dir     string   `json:"dir,omitempty"` // working directory of the commands
}

func (a RouterAt) requests() string {
	if a.URL != "" {
		return a.URL
	}
	return a.Admin
}

// routerOf names the router of a class, "" when there is none.
func (p Production) routerOf(class string) string {
	for _, r := range p.Routers {
		if slices.Contains(r.Serves, class) {
			return r.Name
		}
	}
	return ""
}

// routerOption is the option of all steps that work on a router.
type routerOption struct {
	Router string `yaml:"router" strict:"enum=rehearsal|production"`
}

// live reads the option: whether the step works on production.
func (w *World) live(s playbooks.Step) (bool, error) {
	var o routerOption
	err := s.Decode(&o)
	return o.Router == "production", err
}

// live decides for a step that has further options.
func (o routerOption) live() bool { return o.Router == "production" }

// fleet is a router of production with all its replicas, as one drill.Router.
type fleet struct {
	ProductionRouter
	replicas []drill.Router
	info     drill.RouterInfo
}

func (f *fleet) each(do func(r drill.Router) error) error {
	for i, r := range f.replicas {
		if err := do(r); err != nil {
			return fmt.Errorf("router %s, replica %s: %w", f.Name, f.Replicas[i].Admin, err)
		}
	}
	return nil
}

// Probe asks every replica what it is: all must be of one kind.
func (f *fleet) Probe(ctx context.Context) (drill.RouterInfo, error) {
	var info drill.RouterInfo
	err := f.each(func(r drill.Router) error {
		ctx, cancel := question(ctx)
		defer cancel()
		one, err := r.Probe(ctx)
		if err == nil && info.Kind != "" && one.Kind != info.Kind {
			err = fmt.Errorf("it is a %s, the replica before it a %s", one.Kind, info.Kind)
		}
		info = one
		return err
	})
	if err == nil {
		f.info = info
	}
	return info, err
}

// Workers lists what every replica lists: one that lists others is an error, for no
// list would then be true of the router.
func (f *fleet) Workers(ctx context.Context) ([]drill.Worker, error) {
	var all []drill.Worker
	seen := false
	err := f.each(func(r drill.Router) error {
		ctx, cancel := question(ctx)
		defer cancel()
		workers, err := r.Workers(ctx)
		if err == nil && seen && !slices.Equal(urls(workers), urls(all)) {
			err = errext.WithStatus(fmt.Errorf("it lists %v, the replica before it %v", urls(workers), urls(all)), errext.Gate)
		}
		all, seen = workers, true
		return err
	})
	return all, err
}

// Apply changes every replica, one after the other, and stops at the first that
// does not follow.
func (f *fleet) Apply(ctx context.Context, c drill.Change) error {
	return f.each(func(r drill.Router) error { return r.Apply(ctx, c) })
}

// Counters adds the replicas' counts up. One that does not count leaves all unknown.
func (f *fleet) Counters(ctx context.Context) (map[string]drill.Count, error) {
	sum := map[string]drill.Count{}
	err := f.each(func(r drill.Router) error {
		ctx, cancel := question(ctx)
		defer cancel()
		counts, err := r.Counters(ctx)
		for url, c := range counts {
			s := sum[url]
			sum[url] = drill.Count{OK: s.OK + c.OK, Failed: s.Failed + c.Failed, Unit: c.Unit, Epoch: s.Epoch + "/" + c.Epoch}
		}
		return err
	})
	return sum, err
}

// CacheDecisions adds up what every replica's policy decided.
func (f *fleet) CacheDecisions(ctx context.Context) (hits, misses, blind uint64, err error) {
	err = f.each(func(r drill.Router) error {
		p, ok := r.(drill.CachePolicy)
		if !ok {
			return drill.ErrNotCounted
		}
		ctx, cancel := question(ctx)
		defer cancel()
		h, m, b, err := p.CacheDecisions(ctx)
		hits, misses, blind = hits+h, misses+m, blind+b
		return err
	})
	return hits, misses, blind, err
}

// fleets opens the routers of production that serve a class which is moved. Others
// are not touched.
func (w *World) fleets() ([]*fleet, error) {
	if w.opened != nil {
		return w.opened, nil
	}
	var all []*fleet
	for _, p := range w.Production.Routers {
		if !slices.ContainsFunc(names(w.sent()), func(n string) bool { return slices.Contains(p.Serves, n) }) {
			continue
		}
		f := &fleet{ProductionRouter: p}
		for _, at := range p.Replicas {
			r, err := w.Production.OpenRouter(at)
			if err != nil {
				return nil, fmt.Errorf("router %s: %w", p.Name, err)
			}
			f.replicas = append(f.replicas, r)
		}
		all = append(all, f)
	}
	w.opened = all
	return all, nil
}

// home are the engines of a region that production's requests go to: those that the
// service describes, else, in the target, the canary of this run; empty when there is
// neither.
func (w *World) home(r *Region) engines {
	urls := w.Production.Source
	if w.isTarget(r) {
		urls = w.Production.Target
	}
	if len(urls) > 0 {
		return production(r, urls)
	}
	if c := w.replicaOf(r); c != nil && w.isTarget(r) {
		return canary(c)
	}
	return engines{region: r}
}

// canaryServes says that the target's canary becomes a worker of production.
func (w *World) canaryServes(r *Region) bool {
	return drill.Live(w.Mode) && w.isTarget(r) && len(w.Production.Target) == 0
}

// keepServing makes what the target's canary rests on stay for as long as
// production's router sends to it.
func (w *World) keepServing(r *Region, u drill.Undo) drill.Undo {
	if w.canaryServes(r) {
		u.Keep = drill.KeepWhileUsed
	}
	return u
}

// checkProduction finds what would stop a live step, and asks every router without
// changing it. Several steps ask; the problems are told once.
func (w *World) checkProduction(ctx context.Context) []error {
	if w.checked {
		return nil
	}
	w.checked = true
	if !drill.Live(w.Mode) {
		return []error{refuse(fmt.Errorf("router: production in a %s: production's routers are touched in the modes planned, emergency and failback alone", w.Mode), "leave the option out, or run a playbook of one of these modes")}
	}
	problems := w.described()
	if len(problems) > 0 {
		return problems
	}
	fleets, err := w.fleets()
	if err != nil {
		return []error{err}
	}
	const hint = "leave it out of drkit.yaml: a command finds it in its environment or in a file"
	for _, f := range fleets {
		var reached []string
		for _, at := range f.Replicas {
			reached = slices.Concat(reached, []string{at.Admin, at.Metrics, at.URL, at.Dir}, at.Apply, at.Observe)
		}
		problems = append(problems, w.unkept("how router "+f.Name+" is reached", hint, reached...)...)
		problems = append(problems, w.checkFleet(ctx, f)...)
	}
	if e := w.Production.Edge; e != nil {
		problems = append(problems, w.unkept("how the edge is reached", hint, slices.Concat([]string{e.Dir}, e.Apply, e.Observe)...)...)
	}
	return append(problems, w.checkEdge(ctx)...)
}

// described checks what drkit.yaml says of production.
func (w *World) described() []error {
	var problems []error
	p := w.Production
	if len(p.Routers) == 0 {
		problems = append(problems, refuse(fmt.Errorf("no router of target %s is described: a live run would have nothing to move", w.Target.Name),
			"name them in drkit.yaml beneath the target's routers, each replica with its admin address; the source's own are lost with it"))
	}
	if len(p.Source) == 0 {
		problems = append(problems, refuse(fmt.Errorf("no engine of source %s is described: nobody can tell which workers to take out of the router", w.Source.Name), "name them in drkit.yaml beneath the source's endpoints"))
	}
	for _, u := range p.Source {
		if slices.Contains(p.Target, u) {
			problems = append(problems, refuse(fmt.Errorf("%s is an endpoint of both regions", u), "give each region its own engines"))
		}
	}
	if len(p.Routers) > 0 {
		problems = append(problems, w.partitioned()...)
	}
	return problems
}

// partitioned checks that each class that is moved has one router, and that no such
// router serves a class that may not be answered in both regions: a router sends any
// request to any of its workers.
func (w *World) partitioned() []error {
	var problems []error
	for _, c := range w.classes() {
		var serving []string
		for _, r := range w.Production.Routers {
			if slices.Contains(r.Serves, c.Name) {
				serving = append(serving, r.Name)
			}
		}
		moved := c.Refused == "" && c.Aside == ""
		switch {
		case moved && len(serving) == 0:
			problems = append(problems, refuse(fmt.Errorf("no router of target %s serves traffic class %s", w.Target.Name, c.Name), "name the class in serves of its router in drkit.yaml"))
		case len(serving) > 1:
			problems = append(problems, refuse(fmt.Errorf("traffic class %s is served by several routers (%s)", c.Name, strings.Join(serving, ", ")), "name each class in serves of one router"))
		}
	}
	for _, r := range w.Production.Routers {
		inside, outside := w.split(r.Serves)
		if len(inside) > 0 && len(outside) > 0 {
			problems = append(problems, refuse(fmt.Errorf("router %s serves %s, which may not be answered in both regions, beside %s: moving it would take requests over their border", r.Name, strings.Join(outside, ", "), strings.Join(inside, ", ")),
				"give each residency a router of its own"))
		}
	}
	return problems
}

// split tells the classes of a router that are moved from those that are not.
func (w *World) split(classes []string) (moved, not []string) {
	sent := names(w.sent())
	for _, c := range classes {
		if slices.Contains(sent, c) {
			moved = append(moved, c)
		} else {
			not = append(not, c)
		}
	}
	return moved, not
}

// checkFleet asks each replica of a router what it is and which workers it has.
func (w *World) checkFleet(ctx context.Context, f *fleet) []error {
	hint := "every replica has to answer: one that cannot be asked cannot be moved either"
	if _, err := f.Probe(ctx); err != nil {
		return []error{refuse(fmt.Errorf("asking production: %w", err), orHint(err, hint))}
	}
	var strange, listed []string
	err := f.each(func(r drill.Router) error {
		ctx, cancel := question(ctx)
		defer cancel()
		workers, err := r.Workers(ctx)
		listed = append(listed, urls(workers)...)
		for _, u := range urls(workers) {
			if w.regionAt(ctx, u) == nil && !slices.Contains(strange, u) {
				strange = append(strange, u)
			}
		}
		return err
	})
	if err != nil {
		return []error{refuse(fmt.Errorf("asking production: %w", err), orHint(err, hint))}
	}
	if len(strange) > 0 {
		return []error{refuse(fmt.Errorf("router %s has workers of which nobody knows the region: %s", f.Name, strings.Join(strange, ", ")), "name them in drkit.yaml beneath the endpoints of their region: a request must not leave its border unseen")}
	}
	return w.movable(f, listed)
}

// movable refuses a planned move or a way back of a router that lists no worker of the
// region that is to be left, on any replica: there is nothing to move. An emergency goes
// on, and says so: whoever runs it knows that the region is lost. A run that goes on may
// have moved the router itself.
func (w *World) movable(f *fleet, listed []string) []error {
	from := &w.Source
	if w.Back {
		from = &w.Target
	}
	to := w.takesOver()
	lists := func(r *Region) bool {
		return slices.ContainsFunc(w.home(r).urls(), func(u string) bool { return slices.Contains(listed, u) })
	}
	if w.Resumed != "" || lists(from) {
		return nil
	}
	what := fmt.Sprintf("router %s lists no worker of region %s: there is nothing to move", f.Name, from.Name)
	hint := "does drkit.yaml name other endpoints than the router lists?"
	switch already := lists(to); {
	case w.Mode == drill.ModeEmergency:
		w.remarks = append(w.remarks, fmt.Sprintf("router %s lists no worker of region %s before this run (it lists %s): it was moved already, or taken out; the cutover makes sure of %s",
			f.Name, from.Name, orNone(listed), to.Name))
		return nil
	case already && w.Back:
		what, hint = what+": it is in "+to.Name+" already", "nothing has to go back; where only some routers were moved, put those back by their own means, or leave their classes out of traffic"
	case already:
		what, hint = what+": it is in "+to.Name+" already", "drkit drill history says when it was moved; the way back is drkit drill run --playbook failback --live. Where only some routers were moved, put those back first"
	}
	return []error{refuse(errors.New(what), hint)}
}

func orNone(all []string) string {
	if len(all) == 0 {
		return "none"
	}
	all = slices.Clone(all)
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// Remarks are what the checks saw that speaks against nothing, and that people should
// know before anything is changed.
func (w *World) Remarks() []string { return slices.Clone(w.remarks) }

// sayRemarks journals them.
func (w *World) sayRemarks(sc drill.Scope) error {
	var errs []error
	for _, text := range w.remarks {
		errs = append(errs, sc.Emit(drill.TypeNote, drill.Note{Text: text}))
	}
	return errors.Join(errs...)
}

func orHint(err error, hint string) string {
	if h := errext.Hint(err); h != "" {
		return h
	}
	return hint
}

// regionAt is the region of a worker of production, nil when nobody knows it.
func (w *World) regionAt(ctx context.Context, url string) *Region {
	for _, r := range []*Region{&w.Target, &w.Source} {
		if slices.Contains(w.home(r).urls(), url) {
			return r
		}
	}
	if w.Resumed == "" || !w.canaryServes(&w.Target) {
		return nil
	}
	// A run that goes on checks before it looks for its canary, which may serve already.
	if c, err := w.found(ctx, w.Resumed, w.replicaName(&w.Target)); err == nil && slices.Contains(canary(&replica{Replica: c, region: &w.Target}).urls(), url) {
		return &w.Target
	}
	return nil
}

// route sends the requests of each class through the replicas of its router in turn.
func (w *World) route(fleets []*fleet) func(class string) *openai.Client {
	next := map[string]int{}
	clients := map[string][]*openai.Client{}
	for _, f := range fleets {
		for _, class := range f.Serves {
			for _, at := range f.Replicas {
				clients[class] = append(clients[class], w.client(at.requests()))
			}
		}
	}
	return func(class string) *openai.Client {
		all := clients[class]
		next[class]++
		return all[next[class]%len(all)]
	}
}
