package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest/digest"
)

// Reference is a list of files with their SHA-256, such as a sha256sum file or a
// signature's statement. It knows no sizes.
type Reference struct {
	Name  string            // where it comes from
	Files map[string]string // SHA-256 in lower-case hexadecimal by path
	// Silent reports whether the reference says nothing of a path: such a file is
	// not extra. Nil: it speaks of everything.
	Silent func(path string) bool
}

// Against compares everything beneath a copy's prefix with a reference.
func Against(ctx context.Context, ref Reference, c Copy, opts Options) (Result, error) {
	o, err := opts.complete()
	if err != nil {
		return Result{}, err
	}
	began := time.Now()
	p, err := list(ctx, c)
	if err != nil {
		return Result{}, err
	}
	subjects, err := ref.subjects(p)
	if err != nil {
		return Result{}, err
	}
	r := newRun(p, o)
	r.began = began
	silent := ref.Silent
	if silent == nil {
		silent = func(string) bool { return false }
	}
	if err := r.all(ctx, "verify", subjects, silent); err != nil {
		return Result{}, err
	}
	if err := r.settle(ctx, p); err != nil {
		return Result{}, err
	}
	return r.result(Result{Region: c.Region, Source: ref.Name}, p), nil
}

// sizeless takes back the evidence of a size that no reference stated.
func sizeless(g Gap) Gap {
	if g.Evidence != store.Size {
		return g
	}
	g.Evidence = store.None
	if g.Verdict == Present {
		g.Why = "it is there, and nothing was compared, as the reference states no sizes: verify at level checksum or content"
	}
	return g
}

// subjects are the files of the reference. Their sizes are those that the place
// says, for the order of work: the reference has none to compare with.
func (ref Reference) subjects(p *place) ([]subject, error) {
	if len(ref.Files) == 0 {
		return nil, errext.WithStatus(fmt.Errorf("%s names no file: there is nothing to verify", ref.Name), errext.Gate)
	}
	var all []subject
	for name, sum := range ref.Files {
		sums := digest.Set{digest.SHA256: sum}
		if err := errors.Join(sums.Check(), store.CheckKey(name)); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", ref.Name, name, err)
		}
		wanted := Identity{Version: sum} // a proof is of this digest, whatever the list holds tomorrow
		all = append(all, subject{name: name, below: name, size: p.objects[name].Size, mark: sum, want: wanted, judge: func(ctx context.Context, g Gap, got store.Object, o Options) (Gap, error) {
			want := store.Object{Key: name, Size: got.Size}
			g, err := judge(ctx, g, &side{object: want, sums: sumsOf(sums, store.Content)}, placed(p, got), o)
			return sizeless(g), err
		}})
	}
	return all, nil
}
