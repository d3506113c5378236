package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/release"
)

// judgeManifest gives the verdict on a copy's manifest.json. The release id covers
// the contents alone: two manifests of one release may differ in their
// annotations, by which the gate judges. When m is what the source publishes, a
// copy that says something else has been written to.
func judgeManifest(ctx context.Context, p *place, g Gap, got store.Object, m *manifest.Manifest, o Options) (Gap, error) {
	g.WantSize, g.GotSize = got.Size, got.Size // annotations may differ, so any size may be right
	if o.Level == Presence {
		g.Verdict, g.Why = Present, "it was not read: verify at level checksum or content"
		return g, nil
	}
	g.Verdict, g.Evidence = Match, store.Content
	if same, err := sameManifest(ctx, p, got, m); same || err != nil {
		return g, err
	}
	line, err := differingLine(ctx, p, got, m)
	if line == 0 || err != nil {
		return g, err
	}
	err = release.CheckManifest(ctx, p.Store, p.Prefix, m.Service, m.Release)
	switch {
	case errors.Is(err, release.ErrInvalid):
		g.Verdict, g.Why = Diverged, err.Error()
	case err != nil:
		return g, err
	case o.Published:
		g.Verdict = Diverged
		g.Hint = "look at what was changed; drkit replicate puts the source's there again"
		g.Why = fmt.Sprintf("its contents are those of the release, but from line %d on it differs from the manifest that the source publishes: facts or findings were changed in one of them", line)
	default:
		g.Why = fmt.Sprintf("it is of this release; from line %d on its annotations are others than those of the manifest at hand", line)
	}
	return g, nil
}

// sameManifest reports whether a copy's manifest.json is the one that m was read
// from. Most are, and to see that takes no more than to hash it.
func sameManifest(ctx context.Context, p *place, got store.Object, m *manifest.Manifest) (bool, error) {
	if m.Sum == "" {
		return false, nil
	}
	r, err := p.open(ctx, got)
	if err != nil {
		return false, err
	}
	defer r.Close()
	r.quiet = true
	return manifest.Same(r, m)
}

// differingLine is the first line in which a copy's manifest.json is not what m
// encodes to, 0 when they are the same. Neither is held in memory.
func differingLine(ctx context.Context, p *place, got store.Object, m *manifest.Manifest) (int, error) {
	r, err := p.open(ctx, got)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	r.quiet = true
	c := &lineComparer{r: r, line: 1}
	err = manifest.Write(c, m)
	switch {
	case c.differs:
		return c.line, nil
	case err != nil:
		return 0, err
	}
	if n, err := r.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return c.line, nil // whether it is readable at all is for CheckManifest to say
	}
	return 0, nil
}

// lineComparer compares what is written to it with what it reads.
type lineComparer struct {
	r       io.Reader
	buf     []byte
	line    int
	differs bool
}

var errDiffers = errors.New("it differs")

func (c *lineComparer) Write(want []byte) (int, error) {
	if len(c.buf) < len(want) {
		c.buf = make([]byte, len(want))
	}
	n, err := io.ReadFull(c.r, c.buf[:len(want)])
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return 0, err
	}
	for i := range n {
		if c.buf[i] != want[i] {
			n, err = i, errDiffers
			break
		}
	}
	c.line += bytes.Count(want[:n], []byte("\n"))
	if n < len(want) || err != nil {
		c.differs = true
		return n, errDiffers
	}
	return n, nil
}

// CheckCurrent adds to a result what the CURRENT of its region says. One that
// cannot be trusted is an error with status Gate: in a disaster the region would
// not know what to serve. One that is not there or names another release is noted,
// for it does not make the verified copy any worse.
func CheckCurrent(ctx context.Context, r Result, state release.State) Result {
	key := release.CurrentKey(r.Region, r.Service)
	c, err := release.ReadCurrent(ctx, state, r.Region, r.Service)
	switch {
	case errors.Is(err, store.ErrNotFound):
		r.Notes = append(r.Notes, fmt.Sprintf("%s has no CURRENT for %s: no release is published there, so a recovery has to name one", r.Region, r.Service))
	case errors.Is(err, release.ErrUntrusted):
		r.Errors = append(r.Errors, ObjectError{Subject: "CURRENT", Key: key, Err: errext.WithStatus(err, errext.Gate)})
	case err != nil:
		r.Errors = append(r.Errors, ObjectError{Subject: "CURRENT", Key: key, Err: err})
	case c.Release != r.Release:
		r.Notes = append(r.Notes, fmt.Sprintf("CURRENT of %s names release %.12s (generation %d), not %.12s, which was verified", r.Region, c.Release, c.Generation, r.Release))
	}
	return r
}
