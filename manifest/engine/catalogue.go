package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// option is one record of the catalogue. The short JSON names are the file's.
type option struct {
	Name       string
	Type       string          `json:"t"` // str, int, float, bool, json, str_or_json, human_int, human_int_or_auto
	RawDefault json.RawMessage `json:"d"`
	Unset      bool            `json:"nod"` // not in the result unless it is given
	Aliases    []string        `json:"al"`
	Short      []string        `json:"s"`
	Negatable  bool            `json:"neg"`
	Inverse    []string        `json:"inv"` // enable-x for disable-x and the other way round
	Required   bool            `json:"req"`
	RawChoices []any           `json:"c"`
	NArgs      string          `json:"nargs"` // "", "?", "*" or "+"
	NoneIsNull bool            `json:"none"`  // "None" and "" mean null
	Class      string          `json:"k"`
	Late       bool            `json:"late"` // the JSON's fields are checked after parsing
	Action     string          `json:"a"`
	RawConst   json.RawMessage `json:"const"`
	Normal     bool            `json:"norm"` // lower case, - to _
	DestName   string          `json:"dest"`
	Positional bool            `json:"pos"`
	Deprecated bool            `json:"dep"`
	Removal    string          `json:"rm"`
	Use        string          `json:"use"`

	Default any
	Choices []any
	Const   any
}

// field is one field of a class that a JSON option is checked against.
type field struct {
	Type       string          `json:"t"`
	RawDefault json.RawMessage `json:"d"`
	RawChoices []any           `json:"c"`
	Init       *bool           `json:"init"` // false: cannot be given
	Default    any
	HasDefault bool
}

// table is the option catalogue of one release.
type table struct {
	engine, version string
	order           []int // version as numbers
	options         []*option
	byFlag          map[string]*option // every spelling, with dashes in front
	byDest          map[string]*option // the first option of each destination
	flags           []string           // the spellings in the parser's order
	classes         map[string]map[string]*field
	behaviour       map[string]any // how this release reads configuration, as recorded
	env             []string       // variables that the release reads, sorted
	release         Release
}

// add reads the option's values and registers it.
func (t *table) add(o *option) {
	o.Default, o.Const = constant(o.RawDefault), constant(o.RawConst)
	for _, c := range o.RawChoices {
		if f, ok := c.(float64); ok {
			c = int64(f)
		}
		o.Choices = append(o.Choices, c)
	}
	t.register(o)
}

// register makes an option known by its spellings.
func (t *table) register(o *option) {
	t.options = append(t.options, o)
	if t.byDest[o.dest()] == nil {
		t.byDest[o.dest()] = o
	}
	for _, flag := range o.spellings() {
		t.byFlag[flag] = o
		t.flags = append(t.flags, flag)
	}
}

// inOrder calls do for each member of a JSON object, in the file's order, which
// is the order of the parser and decides how ambiguous prefixes are listed.
func inOrder(object json.RawMessage, do func(string, json.RawMessage) error) error {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return err
		}
		if err := do(fmt.Sprint(name), raw); err != nil {
			return err
		}
	}
	return nil
}

// constant is a value of the catalogue as a Python value.
func constant(raw json.RawMessage) any {
	if raw == nil {
		return nil
	}
	v, err := loads(string(raw), false)
	if err != nil {
		return nil
	}
	return v
}

// spellings are the option's flags in the order in which argparse knows them.
func (o *option) spellings() []string {
	if o.Positional {
		return nil
	}
	var out []string
	for _, long := range append([]string{o.Name}, o.Aliases...) {
		out = append(out, "--"+long)
		if o.Negatable {
			out = append(out, "--no-"+long)
		}
	}
	out = append(out, o.Short...)
	for _, inverse := range o.Inverse {
		out = append(out, "--"+inverse)
	}
	return out
}

// display is the option's name in argparse's messages. Where both enable-x and
// disable-x exist, the --no- forms are not shown.
func (o *option) display() string {
	shown := o.spellings()
	if len(o.Inverse) > 0 {
		shown = slices.DeleteFunc(shown, func(flag string) bool { return strings.HasPrefix(flag, "--no-") })
	}
	return strings.Join(shown, "/")
}

func (o *option) dest() string {
	if o.DestName != "" {
		return o.DestName
	}
	return strings.ReplaceAll(o.Name, "-", "_")
}

// negative reports whether flag switches the option off.
func (o *option) negative(flag string) bool {
	return o.Negatable && strings.HasPrefix(flag, "--no-") && slices.Contains(o.spellings(), flag) ||
		slices.Contains(o.Inverse, strings.TrimPrefix(flag, "--"))
}

// takesNone reports whether the option stands alone, without a value.
func (o *option) takesNone() bool {
	return o.Type == "bool" || o.Action == "store_true" || o.Action == "help" || o.Action == "DeprecatedAction"
}

// nearest is the long spelling closest to an unknown flag, or "" when none is
// close enough to be what was meant.
func (t *table) nearest(flag string) string {
	best, distance := "", 1+min(3, max(1, len(flag)/4))
	for _, f := range t.flags {
		if !strings.HasPrefix(f, "--") {
			continue
		}
		if d := editDistance(flag, f, distance); d < distance {
			best, distance = f, d
		}
	}
	return best
}

// editDistance is Levenshtein's distance; limit is returned for anything as far.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return min(row[len(b)], limit)
}
