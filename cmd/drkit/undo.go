package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"drkit/drill"
	"drkit/drill/launch/kubernetes"
	"drkit/drill/launch/process"
	"drkit/drill/ledger"
	"drkit/drill/step"
	"drkit/internal/store"
)

// undoProcess is the kind of undo that stops what a run launched.
const undoProcess = "process.stop"

// processArgs say which process a run launched, and where the launcher keeps its
// records: another process must find it after a kill -9.
type processArgs struct {
	Dir  string `json:"dir"`
	Run  string `json:"run"`
	Name string `json:"name"`
}

// undoLaunch is the undo of a launch, as data.
func undoLaunch(l *process.Launcher) func(run, name string) (drill.Undo, error) {
	return func(run, name string) (drill.Undo, error) {
		args, err := json.Marshal(processArgs{l.Dir, run, name})
		return drill.Undo{Kind: undoProcess, Args: args}, err
	}
}

// undos are all kinds of undo that a journal of this drkit can hold.
func undos() map[string]drill.UndoFunc {
	all := step.Undos(newRouter)
	maps.Copy(all, step.LiveUndos(step.Production{OpenRouter: openRouter, OpenEdge: openEdge, HTTP: httpClient()}))
	all[ledger.UndoLock] = ledger.ReleaseUndo(openByURL)
	all[undoProcess] = stopProcess
	all[kubernetes.UndoKind] = kubernetes.UndoLaunch
	return all
}

// stopProcess stops one process of a run with its children, and proves by a
// second listing that nothing of it is left.
func stopProcess(ctx context.Context, args []byte) error {
	var a processArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return err
	}
	launcher := &process.Launcher{Dir: a.Dir}
	r, err := named(ctx, launcher, a)
	if err != nil || r == nil {
		return err
	}
	if err := r.Stop(ctx); err != nil {
		return err
	}
	if r, err = named(ctx, launcher, a); err == nil && r != nil {
		err = fmt.Errorf("process %s of run %s is still there", a.Name, a.Run)
	}
	return err
}

// named finds one replica of a run; nil when nothing of it is left.
func named(ctx context.Context, l *process.Launcher, a processArgs) (drill.Replica, error) {
	found, err := l.Find(ctx, a.Run)
	for _, r := range found {
		if r.ID() == a.Name {
			return r, nil
		}
	}
	return nil, err
}

// openByURL opens a store as a journal names it.
func openByURL(_ context.Context, url string) (store.ReadWriter, error) {
	l, err := parseLocation(url)
	if err != nil {
		return nil, err
	}
	return openStore(l)
}
