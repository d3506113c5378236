// Package unasked keeps the terminal from being asked for its background colour.
//
// Bubble Tea asks for it when the program begins, whatever its command is, and waits up
// to five seconds for an answer that some terminals never give. drkit draws with the
// sixteen colours that every terminal fits to its own background, so nothing depends on
// the answer: it is given here, before the question.
//
// Packages whose imports are ready are initialised in the order of their paths, and this
// one needs no more than Lip Gloss, as Bubble Tea does: it comes first. The test of
// drill/tui sees that it does.
package unasked

import "github.com/charmbracelet/lipgloss"

func init() { lipgloss.SetHasDarkBackground(true) }
