// Command drkit proves that another region can take over an LLM service: with
// the same files, the same answers, and inside the time that was promised.
package main

import (
	"context"
	"os"
)

func main() {
	ctx, stop := signalContext(context.Background())
	status := run(ctx, os.Args[1:], osStreams())
	stop()
	os.Exit(int(status))
}
