package tui

import "strings"

// font holds the large signs, five rows of pixels each.
var font = map[rune][5]string{
	'0': {"###", "# #", "# #", "# #", "###"},
	'1': {" # ", "## ", " # ", " # ", "###"},
	'2': {"###", "  #", "###", "#  ", "###"},
	'3': {"###", "  #", "###", "  #", "###"},
	'4': {"# #", "# #", "###", "  #", "  #"},
	'5': {"###", "#  ", "###", "  #", "###"},
	'6': {"###", "#  ", "###", "# #", "###"},
	'7': {"###", "  #", "  #", "  #", "  #"},
	'8': {"###", "# #", "###", "# #", "###"},
	'9': {"###", "# #", "###", "  #", "###"},
	'-': {"   ", "   ", "###", "   ", "   "},
	':': {" ", "#", " ", "#", " "},
}

// big writes a clock's text in five rows, two columns a pixel.
func big(text string) []string {
	rows := pixels(text)
	for i, row := range rows {
		rows[i] = strings.NewReplacer("#", "██", " ", "  ").Replace(row)
	}
	return rows
}

// medium writes a clock's text in three rows: each holds two rows of pixels.
func medium(text string) []string {
	rows := append(pixels(text), "")
	var lines []string
	for i := 0; i < len(rows); i += 2 {
		var b strings.Builder
		for j := range rows[i] {
			lower := j < len(rows[i+1]) && rows[i+1][j] == '#'
			b.WriteString(half(rows[i][j] == '#', lower))
		}
		lines = append(lines, b.String())
	}
	return lines
}

func half(upper, lower bool) string {
	switch {
	case upper && lower:
		return "█"
	case upper:
		return "▀"
	case lower:
		return "▄"
	}
	return " "
}

// pixels sets the signs beside each other, a column between them.
func pixels(text string) []string {
	rows := make([]string, 5)
	for i, r := range text {
		for y, line := range font[r] {
			if i > 0 {
				rows[y] += " "
			}
			rows[y] += line
		}
	}
	return rows
}
