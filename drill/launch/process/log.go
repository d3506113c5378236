//go:build unix

package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"
)

const (
	pollEvery = 50 * time.Millisecond
	maxLine   = 1 << 20 // bytes; a longer line is cut into several
)

// openLog opens a replica's log to append to it and tells its size before. An
// earlier attempt's lines stay. The name of the file is absolute.
func openLog(path string) (*os.File, int64, error) {
	if path == "" {
		return nil, 0, errors.New("no path for the log")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, 0, fmt.Errorf("opening the log: %w", err)
	}
	if real, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(real, filepath.Base(path)) // as /proc shows it
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("opening the log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("opening the log: %w", err)
	}
	return f, info.Size(), nil
}

// Log follows stdout and stderr from the beginning; it ends when the replica has
// ended and everything was read, or with ctx's error. A carriage return ends a
// line too: progress bars write nothing else for minutes.
func (r *Replica) Log(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		f, err := r.openForReading()
		if err != nil {
			yield("", err)
			return
		}
		defer f.Close()
		lines := lineReader{r: bufio.NewReaderSize(f, 64<<10)}
		for {
			over := r.ended() // before the read: what follows the end is read once more
			if !lines.each(yield) {
				return
			}
			if lines.err != nil {
				yield("", fmt.Errorf("reading the log of %s: %w", r.rec.Name, lines.err))
				return
			}
			if over {
				lines.rest(yield)
				return
			}
			if err := r.pause(ctx); err != nil {
				yield("", fmt.Errorf("following the log of %s: %w", r.rec.Name, err))
				return
			}
		}
	}
}

func (r *Replica) openForReading() (*os.File, error) {
	if r.rec.Log == "" {
		return nil, fmt.Errorf("the log of %s is not known: its record is gone", r.rec.Name)
	}
	f, err := os.Open(r.rec.Log)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", r.rec.Name, err)
	}
	if _, err := f.Seek(r.rec.LogStart, io.SeekStart); err != nil {
		f.Close()
		return nil, fmt.Errorf("opening the log of %s: %w", r.rec.Name, err)
	}
	return f, nil
}

func (r *Replica) ended() bool {
	select {
	case <-r.Exited():
		return true
	default:
		return false
	}
}

// pause waits for more of the log, for the end of the replica or of ctx.
func (r *Replica) pause(ctx context.Context) error {
	t := time.NewTimer(pollEvery)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Exited():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// lineReader cuts a growing file into lines.
type lineReader struct {
	r    *bufio.Reader
	part []byte // a line without its end so far
	cr   bool   // the last line ended with a carriage return: a newline after it is part of that end
	err  error
}

// each yields the whole lines there are now; false when the consumer has enough.
func (l *lineReader) each(yield func(string, error) bool) bool {
	for {
		b, err := l.r.ReadByte()
		if err != nil {
			if err != io.EOF {
				l.err = err
			}
			return true
		}
		follows := l.cr && b == '\n'
		l.cr = b == '\r'
		switch {
		case follows:
		case b == '\n' || b == '\r':
			if !l.flush(yield) {
				return false
			}
		default:
			l.part = append(l.part, b)
			if len(l.part) >= maxLine && !l.flush(yield) {
				return false
			}
		}
	}
}

func (l *lineReader) flush(yield func(string, error) bool) bool {
	line := string(bytes.ToValidUTF8(l.part, []byte("\uFFFD")))
	l.part = l.part[:0]
	return yield(line, nil)
}

// rest yields the last line when it has no end.
func (l *lineReader) rest(yield func(string, error) bool) {
	if len(l.part) > 0 {
		l.flush(yield)
	}
}

// Tail gives the last n lines of the log, fewer when there are fewer or when the
// log cannot be read.
func (r *Replica) Tail(n int) []string {
	f, err := r.openForReading()
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size()-r.rec.LogStart > maxLine {
		_, _ = f.Seek(-maxLine, io.SeekEnd)
	}
	var all []string
	collect := func(s string, _ error) bool { all = append(all, s); return true }
	lines := lineReader{r: bufio.NewReader(f)}
	lines.each(collect)
	lines.rest(collect)
	return all[max(0, len(all)-n):]
}
