package forecast

import (
	"testing"
	"time"

	"drkit/drill"
)

func TestTaskTexts(t *testing.T) {
	for _, c := range []struct {
		n    int64
		unit string
		want string
	}{{999, "bytes", "999 bytes"}, {999_960, "bytes", "1.0 MB"}, {1_234_000_000, "bytes", "1.2 GB"}, {12, "files", "12 files"}} {
		if got := Quantity(c.n, c.unit); got != c.want {
			t.Errorf("%d %s: %q, want %q", c.n, c.unit, got, c.want)
		}
	}
	at := func(mono time.Duration) drill.Stamp { return drill.Stamp{Proc: 1, Mono: mono} }
	// 600 MB in a minute are 10 MB a second; 2400 MB more take 240 s.
	p := drill.ProgressState{Progress: drill.Progress{Task: "restore", Done: 600e6, Total: 3000e6, Unit: "bytes"}, From: at(0), At: at(time.Minute)}
	if got, want := Task(p)[0], "restore: 600.0 MB of 3.0 GB, 20 %, 4:00 left at 10.0 MB/s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.From = p.At
	if got, want := Task(p)[0], "restore: 600.0 MB of 3.0 GB, 20 %"; got != want {
		t.Errorf("without a rate: %q, want %q", got, want)
	}
}
