package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// outputOption is --output: how a result is written to stdout.
type outputOption struct{ Output string }

func (o *outputOption) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.Output, "output", "text", "how to print the result: text or json")
}

func (o *outputOption) check() error { return oneOf("--output", o.Output, "text", "json") }

func (o *outputOption) json() bool { return o.Output == "json" }

// serviceOption is -f: which drkit.yaml describes the service.
type serviceOption struct{ File string }

func (o *serviceOption) addFlags(c *cobra.Command) {
	c.Flags().StringVarP(&o.File, "file", "f", "drkit.yaml", "the file that describes the service")
}

// releaseOption says which release a command works on: --manifest, else
// --release, else what the source store publishes, else a build in memory.
type releaseOption struct{ Manifest, Release string }

func (o *releaseOption) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.Manifest, "manifest", "", "use the release of this manifest file")
	c.Flags().StringVar(&o.Release, "release", "", "use this release of the source region's store")
}

func (o *releaseOption) check() error {
	if o.Manifest != "" && o.Release != "" {
		return usage(fmt.Errorf("--manifest and --release exclude each other"), "give one of them")
	}
	return nil
}

func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return usage(fmt.Errorf("%s %q is not known", flag, value), "use one of: "+strings.Join(allowed, ", "))
}

// splitRegion reads REGION=PATH or PATH. A file or folder of that very name has no
// region.
func splitRegion(text string) (region, path string) {
	name, rest, ok := strings.Cut(text, "=")
	if _, err := os.Stat(text); ok && err != nil && !strings.Contains(name, "/") {
		return name, rest
	}
	return "", text
}

// countOf is a number with what it counts: "1 file", "2 files".
func countOf(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

func writeJSON(s *streams, v any) error {
	enc := json.NewEncoder(s.Out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
