package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// toolVersion is the module's version, or its commit where it was built from a checkout.
func toolVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version, revision, dirty := info.Main.Version, "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if (version == "" || version == "(devel)") && revision != "" {
		return "devel-" + revision + dirty
	}
	if version == "" {
		return "(devel)"
	}
	return version
}

func newVersion(s *streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of drkit",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(s.Out, "drkit", toolVersion())
			return err
		},
	}
}
