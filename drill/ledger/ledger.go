// Package ledger keeps what must outlive a run: its journal, and the lock on the
// target that keeps two runs apart.
//
// A run's journal is one file of JSON lines, <dir>/runs/<run>/journal.jsonl. A
// live run holds a lock on it; every line but progress and log is on the disk
// before the run goes on. Create begins one, Open continues one whose process is
// gone, Read, Load and LoadFile only look.
package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"drkit/internal/errext"
)

// FileName is a journal's name in its run's folder.
const FileName = "journal.jsonl"

// ErrNoRun says that there is no journal of that run.
var ErrNoRun = errors.New("no such run")

// NewID returns a new run id: a ULID, so that ids sort by time.
func NewID(t time.Time) string {
	return ulid.MustNew(ulid.Timestamp(t), ulid.DefaultEntropy()).String()
}

// Dir is the folder of a run, beneath the run.dir of drkit.yaml.
func Dir(dir, run string) string { return filepath.Join(dir, "runs", run) }

// Path is the journal of a run.
func Path(dir, run string) string { return filepath.Join(Dir(dir, run), FileName) }

// List returns the ids of the runs that have a journal, oldest first.
func List(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "runs"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing runs: %w", err)
	}
	var all []string
	for _, e := range entries {
		if _, err := ulid.ParseStrict(e.Name()); err != nil {
			continue // not a run's folder
		}
		if _, err := os.Stat(Path(dir, e.Name())); err == nil {
			all = append(all, e.Name())
		}
	}
	slices.Sort(all)
	return all, nil
}

// Latest returns the id of the newest run, or ErrNoRun.
func Latest(dir string) (string, error) {
	all, err := List(dir)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", errext.WithHint(fmt.Errorf("%s: %w", dir, ErrNoRun), "run `drkit drill run` first")
	}
	return all[len(all)-1], nil
}

// checkID keeps a run id that a person typed from leaving the folder.
func checkID(run string) error {
	if _, err := ulid.ParseStrict(run); err != nil {
		return errext.WithHint(errext.WithStatus(fmt.Errorf("run id %q: %w", run, err), errext.Usage),
			"a run id has 26 characters; `drkit drill run` prints it, and the folder names under runs/ are run ids")
	}
	return nil
}

// Live reports whether a process holds the journal of a run.
func Live(dir, run string) bool {
	f, err := openFile(Path(dir, run))
	if err != nil {
		return false
	}
	defer f.Close() // gives the lock back where this took it
	return errors.Is(lock(f), ErrLive)
}
