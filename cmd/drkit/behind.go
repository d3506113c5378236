package main

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// behind writes to another writer from a goroutine of its own: a terminal or a pipe
// that takes nothing for a while holds nobody. Nothing is lost unless the writer
// fails, takes nothing until close gives it up, or more than maxBehind waits.
type behind struct {
	w    io.Writer
	more chan struct{} // has a value when there is something to write
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	waiting bytes.Buffer
	lost    int   // lines that found no room
	written int   // bytes so far: progress, for close
	err     error // of the writer; then nothing more is written
	closed  bool
}

// maxBehind bounds what waits, in bytes.
const maxBehind = 16 << 20

var lostMark = []byte("… lines were lost here: nothing took them\n")

func newBehind(w io.Writer) *behind {
	b := &behind{w: w, more: make(chan struct{}, 1), done: make(chan struct{})}
	go b.run()
	return b
}

// Write takes whole lines and returns at once; its error is an earlier one of the
// writer.
func (b *behind) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	if b.waiting.Len()+len(p) > maxBehind {
		b.lost++
		return len(p), nil
	}
	if b.lost > 0 {
		b.waiting.Write(lostMark)
		b.lost = 0
	}
	b.waiting.Write(p)
	b.wake()
	return len(p), nil
}

func (b *behind) wake() {
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// run writes what waits until it is closed and nothing waits any more.
func (b *behind) run() {
	defer close(b.done)
	for {
		b.mu.Lock()
		if b.closed && b.lost > 0 {
			b.waiting.Write(lostMark)
			b.lost = 0
		}
		part := bytes.Clone(b.waiting.Next(4096))
		over := b.err != nil || b.closed && len(part) == 0
		b.mu.Unlock()
		switch {
		case over:
			return
		case len(part) == 0:
			<-b.more
			continue
		}
		n, err := b.w.Write(part)
		b.mu.Lock()
		b.written, b.err = b.written+n, err
		b.mu.Unlock()
	}
}

// close waits until everything is written, as long as something is taken in each
// stretch of patience. It reports whether the writer still takes anything.
func (b *behind) close(patience time.Duration) bool {
	b.mu.Lock()
	b.closed = true
	b.wake()
	b.mu.Unlock()
	for {
		before := b.sofar()
		select {
		case <-b.done:
			return true
		case <-time.After(patience):
		}
		if b.sofar() == before {
			return false
		}
	}
}

func (b *behind) sofar() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.written
}
