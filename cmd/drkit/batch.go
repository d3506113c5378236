package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"drkit/internal/service"
	"drkit/internal/store/s3"
	"drkit/manifest"
	"drkit/manifest/release"
	"drkit/verify"
	"drkit/verify/batch"
)

// batchOption lets S3 hash what cannot be compared: --batch-dir writes the job,
// --checksums reads its report.
type batchOption struct {
	BatchDir  string
	Checksums []string
}

func (o *batchOption) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.BatchDir, "batch-dir", "", "folder for S3 Batch Operations jobs that hash what is not comparable (with --resolve batch)")
	c.Flags().StringArrayVar(&o.Checksums, "checksums", nil, "folder of such a job's completion report, as DIR or REGION=DIR (repeatable)")
}

// check looks at the folders before work begins.
func (o *batchOption) check(resolve, places []string) error {
	wanted := slices.Contains(resolve, verify.ByBatch)
	switch {
	case len(places) > 0 && (wanted || o.BatchDir != "" || len(o.Checksums) > 0):
		return usage(errors.New("S3 Batch Operations are for a service's regions, and two places are compared"), "verify by a drkit.yaml, or resolve by read")
	case o.BatchDir != "" && !wanted:
		return usage(errors.New("--batch-dir is for --resolve batch"), "give both, or neither")
	case wanted && o.BatchDir == "" && len(o.Checksums) == 0:
		return usage(errors.New("--resolve batch needs a folder for the job, or the report of one"), "give --batch-dir DIR, and after the job --checksums DIR")
	}
	for _, dir := range slices.Concat([]string{o.BatchDir}, o.dirs()) {
		if info, err := os.Stat(dir); dir != "" && (err != nil || !info.IsDir()) {
			return usage(fmt.Errorf("there is no folder %s", dir), "make it first, or fetch the report's folder with aws s3 cp --recursive")
		}
	}
	return nil
}

func (o batchOption) dirs() []string {
	var all []string
	for _, text := range o.Checksums {
		_, dir := splitRegion(text)
		all = append(all, dir)
	}
	return all
}

// known reads what reports say of a region's copy of a release. A report without a
// region is for the only one that is verified.
func (o batchOption) known(s *streams, svc *service.Service, m *manifest.Manifest, r *service.Region, only bool) (map[string]verify.Known, error) {
	var mine []string
	for _, text := range o.Checksums {
		region, dir := splitRegion(text)
		switch {
		case region == "" && !only:
			return nil, usage(fmt.Errorf("--checksums %s names no region, and several are verified", dir), "write --checksums REGION="+dir)
		case region != "" && svc.Region(region) == nil:
			return nil, usage(fmt.Errorf("--checksums %s: %s has no region %q", text, svc.File, region), "regions are listed there under regions:")
		case region == "" || region == r.Name:
			mine = append(mine, dir)
		}
	}
	if len(mine) == 0 {
		return nil, nil
	}
	bucket, err := bucketOf(r)
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, f := range m.Contents.Files {
		wanted[release.Key(release.Prefix(svc.Metadata.Name, m.Release), f)] = true
	}
	known := map[string]verify.Known{}
	for _, dir := range mine {
		if err := readChecksums(s, dir, bucket, wanted, known); err != nil {
			return nil, err
		}
	}
	return known, nil
}

// bucketOf opens a region's store where that is a bucket.
func bucketOf(r *service.Region) (*s3.Store, error) {
	if r.Store.Scheme != service.SchemeS3 {
		return nil, usage(fmt.Errorf("the store of region %s (%s) is no bucket", r.Name, r.Store.Raw), "S3 Batch Operations and replication rules work on buckets only")
	}
	if _, err := openCopy(r); err != nil { // such as a layout that this version does not know
		return nil, err
	}
	return openBucket(r.Store)
}

// readChecksums adds what one report says. Keys in it begin at the bucket, those of
// the store at its prefix. What the report could not say is said.
func readChecksums(s *streams, dir string, place *s3.Store, wanted map[string]bool, into map[string]verify.Known) error {
	bucket, prefix := place.Bucket()
	report, err := batch.Read(os.DirFS(dir), bucket, func(key string) bool {
		below, ok := strings.CutPrefix(key, prefix)
		return ok && wanted[below]
	})
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	known, unusable := report.Known()
	for _, u := range unusable {
		fmt.Fprintf(s.Err, "drkit: note: %s: no checksum of %s: %s\n", dir, u.Key, u.Why)
	}
	if len(known) == 0 {
		return usage(fmt.Errorf("%s: the report holds no checksum of the release's files in bucket %s", dir, bucket), "is it the report of a job on this bucket and this release?")
	}
	for key, k := range known {
		into[strings.TrimPrefix(key, prefix)] = k
	}
	age := "at a time that it does not say"
	if !report.Created.IsZero() {
		age = report.Created.UTC().Format("2006-01-02 15:04 UTC")
	}
	fmt.Fprintf(s.Err, "drkit: note: %s: S3 hashed %s at rest, as reported %s\n", dir, countOf(len(known), "object", "objects"), age)
	return nil
}

// job writes the job for what stayed not comparable in a region.
func (o batchOption) job(s *streams, r *service.Region, res verify.Result) error {
	if o.BatchDir == "" {
		return nil
	}
	place, err := bucketOf(r)
	if err != nil {
		return err
	}
	bucket, prefix := place.Bucket()
	var objects []batch.Object
	for _, g := range res.Gaps {
		if slices.Contains(g.Resolve, verify.ByBatch) {
			objects = append(objects, batch.Object{Key: prefix + g.Key, Version: versionOf(g)})
		}
	}
	if len(objects) == 0 {
		fmt.Fprintf(s.Err, "drkit: note: nothing of %s needs to be hashed by S3: no job was written\n", r.Name)
		return nil
	}
	objects = sameColumns(objects)
	region := cmp.Or(r.Store.S3.Region, "REGION-OF-"+bucket)
	job := batch.Job{Region: region, Bucket: bucket, Prefix: "drkit-batch/" + r.Name + "/"}
	files, err := job.Files(objects)
	if err != nil {
		return err
	}
	dir := filepath.Join(o.BatchDir, r.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := errors.Join(writeFile(filepath.Join(dir, batch.ManifestName), files.Manifest), writeFile(filepath.Join(dir, batch.RequestName), files.Request)); err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "drkit: %s of %s can be hashed by S3 itself, without reading them from here. With ACCOUNT and ROLE set to the account and a role for S3 Batch Operations, and JOB to the job's id:\n", countOf(len(objects), "object", "objects"), r.Name)
	for _, line := range append(job.Commands(dir), fmt.Sprintf("drkit verify --region %s --resolve batch --checksums %s", r.Name, filepath.Join(dir, "report"))) {
		fmt.Fprintf(s.Err, "  %s\n", line)
	}
	return nil
}

func versionOf(g verify.Gap) string {
	if g.Seen.Version == "null" {
		return ""
	}
	return g.Seen.Version
}

// sameColumns leaves versions out where not every object has one.
func sameColumns(objects []batch.Object) []batch.Object {
	if !slices.ContainsFunc(objects, func(o batch.Object) bool { return o.Version == "" }) {
		return objects
	}
	for i := range objects {
		objects[i].Version = ""
	}
	return objects
}
