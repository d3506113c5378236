package engine

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// parseInt reads s as Python's int(s) does: surrounding white space, a sign and
// single underscores between digits are allowed.
func parseInt(s string) (any, error) {
	digits := strings.TrimSpace(s)
	body := strings.TrimLeft(digits, "+-")
	if len(digits)-len(body) > 1 || !wellUnderscored(body) {
		return nil, fmt.Errorf("%q is no whole number", s)
	}
	clean := strings.ReplaceAll(digits, "_", "")
	if n, err := strconv.ParseInt(clean, 10, 64); err == nil {
		return n, nil
	}
	if n, ok := new(big.Int).SetString(strings.TrimPrefix(clean, "+"), 10); ok && len(clean) < 4300 {
		return n, nil
	}
	return nil, fmt.Errorf("%q is no whole number", s)
}

func wellUnderscored(digits string) bool {
	return digits != "" && strings.Trim(digits, "0123456789_") == "" &&
		!strings.HasPrefix(digits, "_") && !strings.HasSuffix(digits, "_") && !strings.Contains(digits, "__")
}

// parseFloat reads s as Python's float(s) does.
func parseFloat(s string) (any, error) {
	body := strings.TrimSpace(s)
	if strings.ContainsAny(body, "xXpP") { // Go reads hexadecimal floats, Python does not
		return nil, fmt.Errorf("%q is no number", s)
	}
	for i := range len(body) {
		if body[i] == '_' && (i == 0 || i == len(body)-1 || !isDigit(body[i-1]) || !isDigit(body[i+1])) {
			return nil, fmt.Errorf("%q is no number", s)
		}
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(body, "_", ""), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return nil, fmt.Errorf("%q is no number", s)
	}
	return f, nil
}

var decimalUnits = map[byte]float64{'k': 1e3, 'm': 1e6, 'g': 1e9, 't': 1e12}

var binaryUnits = map[byte]int64{'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40}

// errVerbatim is a conversion error whose words argparse keeps.
type errVerbatim string

func (e errVerbatim) Error() string { return string(e) }

// humanInt reads whole numbers with a unit: 1k is 1000, 1K is 1024, 25.6k is
// 25600 (the catalogue's human_numbers).
func humanInt(s string) (any, error) {
	body := strings.TrimSpace(s)
	if len(body) > 1 && plainDecimal(body[:len(body)-1]) {
		number, unit := body[:len(body)-1], body[len(body)-1]
		if scale, ok := decimalUnits[unit]; ok {
			f, _ := strconv.ParseFloat(number, 64)
			if f *= scale; f < 1<<62 {
				return int64(f), nil
			}
			return nil, fmt.Errorf("%q is too large", s)
		}
		if scale, ok := binaryUnits[unit]; ok {
			return binaryInt(number, string(unit), scale)
		}
	}
	return parseInt(body)
}

func binaryInt(number, unit string, scale int64) (any, error) {
	if strings.Contains(number, ".") {
		return nil, errVerbatim(fmt.Sprintf("Decimals are not allowed with binary suffixes like %s. Did you mean to use %s%s instead?",
			unit, number, strings.ToLower(unit)))
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > (1<<62)/scale {
		return nil, fmt.Errorf("%q is too large", number+unit)
	}
	return n * scale, nil
}

// humanIntOrAuto also reads "auto" and -1, which mean: let the engine decide.
func humanIntOrAuto(s string) (any, error) {
	if body := strings.TrimSpace(s); body == "-1" || strings.EqualFold(body, "auto") {
		return int64(-1), nil
	}
	return humanInt(s)
}

// plainDecimal reports whether s is digits, or digits, a point and digits.
func plainDecimal(s string) bool {
	whole, fraction, point := strings.Cut(s, ".")
	return allDigits(whole) && (!point || allDigits(fraction))
}

func allDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
