package store

import "time"

// Identified is implemented by places that keep neither versions nor ETags but can
// tell whether a file was written to since, such as a directory by inode and
// change time. Identity returns a text that every write changes, and when the
// last change was; an empty text says that it cannot be told.
type Identified interface {
	Identity(o Object) (text string, changed time.Time)
}
