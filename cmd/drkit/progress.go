package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"drkit/internal/progress"
)

// progressOption is --progress: how long work shows how far it is, on stderr.
type progressOption struct{ Progress string }

func (o *progressOption) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.Progress, "progress", "auto", "how to show progress on stderr: auto, tty, plain, json or quiet")
}

// mode resolves auto by the terminal and the environment, and refuses a screen
// where there is no terminal.
func (o *progressOption) mode(s *streams) (string, error) {
	if err := oneOf("--progress", o.Progress, "auto", "tty", "plain", "json", "quiet"); err != nil {
		return "", err
	}
	switch {
	case o.Progress == "tty" && !s.Terminal:
		return "", usage(fmt.Errorf("--progress tty needs a terminal"), "use --progress plain")
	case o.Progress == "auto" && s.interactive():
		return "tty", nil
	case o.Progress == "auto":
		return "plain", nil
	}
	return o.Progress, nil
}

// meter draws tasks: a line that is redrawn on a terminal, a line every few
// seconds elsewhere, JSON lines on demand. Short work stays silent in plain.
type meter struct {
	s      *streams
	mode   string
	mu     sync.Mutex
	active *progress.Task
	began  time.Time
	drawn  bool
	quit   chan struct{}
	over   sync.WaitGroup
}

const (
	ttyEvery   = 200 * time.Millisecond
	plainEvery = 5 * time.Second
)

// newMeter starts drawing; close ends it. In quiet mode it returns nil.
func newMeter(s *streams, mode string) *meter {
	if mode == "quiet" {
		return nil
	}
	m := &meter{s: s, mode: mode, quit: make(chan struct{})}
	every := plainEvery
	if mode == "tty" {
		every = ttyEvery
	}
	m.over.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				m.draw(false)
			case <-m.quit:
				return
			}
		}
	})
	return m
}

// Task makes the newest task the one that is shown.
func (m *meter) Task(name string, files, bytes int64) *progress.Task {
	t := &progress.Task{Name: name, TotalFiles: files, TotalBytes: bytes}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.active, m.began = t, time.Now()
	return t
}

// progress is m as the interface; nil stays nil.
func (m *meter) progress() progress.Progress {
	if m == nil {
		return nil
	}
	return m
}

func (m *meter) close() {
	if m == nil {
		return
	}
	close(m.quit)
	m.over.Wait()
	m.draw(true)
}

func (m *meter) draw(last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last {
		if m.drawn && m.mode == "tty" {
			fmt.Fprint(m.s.Err, "\r\x1b[K")
		}
		return
	}
	if m.active == nil {
		return
	}
	if _, _, done := m.active.Read(); done {
		return
	}
	m.drawn = true
	switch m.mode {
	case "json":
		files, bytes, _ := m.active.Read()
		line, _ := json.Marshal(map[string]any{"task": m.active.Name, "files": files, "files_total": m.active.TotalFiles, "bytes": bytes, "bytes_total": m.active.TotalBytes})
		fmt.Fprintf(m.s.Err, "%s\n", line)
	case "tty":
		fmt.Fprintf(m.s.Err, "\r\x1b[K%s", progressLine(m.active, time.Since(m.began)))
	default:
		fmt.Fprintln(m.s.Err, progressLine(m.active, time.Since(m.began)))
	}
}

// progressLine is one task as text: what, how much, how fast, how long yet.
func progressLine(t *progress.Task, elapsed time.Duration) string {
	files, bytes, _ := t.Read()
	line := fmt.Sprintf("%s  %d", t.Name, files)
	if t.TotalFiles > 0 {
		line += fmt.Sprintf("/%d", t.TotalFiles)
	}
	line += " files  " + byteCount(bytes)
	if t.TotalBytes > 0 {
		line += "/" + byteCount(t.TotalBytes)
	}
	rate := float64(bytes) / max(elapsed.Seconds(), 0.001)
	if rate > 0 {
		line += fmt.Sprintf("  %s/s", byteCount(int64(rate)))
		if left := t.TotalBytes - bytes; t.TotalBytes > 0 && left > 0 {
			line += fmt.Sprintf("  %s left", (time.Duration(float64(left) / rate * float64(time.Second))).Round(time.Second))
		}
	}
	return line
}

// byteCount is a size for people, in powers of 1024.
func byteCount(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, exp := float64(n)/unit, 0
	for value >= unit && exp < 4 {
		value, exp = value/unit, exp+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[exp])
}
