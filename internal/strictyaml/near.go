package strictyaml

import (
	"fmt"
	"strings"
)

// Near returns the candidate that word was probably meant to be, or "".
func Near(word string, candidates []string) string {
	best, least := "", 0
	for _, c := range candidates {
		d := distance(plain(word), plain(c))
		if d <= max(1, len([]rune(c))/3) && (best == "" || d < least) {
			best, least = c, d
		}
	}
	return best
}

func didYouMean(word string, candidates []string) string {
	if c := Near(word, candidates); c != "" {
		return fmt.Sprintf("did you mean %q?", c)
	}
	return ""
}

// plain makes spellings equal that differ in case and word separators only.
func plain(s string) string {
	if len(s) > 64 { // no key is that long; keeps distance cheap
		s = s[:64]
	}
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

// distance counts the edits between two words: signs added, removed, replaced,
// or two neighbours swapped.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	var before, prev, row []int
	for j := range len(y) + 1 {
		prev = append(prev, j)
	}
	for i := 1; i <= len(x); i++ {
		row = append([]int(nil), i)
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			d := min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d = min(d, before[j-2]+1)
			}
			row = append(row, d)
		}
		before, prev = prev, row
	}
	return prev[len(y)]
}
