package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"drkit/drill"
	drillreport "drkit/drill/report"
	"drkit/drill/tui"
)

// screenStays is how long the screen shows a run that has ended when nobody presses
// a key.
const screenStays = 5 * time.Minute

// stderrPatience is how long stderr may take nothing, after the run has ended, before
// what it was to be told is given up.
const stderrPatience = 5 * time.Second

// newDisplay shows the run while it goes on. The function that it returns waits
// until the person has left the screen or nobody is there, and gives the terminal
// back; elsewhere, until stderr has taken every line. Nothing that a display is
// written to can hold the run.
func newDisplay(ctx context.Context, s *streams, mode string, abort, leave func(), more ...func(*tui.Options)) (drill.Handler, func(*drill.Run)) {
	o := tui.Options{Abort: abort, Leave: leave, Input: os.Stdin, Output: s.RawOut, CloseAfter: screenStays, NoColor: s.Getenv("NO_COLOR") != "", Redact: s.Redactor}
	for _, f := range more {
		f(&o)
	}
	switch mode {
	case "tty":
		return newScreen(ctx, s, o)
	case "quiet":
		return handlerFunc(func(drill.Event, *drill.Run) error { return nil }), func(*drill.Run) {}
	}
	w := newBehind(s.Err)
	close := func(*drill.Run) {
		if !w.close(stderrPatience) {
			s.Err = s.Redactor.Writer(io.Discard) // it holds the end of the process no more than it held the run
		}
	}
	if mode == "json" {
		enc := json.NewEncoder(w)
		return handlerFunc(func(e drill.Event, _ *drill.Run) error { return enc.Encode(e) }), close
	}
	plain := drillreport.NewPlain(w)
	plain.ASCII, plain.Earlier = s.Getenv("TERM") == "dumb", o.Earlier
	return plain, close
}

func newScreen(ctx context.Context, s *streams, o tui.Options) (drill.Handler, func(*drill.Run)) {
	screen := tui.New(o)
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { // nobody is there to leave the screen
		if sig, ok := errors.AsType[signalCause](context.Cause(ctx)); ok && sig.signal != syscall.SIGINT {
			end()
		}
	})
	done := make(chan error, 1)
	go func() { done <- screen.Run(life) }()
	return screen, func(run *drill.Run) {
		if run == nil || run.Finished == nil {
			end()
		}
		if err := <-done; err != nil {
			printError(s, fmt.Errorf("the screen: %w", err))
		}
		end()
	}
}

type handlerFunc func(drill.Event, *drill.Run) error

func (f handlerFunc) Event(e drill.Event, r *drill.Run) error { return f(e, r) }

// pausing makes the channel that holds a run before its next step, closed by the
// screen's key.
func pausing() (pause func(), paused <-chan struct{}) {
	c := make(chan struct{})
	return sync.OnceFunc(func() { close(c) }), c
}
