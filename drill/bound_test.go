package drill

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHugeTextsAreCut: a line of a megabyte, of characters of two bytes each that
// do not fall on the limit.
func TestHugeTextsAreCut(t *testing.T) {
	huge := "x" + strings.Repeat("é", 1<<19)
	for _, data := range []any{
		Gate{Expected: huge, Observed: huge, Evidence: huge, Hint: huge}, StepFinished{Error: huge, Hint: huge}, Proof{Why: huge}, Problem{What: huge, Hint: huge},
		Phase{Line: huge}, Log{Line: huge}, Note{Text: huge}, Changed{Error: huge}, Undone{Error: huge}, RunAborting{Why: huge}, Component{Kind: huge, Version: huge},
	} {
		raw, err := json.Marshal(bounded(data))
		if err != nil || len(raw) > 4*maxText+1000 || !utf8.Valid(raw) || !strings.Contains(string(raw), "bytes more)") || strings.Contains(string(raw), "\ufffd") {
			t.Errorf("%T: %d bytes, %v", data, len(raw), err)
		}
	}
	short := Gate{Observed: strings.Repeat("a", maxText)}
	if !reflect.DeepEqual(bounded(short), short) {
		t.Error("a text within the limit was changed")
	}
}
