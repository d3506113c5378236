package main

import (
	"os"
	"runtime/debug"
)

// softLimit is where the garbage collector begins to work harder, in bytes. A
// build holds some 800 bytes for each file of a release and little more, so the
// limit costs releases of ordinary size nothing; one of 200,000 files stays below
// 300 MB and takes somewhat longer. It is soft: beyond it drkit slows down and
// does not fail. docs/benchmarks.md has the figures.
const softLimit = 230 << 20

// boundMemory sets the limit, unless GOMEMLIMIT says another, and returns what
// takes it back.
func boundMemory() (restore func()) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	old := debug.SetMemoryLimit(softLimit)
	return func() { debug.SetMemoryLimit(old) }
}

// sparing makes the garbage collector work earlier, unless GOGC says another
// figure, and returns what takes it back. verify waits for stores most of its
// time, and is meant to run beside engines.
func sparing() (restore func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	old := debug.SetGCPercent(25)
	return func() { debug.SetGCPercent(old) }
}
