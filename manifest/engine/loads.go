package engine

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// loads reads s as Python's json.loads does: NaN and Infinity are numbers, the
// last of two equal keys wins. With human, a bare 15k or 80G is a number, too,
// as vLLM allows it inside the JSON of an option with a class.
func loads(s string, human bool) (any, error) {
	p := &jsonParser{src: s, human: human}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.pos < len(p.src) {
		return nil, p.errorf("extra text after the value")
	}
	return v, nil
}

type jsonParser struct {
	src   string
	pos   int
	human bool
}

func (p *jsonParser) errorf(format string, args ...any) error {
	return fmt.Errorf("%s at character %d", fmt.Sprintf(format, args...), utf8.RuneCountInString(p.src[:p.pos])+1)
}

func (p *jsonParser) space() {
	for p.pos < len(p.src) && strings.IndexByte(" \t\n\r", p.src[p.pos]) >= 0 {
		p.pos++
	}
}

var jsonWords = []struct {
	word  string
	value any
}{
	{"null", nil}, {"true", true}, {"false", false},
	{"NaN", math.NaN()}, {"Infinity", math.Inf(1)}, {"-Infinity", math.Inf(-1)},
}

func (p *jsonParser) value(depth int) (any, error) {
	if depth > maxJSONDepth {
		return nil, p.errorf("nested too deeply")
	}
	p.space()
	if p.pos >= len(p.src) {
		return nil, p.errorf("the value is missing")
	}
	switch p.src[p.pos] {
	case '{':
		return p.object(depth)
	case '[':
		return p.array(depth)
	case '"':
		return p.str()
	}
	for _, w := range jsonWords {
		if strings.HasPrefix(p.src[p.pos:], w.word) {
			p.pos += len(w.word)
			return w.value, nil
		}
	}
	return p.number()
}

func (p *jsonParser) object(depth int) (any, error) {
	d := newDict()
	p.pos++
	for first := true; ; first = false {
		p.space()
		if p.next('}') && first {
			return d, nil
		}
		if p.pos >= len(p.src) || p.src[p.pos] != '"' {
			return nil, p.errorf("a key in double quotation marks is missing")
		}
		key, err := p.str()
		if err != nil {
			return nil, err
		}
		if p.space(); !p.next(':') {
			return nil, p.errorf("a colon is missing")
		}
		value, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		d.set(key, value, 0)
		p.space()
		if p.next('}') {
			return d, nil
		}
		if !p.next(',') {
			return nil, p.errorf("a comma is missing")
		}
	}
}

func (p *jsonParser) array(depth int) (any, error) {
	list := []any{}
	p.pos++
	if p.space(); p.next(']') {
		return list, nil
	}
	for {
		value, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
		p.space()
		if p.next(']') {
			return list, nil
		}
		if !p.next(',') {
			return nil, p.errorf("a comma is missing")
		}
	}
}

func (p *jsonParser) next(c byte) bool {
	if p.pos < len(p.src) && p.src[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

const jsonEscapes = `"\/bfnrt`

func (p *jsonParser) str() (string, error) {
	var b strings.Builder
	for p.pos++; p.pos < len(p.src); {
		c := p.src[p.pos]
		switch {
		case c == '"':
			p.pos++
			return b.String(), nil
		case c < 0x20:
			return "", p.errorf("a control character stands in a string")
		case c != '\\':
			b.WriteByte(c)
			p.pos++
		case p.pos+1 < len(p.src) && p.src[p.pos+1] == 'u':
			r, err := p.unicodeEscape()
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
		case p.pos+1 < len(p.src) && strings.IndexByte(jsonEscapes, p.src[p.pos+1]) >= 0:
			b.WriteByte("\"\\/\b\f\n\r\t"[strings.IndexByte(jsonEscapes, p.src[p.pos+1])])
			p.pos += 2
		default:
			return "", p.errorf("an unknown escape")
		}
	}
	return "", p.errorf("a string does not end")
}

func (p *jsonParser) unicodeEscape() (rune, error) {
	first, ok := p.hex4()
	if !ok {
		return 0, p.errorf(`\u needs four hexadecimal digits`)
	}
	if utf16.IsSurrogate(first) && strings.HasPrefix(p.src[p.pos:], `\u`) {
		mark := p.pos
		if second, ok := p.hex4(); ok {
			if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
				return r, nil
			}
		}
		p.pos = mark
	}
	return first, nil
}

func (p *jsonParser) hex4() (rune, bool) {
	if p.pos+6 > len(p.src) {
		return 0, false
	}
	n, err := strconv.ParseUint(p.src[p.pos+2:p.pos+6], 16, 16)
	if err != nil {
		return 0, false
	}
	p.pos += 6
	return rune(n), true
}

func (p *jsonParser) number() (any, error) {
	start := p.pos
	p.next('-')
	whole := p.digits()
	if whole == 0 || whole > 1 && p.src[p.pos-whole] == '0' {
		p.pos = start
		return nil, p.errorf("no JSON value")
	}
	if whole == 1 && p.src[p.pos-1] == '0' && p.pos < len(p.src) && isDigit(p.src[p.pos]) {
		return nil, p.errorf("a number begins with 0")
	}
	float := p.fraction()
	if p.human && p.pos < len(p.src) && strings.IndexByte("kKmMgGtT", p.src[p.pos]) >= 0 {
		p.pos++
		return humanInt(p.src[start:p.pos])
	}
	if p.exponent() {
		float = true
	}
	if float {
		f, _ := strconv.ParseFloat(p.src[start:p.pos], 64) // out of range is infinite, as in Python
		return f, nil
	}
	return parseInt(p.src[start:p.pos])
}

func (p *jsonParser) digits() int {
	start := p.pos
	for p.pos < len(p.src) && isDigit(p.src[p.pos]) {
		p.pos++
	}
	return p.pos - start
}

func (p *jsonParser) fraction() bool {
	mark := p.pos
	if p.next('.') && p.digits() > 0 {
		return true
	}
	p.pos = mark
	return false
}

func (p *jsonParser) exponent() bool {
	mark := p.pos
	if p.next('e') || p.next('E') {
		if !p.next('+') {
			p.next('-')
		}
		if p.digits() > 0 {
			return true
		}
	}
	p.pos = mark
	return false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
