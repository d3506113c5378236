package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"drkit/drill"
	"drkit/internal/errext"
	"drkit/internal/redact"
	"drkit/internal/service"
)

// execute runs the program in this process, without a terminal.
func execute(t *testing.T, args ...string) (status errext.Status, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	r := redact.New()
	s := &streams{In: strings.NewReader(""), Out: r.Writer(&stdout), Err: r.Writer(&stderr), Redactor: r, Getenv: func(string) string { return "" }, RawOut: os.Stdout}
	status = run(t.Context(), args, s)
	return status, stdout.String(), stderr.String()
}

// everyCommand gives the words that name each command, the root first.
func everyCommand() map[string]*cobra.Command {
	r := redact.New()
	root := newRoot(&streams{In: strings.NewReader(""), Out: r.Writer(io.Discard), Err: r.Writer(io.Discard), Redactor: r})
	all := map[string]*cobra.Command{"": root}
	for _, c := range commandTree(root) {
		all[strings.TrimPrefix(c.CommandPath(), "drkit ")] = c
	}
	return all
}

func TestEveryHelpSaysTheExitStatuses(t *testing.T) {
	for name := range everyCommand() {
		status, out, err := execute(t, append(strings.Fields(name), "--help")...)
		if status != errext.Holds || err != "" {
			t.Errorf("%q --help: status %d, stderr %q", name, status, err)
		}
		for _, want := range []string{"Usage:", "Exit statuses:", "3  refused before any change", "130/143", "first of 8, 6, 4, 5, 1, 7"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q --help does not say %q", name, want)
			}
		}
	}
}

func TestEveryCommandRefusesAnUnknownFlag(t *testing.T) {
	for name := range everyCommand() {
		status, out, err := execute(t, append(strings.Fields(name), "--no-such-flag")...)
		if status != errext.Usage || out != "" || !strings.Contains(err, "no-such-flag") || !strings.Contains(err, "\n  hint: ") {
			t.Errorf("%q: status %d, stdout %q, stderr %q", name, status, out, err)
		}
	}
}

// TestEveryCommandRefusesTooManyArguments: more than any command takes, also where
// a command only groups others.
func TestEveryCommandRefusesTooManyArguments(t *testing.T) {
	for name := range everyCommand() {
		status, out, err := execute(t, append(strings.Fields(name), "a", "b", "c")...)
		if status != errext.Usage || out != "" || !strings.Contains(err, "\n  hint: ") {
			t.Errorf("%q: status %d, stdout %q, stderr %q", name, status, out, err)
		}
	}
}

var argument = regexp.MustCompile(`^[A-Z|_]+$`) // one that must be given

// TestEveryOutputAndProgressIsChecked: a value that is not known is refused before
// anything else is looked at, drkit.yaml included.
func TestEveryOutputAndProgressIsChecked(t *testing.T) {
	t.Chdir(t.TempDir())
	seen := 0
	for name, c := range everyCommand() {
		args := strings.Fields(name)
		for _, word := range strings.Fields(c.Use)[1:] {
			if argument.MatchString(word) {
				args = append(args, "x")
			}
		}
		if c.Flags().Lookup("endpoint") != nil {
			args = append(args, "--endpoint", "http://127.0.0.1:1")
		}
		for flag, bad := range map[string]string{"output": "yaml", "progress": "bar"} {
			if c.Flags().Lookup(flag) == nil {
				continue
			}
			seen++
			status, out, err := execute(t, append(args, "--"+flag, bad)...)
			if status != errext.Usage || out != "" || !strings.Contains(err, `"`+bad+`"`) || !strings.Contains(err, "\n  hint: use one of: ") {
				t.Errorf("%q --%s %s: status %d, stdout %q, stderr %q", name, flag, bad, status, out, err)
			}
		}
	}
	if seen < 12 {
		t.Errorf("only %d commands have such a flag", seen)
	}
}

// TestAFullDiskBehindStdoutIsNotGreen: a result that nobody can read is none.
func TestAFullDiskBehindStdoutIsNotGreen(t *testing.T) {
	r := redact.New()
	var stderr bytes.Buffer
	for _, args := range [][]string{{"version"}, {"rules", "list"}, {"rules", "explain", "T-1"}, {"playbook", "list"}, {"playbook", "show", "rehearsal"}, {"--help"}} {
		stderr.Reset()
		s := &streams{In: strings.NewReader(""), Out: r.Writer(fullDisk{}), Err: r.Writer(&stderr), Redactor: r, Getenv: func(string) string { return "" }}
		if status := run(context.Background(), args, s); status == errext.Holds {
			t.Errorf("%v: status 0 although nothing could be written", args)
		}
	}
}

// TestAResultOfADrillThatNobodyCanRead is no lost evidence: journal, evidence and
// result.json are written, and the status is that of any command whose result is lost.
func TestAResultOfADrillThatNobodyCanRead(t *testing.T) {
	for _, c := range []struct {
		end  drill.RunFinished
		file string // of a report
		want errext.Status
	}{
		{drill.RunFinished{Verdict: drill.Recovered}, "r.md", errext.Failed},
		{drill.RunFinished{Verdict: drill.NotRecovered, Status: 4}, "r.md", errext.Gate},
		{drill.RunFinished{Verdict: drill.Recovered}, ".", errext.Evidence}, // a report is lost too
	} {
		dir, r := t.TempDir(), redact.New()
		var stderr bytes.Buffer
		s := &streams{Out: r.Writer(fullDisk{}), Err: r.Writer(&stderr), Redactor: r, Getenv: func(string) string { return "" }}
		d := &drillPlan{svc: &service.Service{}, dir: dir}
		err := d.conclude(t.Context(), s, &drill.Run{ID: "R1", Finished: &c.end}, []drillReport{{"markdown", filepath.Join(dir, c.file)}}, nil)
		s.flush()
		if got := errext.StatusOf(err); got != c.want {
			t.Errorf("%+v: %d, want %d", c, got, c.want)
		}
		if said := stderr.String(); !strings.Contains(said, "result.json: "+dir) || strings.Count(said, "the result could not be printed: ") != 1 || strings.Count(said, errFull.Error()) != 1 {
			t.Errorf("%+v: %s", c, said)
		}
		if _, err := os.Stat(filepath.Join(dir, "result.json")); err != nil {
			t.Error(err)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

var errFull = &os.PathError{Op: "write", Path: "/dev/stdout", Err: os.ErrClosed}
