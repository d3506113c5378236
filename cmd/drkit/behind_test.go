package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drkit/drill"
	drillreport "drkit/drill/report"
)

// TestBehindLosesNothing: a writer that is slow gets every byte, in order.
func TestBehindLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got, want bytes.Buffer
		b := newBehind(sluggish{&got})
		begun := time.Now()
		for i := range 2000 {
			line := fmt.Sprintf("line %d\n", i)
			want.WriteString(line)
			if _, err := io.WriteString(b, line); err != nil {
				t.Fatal(err)
			}
		}
		if time.Since(begun) != 0 {
			t.Error("the writer's slowness holds those who write")
		}
		if !b.close(2 * time.Second) {
			t.Error("a slow writer was given up")
		}
		if got.String() != want.String() {
			t.Errorf("%d of %d bytes came, or in another order", got.Len(), want.Len())
		}
	})
}

// sluggish takes a second for each piece.
type sluggish struct{ w io.Writer }

func (s sluggish) Write(p []byte) (int, error) {
	time.Sleep(time.Second)
	return s.w.Write(p)
}

// stuck takes nothing until it is let go.
type stuck struct{ gone chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.gone
	return len(p), nil
}

// TestBehindHoldsNobody: a writer that takes nothing holds neither the drill's events
// nor, for longer than its patience, the end.
func TestBehindHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stuck{make(chan struct{})}
		b := newBehind(w)
		plain := drillreport.NewPlain(b)
		begun := time.Now()
		for range 1000 {
			e := drill.Event{Type: drill.TypeNote, Data: []byte(`{"text":"` + strings.Repeat("x", 50) + `"}`)}
			if err := plain.Event(e, &drill.Run{}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("the events were held for %v", took)
		}
		if b.close(10 * time.Second) {
			t.Error("a writer that takes nothing reads as well")
		}
		if took := time.Since(begun); took != 10*time.Second {
			t.Errorf("the end was held for %v", took)
		}
		close(w.gone)
		synctest.Wait()
	})
}

// TestBehindSaysWhatItLost: more than it may hold is dropped, and said.
func TestBehindSaysWhatItLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got bytes.Buffer
		w := &opened{stuck: stuck{make(chan struct{})}, w: &got}
		b := newBehind(w)
		line := []byte(strings.Repeat("x", 1<<20-1) + "\n")
		for range 20 {
			b.Write(line)
		}
		close(w.gone)
		b.close(time.Second)
		if n := strings.Count(got.String(), "x\n"); n < 15 || n > 17 || !strings.HasSuffix(got.String(), string(lostMark)) {
			t.Errorf("%d lines of 20 came, and the end is %q", n, got.String()[max(0, got.Len()-60):])
		}
	})
}

// opened takes all once it is let go.
type opened struct {
	stuck
	w io.Writer
}

func (o *opened) Write(p []byte) (int, error) {
	<-o.gone
	return o.w.Write(p)
}

// TestBehindPassesErrorsOn: a closed pipe ends the display, at once and for good.
func TestBehindPassesErrorsOn(t *testing.T) {
	broken := errors.New("broken pipe")
	synctest.Test(t, func(t *testing.T) {
		b := newBehind(brokenPipe{broken})
		b.Write([]byte("a\n"))
		synctest.Wait()
		if _, err := b.Write([]byte("b\n")); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		b.close(time.Hour)
	})
}

type brokenPipe struct{ err error }

func (f brokenPipe) Write([]byte) (int, error) { return 0, f.err }
