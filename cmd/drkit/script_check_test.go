package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// complains N REGEXP: stderr holds exactly N errors, each with a hint, and one of
// them matches; nothing in it is a crash.
func cmdComplains(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: complains N REGEXP")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	text := ts.ReadFile("stderr")
	if crash := regexp.MustCompile(`(?m)^(panic:|fatal error:|goroutine \d+)`).FindString(text); crash != "" {
		ts.Fatalf("it crashed: %s", crash)
	}
	all := complaints(text)
	if len(all) != want {
		ts.Fatalf("%d errors, want %d:\n%s", len(all), want, text)
	}
	matches := false
	for _, c := range all {
		if !regexp.MustCompile(`(?m)^  hint: \S`).MatchString(c) {
			ts.Fatalf("an error has no hint:\n%s", c)
		}
		matches = matches || regexp.MustCompile("(?m)"+args[1]).MatchString(c)
	}
	if !matches {
		ts.Fatalf("no error matches %q:\n%s", args[1], text)
	}
}

// complaints are the errors of a command: each begins with the program's name and
// goes on to the next one.
func complaints(text string) []string {
	at := regexp.MustCompile(`(?m)^drkit: `).FindAllStringIndex(text, -1)
	var all []string
	for i, a := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		all = append(all, text[a[0]:end])
	}
	return all
}

// json FILE [PATH=VALUE...]: FILE is one JSON value and holds these values. A
// path's elements are keys and list positions; "len" is a list's length.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: json FILE [PATH=VALUE...]")
	}
	text := ts.ReadFile(args[0])
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var doc any
	ts.Check(dec.Decode(&doc))
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		ts.Fatalf("%s holds more than one JSON value", args[0])
	}
	if strings.ContainsRune(text, '\x1b') {
		ts.Fatalf("%s holds escape sequences", args[0])
	}
	for _, arg := range args[1:] {
		path, want, _ := strings.Cut(arg, "=")
		got, err := lookUp(doc, strings.Split(path, "."))
		ts.Check(err)
		if fmt.Sprint(got) != want {
			ts.Fatalf("%s is %v, want %s", path, got, want)
		}
	}
}

func lookUp(v any, path []string) (any, error) {
	for i, key := range path {
		switch t := v.(type) {
		case map[string]any:
			next, ok := t[key]
			if !ok {
				return nil, fmt.Errorf("there is no %s", strings.Join(path[:i+1], "."))
			}
			v = next
		case []any:
			if key == "len" {
				v = len(t)
				continue
			}
			n, err := strconv.Atoi(key)
			if err != nil || n >= len(t) {
				return nil, fmt.Errorf("%s: the list has %d elements", strings.Join(path[:i+1], "."), len(t))
			}
			v = t[n]
		default:
			return nil, fmt.Errorf("%s is %v", strings.Join(path[:i], "."), v)
		}
	}
	return v, nil
}

// plain FILE...: holds no escape sequence and no carriage return.
func cmdPlain(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		if strings.ContainsAny(ts.ReadFile(name), "\x1b\r") {
			ts.Fatalf("%s holds terminal control", name)
		}
	}
}

// secret-free TEXT PATH...: no file in or beneath PATH holds TEXT.
func cmdSecretFree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: secret-free TEXT PATH...")
	}
	for _, name := range args[1:] {
		if name == "stdout" || name == "stderr" {
			if strings.Contains(ts.ReadFile(name), args[0]) {
				ts.Fatalf("%s shows the secret", name)
			}
			continue
		}
		files := filesBeneath(ts.MkAbs(name))
		if len(files) == 0 {
			ts.Fatalf("%s holds no file: nothing was shown", name)
		}
		for _, path := range files {
			data, err := os.ReadFile(path)
			ts.Check(err)
			if bytes.Contains(data, []byte(args[0])) {
				ts.Fatalf("%s holds the secret", path)
			}
		}
	}
}

// same A B: two files hold the same bytes.
func cmdSame(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: same A B")
	}
	a, b := ts.ReadFile(args[0]), ts.ReadFile(args[1])
	if (a == b) == neg {
		ts.Fatalf("%s and %s: equal is %v (%d and %d bytes)", args[0], args[1], a == b, len(a), len(b))
	}
}

// endpoint NAME VARIABLE: puts the address that what was started as NAME listens
// on into a variable.
func cmdEndpoint(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: endpoint NAME VARIABLE")
	}
	at := listening.FindStringSubmatch(started(ts, args[0]).err.String())
	if at == nil {
		ts.Fatalf("%s did not say where it listens", args[0])
	}
	ts.Setenv(args[1], at[1])
}

// empty DIR: holds nothing.
func cmdEmpty(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		entries, err := os.ReadDir(ts.MkAbs(name))
		ts.Check(err)
		if len(entries) > 0 {
			ts.Fatalf("%s holds %s and %d others", name, entries[0].Name(), len(entries)-1)
		}
	}
}

// glob PATTERN...: each pattern finds something; with ! none does.
func cmdGlob(ts *testscript.TestScript, neg bool, args []string) {
	for _, pattern := range args {
		found, err := filepath.Glob(ts.MkAbs(pattern))
		ts.Check(err)
		if (len(found) > 0) == neg {
			ts.Fatalf("%s finds %v", pattern, found)
		}
	}
}

// json-lines FILE: every line that begins with a brace is one JSON value, there
// are such lines, and no line holds escape sequences.
func cmdJSONLines(ts *testscript.TestScript, neg bool, args []string) {
	n := 0
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		if strings.ContainsRune(line, '\x1b') {
			ts.Fatalf("an escape sequence in %q", line)
		}
		if !strings.HasPrefix(line, "{") {
			continue
		}
		if n++; !json.Valid([]byte(line)) {
			ts.Fatalf("no JSON: %q", line)
		}
	}
	if n == 0 {
		ts.Fatalf("no line of JSON")
	}
}

// redacted-runs: everything that the service's runs kept, except for the logs that
// the engines themselves write, is free of $TOKEN and shows that something was taken out.
func cmdRedactedRuns(ts *testscript.TestScript, neg bool, args []string) {
	token, seen := ts.Getenv("TOKEN"), false
	for _, path := range filesBeneath(ts.MkAbs(".drkit/runs")) {
		data, err := os.ReadFile(path)
		ts.Check(err)
		if filepath.Ext(path) != ".log" && bytes.Contains(data, []byte(token)) {
			ts.Fatalf("%s holds the secret", path)
		}
		seen = seen || bytes.Contains(data, []byte("[redacted]"))
	}
	if !seen {
		ts.Fatalf("nothing was redacted: the secret did not pass")
	}
}

// whole-or-absent: each region either publishes nothing, or what it publishes
// restores, every byte hashed.
func cmdWholeOrAbsent(ts *testscript.TestScript, neg bool, args []string) {
	for _, region := range []string{"us-east-1", "eu-west-1"} {
		if _, err := os.Stat(ts.MkAbs("regions/" + region + "/.drkit/" + region + "/support/CURRENT")); err != nil {
			ts.Logf("%s publishes nothing", region)
			continue
		}
		dir, err := os.MkdirTemp(ts.MkAbs("."), "restored-*")
		ts.Check(err)
		launch(ts, []string{"drkit", "restore", "--region", region, dir}).finish(ts, 0)
	}
}

// something-left: the opposite of nothing-left, for what was killed.
func cmdSomethingLeft(ts *testscript.TestScript, neg bool, args []string) {
	if len(processesOf(backgroundOf(ts).home)) < 3 {
		ts.Fatalf("fewer than two canaries and a router run: nothing would be shown by their end")
	}
}
