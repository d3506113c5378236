package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"drkit/internal/errext"
)

// Shares says for each class of traffic which share of its users each region gets.
type Shares = map[string]map[string]float64

// Edge is what moves users between regions, behind two commands.
type Edge struct{ run Commands }

// NewEdge drives an edge.
func NewEdge(c Commands) (*Edge, error) {
	if len(c.Apply) == 0 || len(c.Observe) == 0 {
		return nil, errext.WithStatus(errors.New("an edge of driver command needs the commands apply and observe"), errext.Usage)
	}
	return &Edge{c}, nil
}

// edgeDocument is what apply reads, and what observe writes.
type edgeDocument struct {
	Version int    `json:"version"`
	Action  string `json:"action,omitempty"`
	Classes Shares `json:"classes,omitempty"`
}

// Observe asks where the users of each class are. A class that is not named is not
// known; shares of one class have to add up to 1.
func (e *Edge) Observe(ctx context.Context) (Shares, error) {
	out, err := e.run.Do(ctx, e.run.Observe, edgeDocument{Version: Version, Action: "observe"})
	if err != nil {
		return nil, err
	}
	var a edgeDocument
	if err := json.Unmarshal(out, &a); err != nil {
		return nil, fmt.Errorf("the edge's answer is not the JSON expected: %w", err)
	}
	if a.Version != Version {
		return nil, fmt.Errorf("the edge's answer is of version %d, want %d", a.Version, Version)
	}
	for class, by := range a.Classes {
		sum := 0.0
		for _, share := range by {
			if share < 0 {
				return nil, fmt.Errorf("the edge says that a share of class %s is %g", class, share)
			}
			sum += share
		}
		if sum < 0.999 || sum > 1.001 {
			return nil, fmt.Errorf("the edge says that the shares of class %s add up to %g, not to 1", class, sum)
		}
	}
	return a.Classes, nil
}

// Apply asks for shares; Observe tells what came of it. Classes that are not named
// are not to be moved.
func (e *Edge) Apply(ctx context.Context, want Shares) error {
	_, err := e.run.Do(ctx, e.run.Apply, edgeDocument{Version: Version, Action: "apply", Classes: want})
	return err
}
