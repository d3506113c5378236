package step

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/drill/probe"
	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest/release"
	"drkit/playbooks"
	"drkit/verify"
)

// What each step asks of reality when another process goes on with the run. What it
// cannot ask keeps the run held (status Refused); what does not hold is run again.

var (
	_ drill.Rechecker = preflight{}
	_ drill.Rechecker = declare{}
	_ drill.Rechecker = approve{}
	_ drill.Rechecker = verifyStep{}
	_ drill.Rechecker = restoreStep{}
	_ drill.Rechecker = boot{}
	_ drill.Rechecker = behaviour{}
	_ drill.Rechecker = trafficStep{}
	_ drill.Rechecker = cutover{}
	_ drill.Rechecker = steady{}
	_ drill.Rechecker = failback{}
)

// Recheck: the lock is still the run's own. Another run's is no reason to take this
// run's changes back: a person has to look.
func (p preflight) Recheck(ctx context.Context, _ playbooks.Step, sc drill.Scope) error {
	key := LockKey(p.w.Target.Name, p.w.Service)
	holder, err := ledger.HolderOf(ctx, p.w.Target.State, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("the lock %s is gone", key)
	case err != nil:
		return refuse(fmt.Errorf("reading the lock %s: %w", key, err), "see that the target's state can be read, then resume again")
	case holder.Run != sc.RunID():
		return refuse(fmt.Errorf("run %s took the lock %s meanwhile", holder.Run, key), "let that run end, then resume again")
	}
	return nil
}

// Recheck: what was declared is declared, and its clock goes on.
func (declare) Recheck(context.Context, playbooks.Step, drill.Scope) error { return nil }

// memoListing is what a copy looked like when it was verified.
const memoListing = "listing"

// listing is the SHA-256 of what a store says of a copy's objects: it changes when
// one of them is written.
func (w *World) listing(ctx context.Context, side *Region) (string, error) {
	var lines []string
	for o, err := range side.Store.List(ctx, release.Prefix(w.Service, w.manifest.Release)) {
		if err != nil {
			return "", err
		}
		lines = append(lines, fmt.Sprintf("%q %d %q %q %d", o.Key, o.Size, o.ETag, o.Version, o.ModTime.UnixNano()))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:]), nil
}

// memo leaves a value to a later process.
func memo(sc drill.Scope, key string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("memo %s: %w", key, err)
	}
	return sc.Emit(drill.TypeMemo, drill.Memo{Key: key, Data: raw})
}

// recall reads a value that the step left; of any step when step is "".
func recall(sc drill.Scope, step, key string, into any) error {
	r, ok := sc.(drill.Recaller)
	if !ok {
		return errors.New("the run does not remember")
	}
	raw, known := r.Recall(step, key)
	if !known {
		return errors.New("an earlier process left no " + key)
	}
	return json.Unmarshal(raw, into)
}

// Recheck: nobody wrote to the copy since it was verified, as far as its store tells
// by size, ETag, version and time. The restore hashes what it reads in any case.
func (v verifyStep) Recheck(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	var was string
	if err := recall(sc, s.ID, memoListing, &was); err != nil {
		return err
	}
	now, err := v.w.listing(ctx, v.w.takesOver())
	if err != nil {
		return refuse(fmt.Errorf("listing the copy of region %s: %w", v.w.takesOver().Name, err), "see that the target's store can be read, then resume again")
	}
	if now != was {
		return fmt.Errorf("objects of the copy in region %s were written since it was verified", v.w.takesOver().Name)
	}
	return nil
}

// Recheck hashes what was restored once more.
func (r restoreStep) Recheck(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	side, err := r.w.regionOf(s)
	if err != nil {
		return err
	}
	if side.Deployed != nil {
		return nil // nothing was restored: the canary has its weights as deployed
	}
	dir := r.w.restored(side)
	owner, err := os.ReadFile(filepath.Join(dir, ownerFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is gone", dir)
	case err != nil:
		return err
	case strings.TrimSpace(string(owner)) != sc.RunID():
		return fmt.Errorf("%s is not this run's any more", dir)
	}
	copied := verify.Copy{Region: side.Name, Store: r.w.OpenDir(filepath.Join(dir, "release")), Bare: true}
	res, err := verify.Release(ctx, r.w.manifest, copied, verify.Options{Level: verify.ByContent, Require: store.Content})
	if err != nil {
		return err
	}
	if res.Status() != errext.Holds {
		return errors.New("what was restored is not the release any more: " + first(describe(res), 3))
	}
	return nil
}

// found is what is left of the run under a name. Without an answer nothing is known,
// and that is no reason to take anything back.
func (w *World) found(ctx context.Context, run, name string) (drill.Replica, error) {
	all, err := w.leftOf(ctx, run)
	if err != nil {
		return nil, refuse(fmt.Errorf("looking for what runs: %w", err), "see that the launcher can be reached, then resume again")
	}
	for _, r := range all {
		if r.ID() == name {
			return r, nil
		}
	}
	return nil, fmt.Errorf("%s does not run any more", name)
}

// Recheck: the canary lives with all its parts, is healthy and serves the models of the
// release. What its platform says of parts takes a moment to be seen.
func (b boot) Recheck(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	_, side, err := b.options(s)
	if err != nil {
		return err
	}
	name := b.w.replicaName(side)
	left, err := b.w.found(ctx, sc.RunID(), name)
	if err != nil {
		return err
	}
	r := &replica{Replica: left, region: side, name: name}
	if how, ended := r.ended(); ended {
		return fmt.Errorf("%s ended: %s", name, how)
	}
	if err := stillWhole(ctx, r); err != nil {
		return fmt.Errorf("%s is not whole any more: %w", name, err)
	}
	ctx, cancel := question(ctx)
	defer cancel()
	if err := errors.Join(b.w.client(r.Endpoint()).Health(ctx), b.models(ctx, r)); err != nil {
		return fmt.Errorf("%s does not serve any more: %w", name, err)
	}
	b.w.keep(r)
	return nil
}

// stillWhole gives the platform the time of one question to show all parts.
func stillWhole(ctx context.Context, r *replica) (lacking error) {
	ctx, cancel := question(ctx)
	defer cancel()
	_ = wait(ctx, pollEvery, "all parts", func(context.Context) (bool, error) {
		lacking = r.whole()
		return lacking == nil, nil
	})
	return lacking
}

// Recheck asks all probes again. After the way back nothing serves that took over.
func (b behaviour) Recheck(ctx context.Context, s playbooks.Step, sc drill.Scope) error {
	var o behaviourOptions
	if err := s.Decode(&o); err != nil {
		return err
	}
	if o.Engines == serving {
		return b.w.answerStill(ctx, sc)
	}
	r := b.w.replicaOf(b.w.takesOver())
	if r == nil {
		return missing("behaviour", "boot (region "+b.w.takesOver().Name+")")
	}
	return b.w.asRecorded(ctx, r, "the canary")
}

// answerStill asks each engine that took over, while it has the traffic.
func (w *World) answerStill(ctx context.Context, sc drill.Scope) error {
	last, _, err := w.stillMoved(ctx, sc)
	if err != nil || last.To != w.takesOver().Name {
		return err
	}
	if w.cutover == nil {
		return missing("behaviour (engines serving)", "cutover")
	}
	w.cutover.warming.aside(func() {
		for _, e := range w.cutover.to.all {
			if err == nil {
				err = w.asRecorded(ctx, e, e.name)
			}
		}
	})
	return err
}

func (w *World) asRecorded(ctx context.Context, r *replica, who string) error {
	res, err := probe.Compare(ctx, w.client(r.Endpoint()), w.probes)
	if err != nil {
		return err
	}
	if !res.Equal() {
		return errors.New(who + " answers otherwise now: " + first(redAnswers(res), 3))
	}
	return nil
}
