package drill

import "context"

// Inside is an ability of a Replica, found by type assertion: to run a program where
// the replica runs, with its environment and its network.
type Inside interface {
	// Run runs a program to its end and returns what it wrote. The error says that it
	// could not be run, or how it ended.
	Run(ctx context.Context, argv []string) (output []byte, err error)
}
