package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"drkit/manifest/export"
)

// exportOptions are those of manifest export.
type exportOptions struct {
	serviceOption
	releaseOption
	progressOption
	treeOption
	Format, Out string
}

// treeOption is --tree: which model of a release.
type treeOption struct{ Tree string }

func (o *treeOption) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.Tree, "tree", export.Base, "which model of the release: base, adapters/NAME or drafts/NAME")
}

func newManifestExport(s *streams, run func(context.Context, *streams, exportOptions) error) *cobra.Command {
	var o exportOptions
	c := &cobra.Command{
		Use:   "export [MANIFEST]",
		Short: "Write a release in the formats of other tools",
		Long: `Writes what a manifest says in a format that other tools read:

  oms        the statement of OpenSSF Model Signing for one model of the release,
             unsigned (drkit manifest sign signs it)
  sha256sum  a list of all files for sha256sum -c in a release's folder of a store,
             or in a folder that drkit restore wrote
  cyclonedx  an ML-BOM (CycloneDX 1.6, JSON): models, engines, files, images

Equal manifests give equal bytes.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.releaseOption.argument(args); err != nil {
				return err
			}
			return run(c.Context(), s, o)
		},
	}
	o.serviceOption.addFlags(c)
	o.releaseOption.addFlags(c)
	o.progressOption.addFlags(c)
	o.treeOption.addFlags(c)
	c.Flags().StringVar(&o.Format, "format", "oms", "the format: oms, sha256sum or cyclonedx")
	c.Flags().StringVarP(&o.Out, "out", "o", "", "write to this file instead of stdout (-)")
	return c
}

// argument takes the manifest that stands on the command line without a flag.
func (o *releaseOption) argument(args []string) error {
	if len(args) == 0 {
		return nil
	}
	if o.Manifest != "" {
		return usage(fmt.Errorf("%s and --manifest %s both name a release", args[0], o.Manifest), "give one of them")
	}
	o.Manifest = args[0]
	return nil
}

func runManifestExport(ctx context.Context, s *streams, o exportOptions) error {
	if err := oneOf("--format", o.Format, "oms", "sha256sum", "cyclonedx"); err != nil {
		return err
	}
	if o.Format != "oms" && o.Tree != export.Base {
		return usage(fmt.Errorf("--tree chooses a model for --format oms; %s covers the whole release", o.Format), "leave --tree away")
	}
	if err := o.releaseOption.check(); err != nil {
		return err
	}
	c, svc, err := chooseRelease(ctx, s, o.serviceOption, o.releaseOption, o.progressOption)
	if err != nil {
		return err
	}
	if err := sparesInputs(svc, o.Out); err != nil {
		return err
	}
	data, err := exported(c, o)
	if err != nil {
		return err
	}
	if toStdout(o.Out) {
		_, err := s.Out.Write(data)
		return err
	}
	if err := writeFile(o.Out, data); err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "release %.12s (%s) written to %s as %s\n", c.manifest.Release, c.how, o.Out, o.Format)
	return nil
}

func exported(c chosen, o exportOptions) ([]byte, error) {
	switch o.Format {
	case "sha256sum":
		return export.SHA256Sum(c.manifest), nil
	case "cyclonedx":
		return export.CycloneDX(c.manifest)
	}
	return export.OMS(c.manifest, o.Tree)
}
