package report

// Lengths that texts of others, such as an engine's log line of some megabytes, are
// cut to by drill.Clip, in bytes. The journal has more of them.
const (
	shortText = 300  // one line for a person
	plainText = 1000 // a line of the log of a run
	longText  = 4000 // a table's cell, a test case
)
