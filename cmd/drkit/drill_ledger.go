package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"drkit/drill"
	"drkit/drill/evidence"
	"drkit/drill/ledger"
	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/internal/store/dir"
	"drkit/manifest"
	"drkit/manifest/release"
)

// ledgerFolder is where the ledger lies beneath run.dir when drkit.yaml names no other place.
const ledgerFolder = "ledger"

// openLedger opens the ledger at a place; a zero one is the folder beneath run.dir.
func openLedger(s *streams, runDir string, place service.Location) (*ledger.Chain, error) {
	if place.IsZero() {
		path := filepath.Join(runDir, ledgerFolder)
		return ledger.NewChain(dir.Plain(path), path, s.Redactor.Bytes), nil
	}
	st, err := openStore(place)
	if err != nil {
		return nil, errext.WithHint(fmt.Errorf("opening the ledger: %w", err), "run.ledger in drkit.yaml, or --ledger, names a folder or a bucket")
	}
	return ledger.NewChain(st, place.String(), s.Redactor.Bytes), nil
}

// ledgerOf is the ledger that drkit.yaml names.
func ledgerOf(s *streams, svc *service.Service) (*ledger.Chain, error) {
	return openLedger(s, svc.Run.Dir.Path, svc.Run.Ledger)
}

// sealTime is how long the ledger may take to be written at the end of a run.
const sealTime = time.Minute

// announce opens the run in the ledger before its journal says anything. Without
// that record nothing is begun. The ledger is returned with an error too, as the
// record may have been written.
func (d *drillPlan) announce(ctx context.Context, s *streams, start *drill.RunStarted) (*ledger.Chain, error) {
	chain, err := ledgerOf(s, d.svc)
	if err != nil {
		return nil, err
	}
	opened := evidence.OpenedOf(*start)
	e, err := chain.Append(ctx, ledger.Record{Kind: ledger.KindOpened, Run: d.id, At: now(), By: start.By, Opened: &opened})
	if err != nil {
		return chain, fmt.Errorf("nothing was begun: %w", err)
	}
	start.Ledger = &drill.LedgerRef{Location: chain.Location(), Record: e.Seq, SHA256: e.SHA256, Previous: e.Previous, Anchored: e.Anchored}
	if e.Anchored {
		start.Ledger.Until = e.Until.Format(time.RFC3339)
	}
	return chain, nil
}

// seal writes a run's evidence and closes it in the ledger; an interrupt does not
// keep it from that.
func seal(ctx context.Context, s *streams, chain *ledger.Chain, dir, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sealTime)
	defer cancel()
	e, err := evidence.Seal(ctx, chain, dir, id, operator())
	if e != nil && e.SHA256 != "" {
		where := "evidence: none of a run that never began"
		if e.Closed != nil && e.Closed.Evidence != nil {
			where = "evidence: " + evidence.Path(dir, id)
		}
		fmt.Fprintf(s.Err, "%s; ledger record %d, head sha256:%s\n", where, e.Seq, e.SHA256)
	}
	return err
}

// context adds what evidence says beside the plan: who ran it, with which program,
// and what the release holds.
func (d *drillPlan) context(ctx context.Context, start *drill.RunStarted) {
	start.By, start.PlaybookHash, start.Binary = operator(), d.playbook.Hash(), thisBinary()
	start.SelfTest = lastSelfTest(d.svc.Run.Dir.Path, start.Tool, start.Binary)
	if c := d.o.Scenario; c != (drill.Scenario{}) {
		start.Scenario = &c
	}
	if m, err := release.Load(ctx, d.target.store, d.svc.Metadata.Name, start.Release); err == nil { // without one, evidence says so
		start.Parts = partsOf(m)
	}
}

func partsOf(m *manifest.Manifest) []drill.Part {
	var all []drill.Part
	for _, name := range []manifest.Part{manifest.Model, manifest.Engine, manifest.Deploy} {
		p := drill.Part{Name: string(name)}
		var files []manifest.File
		for _, f := range m.Contents.Files {
			if f.Part == name {
				p.Files++
				p.Bytes += f.Size
				files = append(files, f)
			}
		}
		p.SHA256 = manifest.ReleaseID(manifest.Contents{Files: files})
		all = append(all, p)
	}
	return all
}

// thisBinary is the running program; nil when nothing can be said of it.
func thisBinary() *drill.Binary {
	var b drill.Binary
	if path, err := os.Executable(); err == nil {
		b.SHA256 = fileSum(path)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b == (drill.Binary{}) {
		return nil
	}
	return &b
}

// fileSum is a file's SHA-256, "" when it cannot be read.
func fileSum(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ledgerOption is --ledger: another ledger than the one that drkit.yaml names.
type ledgerOption struct{ Ledger string }

// chain is the ledger of the runs in a folder.
func (o ledgerOption) chain(s *streams, file, runDir string) (*ledger.Chain, error) {
	if o.Ledger != "" {
		l, err := parseLocation(o.Ledger)
		if err != nil {
			return nil, err
		}
		return openLedger(s, runDir, l)
	}
	svc, err := service.Load(file)
	if errors.Is(err, fs.ErrNotExist) {
		return openLedger(s, runDir, service.Location{})
	}
	if err != nil {
		return nil, err
	}
	return openLedger(s, runDir, svc.Run.Ledger)
}
