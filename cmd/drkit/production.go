package main

import (
	"context"
	"errors"
	"fmt"

	"drkit/drill"
	"drkit/drill/router/command"
	"drkit/drill/step"
	"drkit/internal/errext"
	"drkit/internal/service"
)

// production is what a live run moves: the routers of the target, the engines of both
// regions, and the edge. What cannot be driven is refused: half a move is none.
func production(svc *service.Service, target *service.Region) (step.Production, error) {
	p := step.Production{OpenRouter: openRouter, OpenEdge: openEdge}
	var errs []error
	for _, r := range target.Routers {
		one := step.ProductionRouter{Name: r.Name, Serves: r.Serves}
		if len(r.Serves) == 0 && len(target.Routers) == 1 {
			for _, c := range svc.Traffic {
				one.Serves = append(one.Serves, c.Name)
			}
		}
		for _, rep := range r.Replicas {
			at := replicaAt(svc, r, rep)
			if _, err := openRouter(at); err != nil {
				errs = append(errs, fmt.Errorf("router %s of region %s: %w", r.Name, target.Name, err))
			}
			one.Replicas = append(one.Replicas, at)
		}
		p.Routers = append(p.Routers, one)
	}
	for _, list := range []struct {
		from *service.Region
		to   *[]string
	}{{svc.Source(), &p.Source}, {target, &p.Target}} {
		for _, e := range list.from.Endpoints {
			u, err := drill.NormalURL(e)
			if err != nil {
				errs = append(errs, usage(fmt.Errorf("endpoint of region %s: %w", list.from.Name, err), "routers know their workers by scheme, host and port alone"))
			}
			*list.to = append(*list.to, u)
		}
	}
	if e := svc.Edge; e.Driver != "" {
		p.Edge = &step.EdgeAt{Driver: e.Driver, Apply: e.Apply, Observe: e.Observe, Dir: svc.Dir}
		if _, err := openEdge(*p.Edge); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return p, errext.WithHint(errext.WithStatus(err, errext.Usage), errext.Hint(err))
	}
	return p, nil
}

// replicaAt is how one replica of a router is reached.
func replicaAt(svc *service.Service, r service.Router, rep service.RouterReplica) step.RouterAt {
	at := step.RouterAt{Driver: r.Driver, Admin: rep.Admin, Metrics: rep.Metrics, URL: rep.URL, Apply: r.Apply, Observe: r.Observe}
	if r.Driver == command.Driver {
		at.Dir = svc.Dir
	}
	return at
}

// openRouter makes the driver of one replica of a router of production.
func openRouter(at step.RouterAt) (drill.Router, error) {
	if at.Driver == command.Driver {
		return routerOr(command.New(command.Commands{Apply: at.Apply, Observe: at.Observe, Dir: at.Dir}, at.Admin, at.Metrics))
	}
	return newRouter(at.Driver, at.Admin, at.Metrics)
}

// openEdge makes the driver of the edge.
func openEdge(at step.EdgeAt) (step.Edge, error) {
	if at.Driver != command.Driver {
		return nil, notYet("edge driver "+at.Driver, "use driver: command with a script that moves the users, and one that says where they are")
	}
	e, err := command.NewEdge(command.Commands{Apply: at.Apply, Observe: at.Observe, Dir: at.Dir})
	if err != nil {
		return nil, err
	}
	return edge{e}, nil
}

// edge gives the words of the protocol those of the steps.
type edge struct{ *command.Edge }

func (e edge) Observe(ctx context.Context) (step.Shares, error) {
	all, err := e.Edge.Observe(ctx)
	shares := step.Shares{}
	for class, by := range all {
		shares[class] = by
	}
	return shares, err
}

func (e edge) Apply(ctx context.Context, want step.Shares) error {
	all := command.Shares{}
	for class, by := range want {
		all[class] = by
	}
	return e.Edge.Apply(ctx, all)
}
