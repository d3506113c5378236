package routing

import (
	"container/list"
	"sync"
)

// Index remembers which prefixes each worker was sent, the most recent ones up
// to a number of blocks a worker. It is safe for concurrent use.
type Index struct {
	limit   int
	mu      sync.Mutex
	workers map[string]*history
}

// history is one worker's blocks, least recently used at the back.
type history struct {
	order *list.List // of Block
	at    map[Block]*list.Element
}

// NewIndex holds up to limit blocks a worker; an engine's own number (KV cache
// tokens / block size) makes it forget when the engine does.
func NewIndex(limit int) *Index {
	return &Index{limit: limit, workers: map[string]*history{}}
}

// Match counts the blocks, from the first on, that the worker was sent.
func (x *Index) Match(worker string, blocks []Block) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	h := x.workers[worker]
	if h == nil {
		return 0
	}
	for i, b := range blocks {
		if h.at[b] == nil {
			return i
		}
	}
	return len(blocks)
}

// Record notes that the worker was sent a prompt. A prompt's end is forgotten
// before its beginning, which other prompts may share.
func (x *Index) Record(worker string, blocks []Block) {
	x.mu.Lock()
	defer x.mu.Unlock()
	h := x.workers[worker]
	if h == nil {
		h = &history{order: list.New(), at: map[Block]*list.Element{}}
		x.workers[worker] = h
	}
	for i := len(blocks) - 1; i >= 0; i-- {
		h.touch(blocks[i])
	}
	for h.order.Len() > x.limit {
		delete(h.at, h.order.Remove(h.order.Back()).(Block))
	}
}

func (h *history) touch(b Block) {
	if e := h.at[b]; e != nil {
		h.order.MoveToFront(e)
		return
	}
	h.at[b] = h.order.PushFront(b)
}

// Forget drops a worker: when it comes back, its cache is another one.
func (x *Index) Forget(worker string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.workers, worker)
}

// Len is the number of blocks remembered of a worker.
func (x *Index) Len(worker string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if h := x.workers[worker]; h != nil {
		return h.order.Len()
	}
	return 0
}
