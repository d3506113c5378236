package main

import (
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"drkit/internal/errext"
	"drkit/manifest/export"
	"drkit/manifest/oms"
)

// verifySignatureOptions are those of manifest verify-signature.
type verifySignatureOptions struct {
	subjectOption
	outputOption
	Key, Signature string
	IgnoreUnsigned bool
}

func newManifestVerifySignature(s *streams, run func(context.Context, *streams, verifySignatureOptions) error) *cobra.Command {
	var o verifySignatureOptions
	c := &cobra.Command{
		Use:   "verify-signature [MODEL_DIR|MANIFEST]",
		Short: "Check a model against its signature (OpenSSF Model Signing)",
		Long: `Proves that the key signed the bundle, and that the model is the one that was
signed: every file of a folder is read, or the digests of a manifest are compared.
Bundles of drkit and of model_signing (method key) are read. What the signer left
out is shown: the signature says nothing of it.

Status 4: a file differs, is missing, was added, or is a link. Status 6: the
signature does not hold, another key made it, or something could not be proven.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.subjectOption.argument(args); err != nil {
				return err
			}
			return run(c.Context(), s, o)
		},
	}
	o.subjectOption.addFlags(c)
	o.outputOption.addFlags(c)
	c.Flags().StringVar(&o.Key, "key", "", "file with the signer's public key (PEM)")
	c.Flags().StringVar(&o.Signature, "signature", "", "file with the signature (a Sigstore bundle)")
	c.Flags().BoolVar(&o.IgnoreUnsigned, "ignore-unsigned-files", false, "files that were not signed are no fault")
	return c
}

// signatureResult is the result of a verification.
type signatureResult struct {
	Schema         string         `json:"schema"`
	Signature      string         `json:"signature"`
	Model          string         `json:"model"`
	Key            keyResult      `json:"key"`
	Statement      *oms.Statement `json:"statement"`
	Files          int            `json:"signed"` // resources: files, or shards of them
	Verdict        string         `json:"verdict"`
	IgnoreUnsigned bool           `json:"ignore_unsigned_files"`
	*oms.Result
}

type keyResult struct {
	Kind        string `json:"kind"`
	Fingerprint string `json:"fingerprint"`
	Named       bool   `json:"named"` // the bundle names this key; older ones name none
}

func runManifestVerifySignature(ctx context.Context, s *streams, o verifySignatureOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	if _, err := o.mode(s); err != nil {
		return err
	}
	public, err := o.key()
	if err != nil {
		return err
	}
	data, err := readNamed("--signature", o.Signature, "name the bundle with --signature FILE")
	if err != nil {
		return err
	}
	bundle, err := oms.ReadBundle(data)
	if err != nil {
		return err
	}
	st, err := bundle.Verify(public)
	if err != nil {
		return err
	}
	res := signatureResult{Schema: "drkit.signature/1.0", Signature: o.Signature, Statement: st, Files: len(st.Resources), IgnoreUnsigned: o.IgnoreUnsigned}
	res.Key = keyResult{Kind: oms.KeyName(public), Named: bundle.Hint != ""}
	if res.Key.Fingerprint, err = oms.Fingerprint(public); err != nil {
		return err
	}
	if res.Model, res.Result, err = o.compare(ctx, s, st, data); err != nil {
		return err
	}
	return o.conclude(s, res)
}

func (o verifySignatureOptions) key() (crypto.PublicKey, error) {
	text, err := readNamed("--key", o.Key, "name the signer's public key with --key PUB")
	if err != nil {
		return nil, err
	}
	public, err := oms.PublicKey(text)
	if err != nil {
		return nil, usage(fmt.Errorf("reading the key %s: %w", o.Key, err), errext.Hint(err))
	}
	return public, nil
}

// compare judges the folder, or the digests of a release's model.
func (o verifySignatureOptions) compare(ctx context.Context, s *streams, st *oms.Statement, bundle []byte) (string, *oms.Result, error) {
	opts := oms.Options{AllowSymlinks: o.AllowSymlinks, IgnoreUnsigned: o.IgnoreUnsigned}
	if o.Folder == "" {
		return o.compareRelease(ctx, s, st, bundle, opts)
	}
	mode, err := o.mode(s)
	if err != nil {
		return "", nil, err
	}
	if own := inside(o.Folder, o.Signature); own != "" {
		opts.Ignore = []string{own}
	}
	meter := newMeter(s, mode)
	defer meter.close()
	opts.Progress = meter.progress()
	res, err := st.Check(ctx, os.DirFS(o.Folder), opts)
	return o.Folder, res, err
}

func (o verifySignatureOptions) compareRelease(ctx context.Context, s *streams, st *oms.Statement, bundle []byte, opts oms.Options) (string, *oms.Result, error) {
	m, err := o.release(ctx, s)
	if err != nil {
		return "", nil, err
	}
	files, err := export.Files(m, o.Tree)
	if err != nil {
		return "", nil, err
	}
	own := sha256.Sum256(bundle)
	for _, f := range files {
		if f.Digest == hex.EncodeToString(own[:]) { // the signature itself, kept in the model's folder
			opts.Ignore = append(opts.Ignore, f.Name)
		}
	}
	res, err := st.CheckDigests(files, export.LeftOut, opts)
	return fmt.Sprintf("model/%s of release %.12s", o.Tree, m.Release), res, err
}

// conclude prints the result and gives its status.
func (o verifySignatureOptions) conclude(s *streams, res signatureResult) error {
	status := errext.Holds
	res.Verdict = "holds"
	if res.Tampered(o.IgnoreUnsigned) {
		status, res.Verdict = errext.Gate, "differs"
	}
	if len(res.Unverified) > 0 {
		status = errext.Combine(status, errext.Evidence)
		if res.Verdict == "holds" {
			res.Verdict = "unproven"
		}
	}
	if o.json() {
		if err := writeJSON(s, res); err != nil {
			return err
		}
		return conclude(status)
	}
	o.print(s, res)
	return conclude(status)
}

func (o verifySignatureOptions) print(s *streams, res signatureResult) {
	st := res.Statement
	fmt.Fprintf(s.Out, "%s: %s", res.Model, map[string]string{"holds": "is the model that was signed", "differs": "is not the model that was signed",
		"unproven": "not everything could be proven"}[res.Verdict])
	for _, n := range []struct {
		count int
		what  string
	}{{res.Matched, "files match"}, {len(res.Mismatch), "differ"}, {len(res.Missing), "missing"}, {len(res.Extra), "not signed"}, {len(res.Refused), "not read"}, {len(res.Unverified), "not proven"}} {
		if n.count > 0 {
			fmt.Fprintf(s.Out, ", %d %s", n.count, n.what)
		}
	}
	fmt.Fprintf(s.Out, "\nsignature  %s holds: %s key %.16s", res.Signature, res.Key.Kind, res.Key.Fingerprint)
	if !res.Key.Named {
		fmt.Fprint(s.Out, " (the bundle names no key; an older signer made it)")
	}
	fmt.Fprintf(s.Out, "\nstatement  %s, %d %s by %s, root %s\n", printable(st.Name), len(st.Resources), st.Serialization.Method, st.Serialization.HashType, st.Root)
	fmt.Fprintf(s.Out, "left out   %s\n", leftOut(res.Ignored))
	o.printFiles(s, res)
}

// leftOut says what the signer left out, and what lies there now.
func leftOut(all []oms.Ignored) string {
	if len(all) == 0 {
		return "nothing"
	}
	var parts []string
	for _, i := range all {
		text := printable(i.Path)
		if i.Files > 0 {
			text += fmt.Sprintf(" (%d here)", i.Files)
		}
		parts = append(parts, text)
	}
	return "by the signer: " + strings.Join(parts, ", ")
}

func (o verifySignatureOptions) printFiles(s *streams, res signatureResult) {
	reasons := func(verdict string, all []oms.Reason) {
		for i, r := range all {
			fmt.Fprintf(s.Out, "%-10s %s\n", verdict, printable(r.Path))
			if i+1 == len(all) || all[i+1].Why != r.Why { // once for all that have it
				fmt.Fprintf(s.Out, "           %s\n", r.Why)
			}
		}
	}
	reasons("mismatch", res.Mismatch)
	for _, p := range res.Missing {
		fmt.Fprintf(s.Out, "missing    %s\n", printable(p))
	}
	extra := "extra"
	if o.IgnoreUnsigned {
		extra = "unsigned"
	}
	for _, p := range res.Extra {
		fmt.Fprintf(s.Out, "%-10s %s\n", extra, printable(p))
	}
	reasons("refused", res.Refused)
	reasons("unproven", res.Unverified)
	if len(res.Refused) > 0 && !o.AllowSymlinks && o.Folder != "" {
		fmt.Fprintln(s.Err, "  hint: if the links are meant, as in a Hugging Face cache, give --allow-symlinks")
	}
}

// printable is a path as it is, or quoted when a terminal would act on it.
func printable(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(path)
	}
	return path
}
