package step

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/release"
	"drkit/manifest/rules"
	"drkit/playbooks"
	"drkit/replicate"
	"drkit/verify"
)

// verifyStep proves that the target's copy is the release.
type verifyStep struct{ w *World }

// verifyOptions leave out what proves nothing to a recovery: sizes, and checksums
// that were stored at upload.
type verifyOptions struct {
	Level   string `yaml:"level" strict:"enum=checksum|content"`
	Require string `yaml:"require" strict:"enum=recomputed|content"`
}

func (v verifyStep) options(s playbooks.Step) (verify.Options, error) {
	o := verifyOptions{Level: "content", Require: "content"}
	if err := s.Decode(&o); err != nil {
		return verify.Options{}, err
	}
	level, err := verify.ParseLevel(o.Level)
	if err != nil {
		return verify.Options{}, err
	}
	require, err := store.ParseEvidence(o.Require)
	return verify.Options{Level: level, Require: require}, err
}

func (v verifyStep) Check(_ context.Context, s playbooks.Step) []error {
	if _, err := v.options(s); err != nil {
		return []error{err}
	}
	return nil
}

func (v verifyStep) Do(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	opts, err := v.options(s)
	if err != nil {
		return err
	}
	if v.w.manifest == nil {
		return missing("verify", "preflight")
	}
	if err := v.gateRules(sc); err != nil {
		return err
	}
	m := v.w.manifest
	told := tell(sc)
	defer told.close()
	opts.Progress = told
	copied := verify.Copy{Region: v.w.takesOver().Name, Store: v.w.takesOver().Store, Prefix: release.Prefix(v.w.Service, m.Release)}
	listed, err := v.w.listing(ctx, v.w.takesOver()) // before it is read: what is written from here on is seen later
	if err != nil {
		return fmt.Errorf("listing the copy of region %s: %w", v.w.takesOver().Name, err)
	}
	if err := memo(sc, memoListing, listed); err != nil {
		return err
	}
	proof, judged, err := JudgeCopy(ctx, m, copied, opts)
	if err != nil {
		return err
	}
	if err := sc.Emit(drill.TypeProof, proof); err != nil {
		return err
	}
	return gate(sc, judged)
}

// JudgeCopy compares a copy with the release, as the step verify does.
func JudgeCopy(ctx context.Context, m *manifest.Manifest, copied verify.Copy, opts verify.Options) (drill.Proof, drill.Gate, error) {
	res, err := verify.Release(ctx, m, copied, opts)
	if err != nil {
		return drill.Proof{}, drill.Gate{}, err
	}
	ok := res.Status() == errext.Holds
	why := fmt.Sprintf("%d of %d objects of release %.12s match", res.Count(verify.Match), res.Compared, m.Release)
	if !ok {
		why += ": " + first(describe(res), 3)
	}
	return drill.Proof{Name: drill.ProofCopy, Proven: ok, Why: why}, drill.Gate{
		ID: "copy", Title: "the copy in " + copied.Region + " is the release", Expected: fmt.Sprintf("its %d files and the manifest match, nothing else lies there", len(m.Contents.Files)),
		Observed: why, Result: result(ok), Evidence: "level " + string(opts.Level) + ", requires " + opts.Require.String(), Hint: "drkit verify names every file; drkit replicate repairs the copy",
	}, nil
}

// gateRules judges the release itself: equal copies of a broken release are
// still broken.
func (v verifyStep) gateRules(sc drill.Scope) error {
	var broken, waived []string
	for _, f := range rules.Apply(rules.Check(v.w.manifest), v.w.Waivers, time.Now()) {
		text := fmt.Sprintf("%s %s/%s: %s", f.Rule, f.Part, f.Path, f.Message)
		switch {
		case !f.Severity.FailsGate(false):
		case f.Waived != "":
			waived = append(waived, text+" (waived by "+f.Waived+")")
		default:
			broken = append(broken, text)
		}
	}
	observed := "no finding that fails the gate"
	switch {
	case len(broken) > 0:
		observed = first(broken, 3)
	case len(waived) > 0:
		observed = "none that is not waived: " + first(waived, 3)
	}
	return gate(sc, drill.Gate{
		ID: "release", Title: "the release passes the manifest gate", Expected: "no finding that fails the gate", Observed: observed,
		Result: result(len(broken) == 0), Evidence: "rules over the manifest", Hint: "drkit manifest check explains each finding",
	})
}

func describe(res verify.Result) []string {
	var texts []string
	for _, g := range res.Open() {
		text := fmt.Sprintf("%s %s", g.Subject, g.Verdict)
		if g.Why != "" {
			text += ": " + g.Why
		}
		texts = append(texts, text)
	}
	for _, e := range res.Errors {
		texts = append(texts, e.Error())
	}
	return texts
}

// restoreStep pulls the release out of one region's copy and hashes what it writes.
type restoreStep struct{ w *World }

func (r restoreStep) Check(_ context.Context, s playbooks.Step) []error {
	if _, err := r.w.regionOf(s); err != nil {
		return []error{err}
	}
	return nil
}

func (r restoreStep) Do(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	side, err := r.w.regionOf(s)
	if err != nil {
		return err
	}
	if r.w.manifest == nil {
		return missing("restore", "preflight")
	}
	if side.Deployed != nil {
		return sc.Emit(drill.TypeNote, drill.Note{Text: "nothing is restored in " + side.Name + ": its canary gets its weights as deployed, by the path that production uses"})
	}
	dir := r.w.restored(side)
	u, err := undo(UndoFiles, FilesArgs{Dir: dir, Run: sc.RunID()})
	if err != nil {
		return err
	}
	u = r.w.keepServing(side, u)
	told := tell(sc)
	defer told.close()
	var done replicate.Restored
	err = sc.Change(ctx, "files restored from region "+side.Name, u, func(ctx context.Context) (err error) {
		if err := markOwned(dir, sc.RunID()); err != nil {
			return err
		}
		m := r.w.manifest
		done, err = replicate.Restore(ctx, m, side.Store, release.Prefix(r.w.Service, m.Release), r.w.OpenDir(filepath.Join(dir, "release")), replicate.RestoreOptions{Progress: told})
		return err
	})
	if err != nil {
		return fmt.Errorf("restoring from region %s: %w", side.Name, err)
	}
	if side != r.w.takesOver() {
		return nil
	}
	return sc.Emit(drill.TypeInstant, drill.Instant{Name: drill.InstantWeights, Cached: done.Cached > 0})
}

// ownerFile marks a folder as a run's own, so that its undo never removes
// anything else.
const ownerFile = ".drkit-run"

func markOwned(dir, run string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the run's folder: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, ownerFile), []byte(run+"\n"), 0o644)
}
