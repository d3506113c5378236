// Package drill runs a recovery against the clock. It knows events, changes with
// their undo, and the order of steps; it knows no kind of step, no launcher and
// no router. Those are in the packages below it and are handed in.
package drill
