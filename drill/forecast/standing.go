package forecast

import (
	"fmt"
	"time"

	"drkit/drill"
)

// State is how a run stands against its promised recovery time.
type State string

// The states of a run. Each is a word that a screen can show as it is.
const (
	OnTrack  State = "on track"
	AtRisk   State = "at risk"
	Missed   State = "missed"
	InTime   State = "in time" // steady, within the objective
	NotKnown State = "not known"
)

// Standing is a state and, where the state does not say it, why.
type Standing struct {
	State State
	Why   string
}

// Judge holds a forecast against the objective. A red gate or a failed step puts the
// recovery itself at risk. What is only known to be at least so long is not on track.
func Judge(r *drill.Run, now time.Duration, f Forecast) Standing {
	promised := r.Plan.Objectives.RTO
	if promised <= 0 {
		return Standing{NotKnown, "nothing is promised"}
	}
	if _, steady := r.Instant(drill.InstantSteady); steady {
		return judgeSteady(r, promised)
	}
	took, running := r.Elapsed(now)
	switch {
	case running && took > promised:
		return Standing{Missed, "the objective has passed by " + Clock(took-promised)}
	case r.Finished != nil:
		return Standing{NotKnown, "the run has ended without steady"}
	}
	if what := red(r); what != "" {
		return Standing{AtRisk, what}
	}
	switch {
	case !f.Known:
		return Standing{NotKnown, f.Why}
	case f.Finish > promised:
		return Standing{AtRisk, fmt.Sprintf("projected %s over the objective", Clock(f.Finish-promised))}
	case f.Over != "":
		return Standing{AtRisk, f.Why}
	case f.Least:
		return Standing{NotKnown, f.Why}
	}
	return Standing{OnTrack, ""}
}

func judgeSteady(r *drill.Run, promised time.Duration) Standing {
	took, ok, why := r.RTO()
	switch {
	case !ok:
		return Standing{NotKnown, why}
	case took > promised:
		return Standing{Missed, "missed by " + Clock(took-promised)}
	}
	return Standing{InTime, why}
}

// red names the first thing that speaks against a recovery, "" if nothing does.
func red(r *drill.Run) string {
	for _, g := range r.Gates {
		if g.Result == drill.Failed {
			return "gate " + g.ID + " is red"
		}
	}
	for _, s := range r.Steps {
		if s.Result == drill.Failed {
			return s.ID + " failed"
		}
	}
	if r.Aborting != nil {
		return "the run is being taken back"
	}
	return ""
}
