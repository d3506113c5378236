package replicate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/mem"
	"drkit/manifest/release"
)

// marked is a bucket whose server takes a delete marker for an object where a
// write asks for none to be there.
type marked struct {
	*mem.Store
	key string
}

func (m marked) Put(ctx context.Context, key string, b store.Body, c store.Cond) (store.Object, error) {
	if key == m.key && c.Absent {
		return store.Object{}, fmt.Errorf("writing %s: %w", key, store.ErrPrecondition)
	}
	return m.Store.Put(ctx, key, b, c)
}

// What was deleted in a bucket with versions is brought back.
func TestADeleteMarkerIsReplaced(t *testing.T) {
	m := newRelease(small)
	regions := twoBuckets(t)
	mustRun(t, m, small, regions)
	key := "support/" + m.Release + "/model/base/tokenizer.json"
	target := regions[0].Store.(*mem.Store)
	if err := target.Remove(t.Context(), key, store.Cond{}); err != nil {
		t.Fatal(err)
	}
	regions[0].Store = marked{target, key}
	res := mustRun(t, m, small, regions)
	if o, err := target.Stat(t.Context(), key); err != nil || o.Size != int64(len(small["model/base/tokenizer.json"])) {
		t.Errorf("%+v, %v", o, err)
	}
	if got := res.Regions[1]; got.Copied != 1 || !got.Verified {
		t.Errorf("%+v", got)
	}
}

// CURRENT is written on condition alone: where the server cannot do that, the
// error says what is in the way.
func TestADeleteMarkerOfCurrentIsNamed(t *testing.T) {
	m := newRelease(small)
	regions := twoBuckets(t)
	regions[0].State = marked{regions[0].State.(*mem.Store), release.CurrentKey("eu", "support")}
	res, err := run(t, m, small, regions)
	if err == nil || res.Regions[1].Published || !strings.Contains(errext.Hint(err), "delete marker") {
		t.Errorf("%v, hint %q", err, errext.Hint(err))
	}
}
