package diff

import (
	"bytes"
	"unicode/utf8"
)

const (
	maxTable   = 4 << 20 // cells of the table that finds the common lines
	shownLines = 12
)

// lineDiff counts the lines that differ between two texts: a line that was
// replaced counts once. The first of them are returned with - and +.
func lineDiff(from, to []byte) (n int, sample []string) {
	a, b := bytes.Split(from, []byte("\n")), bytes.Split(to, []byte("\n"))
	for len(a) > 0 && len(b) > 0 && bytes.Equal(a[0], b[0]) {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && bytes.Equal(a[len(a)-1], b[len(b)-1]) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a)*len(b) > maxTable {
		return countLines(a, b), nil // too much for a table: a multiset
	}
	return walkLines(a, b, commonLines(a, b))
}

// commonLines is the table of the longest common subsequence of all endings.
func commonLines(a, b [][]byte) [][]int32 {
	t := make([][]int32, len(a)+1)
	for i := range t {
		t[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if t[i][j] = max(t[i+1][j], t[i][j+1]); bytes.Equal(a[i], b[j]) {
				t[i][j] = t[i+1][j+1] + 1
			}
		}
	}
	return t
}

// walkLines follows the table; between two common lines the greater of the
// removed and the added lines counts.
func walkLines(a, b [][]byte, t [][]int32) (n int, sample []string) {
	removed, added := 0, 0
	close := func() { n += max(removed, added); removed, added = 0, 0 }
	note := func(mark string, line []byte) {
		if len(sample) < shownLines {
			sample = append(sample, mark+shortLine(line))
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && bytes.Equal(a[i], b[j]):
			close()
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && t[i+1][j] >= t[i][j+1]:
			note("-", a[i])
			removed, i = removed+1, i+1
		default:
			note("+", b[j])
			added, j = added+1, j+1
		}
	}
	close()
	return n, sample
}

func shortLine(line []byte) string {
	r := []rune(string(bytes.TrimSuffix(line, []byte("\r"))))
	if len(r) > 2*shown {
		return string(r[:2*shown]) + "…"
	}
	return string(r)
}

func countLines(a, b [][]byte) int {
	has := map[string]int{}
	for _, l := range b {
		has[string(l)]++
	}
	common := 0
	for _, l := range a {
		if has[string(l)]--; has[string(l)] >= 0 {
			common++
		}
	}
	return max(len(a), len(b)) - common
}

// isText reports whether lines of a file mean something.
func isText(data []byte) bool { return utf8.Valid(data) && !bytes.ContainsRune(data, 0) }
