package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"drkit/drill"
)

// Kinds of undo beside those of the lock and the launcher. Their arguments are in
// the journal, so that another process can run them after a kill -9.
const (
	UndoFiles  = "files.remove"
	UndoRouter = "router.restore"
)

// FilesArgs says which folder a run filled.
type FilesArgs struct {
	Dir string `json:"dir"`
	Run string `json:"run"`
}

// RouterArgs says how a router's workers were before the run changed them.
// Ephemeral is a router that the run started itself: the undo of its launch,
// which comes later in the same reverse order, proves that it is gone, and its
// list with it.
type RouterArgs struct {
	Driver    string   `json:"driver"`
	Admin     string   `json:"admin"`
	Metrics   string   `json:"metrics,omitempty"`
	Add       []Backed `json:"add"`
	Remove    []string `json:"remove"`
	Ephemeral bool     `json:"ephemeral,omitempty"`
}

// Backed is a worker to put back.
type Backed struct {
	URL    string            `json:"url"`
	Region string            `json:"region"`
	Attrs  map[string]string `json:"attrs,omitempty"`
}

// Undos returns what takes back the changes that this package makes itself. It
// needs nothing of the run's own process.
func Undos(routers RouterFactory) map[string]drill.UndoFunc {
	return map[string]drill.UndoFunc{
		UndoFiles:  undoFiles,
		UndoRun:    func(ctx context.Context, args []byte) error { return undoRun(ctx, args, os.LookupEnv) },
		UndoRouter: func(ctx context.Context, args []byte) error { return undoRouter(ctx, args, routers) },
	}
}

// LiveUndos returns what takes back changes of production, likewise.
func LiveUndos(p Production) map[string]drill.UndoFunc {
	return map[string]drill.UndoFunc{
		UndoProduction: func(ctx context.Context, args []byte) error { return undoProduction(ctx, args, p) },
		UndoEdge:       func(ctx context.Context, args []byte) error { return undoEdge(ctx, args, p) },
	}
}

// undoFiles removes a folder that carries the run's mark. A folder without it is
// not the run's and stays; one that is not there is success.
func undoFiles(_ context.Context, args []byte) error {
	var a FilesArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return err
	}
	owner, err := os.ReadFile(filepath.Join(a.Dir, ownerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return absentOrEmpty(a.Dir)
	}
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(owner)) != a.Run {
		return fmt.Errorf("%s belongs to run %s, not to %s: it stays", a.Dir, strings.TrimSpace(string(owner)), a.Run)
	}
	// The mark goes last: a removal that is cut short can be repeated.
	entries, err := os.ReadDir(a.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == ownerFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(a.Dir, e.Name())); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(a.Dir); err != nil {
		return err
	}
	if _, err := os.Lstat(a.Dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is still there", a.Dir)
	}
	return nil
}

// absentOrEmpty accepts a folder that is gone, or that was made and never marked.
func absentOrEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s has files but no mark of a run: it stays", dir)
	}
	return os.Remove(dir)
}

func undoRouter(ctx context.Context, args []byte, routers RouterFactory) error {
	var a RouterArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return err
	}
	r, err := routers(a.Driver, a.Admin, a.Metrics)
	if err != nil {
		return err
	}
	c := drill.Change{Remove: a.Remove}
	for _, b := range a.Add {
		c.Add = append(c.Add, drill.Worker{URL: b.URL, Region: b.Region})
	}
	err = r.Apply(ctx, c)
	if a.Ephemeral {
		return nil // the list was put back as far as its workers still live
	}
	return err
}
