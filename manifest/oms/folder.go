package oms

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"drkit/internal/errext"
	"drkit/internal/progress"
	"drkit/manifest/digest"
)

// Options say how a folder is read.
type Options struct {
	Ignore         []string // files and folders below the model that are left out, as exact paths
	AllowSymlinks  bool     // a link to a file counts as a file; a linked folder is never entered
	IgnoreUnsigned bool     // Check: files that the statement does not name are no fault
	Progress       progress.Progress
}

// found is one file of a folder, or what cannot be read as one.
type found struct {
	path    string
	size    int64
	refused string // why it is not read; empty for a file
}

// Hash makes the resources of a folder: every regular file, hidden and empty ones
// too, but those at ignored paths. What is no file is an error wherever it lies.
func Hash(ctx context.Context, folder fs.FS, o Options) ([]Resource, error) {
	all, err := walk(folder, o.AllowSymlinks)
	if err != nil {
		return nil, err
	}
	if err := refusal(all); err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(f found) bool { return ignoredBy(f.path, o.Ignore) != "" })
	resources := make([]Resource, len(all))
	err = eachFile(ctx, folder, o.Progress, all, func(i int, r io.Reader) error {
		sums, _, err := digest.Read(r, all[i].size, digest.Options{Algorithms: []string{digest.SHA256}})
		resources[i] = File(all[i].path, sums[digest.SHA256])
		return err
	})
	return resources, err
}

const unreadable = "see that every file of the model is there and can be read"

// walk lists a folder's files by path. It enters no linked folder and opens nothing.
func walk(folder fs.FS, allowSymlinks bool) ([]found, error) {
	var all []found
	err := fs.WalkDir(folder, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			return nil
		}
		f, err := look(folder, path, e, allowSymlinks)
		if err == nil && f.path != "" {
			all = append(all, f)
		}
		return err
	})
	if err != nil {
		return nil, errext.WithHint(fmt.Errorf("listing the model: %w", err), unreadable)
	}
	return all, nil
}

// look says what an entry is; the zero value stands for a link to a folder.
func look(folder fs.FS, path string, e fs.DirEntry, allowSymlinks bool) (found, error) {
	switch {
	case !fs.ValidPath(path): // not UTF-8: JSON cannot name it
		return found{path: path, refused: "its name is not UTF-8 text"}, nil
	case e.Type().IsRegular():
		info, err := e.Info()
		if err != nil {
			return found{}, err
		}
		return found{path: path, size: info.Size()}, nil
	case e.Type()&fs.ModeSymlink == 0:
		return found{path: path, refused: "it is neither a file nor a folder"}, nil
	case !allowSymlinks:
		return found{path: path, refused: "it is a symbolic link"}, nil
	}
	info, err := fs.Stat(folder, path)
	switch {
	case err != nil:
		return found{path: path, refused: "the symbolic link leads nowhere"}, nil
	case info.IsDir():
		return found{}, nil
	case !info.Mode().IsRegular():
		return found{path: path, refused: "the symbolic link leads to what is neither a file nor a folder"}, nil
	}
	return found{path: path, size: info.Size()}, nil
}

// refusal names what cannot be signed, the first few by name.
func refusal(all []found) error {
	const named = 5
	var errs []error
	for _, f := range all {
		if f.refused != "" {
			errs = append(errs, fmt.Errorf("%q: %s", f.path, f.refused))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	more := ""
	if n := len(errs) - named; n > 0 {
		errs, more = errs[:named], fmt.Sprintf("\nand %d more", n)
	}
	return errext.WithHint(errext.WithStatus(fmt.Errorf("the model cannot be signed:\n%w%s", errors.Join(errs...), more), errext.Refused),
		"--allow-symlinks signs what links lead to, and must then be given to verify too; take anything else away")
}

// eachFile reads files, one worker a core, and tells of the bytes that pass.
func eachFile(ctx context.Context, folder fs.FS, p progress.Progress, files []found, read func(i int, r io.Reader) error) error {
	var total int64
	for _, f := range files {
		total += f.size
	}
	task := progress.Start(p, "hashing the model", int64(len(files)), total)
	defer task.Done()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, f := range files {
		g.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			file, err := folder.Open(f.path)
			if err != nil {
				return errext.WithHint(fmt.Errorf("reading the model: %w", err), unreadable)
			}
			defer file.Close()
			if err := read(i, &watched{ctx, file, task}); err != nil {
				return errext.WithHint(fmt.Errorf("reading %s: %w", f.path, err), unreadable)
			}
			task.Add(1, 0)
			return nil
		})
	}
	return g.Wait()
}

// watched is a file that ends with its context and counts what passes.
type watched struct {
	ctx  context.Context
	r    io.Reader
	task *progress.Task
}

func (w *watched) Read(p []byte) (int, error) {
	if err := context.Cause(w.ctx); err != nil {
		return 0, err
	}
	n, err := w.r.Read(p)
	w.task.Add(0, int64(n))
	return n, err
}
