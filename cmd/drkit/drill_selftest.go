package main

import (
	"bytes"
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
	"time"

	"github.com/spf13/cobra"

	"drkit/drill"
	"drkit/drill/ledger"
	"drkit/drill/selftest"
	"drkit/internal/demo"
	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/internal/store"
	"drkit/manifest/release"
)

// selfTestOptions are those of drill self-test.
type selfTestOptions struct {
	serviceOption
	outputOption
	progressOption
	Target string
	Only   []string
	MaxMiB int64
}

func newDrillSelfTest(s *streams, run func(context.Context, *streams, selfTestOptions) error) *cobra.Command {
	var o selfTestOptions
	c := &cobra.Command{
		Use:   "self-test",
		Short: "Show that the checks of a drill can go red",
		Long: `Rehearses a recovery of a tiny built-in model again and again, each time with one
fault: a missing tokenizer, an overwritten block, a missing matrix, a stale adapter,
another template, a canary that ends, hangs or only looks healthy, a router that lies,
a crossed border, wrong answers once it serves, too late, too few requests. Every fault
must be red for its own reason, and a sound recovery must be green. Where the working
directory has a drkit.yaml, the file faults are built into a scratch copy of its target's
release too.

The engine is drkit's stand-in, in this process; nothing of yours is written. The
result is kept beneath run.dir, and the next drill's evidence holds it.
Status 4: a check did not see its fault, or the sound recovery was red.`,
		Example: `  drkit drill self-test
  drkit drill self-test --case router-lies --case steady-late`,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), s, o) },
	}
	o.serviceOption.addFlags(c)
	o.outputOption.addFlags(c)
	o.progressOption.addFlags(c)
	c.Flags().StringVar(&o.Target, "target", "", "region whose copy is tried too (needed when there are several)")
	c.Flags().StringArrayVar(&o.Only, "case", nil, "only this case on the built-in model and the sound one (repeatable); the result is not kept")
	c.Flags().Int64Var(&o.MaxMiB, "max-copy", 512, "largest scratch copy of the target's release, in MiB; 0: none")
	return c
}

func runDrillSelfTest(ctx context.Context, s *streams, o selfTestOptions) (err error) {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	mode, err := o.mode(s)
	if err != nil {
		return err
	}
	work, remove, err := scratch("drkit-self-test", s.Err)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, errext.WithStatus(remove(), errext.Unclean)) }()
	in := selftest.Input{Model: filepath.Join(work, "built-in", "models", "support-tiny"), Adapter: filepath.Join(work, "built-in", "models", "billing"),
		WorkDir: work, Tool: toolVersion(), Only: o.Only}
	if b := thisBinary(); b != nil {
		in.Binary = b.SHA256
	}
	if err := demo.Write(filepath.Join(work, "built-in"), demo.StandIn("drkit")); err != nil {
		return err
	}
	runDir := ""
	if in.Own, runDir, err = o.own(ctx, s); err != nil {
		return err
	}
	if mode != "quiet" {
		in.OnCase = func(c selftest.Case) {
			fmt.Fprintf(s.Err, "%-22s %-5s %5.1f s\n", c.ID, c.Outcome, c.Seconds)
		}
	}
	res, err := selftest.Run(ctx, in)
	if errors.Is(err, selftest.ErrUnknownCase) {
		return usage(err, "the cases are "+strings.Join(selftest.Names(), ", ")+"; own-* are cases on the copy of the service, and run with all the others, without --case")
	}
	if err != nil {
		return err
	}
	if err := errors.Join(keepSelfTest(s, runDir, res), printSelfTest(s, o, res)); err != nil {
		return err
	}
	if !res.Held {
		return conclude(errext.Gate)
	}
	return nil
}

// own is the target's copy of the service that the working directory describes, and
// the folder of its runs; nothing where there is no service.
func (o *selfTestOptions) own(ctx context.Context, s *streams) (*selftest.Own, string, error) {
	svc, err := o.load()
	if errors.Is(err, fs.ErrNotExist) && !o.named() {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	runDir := svc.Run.Dir.Path
	if o.MaxMiB <= 0 || len(o.Only) > 0 {
		return nil, runDir, nil
	}
	target, err := chooseTarget(svc, o.Target)
	if err != nil {
		return nil, "", err
	}
	return openOwn(ctx, svc, target, o.MaxMiB<<20), runDir, nil
}

// named reports whether the service's file was named, so that it has to be there.
func (o *selfTestOptions) named() bool { return o.File != "drkit.yaml" }

// openOwn reads which release the target publishes. Why that cannot be tried is part of
// the result: without it, a green would say more than was seen.
func openOwn(ctx context.Context, svc *service.Service, target *service.Region, limit int64) *selftest.Own {
	own := &selftest.Own{Region: target.Name, MaxBytes: limit}
	c, err := openCopy(target)
	if err != nil {
		own.Broken = err
		return own
	}
	current, err := release.ReadCurrent(ctx, c.state, target.Name, svc.Metadata.Name)
	if errors.Is(err, store.ErrNotFound) {
		return own // it publishes none
	}
	if err == nil {
		own.Manifest, err = release.Load(ctx, c.store, svc.Metadata.Name, current.Release)
	}
	if err != nil {
		own.Manifest, own.Broken = nil, err
		return own
	}
	own.Store, own.Prefix = c.store, release.Prefix(svc.Metadata.Name, current.Release)
	return own
}

func printSelfTest(s *streams, o selfTestOptions, res selftest.Result) error {
	if o.json() {
		return writeJSON(s, res)
	}
	subject, missed := "", 0
	for _, c := range res.Cases {
		if c.Subject != subject {
			subject = c.Subject
			fmt.Fprintf(s.Out, "on the %s:\n", subject)
		}
		mark := "ok"
		if !c.OK() {
			mark, missed = "NOT SEEN", missed+1
			if c.Outcome == selftest.Other {
				mark = "OTHERWISE"
			}
		}
		fmt.Fprintf(s.Out, "  %-9s %-21s %-5s  %s\n", mark, c.ID, c.Outcome, c.Title)
		if !c.OK() {
			fmt.Fprintf(s.Out, "            wanted %s (%s); %s\n", c.Want, c.Wants, c.Seen)
		}
	}
	for _, what := range res.NotTried {
		fmt.Fprintf(s.Out, "  not tried: %s\n", what)
	}
	verdict := fmt.Sprintf("the self-test holds: %d cases, each came to what it had to", len(res.Cases))
	if !res.Held {
		verdict = fmt.Sprintf("THE SELF-TEST DOES NOT HOLD: %d of %d cases did not come to what they had to; do not believe a green of this drkit", missed, len(res.Cases))
	}
	_, err := fmt.Fprintf(s.Out, "%s. It ran with %s, in this process: it says nothing of your engine or router.\n", verdict, res.Engine)
	return err
}

// selfTests is the folder of the results beneath run.dir.
const selfTests = "self-tests"

// keepSelfTest writes a whole result beneath run.dir, for the evidence of later drills.
func keepSelfTest(s *streams, runDir string, res selftest.Result) error {
	if runDir == "" || res.Partial {
		return nil
	}
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(res); err != nil {
		return err
	}
	path := filepath.Join(runDir, selfTests, ledger.NewID(res.At)+".json")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("keeping the result of the self-test: %w", err)
	}
	return writeFile(path, s.Redactor.Bytes(data.Bytes()))
}

// lastSelfTest is the newest self-test of this very program, as a run's evidence holds
// it. A result of another build says nothing of this one.
func lastSelfTest(runDir string, tool string, binary *drill.Binary) *drill.SelfTest {
	none := func(why string) *drill.SelfTest { return &drill.SelfTest{State: drill.SelfTestNotRun, Why: why} }
	if binary == nil || binary.SHA256 == "" {
		return none("the program's own file could not be read, so it is not known which self-tests are its own")
	}
	paths, err := filepath.Glob(filepath.Join(runDir, selfTests, "*.json"))
	if err != nil || len(paths) == 0 {
		return none("no self-test was kept beneath run.dir: drkit drill self-test makes one")
	}
	slices.Sort(paths)
	for _, path := range slices.Backward(paths) {
		data, err := readFile(path)
		var res selftest.Result
		if err != nil || json.Unmarshal(data, &res) != nil || res.Schema != selftest.Schema || res.Binary != binary.SHA256 || res.Tool != tool || res.Partial {
			continue
		}
		return embedded(res, data)
	}
	return none("the self-tests beneath run.dir are of other builds of drkit: drkit drill self-test makes one of this")
}

// embedded judges a kept result anew: what its file says of itself does not count.
func embedded(res selftest.Result, data []byte) *drill.SelfTest {
	sum := sha256.Sum256(data)
	t := &drill.SelfTest{State: drill.SelfTestFailed, At: res.At.UTC().Format(time.RFC3339), Tool: res.Tool, SHA256: hex.EncodeToString(sum[:])}
	var ids []string
	for _, c := range res.Cases {
		ids = append(ids, c.ID)
		t.Cases = append(t.Cases, drill.SelfTestCase{ID: c.ID, Want: c.Want, Outcome: c.Outcome})
	}
	lacks := slices.ContainsFunc(selftest.Names(), func(id string) bool { return !slices.Contains(ids, id) })
	if res.Holds() && !lacks {
		t.State = drill.SelfTestHolds
	}
	if len(res.NotTried) > 0 {
		t.Why = "not tried: " + strings.Join(res.NotTried, "; ")
	}
	return t
}
