package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"drkit/internal/errext"
	"drkit/internal/store"
)

// stopName is the file or object that forbids every change.
const stopName = "STOP"

// killSwitch says what forbids changes: a file STOP in run.dir, for this machine, or an
// object STOP of the target region in its state, for every machine.
func (d *drillPlan) killSwitch(ctx context.Context) (string, error) {
	file := filepath.Join(d.svc.Run.Dir.Path, stopName)
	switch _, err := os.Lstat(file); {
	case err == nil:
		return file + " is there", nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("looking for %s: %w", file, err)
	}
	if d.target.state == nil { // a tabletop opens no store
		return "", nil
	}
	key := d.target.region.Name + "/" + stopName
	switch _, err := d.target.state.Stat(ctx, key); {
	case err == nil:
		return fmt.Sprintf("%s is there in %s", key, d.target.region.State.URL()), nil
	case !errors.Is(err, store.ErrNotFound):
		return "", errext.WithHint(fmt.Errorf("looking for %s in %s: %w", key, d.target.region.State.URL(), err), "see that the target's state can be read")
	}
	return "", nil
}

// stoppedNow is the kill switch as a problem, none where nothing forbids changes.
func (d *drillPlan) stoppedNow(ctx context.Context) []error {
	why, err := d.killSwitch(ctx)
	switch {
	case err != nil:
		return []error{fmt.Errorf("the kill switch cannot be read: %w", err)}
	case why != "":
		return []error{errext.WithHint(errors.New("the kill switch is set: "+why), "take it away when changes are allowed again")}
	}
	return nil
}
