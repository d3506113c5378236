package safetensors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"
)

func (h *Header) parse(text []byte) error {
	if !utf8.Valid(text) {
		return invalid("the header is not UTF-8 text")
	}
	if !bytes.HasPrefix(text, []byte("{")) {
		return invalid("the header does not begin with {")
	}
	return eachMember(text, func(name string, value json.RawMessage) error {
		if name == "__metadata__" {
			return h.parseMetadata(value)
		}
		t, err := parseTensor(name, value)
		if err != nil {
			return err
		}
		h.Tensors = append(h.Tensors, t)
		return nil
	})
}

func (h *Header) parseMetadata(value json.RawMessage) error {
	if string(value) == "null" {
		return nil
	}
	h.Metadata = map[string]string{}
	return eachMember(value, func(k string, v json.RawMessage) error {
		var s *string
		if err := json.Unmarshal(v, &s); err != nil || s == nil {
			return invalid("__metadata__ %q is not a string", k)
		}
		h.Metadata[k] = *s
		return nil
	})
}

func parseTensor(name string, value json.RawMessage) (Tensor, error) {
	t := Tensor{Name: name}
	var dtype *string
	var shape, offsets *[]uint64
	err := eachMember(value, func(k string, v json.RawMessage) (err error) {
		switch k {
		case "dtype":
			err = json.Unmarshal(v, &dtype)
		case "shape":
			err = json.Unmarshal(v, &shape)
		case "data_offsets":
			err = json.Unmarshal(v, &offsets)
		}
		if err != nil {
			return invalid("its %s is %s", k, v)
		}
		return nil
	})
	if err == nil && (dtype == nil || shape == nil || offsets == nil || len(*offsets) != 2) {
		err = invalid("it needs dtype, shape and two data_offsets")
	}
	if err == nil {
		t.DType = DType(*dtype)
		err = t.fill(*shape, *offsets)
	}
	var he *HeaderError
	if errors.As(err, &he) {
		he.Tensor = name
	}
	return t, err
}

// fill sets shape and offsets, and checks that they agree with the dtype.
func (t *Tensor) fill(shape, offsets []uint64) error {
	begin, end := offsets[0], offsets[1]
	if begin > end || end > math.MaxInt64 {
		return invalid("its data_offsets are %d to %d", begin, end)
	}
	t.Begin, t.End = int64(begin), int64(end)
	t.Shape = make([]int64, len(shape))
	elements, overflow := uint64(1), false
	for i, n := range shape {
		var hi uint64
		hi, elements = bits.Mul64(elements, n)
		overflow = overflow || hi != 0 || n > math.MaxInt64
		t.Shape[i] = int64(n)
	}
	width, known := t.DType.Bits()
	hi, total := bits.Mul64(elements, uint64(width))
	if overflow || hi != 0 {
		return &HeaderError{Kind: BadShape, Detail: fmt.Sprintf("its shape %v overflows", shape)}
	}
	if !known {
		return nil
	}
	if total%8 != 0 {
		return &HeaderError{Kind: BadShape, Detail: fmt.Sprintf("its shape %v in %s is %d bits, not whole bytes", shape, t.DType, total)}
	}
	if total/8 != end-begin {
		return &HeaderError{Kind: BadShape, Want: int64(total / 8), Got: t.Bytes(),
			Detail: fmt.Sprintf("its shape %v in %s is %d bytes, its data_offsets span %d", shape, t.DType, total/8, end-begin)}
	}
	return nil
}

// checkLayout sorts the tensors by place and proves that they cover the data
// without hole or overlap and end where the file ends.
func (h *Header) checkLayout() error {
	slices.SortFunc(h.Tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End), cmp.Compare(a.Name, b.Name))
	})
	var at int64
	for _, t := range h.Tensors {
		if t.Begin > at {
			return &HeaderError{Kind: Hole, Tensor: t.Name, Want: at, Got: t.Begin,
				Detail: fmt.Sprintf("it begins at byte %d of the data, the tensor before it ends at %d: %d bytes belong to none", t.Begin, at, t.Begin-at)}
		}
		if t.Begin < at {
			return &HeaderError{Kind: Overlap, Tensor: t.Name, Want: at, Got: t.Begin,
				Detail: fmt.Sprintf("it begins at byte %d of the data, inside the tensor before it, which ends at %d", t.Begin, at)}
		}
		at = t.End
	}
	return h.checkSize(at)
}

func (h *Header) checkSize(data int64) error {
	have := h.Size - h.DataStart
	switch {
	case have < data:
		return &HeaderError{Kind: Truncated, Want: saturate(h.DataStart, data), Got: h.Size,
			Detail: fmt.Sprintf("the header describes a file of %d bytes, it has %d: %d bytes are missing at its end", saturate(h.DataStart, data), h.Size, data-have)}
	case have > data:
		return &HeaderError{Kind: TrailingBytes, Want: h.DataStart + data, Got: h.Size,
			Detail: fmt.Sprintf("the header describes a file of %d bytes, it has %d: %d bytes too many at its end", h.DataStart+data, h.Size, have-data)}
	}
	return nil
}

func saturate(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// eachMember calls f for each member of a JSON object, in order. encoding/json
// alone would keep the last of two equal names in silence.
func eachMember(text []byte, f func(name string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return invalid("the JSON text is not an object")
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return invalid("the JSON text is broken at byte %d: %v", d.InputOffset(), err)
		}
		name, _ := t.(string)
		if seen[name] {
			return &HeaderError{Kind: DuplicateKey, Detail: fmt.Sprintf("the name %q stands twice", name)}
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return invalid("the JSON text is broken at byte %d: %v", d.InputOffset(), err)
		}
		if err := f(name, value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return invalid("the JSON text is broken at byte %d: %v", d.InputOffset(), err)
	}
	if _, err := d.Token(); err != io.EOF {
		return invalid("text follows the JSON object")
	}
	return nil
}

func invalid(format string, args ...any) *HeaderError {
	return &HeaderError{Kind: InvalidHeader, Detail: fmt.Sprintf(format, args...)}
}
