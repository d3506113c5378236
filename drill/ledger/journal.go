package ledger

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"sync"

	"drkit/drill"
	"drkit/internal/errext"
)

// ErrLive says that the run's process still lives.
var ErrLive = errors.New("the run's process still lives")

// maxLine bounds a line in bytes: an event is small.
const maxLine = 16 << 20

// Journal is an open journal. It holds the run's lock until Close, or until its
// process ends however it ends.
type Journal struct {
	mu     sync.Mutex
	file   *os.File
	path   string
	redact func([]byte) []byte
	failed error // the first failure: nothing may be written after a torn line
	cut    int   // bytes of a half line that Open cut off
}

var _ drill.Journal = (*Journal)(nil)

// Create begins the journal of a run. It refuses one that exists. Every string of
// an event's data passes redact, which may be nil.
func Create(dir, run string, redact func([]byte) []byte) (*Journal, error) {
	if err := checkID(run); err != nil {
		return nil, err
	}
	path := Path(dir, run)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, lost(fmt.Errorf("creating the run's folder: %w", err))
	}
	j, err := open(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, redact)
	if err != nil {
		return nil, err
	}
	if err := syncDirs(filepath.Dir(path), filepath.Dir(filepath.Dir(path)), dir); err != nil {
		return nil, errors.Join(lost(err), j.Close())
	}
	return j, nil
}

// Open continues the journal of a run whose process is gone; ErrLive when it is
// not. A half line at the end, as a kill or a power failure leaves it, is cut
// off: Cut says how much.
func Open(dir, run string, redact func([]byte) []byte) (*Journal, error) {
	if err := checkID(run); err != nil {
		return nil, err
	}
	j, err := open(Path(dir, run), os.O_RDWR|os.O_APPEND, redact)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("run %s in %s: %w", run, dir, ErrNoRun)
	}
	if err != nil {
		return nil, err
	}
	if err := j.cutTail(); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

func open(path string, flags int, redact func([]byte) []byte) (*Journal, error) {
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return nil, lost(fmt.Errorf("opening the journal: %w", err))
	}
	if err := lock(f); err != nil {
		err = fmt.Errorf("journal %s: %w", path, err)
		if errors.Is(err, ErrLive) {
			err = errext.WithHint(errext.WithStatus(err, errext.Refused), "stop it first (Ctrl-C in its terminal undoes what it changed)")
		}
		return nil, errors.Join(err, f.Close())
	}
	return &Journal{file: f, path: path, redact: redact}, nil
}

// lost marks an error as one of evidence that cannot be written.
func lost(err error) error { return errext.WithStatus(err, errext.Evidence) }

// Event appends one line. All but progress and log are on the disk when it returns.
func (j *Journal) Event(e drill.Event, _ *drill.Run) error {
	var err error
	if e.Data, err = redactStrings(e.Data, j.redact); err != nil {
		return fmt.Errorf("event %d: %w", e.Seq, err)
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("event %d: %w", e.Seq, err)
	}
	if line = append(line, '\n'); len(line) > maxLine {
		return fmt.Errorf("event %d is longer than %d bytes", e.Seq, maxLine)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed != nil {
		return j.failed
	}
	j.failed = j.write(line, e.Type != drill.TypeProgress && e.Type != drill.TypeLog)
	return j.failed
}

func (j *Journal) write(line []byte, durable bool) error {
	if _, err := j.file.Write(line); err != nil {
		return lost(fmt.Errorf("writing the journal: %w", err))
	}
	if durable {
		if err := j.file.Sync(); err != nil {
			return lost(fmt.Errorf("writing the journal: %w", err))
		}
	}
	return nil
}

// Events reads the journal from its beginning.
func (j *Journal) Events() iter.Seq2[drill.Event, error] { return Read(j.path) }

// Path is the journal's file.
func (j *Journal) Path() string { return j.path }

// Cut is the number of bytes of a half line that Open cut off the end.
func (j *Journal) Cut() int { return j.cut }

// Close gives the run's lock back.
func (j *Journal) Close() error { return j.file.Close() }

// cutTail removes a last line that has no end.
func (j *Journal) cutTail() error {
	raw, err := os.ReadFile(j.path)
	if err != nil {
		return lost(fmt.Errorf("reading the journal: %w", err))
	}
	whole := bytes.LastIndexByte(raw, '\n') + 1
	if j.cut = len(raw) - whole; j.cut == 0 {
		return nil
	}
	if err := errors.Join(j.file.Truncate(int64(whole)), j.file.Sync()); err != nil {
		return lost(fmt.Errorf("cutting a half line off the journal: %w", err))
	}
	return nil
}

// Read yields a journal's events. A half line at the end is left out: a kill or
// a power failure leaves one, and a live run may be writing it. Any other line
// that is no event is an error that names it.
func Read(path string) iter.Seq2[drill.Event, error] {
	return func(yield func(drill.Event, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(drill.Event{}, fmt.Errorf("opening the journal: %w", err))
			return
		}
		defer f.Close()
		r := bufio.NewReaderSize(f, 64<<10)
		for n := 1; ; n++ {
			line, err := readLine(r)
			if errors.Is(err, io.EOF) {
				return
			}
			var e drill.Event
			if err == nil {
				err = json.Unmarshal(line, &e)
			}
			if err != nil {
				yield(drill.Event{}, fmt.Errorf("%s:%d: not an event: %w", path, n, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// readLine returns the next whole line; io.EOF at the end or at a half line.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxLine:
			return nil, fmt.Errorf("longer than %d bytes", maxLine)
		}
	}
}

// LoadFile folds a journal file and refuses one that contradicts itself; the run is
// returned with the error, as far as it could be read.
func LoadFile(path string) (*drill.Run, error) {
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%s: %w", path, ErrNoRun)
		}
		return &drill.Run{}, errext.WithHint(err, "name a run id, or the file of a journal")
	}
	r, err := drill.Replay(Read(path))
	if err != nil {
		return r, err
	}
	if r.ID == "" {
		return r, lost(fmt.Errorf("%s: the journal is empty", path))
	}
	return r, drill.Verify(r)
}
