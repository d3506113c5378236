package drill

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"drkit/internal/errext"
)

// forgetful is a journal that would not keep a word.
type forgetful struct {
	*memory
	word string
}

func (f forgetful) Keeps(args json.RawMessage) error {
	if strings.Contains(string(args), f.word) {
		return errors.New("a secret is in its admin")
	}
	return nil
}

// TestSecretInAnUndo: what could not be taken back from the journal is not begun, and
// nothing of it is journaled.
func TestSecretInAnUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rn, w, j := newRunner()
		rn.Handlers = []Handler{forgetful{j, "s3cr3t"}}
		hint := ""
		rn.Steps["cutover"] = do{do: func(ctx context.Context, sc Scope) error {
			args, _ := json.Marshal("http://router/?key=s3cr3t")
			err := sc.Change(ctx, "move the router", Undo{Kind: "remove", Args: args}, func(context.Context) error {
				t.Error("it was changed")
				return nil
			})
			hint = errext.Hint(err)
			return err
		}}
		r, err := rn.Run(t.Context(), "R1", promise())
		if err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, r, j, w, Incomplete, 1)
		wantReason(t, r, "move the router: nothing was changed: what takes it back would not be whole in the journal: a secret is in its admin")
		if !contains(hint, "by the name of a variable or of a file") {
			t.Errorf("hint %q", hint)
		}
		for _, e := range j.events {
			if contains(string(e.Data), "s3cr3t") {
				t.Errorf("journaled: %s", e.Data)
			}
		}
	})
}
