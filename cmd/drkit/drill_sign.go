package main

import (
	"context"
	"crypto"
	"fmt"

	"github.com/spf13/cobra"

	"drkit/drill/evidence"
	"drkit/internal/errext"
	"drkit/manifest/oms"
)

// signEvidenceOptions are those of drill sign-evidence.
type signEvidenceOptions struct {
	afterOptions
	Key, PasswordEnv, Out string
}

func newDrillSignEvidence(s *streams, run func(context.Context, *streams, signEvidenceOptions) error) *cobra.Command {
	var o signEvidenceOptions
	c := &cobra.Command{
		Use:   "sign-evidence [RUN]",
		Short: "Sign the evidence of a run with a local key (DSSE, in-toto)",
		Long: `Verifies the ledger and the run, and signs an in-toto statement (predicate "test
result") that names the SHA-256 of its evidence.json and of its journal. The bundle
is read by drkit drill verify-evidence --key and by any DSSE verifier. Evidence that
contradicts itself, its journal or the ledger is not signed (status 6). Without a
name it takes the newest run. Keys are those of drkit manifest sign.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Run = args[0]
			}
			return run(c.Context(), s, o)
		},
	}
	o.addFlags(c)
	c.Flags().StringVar(&o.Key, "key", "", "file with the private key (PEM: PKCS #8 or SEC 1)")
	c.Flags().StringVar(&o.PasswordEnv, "password-env", "", "environment variable with the password of an encrypted key")
	c.Flags().StringVarP(&o.Out, "out", "o", "", "write the signature to this file (default: evidence.json.sig beside the evidence)")
	return c
}

func runDrillSignEvidence(ctx context.Context, s *streams, o signEvidenceOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	key, err := signOptions{Key: o.Key, PasswordEnv: o.PasswordEnv}.key(s)
	if err != nil {
		return err
	}
	v := verifyEvidenceOptions{afterOptions: o.afterOptions}
	place, err := v.place()
	if err == nil && place.run == "" && place.alone == "" {
		place.dir, place.run, err = o.which()
	}
	if err != nil {
		return err
	}
	res, err := v.examine(ctx, s, place)
	if err != nil {
		return err
	}
	if len(res.Faults) > 0 {
		return errext.WithHint(errext.WithStatus(fmt.Errorf("not signed: %s: %s", res.Faults[0].Where, res.Faults[0].What), errext.Evidence), "drkit drill verify-evidence says all that does not hold")
	}
	data, err := readFile(place.file())
	if err != nil {
		return errext.WithStatus(fmt.Errorf("reading the evidence: %w", err), errext.Evidence)
	}
	if o.Out == "" {
		o.Out = signatureOf(place.file())
	}
	if err := replaceable(o.Out, bundleMark); err != nil {
		return err
	}
	print, err := signEvidence(data, key, o.Out)
	if err != nil {
		return err
	}
	if o.json() {
		return writeJSON(s, map[string]string{"schema": "drkit.evidence-signature/1.0", "signature": o.Out, "key": print})
	}
	_, err = fmt.Fprintf(s.Out, "signed with the %s key %.16s, written to %s\n", oms.KeyName(key.Public()), print, o.Out)
	return err
}

// signEvidence writes the signature of an evidence.json to out, and returns the
// key's fingerprint.
func signEvidence(data []byte, key crypto.Signer, out string) (print string, err error) {
	payload, err := evidence.Statement(data)
	if err != nil {
		return "", err
	}
	bundle, err := oms.SignPayload(payload, key)
	if err != nil {
		return "", err
	}
	if print, err = oms.Fingerprint(key.Public()); err != nil {
		return "", err
	}
	if err := writeFile(out, bundle); err != nil {
		return "", errext.WithStatus(err, errext.Evidence)
	}
	return print, nil
}
