//go:build unix

package process

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"drkit/internal/errext"
)

const recordExt = ".process.json"

// record is what a later process needs beside the labels. PID is 0 from before
// the process exists until it is known.
type record struct {
	Run      string `json:"run"`
	Name     string `json:"name"`
	PID      int    `json:"pid"`   // leader of the session
	Start    string `json:"start"` // its start, in the system's own form: with PID, one process of one boot
	Boot     string `json:"boot"`
	Endpoint string `json:"endpoint"`
	Metrics  string `json:"metrics,omitempty"`
	Log      string `json:"log"`
	LogStart int64  `json:"log_start"` // bytes that were in the log before
}

func (l *Launcher) path(run, name string) string {
	return filepath.Join(l.Dir, run, name+recordExt)
}

// home is the empty Hugging Face home of a replica.
func (l *Launcher) home(run, name string) string {
	home := filepath.Join(l.Dir, run, name+".hf")
	if abs, err := filepath.Abs(home); err == nil {
		return abs
	}
	return home
}

// write replaces the record at once, so that no reader sees half of it.
func (l *Launcher) write(rec record) error {
	if l.Dir == "" {
		return errext.WithStatus(fmt.Errorf("process launcher: no folder for its records"), errext.Usage)
	}
	path := l.path(rec.Run, rec.Name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("recording the process: %w", err)
	}
	b, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("recording the process: %w", err)
	}
	if err := os.WriteFile(path+".tmp", b, 0o600); err != nil {
		return fmt.Errorf("recording the process: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("recording the process: %w", err)
	}
	return nil
}

// read gives the record of a replica; false when there is none or when it was
// written before the machine was last started.
func (l *Launcher) read(run, name string) (record, bool) {
	b, err := os.ReadFile(l.path(run, name))
	var rec record
	if err != nil || json.Unmarshal(b, &rec) != nil || rec.Boot != bootID() {
		return record{}, false
	}
	return rec, true
}

// recordOf gives the record of a replica; without one, its name alone.
func (l *Launcher) recordOf(run, name string) record {
	if rec, ok := l.read(run, name); ok {
		return rec
	}
	return record{Run: run, Name: name}
}

// with adds what labels tell when there was no record.
func (rec record) with(live []proc) record {
	for _, p := range live {
		if rec.Endpoint == "" {
			rec.Endpoint = p.endpoint
		}
	}
	return rec
}

// clear forgets a replica that had begun and of which nothing is left. A record
// without a pid may be of a launch that is under way.
func (l *Launcher) clear(run, name string) {
	if rec, ok := l.read(run, name); !ok || rec.PID != 0 {
		l.forget(run, name)
	}
}

// forget removes what the launcher keeps of a replica that is gone.
func (l *Launcher) forget(run, name string) {
	_ = os.RemoveAll(l.home(run, name))
	_ = os.Remove(l.path(run, name))
	_ = os.Remove(l.adoptedPath(run, name))
	_ = os.Remove(filepath.Join(l.Dir, run)) // fails while others of the run are there
}
