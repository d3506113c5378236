package kubernetes

import (
	"bytes"
	"io"
	"sync"
	"testing"
)

// TestBounded: two streams at once, and no more than the limit by any way in.
func TestBounded(t *testing.T) {
	b := &bounded{}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if n, err := io.Copy(b, bytes.NewReader(make([]byte, maxOutput))); n != maxOutput || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
	both.Wait()
	if got := len(b.bytes()); got != maxOutput {
		t.Errorf("%d bytes are kept, want %d", got, maxOutput)
	}
}
