package report

import (
	"fmt"
	"unicode/utf8"
)

// Lengths that texts of others are cut to, in bytes.
const (
	shortText = 300  // one line for a person
	plainText = 1000 // a line of the log of a run
	longText  = 4000 // a table's cell, a test case
)

// clip cuts a text that somebody else wrote, such as an engine's log line of some
// megabytes, and says what it left out. The journal has more of it.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	at := limit
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return fmt.Sprintf("%s… (%d bytes more)", text[:at], len(text)-at)
}
