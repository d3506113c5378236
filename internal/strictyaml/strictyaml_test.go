package strictyaml

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"drkit/internal/errext"
)

type shape struct {
	Name  string            `yaml:"name" strict:"required"`
	Kind  string            `yaml:"kind" strict:"enum=small|large"`
	Count int               `yaml:"count" strict:"min=0,max=9"`
	Byte  uint8             `yaml:"byte"`
	Share float64           `yaml:"share" strict:"max=1"`
	On    bool              `yaml:"on"`
	Wait  time.Duration     `yaml:"wait" strict:"min=1s,max=1h"`
	List  []string          `yaml:"list" strict:"enum=a|b"`
	Env   map[string]string `yaml:"env"`
	Inner *inner            `yaml:"inner"`
	Items []inner           `yaml:"items"`
	With  yaml.Node         `yaml:"with"`
	Even  even              `yaml:"even"`
	Base  `yaml:",inline"`

	Hidden string // no tag: cannot be written
}

type inner struct {
	A int    `yaml:"a" strict:"required"`
	B string `yaml:"b"`
}

// Base is inlined: its keys are the shape's own.
type Base struct {
	Owner string `yaml:"owner"`
}

type even string

func (e *even) UnmarshalText(text []byte) error {
	if len(text)%2 != 0 {
		return errext.WithHint(errors.New("has an odd length"), "add a letter")
	}
	*e = even(text)
	return nil
}

// problems decodes and returns "line path: what (hint)" for each error.
func problems(t *testing.T, data string, out any) []string {
	t.Helper()
	err := Decode([]byte(data), "f.yaml", out)
	if err == nil {
		return nil
	}
	if errext.StatusOf(err) != errext.Usage {
		t.Errorf("status %v", errext.StatusOf(err))
	}
	var all *Errors
	if !errors.As(err, &all) || all.File != "f.yaml" {
		t.Fatalf("no list in %T", err)
	}
	var list []string
	for _, e := range all.List {
		list = append(list, fmt.Sprintf("%d %s: %s", e.Line, e.Path, e.What))
	}
	return list
}

func TestDecodes(t *testing.T) {
	var got shape
	data := `
name: &n x
kind: large
count: 0x9
byte: 255
share: 1
on: true
wait: 1m30s
list: [a, b]
env: {A: "1", B.c: *n, "yes": no}
inner: {a: 1}
items: [{a: 2, b: 2026-01-02}, &i {a: 3}, *i]
even: abcd
owner: mei
`
	if p := problems(t, data, &got); p != nil {
		t.Fatal(p)
	}
	want := shape{
		Name: "x", Kind: "large", Count: 9, Byte: 255, Share: 1, On: true, Wait: 90 * time.Second,
		List: []string{"a", "b"}, Env: map[string]string{"A": "1", "B.c": "x", "yes": "no"},
		Inner: &inner{A: 1}, Items: []inner{{A: 2, B: "2026-01-02"}, {A: 3}, {A: 3}}, Even: "abcd", Base: Base{"mei"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       []string
	}{
		{"all at once", "name: 3\nkind: mall\ncount: 10\nbyte: 256\nshare: 1.5\non: yes\nwait: 5\nlist: [a, c]\neven: abc\n", []string{
			"1 name: must be text, not a number",
			`2 kind: "mall" is not one of small, large`,
			"3 count: is 10: must be at most 9",
			"4 byte: is too large, or not such a number at all",
			"5 share: is 1.5: must be at most 1",
			"6 on: must be true or false, not text",
			"7 wait: must be a duration such as 30m, not a number",
			`8 list[1]: "c" is not one of a, b`,
			"9 even: has an odd length",
		}},
		{"duplicate hides nothing", "name: x\nname: [y]\nnmae: z\ninner: {a: 1, a: x, c: 2}\nitems:\n  - b: 1\n", []string{
			"2 name: is already set on line 1", "2 name: must be text, not a list", "3 nmae: unknown key",
			"4 inner.a: is already set on line 4", "4 inner.a: must be a whole number, not text", "4 inner.c: unknown key",
			"6 items[0].a: is missing", "6 items[0].b: must be text, not a number",
		}},
		{"missing and empty", "owner: x\ninner: {}\n", []string{"1 name: is missing", "2 inner.a: is missing"}},
		{"blank name", "name: ' '\n", []string{"1 name: is empty"}},
		{"likely meant", "naem: x\n", []string{"1 naem: unknown key"}},
		{"null", "name: x\nlist:\nenv: ~\ninner: null\n", []string{"2 list: has no value", "3 env: has no value", "4 inner: has no value"}},
		{"durations", "name: x\nwait: 90\nitems: []\n", []string{"2 wait: must be a duration such as 30m, not a number"}},
		{"duration bounds", "name: x\nwait: 2h\n", []string{"2 wait: is 2h: must be at most 1h"}},
		{"duration text", "name: x\nwait: -5s\n", []string{"2 wait: is -5s: must be at least 1s"}},
		{"fraction", "name: x\ncount: 1.5\nshare: .nan\n", []string{"2 count: must be a whole number, not a decimal number", "3 share: is not a finite number"}},
		{"huge number", "name: x\ncount: 99999999999999999999\n", []string{"2 count: must be a whole number, not a decimal number"}},
		{"tagged", "name: !!str 3\ncount: !!int x\nenv: !!set {a}\nowner: !secret x\n", []string{
			"2 count: is too large, or not such a number at all", "3 env: has the tag !!set, which is not supported", "4 owner: has the tag !secret, which is not supported"}},
		{"merge", "name: x\nitems:\n  - &a {a: 1}\n  - <<: *a\n    a: 2\n", []string{"4 items[1]: merge keys (<<) are not supported"}},
		{"keys", "name: x\nenv:\n  1: a\n  [b]: c\n  ~: d\n", []string{
			"3 env: has a key that is a number, not text", "4 env: has a key that is a list, not text", "5 env: has a key that is nothing, not text"}},
		{"cycle", "name: x\nenv: &e {a: *e}\n", []string{"2 env.a: is an alias of a value that it is part of"}},
		{"cycle kept for later", "name: x\nwith: &w\n  a: [*w]\n", []string{"3 with.a[0]: is an alias of a value that it is part of"}},
		{"kept for later", "name: x\nwith:\n  a: 1\n  a: 2\n  <<: {}\n  b: [{c: 1, c: 2}]\n", []string{
			"4 with.a: is already set on line 3", "5 with: merge keys (<<) are not supported", "6 with.b[0].c: is already set on line 6"}},
		{"hidden field", "name: x\nHidden: y\nBase: {}\n", []string{"2 Hidden: unknown key", "3 Base: unknown key"}},
		{"placeholder", "name: {{port}}\nlist: {{x}}\n", []string{"1 name: must be text, not a mapping", "2 list: must be a list, not a mapping"}},
		{"second document", "name: x\n---\nname: y\n", []string{"2 : a second YAML document begins here"}},
		{"more after the end", "name: x\n...\nname: y\n", []string{"2 : a second YAML document begins here"}},
		{"tab", "name: x\ninner:\n\ta: 1\n", []string{"3 : a tab is used for indentation"}},
		{"sign", "name: x\nowner: @y\n", []string{"2 : found character that cannot start any token"}},
		{"first line", "name: a: b\n", []string{"1 : mapping values are not allowed in this context"}},
		{"no anchor", "name: x\n\nowner: *y\n", []string{"3 : unknown anchor 'y' referenced"}},
		{"empty", "", []string{"1 : the file is empty"}},
		{"comments only", "# nothing\n", []string{"1 : the file is empty"}},
		{"scalar", "x\n", []string{"1 : must be a mapping, not text"}},
		{"not UTF-8", "name: x\nowner: \xff\n", []string{"2 : is not UTF-8"}},
		{"UTF-16", "\xff\xfen\x00", []string{"1 : is not UTF-8"}},
		{"control", "name: x\nowner: a\x00b\n", []string{"2 : holds the control character U+0000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := problems(t, c.data, new(shape)); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestHints(t *testing.T) {
	for data, hint := range map[string]string{
		"name: x\nowenr: y\n":     `did you mean "owner"?`,
		"name: x\nKind: small\n":  `did you mean "kind"?`,
		"name: x\nkind: smal\n":   `did you mean "small"?`,
		"name: 0.32\n":            "put it in quotes",
		"name: {{x}}\n":           "put {{…}} in quotes",
		"name: x\nwait: 5\n":      "add the unit: 30s",
		"name: x\nlist: a\n":      "put it in brackets: [ … ]",
		"name: x\neven: abc\n":    "add a letter",
		"name: x\ninner:\n\ta: 1": "indent with spaces",
		"name: [x\n":              "a bracket or brace is not closed",
		"name: \"x\n":             "a quote or bracket is not closed",
		"name: a: b\n":            `put a value that holds ": " in quotes, and check the indentation`,
	} {
		err := Decode([]byte(data), "f.yaml", new(shape))
		if err == nil || !strings.HasSuffix(err.Error(), "("+hint+")") {
			t.Errorf("%q: %v, want the hint %s", data, err, hint)
		}
	}
}

func TestErrorText(t *testing.T) {
	one := Decode([]byte("name: 3\n"), "f.yaml", new(shape))
	if got, want := one.Error(), "f.yaml: line 1: name: must be text, not a number (put it in quotes)"; got != want {
		t.Errorf("got %q", got)
	}
	two := Decode([]byte("name: x\ncount: x\non: 3\n"), "f.yaml", new(shape))
	want := "f.yaml: 2 errors\n  line 2: count: must be a whole number, not text\n  line 3: on: must be true or false, not a number"
	if two.Error() != want {
		t.Errorf("got %q", two.Error())
	}
}

// TestValuesOfWrongTypeAreNotEchoed: a secret may stand in a wrong place.
func TestValuesOfWrongTypeAreNotEchoed(t *testing.T) {
	err := Decode([]byte("name: 81237734\ncount: sesame\nenv: sesame\ninner: [sesame]\n"), "f.yaml", new(shape))
	if err == nil || strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "8123") {
		t.Errorf("got %v", err)
	}
}

// TestBounds: hostile files end with one clear error, in bounded time.
func TestBounds(t *testing.T) {
	laughs := "name: x\nwith:\n  a0: &a0 [x]\n"
	for i := 1; i < 30; i++ {
		laughs += fmt.Sprintf("  a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	for name, c := range map[string]struct{ data, want string }{
		"billion laughs": {laughs, "holds more than 50000 values"},
		"deep":           {"name: x\nwith: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "is nested deeper than 100 levels"},
		"endless errors": {"name: x\nitems: [" + strings.Repeat("{},", 100_000) + "]", "there are more than 1000 errors"},
		"large":          {"name: x\n#" + strings.Repeat("x", maxBytes), "is larger than 1024 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			got := problems(t, c.data, new(shape))
			if len(got) > 1001 || !strings.Contains(strings.Join(got, "\n"), c.want) {
				t.Errorf("got %d: %.300s", len(got), fmt.Sprint(got))
			}
		})
	}
}

func TestDecodeNode(t *testing.T) {
	var s shape
	if p := problems(t, "name: x\nwith:\n  a: 1\n  b: y\n  cc: z\n", &s); p != nil {
		t.Fatal(p)
	}
	var in inner
	err := DecodeNode(&s.With, "f.yaml", "with", &in)
	if got := fmt.Sprint(err); got != "f.yaml: line 5: with.cc: unknown key" {
		t.Errorf("got %q", got)
	}
	if in.A != 1 || in.B != "y" {
		t.Errorf("what was right is lost: %+v", in)
	}
	if got := fmt.Sprint(DecodeNode(new(yaml.Node), "f.yaml", "with", &in)); got != "f.yaml: with.a: is missing" {
		t.Errorf("nothing written: %q", got)
	}
	if err := DecodeNode(new(yaml.Node), "f.yaml", "with", new(Base)); err != nil {
		t.Errorf("nothing written, nothing required: %v", err)
	}
}

func TestDocument(t *testing.T) {
	d := Parse([]byte("name: x\nitems:\n  - a: 1\n    b: y\nenv: {\"a.b[0]\": z}\n"), "f.yaml")
	if k, ok := d.Scalar("name"); k != "x" || !ok {
		t.Errorf("scalar %q %v", k, ok)
	}
	if _, ok := d.Scalar("items"); ok {
		t.Error("a list is a scalar")
	}
	d.Decode(new(shape))
	for path, line := range map[string]int{"items": 2, "items[0]": 3, "items[0].b": 4, "items[0].b.none": 4, "items[7].a": 2, `env["a.b[0]"]`: 5, "nowhere": 1} {
		if got := d.Line(path); got != line {
			t.Errorf("%s: line %d, want %d", path, got, line)
		}
	}
	if !d.Has("items[0].a") || d.Has("kind") || d.Text("items[0].b") != "y" {
		t.Error("places are wrong")
	}
	d.Report("items[0].b", "is odd", "even it out")
	if !d.Faulty("items") || d.Faulty("item") || d.Faulty("items[0].a") {
		t.Error("Faulty is wrong")
	}
	if got := fmt.Sprint(d.Err()); got != "f.yaml: line 4: items[0].b: is odd (even it out)" {
		t.Errorf("got %q", got)
	}
}

func TestNear(t *testing.T) {
	keys := []string{"ttft_p99", "error_rate", "steady", "store", "state"}
	for word, want := range map[string]string{
		"ttft-p99": "ttft_p99", "TTFTP99": "ttft_p99", "stroe": "store", "errorrate": "error_rate", "xyz": "", "": "", "stat": "state",
	} {
		if got := Near(word, keys); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"name: x\nwith: &w {a: [*w]}\n", "a: &a [*a]\n", "? [a]\n: b\n", "<<: {a: 1}\n", "name: !!binary x\n", "\tx", "a: 1\n...\nb", "- - - a\n",
		"name: |\n \tx\n", "env: {\"\\u0000\": x}\n", "wait: 1h\nitems: [{a: 1}, {a: 1, a: 2}]\n", "%YAML 1.1\n---\nname: x\n", "name: x #c\n#d\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s shape
		err := Decode(data, "f.yaml", &s)
		if err == nil && s.Name == "" {
			t.Error("a missing name was accepted")
		}
		var all *Errors
		if err != nil && (!errors.As(err, &all) || len(all.List) == 0) {
			t.Errorf("error without a list: %v", err)
		}
		_ = DecodeNode(&s.With, "f.yaml", "with", new(inner))
	})
}
