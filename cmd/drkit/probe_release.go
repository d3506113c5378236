package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"drkit/internal/errext"
	"drkit/internal/openai"
	"drkit/manifest"
	"drkit/manifest/digest"
)

// releaseServed says how it is known that an endpoint serves a release: its files were
// hashed where the engine says that it has them, or a person says so. Otherwise it is
// refused: answers of another release would be taken for the right ones.
func releaseServed(ctx context.Context, c *openai.Client, m *manifest.Manifest, told bool) (string, error) {
	seen, why, err := filesServed(ctx, c, m)
	switch {
	case err != nil:
		return "", errext.WithHint(errext.WithStatus(fmt.Errorf("the endpoint serves another release: %w", err), errext.Refused),
			"start the engine on the files that drkit.yaml names, or name the release that it serves with --release")
	case seen > 0:
		return fmt.Sprintf("%d files were hashed where the engine serves them", seen), nil
	case told:
		return "told by who recorded it; " + why, nil
	}
	return "", errext.WithHint(errext.WithStatus(fmt.Errorf("it is not known which release the endpoint serves: %s", why), errext.Refused),
		"record from an engine on this machine that serves the release by absolute paths, or say with --serves-release that you know it")
}

// filesServed compares the folders that an engine on this machine serves with the
// release. Without a number of files it says why they cannot be seen.
func filesServed(ctx context.Context, c *openai.Client, m *manifest.Manifest) (seen int, why string, err error) {
	if !onThisMachine(c.BaseURL) {
		return 0, "it is not on this machine", nil
	}
	models, err := c.Models(ctx)
	if err != nil {
		return 0, "", err
	}
	for _, served := range models {
		if !filepath.IsAbs(served.Root) {
			return 0, fmt.Sprintf("it names %q as what it serves as %s, and that is no absolute folder", served.Root, served.ID), nil
		}
		if info, err := os.Stat(served.Root); err != nil || !info.IsDir() {
			return 0, fmt.Sprintf("the folder %s that it serves as %s is not to be seen here", served.Root, served.ID), nil
		}
		prefix := "base/"
		if served.Parent != nil {
			prefix = "adapters/" + served.ID + "/"
		}
		n, err := sameFiles(ctx, m, prefix, served.Root)
		if err != nil {
			return 0, "", fmt.Errorf("%s: %w", served.ID, err)
		}
		seen += n
	}
	return seen, "it serves no model", nil
}

func onThisMachine(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// sameFiles hashes what the release has beneath a prefix in a folder.
func sameFiles(ctx context.Context, m *manifest.Manifest, prefix, dir string) (n int, err error) {
	for _, f := range m.Contents.Files {
		below, ok := strings.CutPrefix(f.Path, prefix)
		if f.Part != manifest.Model || !ok {
			continue
		}
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		sum, size, err := hashFile(filepath.Join(dir, filepath.FromSlash(below)))
		if err != nil {
			return n, err
		}
		if size != f.Size || sum != f.Sums[digest.SHA256] {
			return n, fmt.Errorf("%s in %s is not the release's", below, dir)
		}
		n++
	}
	if n == 0 {
		return 0, errors.New("the release has no such model")
	}
	return n, nil
}

func hashFile(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), size, err
}
