package tui

import (
	"slices"
	"sync"
	"time"

	"drkit/drill"
)

// maxLoose is how many progress and log events wait for a slow terminal; more
// than a run keeps of its logs would be read by nobody.
const maxLoose = drill.LogTail + 56

// arrival is an event, when it came, and how fast the run's clock goes after it:
// 1 live, something else in a replay, 0 after the end.
type arrival struct {
	event drill.Event
	at    time.Time
	rate  float64
	final *drill.RunFinished // instead of an event: the verdict with what became of its evidence
}

// queue stands between the runner and the screen. Pushing never blocks.
type queue struct {
	ready chan struct{} // has a value when there is something to take

	mu      sync.Mutex
	waiting []arrival
	loose   int    // how many of those may be dropped
	given   uint64 // how many were taken so far
	closed  bool
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

func loose(e drill.Event) bool { return e.Type == drill.TypeProgress || e.Type == drill.TypeLog }

// push adds an event; when too many loose ones wait, the oldest of them goes.
func (q *queue) push(a arrival) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.waiting = append(q.waiting, a)
	if loose(a.event) {
		q.loose++
	}
	if q.loose > maxLoose {
		oldest := slices.IndexFunc(q.waiting, func(a arrival) bool { return loose(a.event) })
		q.waiting = slices.Delete(q.waiting, oldest, oldest+1)
		q.loose--
	}
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns what waits. The events are numbered anew, without a gap where one
// was dropped: a fold refuses gaps.
func (q *queue) take() []arrival {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.waiting
	q.waiting, q.loose = nil, 0
	for i := range batch {
		if batch[i].final == nil {
			q.given++
			batch[i].event.Seq = q.given
		}
	}
	return batch
}

// close lets go of what waits; later events are let go at once.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.waiting, q.loose = true, nil, 0
}
