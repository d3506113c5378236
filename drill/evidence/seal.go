package evidence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/internal/errext"
)

// Path is the evidence of a run.
func Path(dir, run string) string { return filepath.Join(ledger.Dir(dir, run), FileName) }

// Seal writes the evidence of a run whose journal has ended, and closes the run in
// the ledger. The ledger's record is written in spite of evidence that could not be:
// it then says so. It may be repeated; after an abort of a run that was closed, it
// closes it again. A nil chain writes the evidence alone. Errors have the status
// Evidence.
func Seal(ctx context.Context, chain *ledger.Chain, dir, run, by string) (*ledger.Entry, error) {
	if data, err := readFile(ledger.Path(dir, run)); err == nil && len(data) == 0 && chain != nil {
		return closeRun(ctx, chain, run, by, neverBegan)
	}
	doc, r, err := load(ledger.Path(dir, run))
	if err != nil {
		return nil, err
	}
	written := write(Path(dir, run), doc)
	if chain == nil {
		return nil, written
	}
	c := ledger.Closed{Journal: doc.Journal}
	if written == nil {
		seal, err := sealFile(Path(dir, run))
		if err != nil {
			return nil, err
		}
		c.Evidence = &seal
	}
	if r.Finished != nil {
		c.Verdict, c.Status = r.Finished.Verdict, r.Finished.Status
	}
	e, err := closeRun(ctx, chain, run, by, c)
	return e, errors.Join(written, err)
}

// neverBegan closes a run that was killed after it was announced and before its
// journal said anything: nothing was changed.
var neverBegan = ledger.Closed{Verdict: drill.Aborted, Status: int(errext.Interrupted), Journal: ledger.SealOf(nil)}

// closeRun appends the closing record, unless the same one is there already.
func closeRun(ctx context.Context, chain *ledger.Chain, run, by string, c ledger.Closed) (*ledger.Entry, error) {
	scan, err := chain.Scan(ctx)
	if err != nil {
		return nil, err
	}
	known := scan.Of(run)
	if len(known) == 0 {
		return nil, lost(fmt.Errorf("run %s was never opened in the ledger %s: its end is not written there", run, chain.Location()))
	}
	if last := known[len(known)-1]; last.Closed != nil && last.Closed.Journal == c.Journal && same(last.Closed.Evidence, c.Evidence) {
		return &last, nil
	}
	e, err := chain.Append(ctx, ledger.Record{Kind: ledger.KindClosed, Run: run, At: time.Now(), By: by, Closed: &c})
	return &e, err
}

func same(a, b *ledger.Sealed) bool { return a == b || a != nil && b != nil && *a == *b }

func lost(err error) error { return errext.WithStatus(err, errext.Evidence) }

// load makes the evidence of a journal file, and its folded run. A journal without
// an end, or whose lines do not follow one another, is an error of status Evidence.
func load(journal string) (*Evidence, *drill.Run, error) {
	data, err := readFile(journal)
	if err != nil {
		return nil, nil, err
	}
	r, err := ledger.LoadFile(journal)
	if err != nil {
		return nil, r, err
	}
	if r.Finished == nil {
		return nil, r, errext.WithHint(lost(fmt.Errorf("run %s has not ended: there is no evidence of it yet", r.ID)),
			"drkit drill abort "+r.ID+" closes it, if its process is gone")
	}
	e := New(r, ledger.SealOf(data))
	return &e, r, nil
}

// maxFile bounds a journal or evidence in bytes.
const maxFile = 256 << 20

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() { // a pipe would block, a device may never end
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		return nil, unreadable(err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	if err != nil {
		return nil, lost(fmt.Errorf("reading %s: %w", path, err))
	}
	return data, nil
}

// unreadable says what to do when a file that a run wrote is not there any more.
func unreadable(err error) error {
	err = lost(fmt.Errorf("reading evidence: %w", err))
	if errors.Is(err, fs.ErrNotExist) {
		err = errext.WithHint(err, "the run's folder was removed or moved: put it back (run.dir of drkit.yaml), then drkit drill abort RUN; without it nothing is known of the run, and drkit drill gc finds what it left")
	}
	return err
}

func sealFile(path string) (ledger.Sealed, error) {
	data, err := readFile(path)
	return ledger.SealOf(data), err
}

// write replaces evidence.json whole: a full disk leaves the one that was there.
func write(path string, e *Evidence) error {
	data, err := e.Encode()
	if err != nil {
		return lost(err)
	}
	if err := replace(path, data); err != nil {
		return errext.WithHint(lost(fmt.Errorf("writing %s: %w", path, err)), "free space or mend the disk, then run `drkit drill abort "+e.RunID+"`: it writes the evidence and changes nothing else")
	}
	return nil
}

func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".evidence-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone once it is renamed
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
