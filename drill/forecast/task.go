package forecast

import (
	"fmt"

	"drkit/drill"
)

// Task says how far long work is, how fast it goes and how long it still takes: texts
// that say the same, the longest first.
func Task(p drill.ProgressState) []string {
	done := p.Task + ": " + Quantity(p.Done, p.Unit)
	if p.Total <= 0 {
		return []string{done}
	}
	share := fmt.Sprintf("%d %%", int(100*float64(p.Done)/float64(p.Total)))
	done += " of " + Quantity(p.Total, p.Unit) + ", " + share
	left, known := p.Left()
	if !known {
		return []string{done, p.Task + ": " + share}
	}
	rest := Clock(left) + " left"
	rate := Quantity(int64(p.Rate()), p.Unit) + "/s"
	return []string{done + ", " + rest + " at " + rate, p.Task + ": " + share + ", " + rest + " at " + rate, p.Task + ": " + share + ", " + rest, share + ", " + rest}
}

// Quantity writes bytes in powers of 1000, as disks and networks are sold.
func Quantity(n int64, unit string) string {
	if unit != "bytes" || n < 1000 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	v, i := float64(n), 0
	for ; v >= 999.95 && i < 5; i++ {
		v /= 1000
	}
	return fmt.Sprintf("%.1f %cB", v, " kMGTP"[i])
}
