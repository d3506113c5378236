package engine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

// notModelled are values that nobody writes into an engine's configuration; they
// are reported as not judged.
var notModelled = map[string]bool{
	"a: !!set {x, y}\n":  true, // printed as a Python set
	"a: !!omap [x: 1]\n": true, // printed as a Python tuple
	"a: &x [*x]\n":       true, // printed as [[...]]
}

// TestPyYAML compares the arguments made of small files with those of PyYAML
// 6.0.3 and json.dumps on Python 3.11, recorded in testdata/pyyaml.jsonl.
func TestPyYAML(t *testing.T) {
	data, err := os.ReadFile("testdata/pyyaml.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var want struct {
			YAML, Error string
			Args        []string
		}
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		if notModelled[want.YAML] {
			continue
		}
		got, problems := Flatten([]byte(want.YAML))
		if want.Error != "" {
			if got != nil {
				t.Errorf("%q: %q, want %s", want.YAML, got, want.Error)
			}
			continue
		}
		if !reflect.DeepEqual(got, want.Args) {
			t.Errorf("%q:\n %q\nwant\n %q %+v", want.YAML, got, want.Args, problems)
		}
	}
}
