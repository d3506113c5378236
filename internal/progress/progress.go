// Package progress lets domain code tell how far long work is, without knowing
// who looks. A nil Progress and a nil *Task do nothing, so callers never check.
package progress

import "sync/atomic"

// Progress makes tasks.
type Progress interface {
	// Task begins a piece of work with its expected files and bytes; 0 is unknown.
	Task(name string, files, bytes int64) *Task
}

// Task counts what is done. It is safe for concurrent use.
type Task struct {
	Name                   string
	TotalFiles, TotalBytes int64
	files, bytes           atomic.Int64
	done                   atomic.Bool
}

// Start begins a task on p, which may be nil.
func Start(p Progress, name string, files, bytes int64) *Task {
	if p == nil {
		return nil
	}
	return p.Task(name, files, bytes)
}

// Add counts finished files and bytes.
func (t *Task) Add(files, bytes int64) {
	if t == nil {
		return
	}
	t.files.Add(files)
	t.bytes.Add(bytes)
}

// Done says that the work is over, well or not.
func (t *Task) Done() {
	if t != nil {
		t.done.Store(true)
	}
}

// Read returns what was counted so far and whether the work is over.
func (t *Task) Read() (files, bytes int64, done bool) {
	if t == nil {
		return 0, 0, true
	}
	return t.files.Load(), t.bytes.Load(), t.done.Load()
}
