package store

import (
	"errors"
	"fmt"
	"strings"
)

// CheckKey says why a key cannot be held: it must be a relative slash path
// without "..", ".", empty components or NUL. The error is ErrUnrepresentable.
func CheckKey(key string) error {
	if key == "" || strings.ContainsRune(key, 0) {
		return fmt.Errorf("key %q is empty or contains NUL: %w", key, ErrUnrepresentable)
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("key %q contains the component %q: %w", key, part, ErrUnrepresentable)
		}
	}
	return nil
}

// CheckPrefix says why List cannot take a prefix: what stands before its last
// slash must be a key, the rest must not be "..". The error is ErrUnrepresentable.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	dir, rest := "", prefix
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		dir, rest = prefix[:i], prefix[i+1:]
	}
	if rest == ".." || strings.ContainsRune(rest, 0) || (dir != "" && CheckKey(dir) != nil) || prefix[0] == '/' {
		return fmt.Errorf("prefix %q is not relative, or contains \"..\", \".\" or an empty component: %w", prefix, ErrUnrepresentable)
	}
	return nil
}

// Is makes a dangling link an ErrNotFound: nothing can be read there.
func (e *LinkError) Is(target error) bool { return !e.Loop && target == ErrNotFound }

// KeyError says that one key cannot be read as a file: an unreadable folder, a
// pipe, a symbolic link where none may be. List yields it and goes on.
type KeyError struct {
	Key string // of a folder: with a slash at the end
	Err error
}

func (e *KeyError) Error() string { return e.Key + ": " + e.Err.Error() }
func (e *KeyError) Unwrap() error { return e.Err }

// Reasons of a KeyError that callers may branch on.
var (
	ErrLink      = errors.New("it is a symbolic link, and a copy must hold the bytes themselves")
	ErrIrregular = errors.New("it is neither a file nor a folder")
)
