//go:build linux

package kubelet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

type line struct {
	at   time.Time
	text string // with its line end, but for a last one that had none
}

// output is what one process wrote, line by line.
type output struct {
	mu      sync.Mutex
	lines   []line
	partial []byte
	ended   bool
	more    chan struct{} // closed and replaced when there is more to see
}

func newOutput() *output { return &output{more: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.partial = append(o.partial, p...)
	for {
		end := bytes.IndexByte(o.partial, '\n')
		if end < 0 {
			break
		}
		o.add(string(o.partial[:end+1]))
		o.partial = o.partial[end+1:]
	}
	return len(p), nil
}

func (o *output) add(text string) {
	o.lines = append(o.lines, line{time.Now(), text})
	o.wake()
}

func (o *output) wake() {
	close(o.more)
	o.more = make(chan struct{})
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	if len(o.partial) > 0 {
		o.add(string(o.partial))
	}
	o.partial = nil
	o.wake()
}

// from returns the lines from the given one on, whether these are the last, and what to wait for otherwise.
func (o *output) from(n int) (lines []line, ended bool, more <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lines[n:]), o.ended, o.more
}

// tail is the end of the output for a termination message: at most 80 lines and 2048 bytes.
func (o *output) tail() string {
	lines, _, _ := o.from(0)
	var text strings.Builder
	for _, l := range lines[max(0, len(lines)-80):] {
		text.WriteString(l.text)
	}
	s := text.String()
	return s[max(0, len(s)-2048):]
}

// logOptions are those of a request for logs.
type logOptions struct {
	follow, timestamps bool
	tail               int // -1: all
	since              time.Time
}

// copyTo writes the lines; with follow it goes on until the process has ended or ctx has.
func (o *output) copyTo(ctx context.Context, w io.Writer, flush func(), opts logOptions) {
	lines, ended, more := o.from(0)
	next := len(lines)
	if opts.tail >= 0 {
		lines = lines[max(0, len(lines)-opts.tail):]
	}
	for {
		for _, l := range lines {
			if l.at.Before(opts.since) {
				continue
			}
			if opts.timestamps {
				fmt.Fprintf(w, "%s ", l.at.UTC().Format(time.RFC3339Nano))
			}
			if _, err := io.WriteString(w, l.text); err != nil {
				return
			}
		}
		flush()
		if ended || !opts.follow {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
		lines, ended, more = o.from(next)
		next += len(lines)
	}
}
