package engine

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Version is the release of vLLM whose options the catalogue holds.
const Version = "0.32.0"

// catalogueJSON was dumped from the running parser of `vllm serve` 0.32.0 (CPU
// build, Python 3.11, transformers 5.19.0): every option with its type,
// default, choices and spellings, and the fields of the JSON options' classes.
//
//go:embed vllm-0.32.0.json
var catalogueJSON []byte

// option is one record of the catalogue. The short JSON names are the file's.
type option struct {
	Name       string
	Type       string          `json:"t"` // str, int, float, bool, json, str_or_json, human_int, human_int_or_auto
	RawDefault json.RawMessage `json:"d"`
	Unset      bool            `json:"nod"` // not in the result unless it is given
	Aliases    []string        `json:"al"`
	Short      []string        `json:"s"`
	Negatable  bool            `json:"neg"`
	RawChoices []any           `json:"c"`
	NArgs      string          `json:"nargs"` // "", "?" or "+"
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

type table struct {
	options []*option
	byFlag  map[string]*option // every spelling, with dashes in front
	byDest  map[string]*option
	flags   []string // the spellings in the parser's order
	classes map[string]map[string]*field
}

// catalogue decodes the embedded file once. The file is part of the program, so
// damage in it is a fault of the build and stops the program.
var catalogue = sync.OnceValue(func() *table {
	t, err := newTable(catalogueJSON)
	if err != nil {
		panic(fmt.Sprintf("reading the embedded option catalogue: %v", err))
	}
	return t
})

func newTable(data []byte) (*table, error) {
	var file struct {
		Options json.RawMessage              `json:"options"`
		Classes map[string]map[string]*field `json:"json_classes"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	t := &table{byFlag: map[string]*option{}, byDest: map[string]*option{}, classes: file.Classes}
	for _, fields := range t.classes {
		for _, f := range fields {
			f.HasDefault = f.RawDefault != nil
			f.Default = constant(f.RawDefault)
		}
	}
	err := inOrder(file.Options, func(name string, raw json.RawMessage) error {
		o := &option{Name: name}
		if err := json.Unmarshal(raw, o); err != nil {
			return fmt.Errorf("option %s: %w", name, err)
		}
		t.add(o)
		return nil
	})
	return t, err
}

func (t *table) add(o *option) {
	o.Default, o.Const = constant(o.RawDefault), constant(o.RawConst)
	for _, c := range o.RawChoices {
		if f, ok := c.(float64); ok {
			c = int64(f)
		}
		o.Choices = append(o.Choices, c)
	}
	t.options = append(t.options, o)
	t.byDest[o.dest()] = o
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

// spellings are the option's flags in the order in which argparse names them.
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
	return append(out, o.Short...)
}

// display is the option's name in argparse's messages.
func (o *option) display() string { return strings.Join(o.spellings(), "/") }

func (o *option) dest() string {
	if o.DestName != "" {
		return o.DestName
	}
	return strings.ReplaceAll(o.Name, "-", "_")
}

// negative reports whether flag switches the option off.
func (o *option) negative(flag string) bool {
	return o.Negatable && strings.HasPrefix(flag, "--no-") && slices.Contains(o.spellings(), flag)
}

// takesNone reports whether the option stands alone, without a value.
func (o *option) takesNone() bool {
	return o.Type == "bool" || o.Action == "store_true" || o.Action == "help"
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
