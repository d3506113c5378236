package engine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

// TestArgparse compares 500 command lines, put together at random from the
// catalogue's options, with what argparse of Python 3.11 made of them
// (testdata/argparse.jsonl; the parser was built from the same catalogue, with
// the types of vLLM's arguments).
func TestArgparse(t *testing.T) {
	data, err := os.ReadFile("testdata/argparse.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines, compared := bufio.NewScanner(bytes.NewReader(data)), 0
	for lines.Scan() {
		var want struct {
			Argv   []string
			Values map[string]any
			Exit   *int
			Error  string
		}
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		compared++
		p := newParse(Command{Argv: want.Argv, Entry: EntryCLI})
		f := p.expand()
		if f == nil {
			f = p.options()
		}
		if f != nil {
			if want.Exit == nil || *want.Exit != f.exit || want.Error != f.text {
				t.Errorf("%q: %d %s\nwant %s", want.Argv, f.exit, f.text, want.Error)
			}
			continue
		}
		got := map[string]any{}
		for name, v := range p.values {
			got[name] = plain(v)
		}
		if want.Exit != nil || !reflect.DeepEqual(asJSON(t, got), asJSON(t, want.Values)) {
			t.Errorf("%q: %v\nwant %v %s", want.Argv, got, want.Values, want.Error)
		}
	}
	if compared != 500 {
		t.Errorf("%d command lines were compared, want 500", compared)
	}
}
