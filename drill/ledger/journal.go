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
	"strings"
	"sync"

	"drkit/drill"
	"drkit/internal/errext"
)

var (
	// ErrLive says that the run's process still lives.
	ErrLive = errors.New("the run's process still lives")
	// ErrCopied says that a run's folder holds the journal of another one.
	ErrCopied = errors.New("its folder was copied or renamed")
)

// maxLine bounds a line in bytes: an event is small.
const maxLine = 16 << 20

// Journal is an open journal. It holds the run's lock until Close, or until its
// process ends however it ends.
type Journal struct {
	mu     sync.Mutex
	file   *os.File
	path   string
	redact func([]byte) []byte
	failed error  // the first failure: nothing may be written after a torn line
	cut    int    // bytes of a half line that Open cut off
	last   string // SHA-256 of the last line; "" before the first
}

var (
	_ drill.Journal = (*Journal)(nil)
	_ drill.Keeper  = (*Journal)(nil)
)

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
	err := regular(Path(dir, run))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("run %s in %s: %w", run, dir, ErrNoRun)
	}
	if err != nil {
		return nil, err
	}
	j, err := open(Path(dir, run), os.O_RDWR|os.O_APPEND, redact)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(j.cutTail(), own(Path(dir, run), run)); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// regular refuses what is no file: a pipe would block whoever opens it, and a device
// may never end.
func regular(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		return lost(err)
	}
	return nil
}

// own refuses the journal of another run in a run's folder. One that cannot be read, or
// that is empty, is for others to judge.
func own(path, run string) error {
	for e, err := range Read(path) {
		if err != nil || e.Run == run {
			return nil
		}
		return copied(path, e.Run)
	}
	return nil
}

func copied(path, of string) error {
	return errext.WithHint(lost(fmt.Errorf("%s is the journal of run %s: %w", path, of, ErrCopied)),
		"keep copies elsewhere than beneath the folder of the runs")
}

// openFile opens a journal to be read.
func openFile(path string) (*os.File, error) {
	if err := regular(path); err != nil {
		return nil, err
	}
	return os.Open(path)
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
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed != nil {
		return j.failed
	}
	e.Prev = j.last
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("event %d: %w", e.Seq, err)
	}
	if line = append(line, '\n'); len(line) > maxLine {
		return fmt.Errorf("event %d is longer than %d bytes", e.Seq, maxLine)
	}
	j.failed = j.write(line, e.Type != drill.TypeProgress && e.Type != drill.TypeLog)
	if j.failed == nil {
		j.last = hexSum(line)
	}
	return j.failed
}

// Keeps refuses arguments of an undo that hold a secret: they would not be in the
// journal as they are.
func (j *Journal) Keeps(args json.RawMessage) error {
	at, err := secretsIn(args, j.redact)
	if err == nil && len(at) > 0 {
		err = fmt.Errorf("a secret is in its %s", strings.Join(at, ", "))
	}
	return err
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

// cutTail removes a last line that has no end, and takes the sum of the last whole one.
func (j *Journal) cutTail() error {
	raw, err := os.ReadFile(j.path)
	if err != nil {
		return lost(fmt.Errorf("reading the journal: %w", err))
	}
	whole := bytes.LastIndexByte(raw, '\n') + 1
	if whole > 0 {
		j.last = hexSum(raw[bytes.LastIndexByte(raw[:whole-1], '\n')+1 : whole])
	}
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
//
// It does not look at the chain of lines: what a run changed must be taken back
// even when a line of its journal has rotted. LoadFile does.
func Read(path string) iter.Seq2[drill.Event, error] {
	return lines(path, func(int, []byte, drill.Event) error { return nil })
}

// readChained is Read of lines that must follow one another.
func readChained(path string) iter.Seq2[drill.Event, error] {
	var c lineChain
	return lines(path, c.check)
}

// lineChain checks that each line holds the SHA-256 of the one before. A journal of
// a version without the chain holds none at all.
type lineChain struct {
	last    string
	chained bool
}

func (c *lineChain) check(n int, line []byte, e drill.Event) error {
	c.chained = c.chained || n == 2 && e.Prev != "" || n == 1 && announced(e)
	want := c.last
	c.last = hexSum(line)
	if n == 1 && e.Prev != "" || n > 1 && c.chained && e.Prev != want {
		return fmt.Errorf("it does not follow the line before it: line %d or this one was changed, or lines were taken out, added or moved", max(n-1, 1))
	}
	return nil
}

// announced says that the event opens a journal that the ledger knows of.
func announced(e drill.Event) bool {
	var s drill.RunStarted
	return e.Type == drill.TypeRunStarted && json.Unmarshal(e.Data, &s) == nil && s.Ledger != nil
}

func lines(path string, check func(n int, line []byte, e drill.Event) error) iter.Seq2[drill.Event, error] {
	return func(yield func(drill.Event, error) bool) {
		f, err := openFile(path)
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
			e, err := eventOf(line, err)
			if err == nil {
				err = check(n, line, e)
			}
			if err != nil {
				yield(drill.Event{}, damaged(path, n, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// LineError says which line of a journal is wrong.
type LineError struct {
	Path string
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

func damaged(path string, line int, err error) error {
	return errext.WithHint(&LineError{Path: path, Line: line, Err: err},
		"the journal was changed or damaged: do not use it as evidence; `drkit drill verify-evidence` says what else does not hold")
}

func eventOf(line []byte, err error) (drill.Event, error) {
	var e drill.Event
	if err == nil {
		err = json.Unmarshal(line, &e)
	}
	if err != nil {
		return e, fmt.Errorf("not an event: %w", err)
	}
	return e, nil
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

// Load is LoadFile of a run's own journal. That of another run counts for nothing there:
// a folder that was copied would make one run two.
func Load(dir, run string) (*drill.Run, error) {
	r, err := LoadFile(Path(dir, run))
	if r.ID != "" && r.ID != run {
		return &drill.Run{}, copied(Path(dir, run), r.ID)
	}
	return r, err
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
	if err := regular(path); err != nil {
		return &drill.Run{}, err
	}
	r, err := drill.Replay(readChained(path))
	if err != nil {
		if _, told := errors.AsType[*LineError](err); !told {
			err = damaged(path, int(r.Seq)+1, err) // one event a line
		}
		return r, err
	}
	if r.ID == "" {
		return r, lost(fmt.Errorf("%s: the journal is empty", path))
	}
	if err := drill.Verify(r); err != nil {
		return r, damaged(path, int(r.Seq), err)
	}
	return r, nil
}
