package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/manifest"
)

func newManifest(s *streams) *cobra.Command {
	c := &cobra.Command{Use: "manifest", Short: "Build, show and check the manifest of a release"}
	c.AddCommand(newManifestBuild(s, runManifestBuild), newManifestShow(s, runManifestShow), newManifestCheck(s, runManifestCheck))
	c.AddCommand(newManifestEngine(s, runManifestEngine))
	c.AddCommand(newManifestDiff(s, runManifestDiff))
	c.AddCommand(newManifestExport(s, runManifestExport), newManifestSign(s, runManifestSign), newManifestVerifySignature(s, runManifestVerifySignature))
	return c
}

// buildOptions are those of manifest build.
type buildOptions struct {
	serviceOption
	progressOption
	imagesOption
	Out string
}

func newManifestBuild(s *streams, run func(context.Context, *streams, buildOptions) error) *cobra.Command {
	var o buildOptions
	c := &cobra.Command{
		Use:   "build",
		Short: "Read all files of a release and write its manifest",
		Long: `Reads the model repository, adapters, engine configuration and deployment
artifacts that drkit.yaml names, once, and writes the manifest: equal input gives
equal bytes. Malformed content does not fail the build; drkit manifest check says
all of it. With --resolve-images the answers of registries are added; they pin
nothing and leave the release id as it is.`,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), s, o) },
	}
	o.serviceOption.addFlags(c)
	o.progressOption.addFlags(c)
	o.imagesOption.addFlags(c)
	c.Flags().StringVarP(&o.Out, "out", "o", "", "write the manifest to this file instead of stdout (-)")
	return c
}

func runManifestBuild(ctx context.Context, s *streams, o buildOptions) error {
	defer boundMemory()()
	mode, err := o.mode(s)
	if err != nil {
		return err
	}
	svc, err := o.load()
	if err != nil {
		return err
	}
	if err := sparesInputs(svc, o.Out); err != nil {
		return err
	}
	meter := newMeter(s, mode)
	defer meter.close()
	m, _, err := buildRelease(ctx, svc, meter.progress())
	if err != nil {
		return err
	}
	if err := o.imagesOption.resolve(ctx, m, meter.progress()); err != nil {
		return err
	}
	if n := len(m.Annotations.Problems); n > 0 {
		fmt.Fprintf(s.Err, "%s in the content: drkit manifest check says more\n", countOf(n, "problem", "problems"))
	}
	write := func(w io.Writer) error { return manifest.Write(w, m) }
	if toStdout(o.Out) {
		lines := &wholeLines{w: s.Out}
		return errors.Join(write(lines), lines.flush())
	}
	if err := replaceable(o.Out, `"drkit.manifest/`); err != nil {
		return err
	}
	if err := writeFileBy(o.Out, write); err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "release %s: %s, %s, written to %s\n", m.Release, countOf(len(m.Contents.Files), "file", "files"), byteCount(totalSize(m)), o.Out)
	return nil
}

// toStdout reports whether -o names no file: it was not given, or is "-".
func toStdout(out string) bool { return out == "" || out == "-" }

// wholeLines hands on whole lines: the redactor would not see a secret that is cut
// in two.
type wholeLines struct {
	w    io.Writer
	held []byte
}

const heldBytes = 64 << 10

func (l *wholeLines) Write(p []byte) (int, error) {
	l.held = append(l.held, p...)
	if end := bytes.LastIndexByte(l.held, '\n') + 1; end > heldBytes {
		if _, err := l.w.Write(l.held[:end]); err != nil {
			return 0, err
		}
		l.held = append(l.held[:0], l.held[end:]...)
	}
	return len(p), nil
}

func (l *wholeLines) flush() error {
	_, err := l.w.Write(l.held)
	return err
}

// replaceable refuses a target that is a file of another kind: a slip of the hand
// must not cost a drkit.yaml or a config.json. Its beginning has to show one of marks.
func replaceable(path string, marks ...string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil // writing says what is wrong with it
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	begin, err := io.ReadAll(io.LimitReader(f, 400))
	if err != nil || slices.ContainsFunc(marks, func(mark string) bool { return bytes.Contains(begin, []byte(mark)) }) {
		return nil
	}
	return usage(fmt.Errorf("%s holds something else: it is not overwritten", path), "name another file, or remove this one first")
}

// replaceOwn writes a file that may take the place of one with such a mark.
func replaceOwn(path string, data []byte, marks ...string) error {
	if err := replaceable(path, marks...); err != nil {
		return err
	}
	return writeFile(path, data)
}

// noDash refuses "-" where only a file can be written.
func noDash(what string) error {
	return usage(errors.New(what+": a file named - would be written"), "name a file; ./- if it is to have that name")
}

// writeFile replaces a file whole or not at all.
func writeFile(path string, data []byte) error {
	return writeFileBy(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// writeFileBy is writeFile for what writes its data itself.
func writeFileBy(path string, write func(io.Writer) error) error {
	if path == "-" {
		return noDash("output")
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return errext.WithHint(fmt.Errorf("writing %s: it is a folder", path), "name a file in it")
	case err == nil && !info.Mode().IsRegular(): // /dev/stdout, a pipe: never replaced by a file
		err = writeInto(path, write)
	default:
		err = replaceFile(path, write)
	}
	if err == nil {
		return nil
	}
	hint := "see that " + filepath.Dir(path) + " may be written to and has room"
	if errors.Is(err, fs.ErrNotExist) {
		hint = "make the folder " + filepath.Dir(path) + " first"
	}
	return errext.WithHint(fmt.Errorf("writing %s: %w", path, err), hint)
}

func writeInto(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// replaceFile writes beside path and takes its place whole.
func replaceFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	if err = errors.Join(write(f), f.Chmod(0o644)); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

func totalSize(m *manifest.Manifest) (n int64) {
	for _, f := range m.Contents.Files {
		n += f.Size
	}
	return n
}

// showOptions are those of manifest show.
type showOptions struct {
	serviceOption
	releaseOption
	outputOption
	progressOption
}

func newManifestShow(s *streams, run func(context.Context, *streams, showOptions) error) *cobra.Command {
	var o showOptions
	c := &cobra.Command{
		Use:   "show [MANIFEST]",
		Short: "Show what a release holds",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Manifest = args[0]
			}
			return run(c.Context(), s, o)
		},
	}
	o.serviceOption.addFlags(c)
	o.releaseOption.addFlags(c)
	o.outputOption.addFlags(c)
	o.progressOption.addFlags(c)
	return c
}

func runManifestShow(ctx context.Context, s *streams, o showOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	c, _, err := chooseRelease(ctx, s, o.serviceOption, o.releaseOption, o.progressOption)
	if err != nil {
		return err
	}
	if o.json() {
		data, err := manifest.Encode(c.manifest)
		if err != nil {
			return err
		}
		_, err = s.Out.Write(data)
		return err
	}
	return showManifest(s, c)
}

// chooseRelease loads what a reading command works on. A manifest file alone
// needs no drkit.yaml: the service is then nil.
func chooseRelease(ctx context.Context, s *streams, so serviceOption, ro releaseOption, po progressOption) (chosen, *service.Service, error) {
	mode, err := po.mode(s)
	if err != nil {
		return chosen{}, nil, err
	}
	svc, err := so.load()
	if ro.Manifest != "" && errors.Is(err, fs.ErrNotExist) {
		m, err := readManifest(ro.Manifest)
		return chosen{manifest: m, how: "from " + ro.Manifest}, nil, err
	}
	if err != nil {
		return chosen{}, nil, err
	}
	meter := newMeter(s, mode)
	defer meter.close()
	c, err := ro.choose(ctx, svc, meter.progress())
	return c, svc, err
}

func showManifest(s *streams, c chosen) error {
	m := c.manifest
	fmt.Fprintf(s.Out, "release  %s\nservice  %s\nmanifest %s\n", m.Release, m.Service, c.how)
	if c := m.Annotations.Model.Config; c != nil {
		fmt.Fprintf(s.Out, "model    %s, %d layers, vocabulary %d\n", strings.Join(c.Architectures, ", "), c.Layers, c.Vocab)
	}
	for _, part := range []manifest.Part{manifest.Model, manifest.Engine, manifest.Deploy} {
		fmt.Fprintf(s.Out, "\n%s\n", part)
		for _, f := range m.Contents.Files {
			if f.Part != part {
				continue
			}
			region := ""
			if f.Region != "" {
				region = "  (region " + f.Region + ")"
			}
			fmt.Fprintf(s.Out, "  %-14s %10s  %.12s  %s%s\n", f.Role, byteCount(f.Size), f.Sums["sha256"], f.Path, region)
		}
	}
	for _, i := range m.Contents.Images {
		fmt.Fprintf(s.Out, "  image  %s  %s\n", i.Reference, pinnedAs(m, i))
	}
	if n := len(m.Annotations.Problems); n > 0 {
		fmt.Fprintf(s.Out, "\n%s in the content: drkit manifest check says more\n", countOf(n, "problem", "problems"))
	}
	return nil
}
