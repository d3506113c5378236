package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// scratchLock is the file whose flock says that a scratch folder is in use.
const scratchLock = ".in-use"

// scratchGrace is how old a scratch folder without a lock has to be: its process may
// be about to take it.
const scratchGrace = time.Hour

// scratch makes a temporary folder, and removes those of its kind that killed processes
// left: they may hold copies of a release. Remove it with the function that is returned.
func scratch(kind string, told io.Writer) (dir string, remove func() error, err error) {
	sweep(kind, told)
	if dir, err = os.MkdirTemp("", kind+"-*"); err != nil {
		return "", nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, scratchLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("locking the scratch folder: %w", err), f.Close(), os.RemoveAll(dir))
	}
	return dir, func() error { return errors.Join(os.RemoveAll(dir), f.Close()) }, nil
}

// sweep removes what nobody uses. What cannot be removed is another user's, or will be
// tried again.
func sweep(kind string, told io.Writer) {
	found, err := filepath.Glob(filepath.Join(os.TempDir(), kind+"-*"))
	if err != nil {
		return // a folder whose name is a bad pattern: nothing can be found there
	}
	for _, dir := range found {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() || inUse(dir, info) {
			continue
		}
		if err := os.RemoveAll(dir); err == nil {
			fmt.Fprintf(told, "drkit: note: removed %s, which a killed process left\n", dir)
		}
	}
}

func inUse(dir string, info os.FileInfo) bool {
	f, err := os.Open(filepath.Join(dir, scratchLock))
	if errors.Is(err, os.ErrNotExist) {
		return time.Since(info.ModTime()) < scratchGrace
	}
	if err != nil {
		return true
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}
