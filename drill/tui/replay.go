package tui

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"drkit/drill"
	"drkit/internal/errext"

	tea "github.com/charmbracelet/bubbletea"
)

// maxPause is the longest time that a replay waits between two events; the clock
// runs faster there, so that it is right at each of them.
const maxPause = 2 * time.Second

// Replay shows a recorded run through the same model, speed times as fast, until
// the person leaves or ctx ends. Events come as from a journal; one that cannot
// be read or does not fit is shown, and is the returned error (status 6).
// Of the options, those that act on a run are not used.
func Replay(ctx context.Context, events iter.Seq2[drill.Event, error], speed float64, o Options) error {
	if !(speed > 0) || math.IsInf(speed, 0) {
		return errext.WithStatus(errext.WithHint(fmt.Errorf("cannot replay at speed %v", speed), "give a number above 0; 1 is as it was"), errext.Usage)
	}
	o.Abort, o.Leave, o.Pause, o.Ack, o.Approve = nil, nil, nil, nil, nil
	m, err := show(ctx, newModel(o, false), o, feed(events, speed))
	if err == nil && m.broken != nil {
		err = errext.WithStatus(fmt.Errorf("replaying the journal: %w", m.broken), errext.Evidence)
	}
	return err
}

var errEmpty = errors.New("the journal is empty")

// feed sends each event at its time. It reads one event ahead: how fast the
// clock goes depends on when the next one comes.
func feed(events iter.Seq2[drill.Event, error], speed float64) func(context.Context, func(tea.Msg)) {
	return func(ctx context.Context, send func(tea.Msg)) {
		var waiting *drill.Event
		var failure error
		for e, err := range events {
			if failure = err; err != nil {
				break
			}
			if waiting != nil && !play(ctx, send, *waiting, e, speed) {
				return
			}
			waiting = &e
		}
		switch {
		case waiting != nil:
			send(eventsMsg{{event: *waiting, at: time.Now()}})
		case failure == nil:
			failure = errEmpty
		}
		send(endedMsg{failure})
	}
}

// play sends an event and waits for as long as the next one's distance says; it
// reports whether the screen is still there.
func play(ctx context.Context, send func(tea.Msg), e, next drill.Event, speed float64) bool {
	distance := next.Mono - e.Mono
	if next.Proc != e.Proc {
		distance = next.Wall.Sub(e.Wall)
	}
	distance = max(distance, 0)
	pause := maxPause
	if scaled := float64(distance) / speed; scaled < float64(maxPause) {
		pause = time.Duration(scaled)
	}
	rate := 0.0
	if pause > 0 {
		rate = float64(distance) / float64(pause)
	}
	send(eventsMsg{{event: e, at: time.Now(), rate: rate}})
	if pause == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
