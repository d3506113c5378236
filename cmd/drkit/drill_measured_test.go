package main

import (
	"testing"
	"time"

	"drkit/drill"
)

// TestStartOf: the start is from launch where nothing had to be pulled, else from where
// the images were; a pull from a cache is none.
func TestStartOf(t *testing.T) {
	at := func(name string, s int, cached bool) drill.InstantState {
		return drill.InstantState{Name: name, At: drill.Stamp{Proc: 1, Mono: time.Duration(s) * time.Second}, Cached: cached}
	}
	phases := []drill.Phase{{Replica: targetCanary, Start: 0, Length: 700 * time.Second}, {Replica: "source-canary", Length: time.Hour}}
	pulled := []drill.InstantState{at(drill.InstantCapacity, 100, false), at(drill.InstantImage, 500, false), at(drill.InstantEngineReady, 800, false)}
	cached := []drill.InstantState{at(drill.InstantCapacity, 100, false), at(drill.InstantImage, 101, true), at(drill.InstantEngineReady, 800, false)}
	for name, tc := range map[string]struct {
		run        drill.Run
		took, pull time.Duration
		served     bool
	}{
		"a process":       {drill.Run{Phases: phases, Instants: []drill.InstantState{at(drill.InstantEngineReady, 800, false)}}, 700 * time.Second, 0, true},
		"images pulled":   {drill.Run{Phases: phases, Instants: pulled}, 300 * time.Second, 400 * time.Second, true},
		"images cached":   {drill.Run{Phases: phases, Instants: cached}, 699 * time.Second, 0, true},
		"it never served": {drill.Run{Phases: phases}, 0, 0, false},
		"a stand-in":      {drill.Run{Phases: phases, Instants: pulled, Components: []drill.Component{{Role: drill.RoleEngine, Substitute: true}}}, 0, 0, false},
	} {
		start, served := startOf(&tc.run)
		if start.Took != tc.took || start.Pull != tc.pull || served != tc.served {
			t.Errorf("%s: %v after %v, %v", name, start.Took, start.Pull, served)
		}
	}
}
