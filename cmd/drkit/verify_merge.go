package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"drkit/internal/errext"
	"drkit/manifest"
	"drkit/verify"
	verifyreport "drkit/verify/report"
)

// verifyMergeOptions are those of verify merge.
type verifyMergeOptions struct {
	outputOption
	reportOption
	metricsOption
	Result string
	Files  []string
}

func newVerifyMerge(s *streams, run func(context.Context, *streams, verifyMergeOptions) error) *cobra.Command {
	var o verifyMergeOptions
	c := &cobra.Command{
		Use:   "merge FILE|DIR [FILE|DIR...]",
		Short: "Put the results of all shards of a verification together",
		Long: `Reads the results that drkit verify --shard I/N --partial DIR wrote, from files or
from a folder, and makes the one result of them. It refuses (status 3) shards of
different releases, regions, levels or samples, a shard that is missing or there
twice, and an object without a verdict or with two. A copy that changed between its
shards does not hold.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Files = args
			return run(c.Context(), s, o)
		},
	}
	o.outputOption.addFlags(c)
	o.reportOption.addFlags(c)
	o.metricsOption.addFlags(c)
	c.Flags().StringVar(&o.Result, "result", "", "also write the JSON result to this file, for drkit replicate --from")
	return c
}

func runVerifyMerge(_ context.Context, s *streams, o verifyMergeOptions) error {
	if err := o.outputOption.check(); err != nil {
		return err
	}
	if err := errors.Join(o.reportOption.check(), o.metricsOption.check("", nil), checkFile("--result", o.Result, resultMark)); err != nil {
		return err
	}
	seen := &measured{}
	return o.metricsOption.record(s, seen, o.merge(s, seen))
}

func (o verifyMergeOptions) merge(s *streams, seen *measured) error {
	files, err := resultFiles(o.Files)
	if err != nil {
		return err
	}
	if o.Result != "" {
		for _, file := range files {
			if sameFile(file, o.Result) {
				return usage(fmt.Errorf("--result %s is one of the results that are merged", o.Result), "name another file: the shard's own result would be lost")
			}
		}
	}
	parts, err := readParts(files)
	if err != nil {
		return err
	}
	var results []verify.Result
	for _, group := range parts.groups {
		r, err := verify.Merge(group)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	seen.results(results)
	out := verifyOptions{outputOption: o.outputOption, reportOption: o.reportOption, Result: o.Result}
	return out.print(s, nil, parts.findings, parts.how, results...)
}

// resultFiles are the files named, and those of shards in the folders named.
func resultFiles(args []string) ([]string, error) {
	var all []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, usage(fmt.Errorf("reading the results: %w", err), "name the files or the folder that drkit verify --partial wrote")
		}
		if !info.IsDir() {
			all = append(all, arg)
			continue
		}
		found, err := filepath.Glob(filepath.Join(globless(arg), "shard-*-of-*.json"))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, usage(fmt.Errorf("%s holds no result of a shard (shard-*-of-*.json)", arg), "name the folder that drkit verify --partial wrote")
		}
		all = append(all, found...)
	}
	return all, nil
}

// globless escapes what Glob would take for a pattern.
func globless(path string) string {
	var b []rune
	for _, r := range path {
		if r == '*' || r == '?' || r == '[' || r == '\\' {
			b = append(b, '\\')
		}
		b = append(b, r)
	}
	return string(b)
}

// parts are the results of shards by what they are shards of.
type parts struct {
	groups   [][]verify.Result
	how      string
	findings []manifest.Finding
}

func readParts(files []string) (parts, error) {
	var p parts
	index := map[[2]string]int{}
	for i, name := range files {
		data, err := readFile(name)
		if err != nil {
			return p, err
		}
		doc, results, err := readVerifyDocument(name, data)
		if err != nil {
			return p, err
		}
		if i == 0 {
			p.how, p.findings = doc.Manifest, doc.Findings
		} else if !slices.Equal(doc.Findings, p.findings) {
			return p, errext.WithHint(errext.WithStatus(fmt.Errorf("%s has other findings about the release than %s", name, files[0]), errext.Refused),
				"verify all shards with one version of drkit and one drkit.yaml")
		}
		for _, r := range results {
			key := [2]string{r.Region, r.Source}
			at, ok := index[key]
			if !ok {
				at = len(p.groups)
				index[key] = at
				p.groups = append(p.groups, nil)
			}
			p.groups[at] = append(p.groups[at], r)
		}
	}
	return p, nil
}

// readVerifyDocument reads a result that verify wrote.
func readVerifyDocument(name string, data []byte) (verifyDocument, []verify.Result, error) {
	var doc verifyDocument
	results, err := verifyreport.Decode(data)
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err != nil {
		return doc, nil, errext.WithHint(errext.WithStatus(fmt.Errorf("reading %s: %w", name, err), errext.Usage), "name a file that drkit verify wrote with --partial, --result or --output json")
	}
	return doc, results, nil
}
