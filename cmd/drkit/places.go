package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"drkit/internal/service"
)

// apart refuses regions whose stores are one place, or lie in one another, through
// symbolic links, mounts, or an endpoint that the environment names: a copy that is
// the source itself proves nothing. What is only a matter of spelling was refused
// when drkit.yaml was read.
func apart(svc *service.Service) error {
	for i, a := range svc.Regions {
		for j, b := range svc.Regions {
			if i != j && holdsPlace(a.Store, b.Store) {
				return usage(fmt.Errorf("the store of region %s (%s) lies in that of region %s (%s), through a link, a mount or the environment's endpoint", b.Name, b.Store.Raw, a.Name, a.Store.Raw),
					"give every region a place of its own")
			}
		}
	}
	return nil
}

func holdsPlace(outer, inner service.Location) bool {
	switch {
	case outer.Scheme != inner.Scheme:
		return false
	case outer.Scheme == service.SchemeFile:
		return liesIn(inner.Path, outer.Path)
	case outer.Scheme == service.SchemeS3 && bucketName(outer) == bucketName(inner):
		a, err := openBucket(outer)
		b, err2 := openBucket(inner)
		return err == nil && err2 == nil && strings.HasPrefix(b.Location(), a.Location()) // what cannot be opened is said by who needs it
	}
	return false
}

func bucketName(l service.Location) string {
	bucket, _, _ := strings.Cut(l.Path, "/")
	return bucket
}

// liesIn reports whether path, or a folder above it, is the folder root.
func liesIn(path, root string) bool {
	top, err := os.Stat(root)
	if err != nil {
		return false // a store that is not there yet is nobody else's
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return false
	}
	for {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, top) {
			return true
		}
		up := filepath.Dir(path)
		if up == path {
			return false
		}
		path = up
	}
}

// sparesInputs refuses to write out where it would take the place of a file that the
// release is made of, or become one of a model or a region's copy.
func sparesInputs(svc *service.Service, out string) error {
	abs, err := filepath.Abs(out)
	if svc == nil || err != nil || toStdout(out) {
		return nil // writing says what is wrong with it
	}
	if what := inputAt(svc, abs); what != "" {
		return usage(fmt.Errorf("%s %s: nothing is written there", out, what), "name a file elsewhere")
	}
	return nil
}

// inputAt says what of a service lies at a path, "" for nothing.
func inputAt(svc *service.Service, abs string) string {
	for what, l := range inputFolders(svc) {
		if l.Scheme == service.SchemeFile && liesIn(filepath.Dir(abs), l.Path) {
			return "lies in " + what
		}
	}
	patterns := svc.Deploy.Files
	for _, r := range svc.Regions {
		patterns = append(slices.Clip(patterns), r.Files...)
	}
	for _, p := range patterns { // a file that is not there yet would be one from then on
		if match, err := doublestar.PathMatch(svc.Abs(p), abs); err == nil && match {
			return "is a deploy file of the service by its name"
		}
	}
	for _, file := range inputFiles(svc) {
		if file == abs || sameFile(file, abs) {
			return "is what describes the service"
		}
	}
	return ""
}

// sameFile reports whether two paths lead to one file, which is there.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// inputFiles are drkit.yaml and the single files that it names.
func inputFiles(svc *service.Service) []string {
	all := []string{svc.File}
	for _, config := range svc.Engine.Configs {
		all = append(all, svc.Abs(config))
	}
	if p := svc.Engine.Probes; p.Scheme == service.SchemeFile && p.Path != "" {
		all = append(all, p.Path)
	}
	for _, r := range svc.Regions {
		for _, p := range r.Canary.Patches {
			all = append(all, svc.Abs(p))
		}
	}
	return all
}

// inputFolders are the places that a release comes from and that hold its copies.
func inputFolders(svc *service.Service) map[string]service.Location {
	all := map[string]service.Location{"the model": svc.Model.Source}
	for _, a := range svc.Model.Adapters {
		all["adapter "+a.Name] = a.Source
	}
	for _, d := range svc.Model.Drafts {
		all["draft model "+d.Name] = d.Source
	}
	for _, r := range svc.Model.Repositories {
		all["repository "+r.Name] = r.Source
	}
	for _, r := range svc.Regions {
		all["the store of region "+r.Name] = r.Store
	}
	return all
}

// maxFile bounds files that are named on the command line, in bytes. A manifest
// of 200,000 files has a tenth of that.
const maxFile = 1 << 30

// readFile reads a regular file. A pipe or device could block for ever or never
// end, so it is refused.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, usage(fmt.Errorf("%s is no regular file", path), "write what it gives into a file first")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = usage(fmt.Errorf("%s has more than the %d bytes that are read", path, maxFile), "is this the right file?")
	}
	return data, err
}
