package lockfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
	"gopkg.in/yaml.v3"
)

// maxDepth is how deep brackets or dotted keys may nest. Locks nest five deep;
// the parsers of TOML and HCL recurse without a limit of their own, and a Go
// stack overflow cannot be caught (hcl.go has the check for HCL).
const maxDepth = 100

// maxValues is how many values a file may hold: parsers spend hundreds of bytes
// on each, however short. A lock of 8 MB has a quarter of it.
const maxValues = 1_000_000

// sane refuses what is no text, and what would take too much memory to parse.
func sane(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8 text")
	}
	n := 0
	for _, sep := range []string{"=", ",", "\n", "[", "{"} {
		n += bytes.Count(data, []byte(sep))
	}
	if n > maxValues {
		return fmt.Errorf("it holds more than %d values", maxValues)
	}
	return nil
}

func decodeTOML(data []byte, v any) error {
	if err := sane(data); err != nil {
		return err
	}
	if err := shallow(data); err != nil {
		return err
	}
	_, err := toml.Decode(string(data), v)
	var at toml.ParseError
	if errors.As(err, &at) {
		return atLine(at.Position.Line, "line %d is not valid TOML: %s", at.Position.Line, at.Message)
	}
	return err
}

// shallow refuses TOML that nests deeper than maxDepth: brackets outside strings
// and comments, and the dots of one key.
func shallow(data []byte) error {
	s := scanner{data: data}
	for s.next() {
		if s.depth > maxDepth || s.dots > maxDepth {
			line := bytes.Count(data[:s.at], []byte("\n")) + 1
			return atLine(line, "line %d nests deeper than %d levels", line, maxDepth)
		}
	}
	return nil
}

// scanner walks over TOML and skips comments and strings. It need not be exact
// about strings: one that it misreads ends at the end of its line.
type scanner struct {
	data  []byte
	at    int
	depth int
	dots  int
}

func (s *scanner) next() bool {
	if s.at >= len(s.data) {
		return false
	}
	c := s.data[s.at]
	switch {
	case c == '#':
		s.skipLine()
	case c == '"' || c == '\'':
		s.skipString(c)
	case c == '[' || c == '{':
		s.depth++
	case c == ']' || c == '}':
		s.depth = max(0, s.depth-1)
	case c == '.':
		s.dots++
	case c == '\n' || c == ',':
		s.dots = 0
	}
	s.at++
	return true
}

func (s *scanner) skipLine() {
	if i := bytes.IndexByte(s.data[s.at:], '\n'); i >= 0 {
		s.at += i - 1
		return
	}
	s.at = len(s.data)
}

func (s *scanner) skipString(quote byte) {
	triple := bytes.Repeat([]byte{quote}, 3)
	if bytes.HasPrefix(s.data[s.at:], triple) {
		end := bytes.Index(s.data[s.at+3:], triple)
		if end < 0 {
			s.at = len(s.data)
			return
		}
		s.at += 3 + end + 2
		return
	}
	for s.at++; s.at < len(s.data) && s.data[s.at] != quote && s.data[s.at] != '\n'; s.at++ {
		if s.data[s.at] == '\\' && quote == '"' && s.at+1 < len(s.data) && s.data[s.at+1] != '\n' {
			s.at++
		}
	}
	if s.at < len(s.data) && s.data[s.at] == '\n' {
		s.at--
	}
}

// decodeJSON decodes one JSON value; encoding/json limits the depth itself.
func decodeJSON(data []byte, v any) error {
	if err := sane(data); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	err := d.Decode(v)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		line := bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n")) + 1
		return atLine(line, "line %d is not valid JSON: %s", line, syntax.Error())
	case errors.As(err, &kind):
		return fmt.Errorf("%s is a %s where another type belongs", kind.Field, kind.Value)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return atLine(bytes.Count(data, []byte("\n"))+1, "the JSON ends too early")
	case err != nil:
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows after the JSON value")
	}
	return nil
}

// decodeYAML decodes one YAML document; yaml.v3 limits depth and aliases itself.
func decodeYAML(data []byte, v any) error {
	if err := sane(data); err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	err := d.Decode(v)
	if errors.Is(err, io.EOF) {
		return errors.New("the file is empty")
	}
	if err != nil {
		line := 0
		_, _ = fmt.Sscanf(err.Error(), "yaml: line %d:", &line)
		return atLine(line, "%s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	var more yaml.Node
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return errors.New("it holds a second YAML document")
	}
	return nil
}
