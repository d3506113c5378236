package replicate

import (
	"context"
	"io"

	"drkit/internal/progress"
	"drkit/internal/store"
)

// counting is the body with its bytes told to a task as they are read.
func counting(b store.Body, task *progress.Task) store.Body {
	open := b.Open
	b.Open = func(ctx context.Context, off, n int64) (io.ReadCloser, error) {
		r, err := open(ctx, off, n)
		if err != nil {
			return nil, err
		}
		return counted{r, task}, nil
	}
	return b
}

type counted struct {
	io.ReadCloser
	task *progress.Task
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.task.Add(0, int64(n))
	return n, err
}
