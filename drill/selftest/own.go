package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"drkit/drill"
	"drkit/drill/step"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/manifest"
	"drkit/replicate"
	"drkit/verify"
)

// Own is a copy of a release of the service's own, in one of its target regions. It is
// read, never written to: the faults are built into a scratch copy of some of its files.
type Own struct {
	Region   string
	Manifest *manifest.Manifest // nil: the region publishes none
	Broken   error              // why what it publishes cannot be read
	Store    store.ReadWriter
	Prefix   string // of the release in the store
	MaxBytes int64  // of the scratch copy
}

// damages are the faults that any release can have: each changes one file.
var damages = []struct {
	id, title, says string
	file            func(manifest.File) bool
	change          func(path string) error
}{
	{"own-tokenizer-missing", "a tokenizer file is missing", "missing", func(f manifest.File) bool { return f.Role == manifest.Tokenizer && strings.HasPrefix(f.Path, "base/") }, os.Remove},
	{"own-block-overwritten", "a block of a weight file has other bytes, the size is the same", "diverged", func(f manifest.File) bool { return f.Role == manifest.Weights }, overwriteFile},
	{"own-adapter-stale", "an adapter's weights are of another state", "diverged", func(f manifest.File) bool {
		return strings.HasPrefix(f.Path, "adapters/") && strings.HasSuffix(f.Path, ".safetensors")
	}, overwriteFile},
	{"own-template-wrong", "the chat template is another one", "diverged", func(f manifest.File) bool { return f.Role == manifest.ChatTemplate }, overwriteFile},
}

func overwriteFile(path string) error {
	return rewrite(path, func(data []byte) ([]byte, error) {
		if len(data) == 0 {
			return nil, errors.New("the file is empty")
		}
		return overwritten(data), nil
	})
}

// cases copies what fits, sees that the scratch copy is judged sound, and builds one
// fault after the other into it. A copy that cannot be read is no sound control. What
// is not tried is named with its reason.
func (o *Own) cases(ctx context.Context, workDir string) (all []Case, notTried []string, err error) {
	switch {
	case o.Broken != nil && ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case o.Broken != nil:
		return []Case{{ID: "own-sound", Title: "nothing is wrong", Subject: "copy of region " + o.Region, Want: Green, Wants: "gate copy passed", Outcome: Other,
			Seen: "the copy cannot be read (--max-copy 0 leaves it out): " + o.Broken.Error()}}, nil, nil
	case o.Manifest == nil:
		return nil, []string{"the copy of region " + o.Region + ": it publishes no release"}, nil
	}
	m, chosen, total := o.part()
	if notTried = o.untried(chosen); len(chosen) == 0 {
		return nil, notTried, nil // a control without a fault shows nothing
	}
	all, err = o.damaged(ctx, workDir, m, chosen, total)
	return all, notTried, err
}

// untried names the faults that cannot be built in.
func (o *Own) untried(chosen map[string]manifest.File) []string {
	var all []string
	for _, d := range damages {
		if _, ok := chosen[d.id]; ok {
			continue
		}
		why := "the release has no such file"
		if slices.ContainsFunc(o.Manifest.Contents.Files, func(f manifest.File) bool { return f.Part == manifest.Model && f.Size > 0 && d.file(f) }) {
			why = "no such file fits into the scratch copy (--max-copy)"
		}
		all = append(all, d.id+" on the copy of region "+o.Region+": "+why)
	}
	return all
}

func (o *Own) damaged(ctx context.Context, workDir string, m *manifest.Manifest, chosen map[string]manifest.File, total int) ([]Case, error) {
	scratch := filepath.Join(workDir, "own")
	subject := fmt.Sprintf("copy of region %s, %d of %d model files", o.Region, len(m.Contents.Files), total)
	sound := Case{ID: "own-sound", Title: "nothing is wrong", Subject: subject, Want: Green, Wants: "gate copy passed"}
	began := time.Now()
	if _, err := replicate.Restore(ctx, m, o.Store, o.Prefix, dir.Plain(scratch), replicate.RestoreOptions{}); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		sound.Outcome, sound.Seen, sound.Seconds = Other, "the scratch copy could not be made, or the copy is not the release: "+err.Error(), since(began)
		return []Case{sound}, nil
	}
	g, err := o.judge(ctx, m, scratch)
	if err != nil {
		return nil, err
	}
	sound.Outcome, sound.Seen, sound.Seconds = outcome(g, ""), g.Observed, since(began)
	all := []Case{sound}
	for _, d := range damages {
		file, ok := chosen[d.id]
		if !ok {
			continue
		}
		began := time.Now()
		path := filepath.Join(scratch, string(file.Part), filepath.FromSlash(file.Path))
		whole, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := d.change(path); err != nil {
			return nil, err
		}
		if g, err = o.judge(ctx, m, scratch); err != nil {
			return nil, err
		}
		all = append(all, Case{ID: d.id, Title: d.title + " (" + file.Path + ")", Subject: subject, Want: Red, Wants: "gate copy failed",
			Outcome: outcome(g, string(file.Part)+"/"+file.Path+" "+d.says), Seen: g.Observed, Seconds: since(began)})
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func since(t time.Time) float64 { return time.Since(t).Round(10 * time.Millisecond).Seconds() }

// outcome is red only where the gate names what was damaged.
func outcome(g drill.Gate, says string) string {
	switch {
	case g.Result == drill.Passed:
		return Green
	case says != "" && strings.Contains(g.Observed, says):
		return Red
	}
	return Other
}

func (o *Own) judge(ctx context.Context, m *manifest.Manifest, scratch string) (drill.Gate, error) {
	_, g, err := step.JudgeCopy(ctx, m, verify.Copy{Region: o.Region, Store: dir.Plain(scratch), Bare: true}, verify.Options{Level: verify.ByContent, Require: store.Content})
	return g, err
}

// part is the release cut down to what is copied: for each fault the smallest file that
// it can happen to, then all others from the smallest on, as far as they fit.
func (o *Own) part() (m *manifest.Manifest, chosen map[string]manifest.File, total int) {
	files := slices.DeleteFunc(slices.Clone(o.Manifest.Contents.Files), func(f manifest.File) bool { return f.Part != manifest.Model })
	slices.SortStableFunc(files, func(a, b manifest.File) int { return int(min(max(a.Size-b.Size, -1), 1)) })
	taken := map[string]bool{}
	chosen = map[string]manifest.File{}
	left := o.MaxBytes
	take := func(f manifest.File) bool {
		if !taken[f.Path] && f.Size <= left {
			taken[f.Path], left = true, left-f.Size
		}
		return taken[f.Path]
	}
	for _, d := range damages {
		if i := slices.IndexFunc(files, func(f manifest.File) bool { return f.Size > 0 && d.file(f) }); i >= 0 && take(files[i]) {
			chosen[d.id] = files[i]
		}
	}
	cut := *o.Manifest
	m = &cut
	m.Contents.Files = nil
	for _, f := range files {
		if take(f) {
			m.Contents.Files = append(m.Contents.Files, f)
		}
	}
	slices.SortFunc(m.Contents.Files, func(a, b manifest.File) int { return strings.Compare(a.Path, b.Path) })
	return m, chosen, len(files)
}
