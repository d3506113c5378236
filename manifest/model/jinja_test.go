package model_test

import (
	"encoding/json"
	"os"
	"testing"
)

// TestFaultsAreJinjas holds the reader of templates against what Jinja 3.1 with
// loop controls said when it parsed the same texts. What the reader refuses
// Jinja refuses too, for every text; it may overlook errors inside expressions.
func TestFaultsAreJinjas(t *testing.T) {
	data, err := os.ReadFile("testdata/jinja-3.1.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Template, Error string
		Line            int
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	overlooked := map[string]bool{"{{ }}": true} // an expression that is empty
	for _, c := range all {
		facts, _ := readOne("chat_template.jinja", []byte(c.Template), nil)
		got := facts.Template.Fault
		switch {
		case got != nil && c.Error == "":
			t.Errorf("%q is refused (%s), Jinja parses it", c.Template, got.What)
		case got == nil && c.Error != "" && !overlooked[c.Template]:
			t.Errorf("%q passes, Jinja says %q", c.Template, c.Error)
		case got != nil && c.Line == 1 && got.Line != 1:
			t.Errorf("%q: line %d, Jinja says %d", c.Template, got.Line, c.Line)
		}
	}
}
