package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"drkit/internal/errext"
	"drkit/verify"
)

// partOption is how verify's work is divided, over processes and over interruptions.
type partOption struct {
	Shard, Partial, State string
	Resume                bool

	shard verify.Shard
}

func (o *partOption) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.Shard, "shard", "", "do one of N parts of the work: INDEX/N, from 0 on")
	c.Flags().StringVar(&o.Partial, "partial", "", "folder for the shard's result, and for what an interrupted one has proven")
	c.Flags().StringVar(&o.State, "state", "", "file for what an interrupted verification has proven (default: beneath the run folder)")
	c.Flags().BoolVar(&o.Resume, "resume", true, "go on from what an interrupted verification has proven")
}

// check reads the shard. Without a seed, each shard would draw another sample.
func (o *partOption) check(unseeded bool) (verify.Shard, error) {
	if o.Shard == "" {
		if o.Partial != "" {
			return verify.Shard{}, usage(errors.New("--partial is for the result of one shard"), "give --shard INDEX/N too, or --result FILE for a whole result")
		}
		return verify.Shard{}, nil
	}
	var err error
	if o.shard, err = verify.ParseShard(o.Shard); err != nil {
		return o.shard, err
	}
	if unseeded {
		return o.shard, usage(errors.New("--sample of a shard needs --sample-seed"), "give all shards the same seed, so that they draw one sample")
	}
	if info, err := os.Stat(o.Partial); o.Partial != "" && (err != nil || !info.IsDir()) {
		return o.shard, usage(fmt.Errorf("--partial %s is no folder", o.Partial), "make the folder first; every shard writes a file of its own in it")
	}
	return o.shard, nil
}

// clear removes the result of an earlier verification, which verify merge would
// take for this one's if this one were to fail.
func (o partOption) clear() error {
	if o.Partial == "" {
		return nil
	}
	return removeOld(o.partFile(".json"))
}

// removeOld removes a result of before, which an interrupted verification would
// leave to be taken for its own.
func removeOld(file string) error {
	info, err := os.Stat(file)
	if file == "" || errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err == nil {
		err = os.Remove(file)
	}
	return errext.WithHint(err, "see that "+filepath.Dir(file)+" may be written to")
}

// partFile is a shard's own file.
func (o partOption) partFile(ext string) string {
	return filepath.Join(o.Partial, fmt.Sprintf("shard-%05d-of-%05d%s", o.shard.Index, o.shard.Count, ext))
}

// stateFile is where the proofs of a verification are kept, "" for nowhere.
func (o partOption) stateFile(key verify.StateKey, runs string) string {
	id, err := json.Marshal(struct {
		verify.StateKey
		verify.Shard
	}{key, o.shard})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(id)
	name := hex.EncodeToString(sum[:8]) + ".state.jsonl"
	switch {
	case o.State != "":
		return o.State
	case o.Partial != "":
		return o.partFile("-" + name)
	case runs != "":
		return filepath.Join(runs, "verify", name)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "drkit", "verify", name)
}

// keeping runs a verification that goes on from what an interrupted one had proven
// and leaves what it proves behind when it is interrupted itself. Once everything
// has a verdict nothing is left: a later verification looks anew.
func (o partOption) keeping(s *streams, opts verify.Options, key verify.StateKey, runs string, work func(verify.Options) (verify.Result, error)) (verify.Result, error) {
	key.Level, key.Require = opts.Level, opts.Require
	f := &stateFile{path: o.stateFile(key, runs), own: o.State == "" && o.Partial == ""}
	opts.State = verify.NewState(key)
	if o.Resume {
		if err := f.load(opts.State); err != nil {
			return verify.Result{}, err
		}
	}
	err := opts.State.Record(f)
	if err != nil && o.State+o.Partial != "" {
		return verify.Result{}, errext.WithHint(fmt.Errorf("keeping the state of the verification: %w", err), "see that "+filepath.Dir(f.path)+" is there and may be written to")
	}
	res, err := work(opts)
	kept := errors.Join(opts.State.Err(), f.close())
	if err == nil && len(res.Errors) == 0 {
		return res, f.remove()
	}
	if kept != nil && opts.State.Len() > 0 {
		fmt.Fprintf(s.Err, "drkit: note: what was proven could not be kept, so the next verification begins anew: %v\n", kept)
	}
	return res, err
}

// stateFile is written from the first proof on, and replaces what was there before
// in one step.
type stateFile struct {
	path string
	own  bool         // the folder is drkit's, and goes with its last file
	head bytes.Buffer // the header and earlier proofs, until there is something new
	f    *os.File
}

func (f *stateFile) load(s *verify.State) error {
	data, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) || f.path == "" {
		return nil
	}
	if err == nil {
		err = errors.Join(s.Load(data, now()), data.Close())
	}
	if err != nil {
		return errext.WithHint(errext.WithStatus(fmt.Errorf("going on from %s: %w", f.path, err), errext.Usage), "--resume=false begins anew")
	}
	return nil
}

// Write takes the head in one piece first, then proofs.
func (f *stateFile) Write(p []byte) (int, error) {
	if f.path == "" {
		return 0, errors.New("no folder is known for it: set HOME, or give --state FILE")
	}
	if f.head.Len() == 0 && f.f == nil {
		return f.head.Write(p)
	}
	if f.f == nil {
		if err := f.begin(); err != nil {
			return 0, err
		}
	}
	return f.f.Write(p)
}

// begin writes the head beside the old file and then takes its place.
func (f *stateFile) begin() error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
		return err
	}
	if err := replaceFile(f.path, func(w io.Writer) error { _, err := w.Write(f.head.Bytes()); return err }); err != nil {
		return err
	}
	var err error
	f.f, err = os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND, 0)
	return err
}

func (f *stateFile) close() error {
	if f.f == nil {
		return nil
	}
	return f.f.Close()
}

// remove removes the file, and drkit's folder when nothing else is in it.
func (f *stateFile) remove() error {
	err := os.Remove(f.path)
	if err == nil && f.own {
		_ = os.Remove(filepath.Dir(f.path)) // others may have files there
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errext.WithHint(err, "the verification has ended, but its state could not be removed: remove it, or the next one goes on from it")
}
