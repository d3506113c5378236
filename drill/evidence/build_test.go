package evidence

import (
	"slices"
	"strings"
	"testing"

	"drkit/drill"
	"drkit/drill/ledger"
)

// TestProgramThatWentOn: another build of one version is another program, and its
// checksum says so. A journal that does not name it reads as before.
func TestProgramThatWentOn(t *testing.T) {
	a, b := &drill.Binary{SHA256: strings.Repeat("aa", 32)}, &drill.Binary{SHA256: strings.Repeat("bb", 32)}
	const clock = "(its process was gone); figures across processes rest on the machine's clock"
	for _, c := range []struct {
		began, on *drill.Binary
		want      string
	}{
		{a, a, clock + "; by the program that began the run"},
		{a, b, clock + "; by another program than the one that began the run: drkit (devel) with sha256 " + b.SHA256},
		{nil, b, clock + "; by drkit (devel) with sha256 " + b.SHA256 + ", and which program began the run is not known"},
		{a, nil, clock},
		{a, &drill.Binary{Commit: "c"}, clock},
	} {
		r := &drill.Run{ID: id(1), Plan: drill.RunStarted{Tool: "drkit (devel)", Binary: c.began},
			Resumes: []drill.ResumedState{{Resumed: drill.Resumed{Tool: "drkit (devel)", Binary: c.on}, At: drill.Stamp{Proc: 2}}}}
		if got := New(r, ledger.Sealed{}).Deviations; !slices.ContainsFunc(got, func(d string) bool {
			return strings.HasPrefix(d, "process 2 went on with the run at ") && strings.HasSuffix(d, c.want)
		}) {
			t.Errorf("%q, want one that ends in %q", got, c.want)
		}
	}
}
