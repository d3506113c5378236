package errext_test

import (
	"errors"
	"fmt"
	"testing"

	"drkit/internal/errext"
)

func TestCombineFollowsThePrecedence(t *testing.T) {
	for _, c := range []struct {
		in   []errext.Status
		want errext.Status
	}{
		{nil, 0},
		{[]errext.Status{0, 0}, 0},
		{[]errext.Status{1, 4}, 4},
		{[]errext.Status{4, 6, 1}, 6},
		{[]errext.Status{6, 8}, 8},
		{[]errext.Status{7, 1}, 1},
		{[]errext.Status{5, 4}, 4},
		{[]errext.Status{5, 1, 7}, 5},
		{[]errext.Status{0, 2}, 2},
		{[]errext.Status{3}, 3},
		{[]errext.Status{130, 8}, 8},
		{[]errext.Status{130}, 130},
	} {
		if got := errext.Combine(c.in...); got != c.want {
			t.Errorf("Combine(%v) = %d, want %d", c.in, got, c.want)
		}
	}
}

func TestHintAndStatusTravelWithTheError(t *testing.T) {
	base := errors.New("no such file")
	err := fmt.Errorf("reading x: %w", errext.WithHint(errext.WithStatus(base, errext.Usage), "write it"))
	if errext.Hint(err) != "write it" || errext.StatusOf(err) != errext.Usage || !errors.Is(err, base) {
		t.Errorf("hint %q, status %v, is %v", errext.Hint(err), errext.StatusOf(err), errors.Is(err, base))
	}
	if errext.StatusOf(base) != errext.Failed || errext.StatusOf(nil) != errext.Holds {
		t.Error("a plain error is Failed, no error is Holds")
	}
	joined := errors.Join(base, errext.WithStatus(base, errext.Gate))
	if got := errext.StatusOf(fmt.Errorf("both: %w", joined)); got != errext.Gate {
		t.Errorf("joined: got %v, want gate", got)
	}
}
