package step

import (
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
)

// notebook is a scope that keeps the progress it is told of.
type notebook struct {
	drill.Scope
	mu   sync.Mutex
	told []drill.Progress
}

func (n *notebook) Emit(_ string, data any) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, data.(drill.Progress))
	return drill.ErrOver // progress may be lost
}

// TestTheTellerTells: once a second, also when nothing moved, and a last time when a
// task and when the step ends.
func TestTheTellerTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &notebook{}
		told := tell(book)
		bytes := told.Task("restore", 2, 1000)
		bytes.Add(1, 400)
		time.Sleep(2500 * time.Millisecond)
		bytes.Add(1, 600)
		bytes.Done()
		time.Sleep(time.Second)
		files := told.Task("look", 7, 0)
		time.Sleep(time.Second)
		files.Add(3, 0)
		told.close()
		restore := func(done int64) drill.Progress {
			return drill.Progress{Task: "restore", Done: done, Total: 1000, Unit: "bytes"}
		}
		look := func(done int64) drill.Progress {
			return drill.Progress{Task: "look", Done: done, Total: 7, Unit: "files"}
		}
		want := []drill.Progress{restore(0), restore(400), restore(400), restore(1000), look(0), look(0), look(3)}
		if !reflect.DeepEqual(book.told, want) {
			t.Errorf("told %v\nwant %v", book.told, want)
		}
	})
}
