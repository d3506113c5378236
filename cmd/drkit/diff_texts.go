package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"

	"drkit/internal/service"
	"drkit/internal/store"
	"drkit/manifest"
	"drkit/manifest/release"
)

// maxText is the size in bytes of the greatest file whose text is compared: some
// tokenizers have 35 MiB.
const maxText = 64 << 20

// textSource opens a file of a release where it may lie.
type textSource func(context.Context, manifest.File) (io.ReadCloser, error)

// sources are the places where a side's files may be found.
func (o diffOptions) sources(svc *service.Service, c compared) (all []textSource) {
	if c.files != nil {
		all = append(all, builtText(c.files))
	}
	for _, dir := range o.Content {
		all = append(all, folderText(dir))
	}
	if svc == nil {
		return all
	}
	if s, err := openStore(svc.Source().Store); err == nil {
		all = append(all, storedText(s, release.Prefix(c.manifest.Service, c.manifest.Release)))
	}
	return append(all, sourceText(svc))
}

// builtText reads what was built in memory.
func builtText(files *manifest.Files) textSource {
	return func(ctx context.Context, f manifest.File) (io.ReadCloser, error) {
		body, err := files.Body(f)
		if err != nil {
			return nil, err
		}
		return body.Open(ctx, 0, -1)
	}
}

// storedText reads a release's folder in a store.
func storedText(s store.ReadWriter, prefix string) textSource {
	return func(ctx context.Context, f manifest.File) (io.ReadCloser, error) {
		o, err := s.Stat(ctx, release.Key(prefix, f))
		if err != nil {
			return nil, err
		}
		return s.Open(ctx, o, 0, -1)
	}
}

// folderText reads a folder that was named: a release's folder, a part of one, or
// a model repository.
func folderText(dir string) textSource {
	return func(_ context.Context, f manifest.File) (io.ReadCloser, error) {
		names := []string{f.Subject(), f.Path}
		for rest := f.Path; strings.Contains(rest, "/"); {
			_, rest, _ = strings.Cut(rest, "/")
			names = append(names, rest)
		}
		return firstWithDigest(dir, names, f)
	}
}

// sourceText reads the folders that drkit.yaml names as they are now.
func sourceText(svc *service.Service) textSource {
	roots := map[string]service.Location{"base/": svc.Model.Source}
	for kind, list := range map[string][]service.Extra{"adapters/": svc.Model.Adapters, "drafts/": svc.Model.Drafts} {
		for _, e := range list {
			roots[kind+e.Name+"/"] = e.Source
		}
	}
	return func(_ context.Context, f manifest.File) (io.ReadCloser, error) {
		if f.Part != manifest.Model {
			return firstWithDigest(svc.Dir, []string{f.Path}, f)
		}
		for root, l := range roots {
			if rest, ok := strings.CutPrefix(f.Path, root); ok && l.Scheme == service.SchemeFile {
				return firstWithDigest(l.Path, []string{rest}, f)
			}
		}
		return nil, store.ErrNotFound
	}
}

// firstWithDigest opens the first of several files that has the bytes of f.
func firstWithDigest(dir string, names []string, f manifest.File) (io.ReadCloser, error) {
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() != f.Size {
			continue
		}
		if data, err := os.ReadFile(path); err == nil && isContent(data, f) {
			return os.Open(path)
		}
	}
	return nil, store.ErrNotFound
}

func isContent(data []byte, f manifest.File) bool {
	sum := sha256.Sum256(data)
	return int64(len(data)) == f.Size && hex.EncodeToString(sum[:]) == f.Sums["sha256"]
}

// readText is the content of a file from the first place that has exactly the
// bytes that the manifest states. What is elsewhere, or other, is not at hand.
func readText(ctx context.Context, from []textSource, f manifest.File) ([]byte, bool) {
	if f.Size > maxText || f.Role == manifest.Weights {
		return nil, false
	}
	for _, open := range from {
		r, err := open(ctx, f)
		if err != nil {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(r, f.Size+1))
		r.Close()
		if err == nil && isContent(data, f) {
			return data, true
		}
	}
	return nil, false
}
