package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drkit/drill/step"
	"drkit/playbooks"
)

// TestThePlaybookOfTheDocumentsIsRun: the one that docs/playbooks.md shows is the one
// that a script runs.
func TestThePlaybookOfTheDocumentsIsRun(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "playbooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	shown, _, found := strings.Cut(rest, "```\n")
	if !found {
		t.Fatal("docs/playbooks.md shows no playbook")
	}
	script, err := os.ReadFile(filepath.Join("..", "..", "testdata", "script", "playbook-own.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if _, run, found := strings.Cut(string(script), "-- monthly.yaml --\n"); !found || run != shown { // the archive's last file
		t.Error("docs/playbooks.md shows another playbook than the script runs: make them equal")
	}
}

// TestBuiltinsAreOfKindsThatRunHere: every built-in playbook can be run as it is
// written, by the kinds and options of this drkit.
func TestBuiltinsAreOfKindsThatRunHere(t *testing.T) {
	for _, name := range playbooks.Names() {
		data, err := playbooks.Source(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := playbooks.LoadChecked(data, name+".yaml", step.CheckStep, step.KindNames()...); err != nil {
			t.Error(err)
		}
	}
}
