package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"drkit/drill/evidence"
	"drkit/drill/ledger"
	"drkit/internal/errext"
	"drkit/manifest/oms"
)

// verifyEvidenceOptions are those of drill verify-evidence.
type verifyEvidenceOptions struct {
	afterOptions
	Head, Key, Signature string
	More                 []string
}

func newDrillVerifyEvidence(s *streams, run func(context.Context, *streams, verifyEvidenceOptions) error) *cobra.Command {
	var o verifyEvidenceOptions
	c := &cobra.Command{
		Use:   "verify-evidence [RUN|FILE|DIR]",
		Short: "Prove that runs and their evidence were not changed, removed or reordered",
		Long: `Reads the ledger of all runs, the journals and each evidence.json, recomputes every
verdict, and says where one contradicts another: a changed byte, a removed run, records
out of order, a pass beside a red gate, a clean-up that is not proven. Without a name it
looks at all runs; with a run or its folder at that run and the whole ledger; a DIR with
runs/ in it is a run.dir. An evidence.json that lies alone is judged by itself.

What was cut off the end of a ledger together with its runs is seen only when an object
lock holds the ledger's records, or when --head gives a record that was noted earlier.
Status 6: something does not hold.`,
		Example: `  drkit drill verify-evidence
  drkit drill verify-evidence RUN --key key.pub`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Run = args[0]
			}
			return run(c.Context(), s, o)
		},
	}
	o.addFlags(c)
	c.Flags().StringArrayVar(&o.More, "also", nil, "a further folder of runs, of another machine that shares the ledger (repeatable)")
	c.Flags().StringVar(&o.Head, "head", "", "SHA-256 of a record that was noted earlier: the ledger must still hold it")
	c.Flags().StringVar(&o.Key, "key", "", "file with the signer's public key (PEM): the evidence must be signed with it")
	c.Flags().StringVar(&o.Signature, "signature", "", "file with the signature (default: evidence.json.sig beside the evidence)")
	return c
}

// evidenceResult is the result of verify-evidence.
type evidenceResult struct {
	Schema   string              `json:"schema"`
	Verdict  string              `json:"verdict"` // holds, contradicted
	Ledger   string              `json:"ledger"`
	Records  int                 `json:"records"`
	Head     *headResult         `json:"head"` // null: no record
	Tail     string              `json:"tail"`
	Runs     []evidence.RunAudit `json:"runs"`
	Faults   []ledger.Fault      `json:"faults"`
	Notes    []string            `json:"notes"`
	SignedBy string              `json:"signed_by,omitempty"`
}

type headResult struct {
	Record uint64 `json:"record"`
	SHA256 string `json:"sha256"`
}

func runDrillVerifyEvidence(ctx context.Context, s *streams, o verifyEvidenceOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	place, err := o.place()
	if err != nil {
		return err
	}
	res, err := o.examine(ctx, s, place)
	if err != nil {
		return err
	}
	if err := o.signed(place, res); err != nil {
		return err
	}
	return concludeEvidence(s, o, res)
}

// evidencePlace is what an argument names: a run of a folder, a folder of runs, or
// a file that lies alone.
type evidencePlace struct {
	dir, run string
	alone    string // evidence.json without a run's folder around it
}

func (p evidencePlace) file() string {
	if p.alone != "" {
		return p.alone
	}
	return evidence.Path(p.dir, p.run)
}

func (o *verifyEvidenceOptions) place() (evidencePlace, error) {
	info, err := os.Stat(o.Run)
	if o.Run == "" || err != nil || isRun(o.Run) { // a file of that name does not stand for the run
		dir, err := o.runs()
		return evidencePlace{dir: dir, run: o.Run}, err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return evidencePlace{}, usage(fmt.Errorf("%s is no regular file", o.Run), "name a run, runs/RUN in a run.dir, or an evidence.json")
	}
	path, err := filepath.Abs(o.Run)
	if err != nil {
		return evidencePlace{}, err
	}
	folder := path
	if !info.IsDir() {
		folder = filepath.Dir(path)
	}
	runs := filepath.Dir(folder)
	switch inside := isRun(filepath.Base(folder)) && filepath.Base(runs) == "runs"; {
	case inside && !info.IsDir() && !slices.Contains([]string{evidence.FileName, ledger.FileName}, filepath.Base(path)):
		return evidencePlace{}, usage(fmt.Errorf("%s is not what a run's evidence is in: the run is judged by %s and %s beside it", o.Run, evidence.FileName, ledger.FileName),
			"name the run's folder; or move the file elsewhere, and it is judged alone")
	case inside:
		return evidencePlace{dir: filepath.Dir(runs), run: filepath.Base(folder)}, nil
	case !info.IsDir():
		return evidencePlace{alone: path}, nil
	}
	if _, err := os.Stat(filepath.Join(path, "runs")); err != nil {
		return evidencePlace{}, usage(fmt.Errorf("%s is neither a folder of runs nor the folder of a run", o.Run), "name a run.dir (it holds runs/), runs/RUN in it, or an evidence.json")
	}
	return evidencePlace{dir: path}, nil
}

func isRun(name string) bool {
	_, err := ulid.ParseStrict(name)
	return err == nil
}

func (o *verifyEvidenceOptions) examine(ctx context.Context, s *streams, p evidencePlace) (*evidenceResult, error) {
	res := &evidenceResult{Schema: "drkit.evidence-check/1.0", Runs: []evidence.RunAudit{}, Faults: []ledger.Fault{}, Notes: []string{}}
	if p.alone != "" {
		return res, examineFile(p.alone, res)
	}
	chain, err := o.ledgerOption.chain(s, o.File, p.dir)
	if err != nil {
		return nil, err
	}
	opts := evidence.Options{Dirs: append([]string{p.dir}, o.More...), Head: o.Head}
	if p.run != "" {
		opts.Runs = []string{p.run}
	}
	a, err := evidence.Check(ctx, chain, opts)
	if err != nil {
		return nil, err
	}
	if a.Records == 0 && len(a.Runs) == 0 && len(a.Faults) == 0 {
		return nil, usage(fmt.Errorf("there is no ledger at %s and no run in %s", a.Location, p.dir), "name the folder of the runs with --run-dir, or run `drkit drill run` first")
	}
	res.Ledger, res.Records, res.Tail = a.Location, a.Records, a.Tail
	if a.Head != nil {
		res.Head = &headResult{a.Head.Seq, a.Head.SHA256}
	}
	res.Runs, res.Faults, res.Notes = append(res.Runs, a.Runs...), append(res.Faults, a.Faults...), append(res.Notes, a.Notes...)
	return res, nil
}

// examineFile judges an evidence.json that was handed over alone.
func examineFile(path string, res *evidenceResult) error {
	data, err := readNamed("the evidence", path, "name an evidence.json")
	if err != nil {
		return err
	}
	for _, f := range evidence.CheckFile(data) {
		f.Where = filepath.Base(path) + " " + f.Field
		res.Faults = append(res.Faults, f)
	}
	switch e, err := evidence.Decode(data); {
	case err != nil: // said above
	case e.Outcome == nil:
		res.Faults = append(res.Faults, ledger.Fault{Run: e.RunID, Where: filepath.Base(path) + " /outcome", Field: "/outcome",
			What: "the run has no end there: nothing is proven by it", Hint: "judge the run where its journal is, or take the evidence again once it has ended"})
	default:
		res.Runs = append(res.Runs, evidence.RunAudit{Run: e.RunID, Verdict: e.Outcome.Verdict, Status: e.Outcome.Status, State: "alone"})
	}
	res.Notes = append(res.Notes, "the file was judged by itself: its outcome follows from what it says; whether that happened only its journal, the ledger or a signature can say")
	return nil
}

// signed proves the signature of the one evidence that was named.
func (o *verifyEvidenceOptions) signed(p evidencePlace, res *evidenceResult) error {
	if o.Key == "" {
		if o.Signature != "" {
			return usage(errors.New("--signature without --key proves nothing"), "give the signer's public key with --key")
		}
		return nil
	}
	if p.run == "" && p.alone == "" {
		return usage(errors.New("--key is for one evidence, and no run was named"), "name a run, or its evidence.json")
	}
	public, err := verifySignatureOptions{Key: o.Key}.key()
	if err != nil {
		return err
	}
	faults, by := checkSignature(p.file(), o.Signature, public)
	res.Faults, res.SignedBy = append(res.Faults, faults...), by
	return nil
}

// signatureOf is where the signature of an evidence lies unless it is named.
func signatureOf(file string) string { return file + ".sig" }

// checkSignature reads a signature and compares what it signs with the evidence.
func checkSignature(file, signature string, public any) ([]ledger.Fault, string) {
	if signature == "" {
		signature = signatureOf(file)
	}
	fault := func(err error) []ledger.Fault {
		return []ledger.Fault{{Where: "signature " + signature, What: err.Error(), Hint: errext.Hint(err)}}
	}
	data, err := readFile(file)
	if err != nil {
		return fault(err), ""
	}
	raw, err := readFile(signature)
	if err != nil {
		return fault(errext.WithHint(fmt.Errorf("the evidence is not signed: %w", err), "drkit drill sign-evidence signs it")), ""
	}
	bundle, err := oms.ReadBundle(raw)
	if err != nil {
		return fault(err), ""
	}
	payload, err := bundle.Open(public)
	if err != nil {
		return fault(err), ""
	}
	print, err := oms.Fingerprint(public)
	if err != nil {
		return fault(err), ""
	}
	return evidence.CheckStatement(payload, data), oms.KeyName(public) + " key " + print
}

func concludeEvidence(s *streams, o verifyEvidenceOptions, res *evidenceResult) error {
	status := errext.Holds
	res.Verdict = "holds"
	if len(res.Faults) > 0 {
		status, res.Verdict = errext.Evidence, "contradicted"
	}
	if o.json() {
		if err := writeJSON(s, res); err != nil {
			return err
		}
		return conclude(status)
	}
	printEvidence(s, res)
	return conclude(status)
}

func printEvidence(s *streams, res *evidenceResult) {
	if res.Ledger != "" {
		printLine(s.Out, "ledger    %s: %s, end %s", res.Ledger, countOf(res.Records, "record", "records"), res.Tail)
	}
	if res.Head != nil {
		printLine(s.Out, "head      record %d sha256:%s", res.Head.Record, res.Head.SHA256)
	}
	if res.SignedBy != "" {
		printLine(s.Out, "signature %s", res.SignedBy)
	}
	for _, r := range res.Runs {
		verdict := "has not ended"
		switch {
		case r.Verdict != "":
			verdict = fmt.Sprintf("%s (status %d)", r.Verdict, r.Status)
		case r.State == "closed":
			verdict = "no verdict: its journal does not give one"
		}
		printLine(s.Out, "run       %s  %-7s %s", r.Run, r.State, verdict)
	}
	hint := ""
	for _, f := range res.Faults {
		printLine(s.Out, "FAULT     %s: %s", f.Where, f.What)
		if f.Hint != "" && f.Hint != hint {
			printLine(s.Out, "          → %s", f.Hint)
		}
		hint = f.Hint
	}
	for _, n := range res.Notes {
		printLine(s.Out, "note      %s", n)
	}
	printLine(s.Out, "%s: %s, %s", map[string]string{"holds": "the evidence holds", "contradicted": "the evidence does not hold"}[res.Verdict],
		countOf(len(res.Runs), "run", "runs"), countOf(len(res.Faults), "fault", "faults"))
}
