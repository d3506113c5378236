//go:build unix

package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// adoption marks a replica that a person took over. The label that its processes
// inherited cannot be changed any more, so the mark lies beside the record.
type adoption struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

const adoptedExt = ".adopted.json"

func (l *Launcher) adoptedPath(run, name string) string {
	return filepath.Join(l.Dir, run, name+adoptedExt)
}

// Adopt marks a replica that runs as taken over by somebody: it is no leftover.
func (l *Launcher) Adopt(ctx context.Context, run, name, by string) error {
	found, err := l.Find(ctx, run)
	if err != nil {
		return err
	}
	for _, r := range found {
		if r.ID() != name {
			continue
		}
		raw, err := json.Marshal(adoption{by, time.Now().UTC()})
		if err != nil {
			return err
		}
		path := l.adoptedPath(run, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("marking %s as adopted: %w", name, err)
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			return fmt.Errorf("marking %s as adopted: %w", name, err)
		}
		return nil
	}
	return fmt.Errorf("%s of run %s does not run: there is nothing to take over", name, run)
}

// AdoptedBy says who took a replica over, "" for nobody.
func (l *Launcher) AdoptedBy(run, name string) string {
	var a adoption
	raw, err := os.ReadFile(l.adoptedPath(run, name))
	if err != nil || json.Unmarshal(raw, &a) != nil {
		return ""
	}
	return a.By
}

// Runs lists the runs that may have left something: those with a record here, and
// those whose label a process of this machine carries, ours tells the two apart.
func (l *Launcher) Runs(ctx context.Context) (ours, others []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, context.Cause(ctx)
	}
	known, foreign := map[string]bool{}, map[string]bool{}
	entries, err := os.ReadDir(l.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("listing the records of processes: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			known[e.Name()] = true
		}
	}
	all, err := processes()
	if err != nil {
		return nil, nil, fmt.Errorf("listing processes: %w", err)
	}
	for _, p := range all {
		if p.run != "" && p.pid != os.Getpid() && !known[p.run] {
			foreign[p.run] = true
		}
	}
	return slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(foreign)), nil
}
