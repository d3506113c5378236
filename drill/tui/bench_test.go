package tui

import "testing"

func BenchmarkView(b *testing.B) {
	m := shown(declared(&testing.T{}), 0, 120, 40)
	for b.Loop() {
		m.View()
	}
}
