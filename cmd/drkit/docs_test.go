package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A document opts in to being run: its ```console blocks are one session in the
// folder of a published service. A line "$ command" is run by a shell; the lines
// below it must appear in its output in this order, … standing for any text; the
// line "exit status N" names a status other than 0.

// example is one command of a document with what it must show.
type example struct {
	line    int
	command string
	shows   []string
	status  int
}

func documents(t *testing.T) []string {
	docs, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	return append(docs, "../../README.md")
}

func TestExamplesOfTheDocuments(t *testing.T) {
	for _, path := range documents(t) {
		examples, err := readExamples(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(examples) == 0 {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			for _, fault := range runExamples(t, examples) {
				t.Errorf("%s:%s", path, fault)
			}
		})
	}
}

// TestExamplesCanFail: the runner tells a right example from wrong ones.
func TestExamplesCanFail(t *testing.T) {
	examples, err := readExamples("testdata/examples.md")
	if err != nil || len(examples) != 5 {
		t.Fatalf("%d examples, %v", len(examples), err)
	}
	faults := runExamples(t, examples)
	if len(faults) != 3 || !strings.HasPrefix(faults[0], "17: ") || !strings.HasPrefix(faults[1], "19: ") || !strings.HasPrefix(faults[2], "21: ") {
		t.Errorf("faults: %q", faults)
	}
}

func readExamples(path string) ([]example, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []example
	inside := false
	for i, line := range strings.Split(string(data), "\n") {
		switch command, is := strings.CutPrefix(line, "$ "); {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case is:
			all = append(all, example{line: i + 1, command: command})
		case len(all) == 0:
			return nil, fmt.Errorf("%s:%d: output without a command", path, i+1)
		default:
			last := &all[len(all)-1]
			if n, _ := fmt.Sscanf(line, "exit status %d", &last.status); n == 0 && strings.TrimSpace(line) != "" {
				last.shows = append(last.shows, line)
			}
		}
	}
	return all, nil
}

// runExamples runs the examples in order and returns what is wrong, by line.
func runExamples(t *testing.T, examples []example) []string {
	from, err := published.path()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "service")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	var faults []string
	for _, e := range examples {
		if fault := e.run(dir); fault != "" {
			faults = append(faults, fmt.Sprintf("%d: $ %s: %s", e.line, e.command, fault))
		}
	}
	return faults
}

func (e example) run(dir string) string {
	cmd := exec.Command("sh", "-c", e.command)
	cmd.Dir, cmd.WaitDelay = dir, 5*time.Second
	stop := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return err.Error()
	}
	if got := cmd.ProcessState.ExitCode(); got != e.status {
		return fmt.Sprintf("exit status %d, not %d:\n%s", got, e.status, out)
	}
	rest := string(out)
	for _, want := range e.shows {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(want, " ")), "…", ".*")
		at := regexp.MustCompile(`(?m)^` + pattern + ` *$`).FindStringIndex(rest)
		if at == nil {
			return fmt.Sprintf("does not show %q (in this order):\n%s", want, out)
		}
		rest = rest[at[1]:]
	}
	return ""
}

var (
	fenced = regexp.MustCompile("(?ms)^```[a-z]*\\n(.*?)^```")
	typed  = regexp.MustCompile(`(?m)^(?:\$ )?drkit (.*)$`)
	inline = regexp.MustCompile("`drkit ([^`\\n]+)`")
)

// commandsIn are the commands that a text tells a reader to type.
func commandsIn(text string) (all []string) {
	for _, block := range fenced.FindAllStringSubmatch(text, -1) {
		for _, m := range typed.FindAllStringSubmatch(block[1], -1) {
			all = append(all, m[1])
		}
	}
	for _, m := range inline.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// TestCommandsThatDocumentsNameExist: what a reader is told to type is a command
// of this version, with flags that it has.
func TestCommandsThatDocumentsNameExist(t *testing.T) {
	seen := 0
	for _, path := range documents(t) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range commandsIn(string(data)) {
			seen++
			if fault := unknownCommand(text); fault != "" {
				t.Errorf("%s names `drkit %s`: %s", path, text, fault)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d commands were found in the documents", seen)
	}
	for _, text := range []string{"demonstrate", "drill go", "verify --depth 3"} {
		if unknownCommand(text) == "" {
			t.Errorf("drkit %s passes for a command", text)
		}
	}
}

var word = regexp.MustCompile(`^[a-z]+$`)

// unknownCommand says what in a command line, without the program's name, does not exist.
func unknownCommand(text string) string {
	text, _, _ = strings.Cut(text, "#")
	text, _, _ = strings.Cut(text, " -- ") // what follows is another program's
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,;[]…", r) })
	root := everyCommand()[""]
	c, args, err := root.Find(words)
	if err != nil {
		return err.Error()
	}
	if c.HasSubCommands() && len(args) > 0 && word.MatchString(args[0]) {
		return c.CommandPath() + " has no command " + args[0]
	}
	c.InitDefaultHelpFlag()
	for _, a := range args {
		name, isFlag := strings.CutPrefix(a, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && name != "" && c.Flags().Lookup(name) == nil {
			return c.CommandPath() + " has no flag --" + name
		}
	}
	return ""
}
