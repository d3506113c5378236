package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"drkit/internal/errext"
	"drkit/internal/redact"
)

// streams is what a command reads from and writes to. Both writers pass the
// redactor. Results go to Out, progress and hints to Err.
type streams struct {
	In       io.Reader
	Out, Err *redact.Writer
	Redactor *redact.Redactor
	Getenv   func(string) string
	Terminal bool // both output streams and the input are terminals
	RawOut   *os.File
}

func osStreams() *streams {
	r := redact.FromEnviron(os.Environ())
	return &streams{
		In:       os.Stdin,
		Out:      r.Writer(results{os.Stdout}),
		Err:      r.Writer(os.Stderr),
		Redactor: r,
		Getenv:   os.Getenv,
		Terminal: term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) && term.IsTerminal(int(os.Stderr.Fd())),
		RawOut:   os.Stdout,
	}
}

// results is stdout; an error of it says what was lost.
type results struct{ io.Writer }

func (w results) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		err = errext.WithHint(fmt.Errorf("writing the result: %w", err), "see that standard output takes it: is the disk full, has its reader ended?")
	}
	return n, err
}

// flush writes what the redactor held back. A full disk behind stdout must not
// end in a green.
func (s *streams) flush() error {
	s.Err.Flush()
	return s.Out.Flush()
}

// aside returns the same streams with an Err that waits for tell: a screen is drawn
// meanwhile.
func (s *streams) aside() (calm *streams, tell func()) {
	var said bytes.Buffer
	c := *s
	c.Err = s.Redactor.Writer(&said)
	return &c, func() {
		c.Err.Flush()
		s.Err.Write(said.Bytes())
	}
}

// interactive reports whether a screen may be drawn and a question asked.
func (s *streams) interactive() bool {
	return s.Terminal && s.Getenv("CI") == "" && s.Getenv("TERM") != "dumb"
}

// signalCause is the cause of a context that a signal cancelled.
type signalCause struct{ signal syscall.Signal }

func (c signalCause) Error() string {
	switch c.signal {
	case syscall.SIGTERM:
		return "terminated by SIGTERM"
	case syscall.SIGHUP:
		return "the terminal is gone (SIGHUP)"
	}
	return "interrupted"
}

func (c signalCause) status() errext.Status {
	if c.signal == syscall.SIGTERM || c.signal == syscall.SIGHUP {
		return errext.Terminated
	}
	return errext.Interrupted
}

// secondSignal is closed at the second signal: leave at once, keep the journal.
type secondSignalKey struct{}

// sameSignal is how soon after the first a signal counts as the same one.
const sameSignal = 100 * time.Millisecond

// signalContext is cancelled by the first SIGINT, SIGTERM or SIGHUP (the terminal
// is gone) with a signalCause. secondSignal tells of the next one; a third ends
// the process. A reader that goes away (SIGPIPE) is an error of the write, not the
// end of a process that has changes to take back.
func signalContext(parent context.Context) (context.Context, func()) {
	second := make(chan struct{})
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, secondSignalKey{}, second))
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // not Ignore: what is launched would inherit it
	go func() {
		var first time.Time
		var same os.Signal
		for n := 1; ; n++ {
			s, ok := <-signals
			if !ok {
				return
			}
			if n == 1 {
				first, same = time.Now(), s
			} else if s == same && time.Since(first) < sameSignal {
				n-- // timeout(1) signals a process and then its group: that is one wish, not two
				continue
			}
			switch n {
			case 1:
				cancel(signalCause{s.(syscall.Signal)})
			case 2:
				close(second)
			default:
				os.Exit(int(errext.Unclean))
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(signals) }
}

// secondSignal returns the channel that the second signal closes; nil (which
// blocks for ever) where there is none.
func secondSignal(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(secondSignalKey{}).(chan struct{})
	return c
}

// printError writes an error with its hint, the way every command does. The parts
// of a joined error are written one by one, each with its own hint; a result that
// is printed already is no error to print.
func printError(s *streams, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, part := range joined.Unwrap() {
			printError(s, part)
		}
		return
	}
	if o, ok := errors.AsType[outcome](err); ok && err.Error() == o.Error() {
		return
	}
	fmt.Fprintf(s.Err, "drkit: %v\n", err)
	if hint := errext.Hint(err); hint != "" {
		fmt.Fprintf(s.Err, "  hint: %s\n", hint)
	}
}
