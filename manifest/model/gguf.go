package model

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// GGUF is what the header of one GGUF file says.
type GGUF struct {
	Path         string `json:"path"`
	Architecture string `json:"architecture,omitempty"`
	Tensors      int    `json:"tensors"`
	Context      int    `json:"context_length,omitempty"`
	Tokenizer    bool   `json:"tokenizer,omitempty"` // its tokens are inside
	Template     bool   `json:"template,omitempty"`  // a chat template is inside
	Splits       int    `json:"splits,omitempty"`    // of a file in several parts: how many there are
}

// KindGGUF is the prefix of the kinds of a GGUF header that does not describe its file.
const KindGGUF = "gguf-"

// maxGGUF bounds the header of a GGUF file in bytes; the vocabulary inside it
// takes some 10 MiB in published models.
const maxGGUF = 64 << 20

// errShort says that more bytes are needed than were given.
var errShort = errors.New("the header goes on")

// gguf parses the header of a file of size bytes from its beginning. errShort:
// the beginning is too short to tell.
func gguf(data []byte, size int64) (GGUF, int, error) {
	p := &ggufReader{data: data, size: size}
	g, err := p.file()
	if err != nil {
		return GGUF{}, 0, err
	}
	return g, p.at, nil
}

type ggufReader struct {
	data      []byte
	at        int
	size      int64
	alignment uint64
	depth     int
}

func (p *ggufReader) take(n uint64) ([]byte, error) {
	if n > uint64(p.size)-uint64(p.at) {
		return nil, fmt.Errorf("a field of %d bytes at byte %d goes beyond the file's end at %d", n, p.at, p.size)
	}
	if n > uint64(len(p.data)-p.at) {
		return nil, errShort
	}
	b := p.data[p.at : p.at+int(n)]
	p.at += int(n)
	return b, nil
}

func (p *ggufReader) u32() (uint32, error) {
	b, err := p.take(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (p *ggufReader) u64() (uint64, error) {
	b, err := p.take(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

func (p *ggufReader) text() (string, error) {
	n, err := p.u64()
	if err != nil {
		return "", err
	}
	b, err := p.take(n)
	return string(b), err
}

// count reads a number of things that each take at least least bytes.
func (p *ggufReader) count(what string, least uint64) (uint64, error) {
	n, err := p.u64()
	if err == nil && n > (uint64(p.size)-uint64(p.at))/least {
		err = fmt.Errorf("the header states %d %s, more than the file of %d bytes can hold", n, what, p.size)
	}
	return n, err
}

func (p *ggufReader) file() (g GGUF, err error) {
	magic, err := p.take(4)
	if err != nil {
		return g, err
	}
	if string(magic) != "GGUF" {
		return g, fmt.Errorf("it begins with %q, not with GGUF", magic)
	}
	version, err := p.u32()
	if err != nil {
		return g, err
	}
	if version < 2 || version > 3 {
		return g, fmt.Errorf("its version is %d; 2 and 3 are known", version)
	}
	tensors, err := p.count("tensors", 24)
	if err != nil {
		return g, err
	}
	pairs, err := p.count("fields", 13)
	if err != nil {
		return g, err
	}
	p.alignment, g.Tensors = 32, int(tensors)
	for range pairs {
		if err := p.pair(&g); err != nil {
			return g, err
		}
	}
	return g, p.layout(tensors)
}

// pair reads one field of the metadata.
func (p *ggufReader) pair(g *GGUF) error {
	key, err := p.text()
	if err != nil {
		return err
	}
	kind, err := p.u32()
	if err != nil {
		return err
	}
	if kind == ggufString {
		s, err := p.text()
		switch {
		case key == "general.architecture":
			g.Architecture = s
		case key == "tokenizer.chat_template":
			g.Template = s != ""
		}
		return err
	}
	start := p.at
	if err := p.skip(kind); err != nil {
		return err
	}
	value := p.data[start:p.at]
	switch {
	case key == "tokenizer.ggml.tokens":
		g.Tokenizer = true
	case key == "general.alignment" && len(value) == 4:
		p.alignment = uint64(binary.LittleEndian.Uint32(value))
	case key == "split.count" && len(value) == 2:
		g.Splits = int(binary.LittleEndian.Uint16(value))
	case key == g.Architecture+".context_length" && len(value) == 4:
		g.Context = int(binary.LittleEndian.Uint32(value))
	}
	return nil
}

const (
	ggufString = 8
	ggufArray  = 9
)

// ggufWidth is the size in bytes of each kind of value.
var ggufWidth = []uint64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

func (p *ggufReader) skip(kind uint32) error {
	switch {
	case kind == ggufString:
		_, err := p.text()
		return err
	case kind == ggufArray:
		return p.array()
	case int(kind) >= len(ggufWidth):
		return fmt.Errorf("a field has the kind %d, which GGUF does not have", kind)
	}
	_, err := p.take(ggufWidth[kind])
	return err
}

func (p *ggufReader) array() error {
	if p.depth++; p.depth > 4 {
		return errors.New("arrays are nested deeper than any writer does")
	}
	defer func() { p.depth-- }()
	kind, err := p.u32()
	if err != nil {
		return err
	}
	n, err := p.count("items of an array", 1)
	if err != nil {
		return err
	}
	if int(kind) < len(ggufWidth) && ggufWidth[kind] > 0 {
		hi, total := bits.Mul64(n, ggufWidth[kind])
		if hi != 0 {
			return fmt.Errorf("an array has %d items", n)
		}
		_, err := p.take(total)
		return err
	}
	for range n {
		if err := p.skip(kind); err != nil {
			return err
		}
	}
	return nil
}

// layout reads where the tensors lie and compares the end of the last one with
// the file's.
func (p *ggufReader) layout(tensors uint64) error {
	var end uint64
	for range tensors {
		last, err := p.tensor()
		if err != nil {
			return err
		}
		end = max(end, last)
	}
	if p.alignment == 0 || tensors == 0 {
		return nil
	}
	start := (uint64(p.at) + p.alignment - 1) / p.alignment * p.alignment
	if need := start + end; need < start || need > uint64(p.size) {
		return fmt.Errorf("the header describes a file of %d bytes, it has %d: %d bytes are missing at its end", need, p.size, need-uint64(p.size))
	}
	return nil
}

// tensor returns where a tensor ends in the data; only its beginning for an
// element type that is not known.
func (p *ggufReader) tensor() (uint64, error) {
	name, err := p.text()
	if err != nil {
		return 0, err
	}
	dimensions, err := p.u32()
	if err != nil {
		return 0, err
	}
	if dimensions > 8 {
		return 0, fmt.Errorf("tensor %.60q has %d dimensions", name, dimensions)
	}
	elements := uint64(1)
	for range dimensions {
		n, err := p.u64()
		if err != nil {
			return 0, err
		}
		hi, lo := bits.Mul64(elements, n)
		if hi != 0 || lo > 1<<56 {
			return 0, fmt.Errorf("the shape of tensor %.60q overflows", name)
		}
		elements = lo
	}
	kind, err := p.u32()
	if err != nil {
		return 0, err
	}
	offset, err := p.u64()
	if err != nil {
		return 0, err
	}
	if offset > uint64(p.size) {
		return 0, fmt.Errorf("tensor %.60q begins at byte %d of the data, the whole file has %d", name, offset, p.size)
	}
	form, ok := ggufForms[kind]
	if !ok {
		return offset, nil
	}
	return offset + elements/form.block*form.bytes, nil
}

// ggufForm is how many elements of a type share a block of how many bytes.
type ggufForm struct{ block, bytes uint64 }

var ggufForms = map[uint32]ggufForm{
	0: {1, 4}, 1: {1, 2}, 2: {32, 18}, 3: {32, 20}, 6: {32, 22}, 7: {32, 24}, 8: {32, 34}, 9: {32, 36},
	10: {256, 84}, 11: {256, 110}, 12: {256, 144}, 13: {256, 176}, 14: {256, 210}, 15: {256, 292},
	16: {256, 66}, 17: {256, 74}, 18: {256, 98}, 19: {256, 50}, 20: {32, 18}, 21: {256, 110}, 22: {256, 82}, 23: {256, 136},
	24: {1, 1}, 25: {1, 2}, 26: {1, 4}, 27: {1, 8}, 28: {1, 8}, 29: {256, 56}, 30: {1, 2}, 34: {256, 54}, 35: {256, 66}, 39: {32, 17},
}

// ggufs reads the header of every GGUF file in the root.
func (r *repository) ggufs() {
	for _, p := range r.inRoot("*.gguf") {
		if r.broken(p) {
			continue
		}
		g, _, err := gguf(r.files[p].Content, r.files[p].Size)
		if errors.Is(err, errShort) {
			err = fmt.Errorf("its header is longer than drkit reads (%d bytes)", maxGGUF)
		}
		if err != nil {
			r.problem(p, KindGGUF+"invalid", 0, err.Error())
			continue
		}
		g.Path = p
		r.facts.Weights.GGUF = append(r.facts.Weights.GGUF, g)
	}
}
