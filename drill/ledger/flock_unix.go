//go:build unix

package ledger

import (
	"errors"
	"os"
	"syscall"
)

// lock takes the journal's lock without waiting. The kernel gives it back when
// the process ends, also by kill -9; a child does not inherit the descriptor.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLive
	}
	return err
}

// syncDirs makes new directory entries durable.
func syncDirs(dirs ...string) error {
	for _, dir := range dirs {
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return err
		}
	}
	return nil
}
