// Package region holds the values that say where a copy lives and which
// borders its data may not cross.
package region

import "slices"

// Role says what a region is to a service.
type Role string

// A service has one source region; the others are targets.
const (
	Source Role = "source"
	Target Role = "target"
)

// Residency is a border: data bound to it may be held and answered only in
// regions of that residency. The empty residency is unknown, not "anywhere".
type Residency string

// Allows reports whether data that may live in the residencies in allowed may
// be served by a region of residency r. An empty list or an unknown residency
// allows nothing: borders fail closed.
func Allows(allowed []Residency, r Residency) bool {
	return r != "" && slices.Contains(allowed, r)
}
