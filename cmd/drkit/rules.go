package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"drkit/manifest/rules"
)

func newRules(s *streams) *cobra.Command {
	c := &cobra.Command{Use: "rules", Short: "List and explain the rules of the manifest gate"}
	c.AddCommand(
		&cobra.Command{Use: "list", Short: "List the rules", RunE: func(*cobra.Command, []string) error {
			for _, r := range rules.Told() {
				if _, err := fmt.Fprintf(s.Out, "%-6s %-9s %s\n", r.ID, r.Severity, r.Title); err != nil {
					return err
				}
			}
			return nil
		}},
		&cobra.Command{Use: "explain RULE", Short: "Explain a rule", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
			for _, r := range rules.Told() {
				if plainID(r.ID) == plainID(args[0]) {
					_, err := fmt.Fprintf(s.Out, "%s (%s at most): %s\n\n%s\n\nMore: %s\n", r.ID, r.Severity, r.Title, r.Sentence, r.Doc())
					return err
				}
			}
			return usage(fmt.Errorf("there is no rule %q", args[0]), "drkit rules list shows them")
		}},
	)
	return c
}

// plainID is a rule's id as people type it: e3 and E-3 are one.
func plainID(id string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(id))
}
