package tui

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"drkit/drill"

	"github.com/charmbracelet/lipgloss"
)

// traffic shows the newest window of each class, and a strip of the windows before
// it, oldest first.
func (m *model) traffic(width int) section {
	newest := map[string]drill.TrafficWindow{}
	for _, w := range m.run.Traffic {
		newest[w.Class] = w
	}
	var lines, strips []string
	classes := slices.Sorted(maps.Keys(newest))
	for _, class := range classes {
		lines = append(lines, m.window(newest[class], width)...)
		if len(classes) > 1 {
			strips = append(strips, m.pen.fit(class+":", width))
		}
		strips = append(strips, m.strip(class, width)...)
	}
	least := min(len(lines), 3)
	lines = append(lines, strips...)
	return section{"traffic, newest window", len(lines), least, func(n int) []string { return lines[:min(max(n, 0), len(lines))] }}
}

func (m *model) window(w drill.TrafficWindow, width int) []string {
	head := fmt.Sprintf("%s (%s, %s):", m.pen.clean(w.Class), w.Phase, brief(w.To-w.From))
	counts := fmt.Sprintf("%d sent · %d failed · %d cut", w.Sent, w.Failed, w.Cut)
	lines := []string{m.pen.fit(head+" "+counts, width)}
	if lipgloss.Width(head+" "+counts) > width {
		lines = append([]string{m.pen.fit(head, width)}, m.pen.wrap("  ", counts, width, 2)...)
	}
	return append(lines, m.pen.wrap("  ", m.answers(w), width, 2)...)
}

// answers says how soon answers began, what of the prompts was cached, and where
// they came from.
func (m *model) answers(w drill.TrafficWindow) string {
	ttft := "TTFT p99 not measured"
	if w.TTFTP99 > 0 {
		ttft = "TTFT p99 " + milli(w.TTFTP99)
	}
	if promised := m.run.Plan.Objectives.TTFTP99; promised > 0 {
		ttft += " of " + limit(promised)
	}
	parts := []string{ttft}
	if w.CacheHit != nil {
		parts = append(parts, fmt.Sprintf("hit rate %.0f %%", 100**w.CacheHit))
	}
	for _, region := range slices.Sorted(maps.Keys(w.ByRegion)) {
		parts = append(parts, fmt.Sprintf("%s %d", region, w.ByRegion[region]))
	}
	return strings.Join(parts, " · ")
}

// stripLabel is the width of a strip's labels.
const stripLabel = 9

// strip draws the newest windows of a class as rows of signs, one a window, the rows
// that matter most first.
func (m *model) strip(class string, width int) []string {
	var all []drill.TrafficWindow
	most := 1
	for _, w := range m.run.Traffic {
		if w.Class == class {
			all = append(all, w)
			most = max(most, w.Sent)
		}
	}
	room := max(width-stripLabel, 0)
	all = all[max(len(all)-room, 0):]
	rows := []struct {
		label string
		sign  func(drill.TrafficWindow) rune
	}{
		{"errors", errorSign},
		{"TTFT", func(w drill.TrafficWindow) rune { return ttftSign(w.TTFTP99, m.run.Plan.Objectives.TTFTP99, all) }},
		{"hit rate", hitSign},
		{"sent", func(w drill.TrafficWindow) rune { return bar(float64(w.Sent) / float64(most)) }},
		{"phase", phaseSign},
	}
	var lines []string
	for _, row := range rows {
		var b strings.Builder
		for _, w := range all {
			b.WriteRune(row.sign(w))
		}
		lines = append(lines, m.pen.fit(pad(row.label, stripLabel)+b.String(), width))
	}
	return lines
}

// bar is a share, 0 to 1, as a sign of that height. Full height leaves a gap, so that
// strips below each other stay apart.
func bar(share float64) rune {
	signs := []rune("▁▂▃▄▅▆▇")
	return signs[min(max(int(share*float64(len(signs))), 0), len(signs)-1)]
}

func phaseSign(w drill.TrafficWindow) rune {
	for _, r := range w.Phase {
		return r
	}
	return '?'
}

func errorSign(w drill.TrafficWindow) rune {
	switch bad := w.Failed + w.Cut; {
	case bad == 0:
		return '·'
	case bad < 10:
		return rune('0' + bad)
	}
	return '#'
}

// ttftSign is half high at the objective; without one, full height is the slowest.
func ttftSign(d, promised time.Duration, all []drill.TrafficWindow) rune {
	if d <= 0 {
		return '?'
	}
	full := 2 * promised
	if promised <= 0 {
		for _, w := range all {
			full = max(full, w.TTFTP99)
		}
	}
	return bar(float64(d-1) / float64(full))
}

func hitSign(w drill.TrafficWindow) rune {
	if w.CacheHit == nil {
		return '?'
	}
	return bar(*w.CacheHit)
}
