package step

import (
	"sync"
	"time"

	"drkit/drill"
	"drkit/internal/progress"
)

// tellEvery is how often a step tells how far its tasks are. It tells so too when
// nothing has moved: a rate is what moved in a time.
const tellEvery = time.Second

// teller makes the tasks of a step and tells of them as events, until it is closed.
type teller struct {
	sc    drill.Scope
	order sync.Mutex // of what is told: a task never seems to go back
	mu    sync.Mutex
	tasks []*progress.Task
	quit  chan struct{}
	done  chan struct{}
}

var _ progress.Progress = (*teller)(nil)

// tell begins to tell; close it when the work has ended.
func tell(sc drill.Scope) *teller {
	t := &teller{sc: sc, quit: make(chan struct{}), done: make(chan struct{})}
	go t.run()
	return t
}

// Task begins a piece of work.
func (t *teller) Task(name string, files, bytes int64) *progress.Task {
	task := &progress.Task{Name: name, TotalFiles: files, TotalBytes: bytes}
	t.mu.Lock()
	t.tasks = append(t.tasks, task)
	t.mu.Unlock()
	t.emit(task)
	return task
}

func (t *teller) run() {
	defer close(t.done)
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-t.quit:
			return
		case <-tick.C:
			t.tell()
		}
	}
}

// tell tells of the tasks under way, and a last time of those that have ended.
func (t *teller) tell() {
	t.mu.Lock()
	all := t.tasks
	t.tasks = nil
	for _, task := range all {
		if _, _, over := task.Read(); !over {
			t.tasks = append(t.tasks, task)
		}
	}
	t.mu.Unlock()
	for _, task := range all {
		t.emit(task)
	}
}

// emit counts bytes where there are any, else files. Progress may be lost: its
// error is none of the work's.
func (t *teller) emit(task *progress.Task) {
	t.order.Lock()
	defer t.order.Unlock()
	files, bytes, _ := task.Read()
	p := drill.Progress{Task: task.Name, Done: bytes, Total: task.TotalBytes, Unit: "bytes"}
	if task.TotalBytes <= 0 {
		p.Done, p.Total, p.Unit = files, task.TotalFiles, "files"
	}
	_ = t.sc.Emit(drill.TypeProgress, p)
}

// close tells a last time and ends.
func (t *teller) close() {
	close(t.quit)
	<-t.done
	t.tell()
}
