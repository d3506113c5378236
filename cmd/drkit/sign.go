package main

import (
	"context"
	"crypto"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"drkit/internal/errext"
	"drkit/manifest"
	"drkit/manifest/export"
	"drkit/manifest/oms"
)

// subjectOption says which model is signed or verified: a folder, or one model of
// a release, whose digests are known without reading a file.
type subjectOption struct {
	serviceOption
	releaseOption
	progressOption
	treeOption
	Folder        string
	AllowSymlinks bool
}

func (o *subjectOption) addFlags(c *cobra.Command) {
	o.serviceOption.addFlags(c)
	o.releaseOption.addFlags(c)
	o.progressOption.addFlags(c)
	o.treeOption.addFlags(c)
	c.Flags().BoolVar(&o.AllowSymlinks, "allow-symlinks", false, "take a link to a file for the file; without it, a link anywhere in the folder is an error")
}

// argument takes the folder or manifest that was named.
func (o *subjectOption) argument(args []string) error {
	if len(args) == 0 {
		return nil
	}
	info, err := os.Lstat(args[0])
	if err != nil {
		return usage(fmt.Errorf("finding the model: %w", err), "name a model's folder or a manifest file")
	}
	linked := info.Mode()&os.ModeSymlink != 0
	if info, err = os.Stat(args[0]); err == nil && !info.IsDir() {
		return o.releaseOption.argument(args)
	}
	switch {
	case linked && !o.AllowSymlinks:
		return usage(fmt.Errorf("%s is a symbolic link", args[0]), "name the folder that it leads to, or give --allow-symlinks")
	case err != nil:
		return usage(fmt.Errorf("finding the model: %w", err), "name a model's folder or a manifest file")
	case o.Manifest != "" || o.Release != "":
		return usage(fmt.Errorf("%s and --manifest or --release both name a model", args[0]), "give one of them")
	case o.Tree != export.Base:
		return usage(fmt.Errorf("--tree chooses a model of a release, and %s is a folder", args[0]), "name the folder of that model, or a manifest")
	}
	o.Folder = args[0]
	return nil
}

// release is the manifest that holds the model.
func (o *subjectOption) release(ctx context.Context, s *streams) (*manifest.Manifest, error) {
	if err := o.releaseOption.check(); err != nil {
		return nil, err
	}
	if o.AllowSymlinks {
		return nil, usage(fmt.Errorf("--allow-symlinks is for a folder, and no folder was named"), "leave it away: a manifest has the digests of what links lead to")
	}
	c, _, err := chooseRelease(ctx, s, o.serviceOption, o.releaseOption, o.progressOption)
	if err == nil {
		fmt.Fprintf(s.Err, "release %.12s of %s, %s\n", c.manifest.Release, c.manifest.Service, c.how)
	}
	return c.manifest, err
}

// signOptions are those of manifest sign.
type signOptions struct {
	subjectOption
	Key, PasswordEnv, Out string
	Ignore                []string
}

func newManifestSign(s *streams, run func(context.Context, *streams, signOptions) error) *cobra.Command {
	var o signOptions
	c := &cobra.Command{
		Use:   "sign [MODEL_DIR|MANIFEST]",
		Short: "Sign a model with a local key (OpenSSF Model Signing)",
		Long: `Signs every file of a model's folder, or one model of a release by the digests of
its manifest, and writes a bundle that model_signing verifies. Keys are PEM:
ECDSA on P-256, P-384 or P-521, or Ed25519 (which model_signing does not know).
Left out are .git, .gitattributes, .github and .gitignore at the top, the bundle
itself, and each --ignore-path.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.subjectOption.argument(args); err != nil {
				return err
			}
			return run(c.Context(), s, o)
		},
	}
	o.subjectOption.addFlags(c)
	c.Flags().StringVar(&o.Key, "key", "", "file with the private key (PEM: PKCS #8 or SEC 1)")
	c.Flags().StringVar(&o.PasswordEnv, "password-env", "", "environment variable with the password of an encrypted key")
	c.Flags().StringVarP(&o.Out, "out", "o", "", "write the bundle to this file instead of stdout (-)")
	c.Flags().StringArrayVar(&o.Ignore, "ignore-path", nil, "leave out this file or folder, relative to the model; repeatable")
	return c
}

func runManifestSign(ctx context.Context, s *streams, o signOptions) error {
	if _, err := o.mode(s); err != nil {
		return err
	}
	key, err := o.key(s)
	if err != nil {
		return err
	}
	for _, p := range o.Ignore {
		if manifest.CheckPath(p) != nil {
			return usage(fmt.Errorf("--ignore-path %q is no path below the model", p), "name a file or folder relative to the model, without .. and without patterns")
		}
	}
	if !toStdout(o.Out) {
		if err := replaceable(o.Out, bundleMark); err != nil { // before a large model is hashed
			return err
		}
	}
	st, err := o.statement(ctx, s)
	if err != nil {
		return err
	}
	bundle, err := oms.Sign(st, key)
	if err != nil {
		return err
	}
	return o.write(s, st, key, bundle)
}

// key reads the private key; its text and password reach no output.
func (o signOptions) key(s *streams) (crypto.Signer, error) {
	text, err := readNamed("--key", o.Key, "name the private key with --key FILE")
	if err != nil {
		return nil, err
	}
	var password string
	if o.PasswordEnv != "" {
		if password = s.Getenv(o.PasswordEnv); password == "" {
			return nil, usage(fmt.Errorf("the environment variable %s is empty", o.PasswordEnv), "put the key's password into it")
		}
		s.Redactor.Add(password)
	}
	key, err := oms.PrivateKey(text, []byte(password))
	if err != nil {
		return nil, usage(fmt.Errorf("reading the key %s: %w", o.Key, err), errext.Hint(err))
	}
	return key, nil
}

func (o signOptions) statement(ctx context.Context, s *streams) (*oms.Statement, error) {
	if o.Folder == "" {
		m, err := o.release(ctx, s)
		if err != nil {
			return nil, err
		}
		return export.Statement(m, o.Tree, o.Ignore...)
	}
	mode, err := o.mode(s)
	if err != nil {
		return nil, err
	}
	ignore := slices.Concat(oms.GitPaths, o.Ignore)
	if own := inside(o.Folder, o.Out); own != "" && !toStdout(o.Out) {
		ignore = append(ignore, own)
	}
	meter := newMeter(s, mode)
	files, err := oms.Hash(ctx, os.DirFS(o.Folder), oms.Options{Ignore: ignore, AllowSymlinks: o.AllowSymlinks, Progress: meter.progress()})
	meter.close()
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(o.Folder)
	if err != nil {
		return nil, err
	}
	st, err := oms.New(filepath.Base(abs), files, o.AllowSymlinks, ignore)
	if err != nil {
		return nil, errext.WithHint(fmt.Errorf("signing %s: %w", o.Folder, err), "is it the folder of a model?")
	}
	return st, nil
}

func (o signOptions) write(s *streams, st *oms.Statement, key crypto.Signer, bundle []byte) error {
	if n := len(st.Resources) - len(oms.Without(st.Resources, []string{".cache/huggingface"})); n > 0 {
		fmt.Fprintf(s.Err, "%d files of .cache/huggingface are signed too; they differ between equal downloads: --ignore-path .cache/huggingface leaves them out\n", n)
	}
	if toStdout(o.Out) {
		_, err := s.Out.Write(bundle)
		return err
	}
	if err := writeFile(o.Out, bundle); err != nil {
		return errext.WithStatus(err, errext.Evidence)
	}
	print, err := oms.Fingerprint(key.Public())
	fmt.Fprintf(s.Err, "%d files signed with the %s key %.16s, root %s, written to %s\n", len(st.Resources), oms.KeyName(key.Public()), print, st.Root, o.Out)
	return err
}

// inside is the path of a file below a folder, with slashes; "" when it lies elsewhere.
func inside(folder, file string) string {
	if file == "" {
		return ""
	}
	root, err := realPath(folder)
	if err != nil {
		return ""
	}
	parent, err := realPath(filepath.Dir(file))
	if err != nil {
		return ""
	}
	rel, err := filepath.Rel(root, filepath.Join(parent, filepath.Base(file)))
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(rel)
}

func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// readNamed reads a file that a flag names; whatever is wrong with it is usage.
func readNamed(flag, path, hint string) ([]byte, error) {
	if path == "" {
		return nil, usage(fmt.Errorf("%s is missing", flag), hint)
	}
	data, err := readFile(path)
	if err != nil {
		return nil, usage(fmt.Errorf("reading %s: %w", flag, err), hint)
	}
	return data, nil
}
