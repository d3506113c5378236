package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/spf13/cobra"

	"drkit/internal/errext"
)

// servicesOption is -f of a command that takes several services in turn: it may be
// repeated, and each may be a pattern.
type servicesOption struct{ Files []string }

func (o *servicesOption) addFlags(c *cobra.Command) {
	c.Flags().StringArrayVarP(&o.Files, "file", "f", []string{"drkit.yaml"}, "the file that describes the service; for several services repeat it, or give a pattern in quotes, such as 'services/*/drkit.yaml'")
}

// several reports whether the command line asks for services in turn. A pattern
// does, however many files it finds: the form of the result must not hang on that.
func (o servicesOption) several() bool {
	return len(o.Files) > 1 || len(o.Files) == 1 && isPattern(o.Files[0])
}

// isPattern reports whether -f names files by a pattern. A file of that very name
// is itself.
func isPattern(file string) bool {
	_, err := os.Stat(file)
	return err != nil && strings.ContainsAny(file, "*?[{")
}

// paths are the files in the order of the command line, each once. A pattern that
// finds nothing is an error: a service that nobody looked at must not pass.
func (o servicesOption) paths() ([]string, error) {
	var all []string
	var errs []error
	seen := map[string]bool{}
	for _, given := range o.Files {
		found := []string{given}
		if isPattern(given) {
			var err error
			if found, err = matching(given); err != nil {
				errs = append(errs, usage(fmt.Errorf("-f %s: %w", given, err), "a pattern names the files that describe services, such as 'services/*/drkit.yaml'"))
			}
		}
		for _, file := range found {
			if key := placeOf(file); !seen[key] {
				seen[key] = true
				all = append(all, file)
			}
		}
	}
	return all, errors.Join(errs...)
}

// matching are the files that a pattern finds, folders of such a name too: reading one
// says what is wrong with it. Alternatives in braces are refused, for one that finds
// nothing would be left out without a word.
func matching(pattern string) ([]string, error) {
	if strings.Contains(pattern, "{") {
		return nil, errors.New("alternatives in braces are not followed: repeat -f for each of them")
	}
	found, err := doublestar.FilepathGlob(pattern, doublestar.WithFailOnIOErrors())
	if err == nil && len(found) == 0 {
		err = errors.New("no file matches")
	}
	return found, err
}

// placeOf is one name for a file, however it is written.
func placeOf(file string) string {
	abs, err := filepath.Abs(file)
	if err != nil {
		return filepath.Clean(file)
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real
	}
	return abs
}

// refuseBeside refuses flags and arguments that are for one service. Each is said
// to be given or not.
func (o servicesOption) refuseBeside(given map[string]bool) error {
	if !o.several() {
		return nil
	}
	var errs []error
	for _, what := range slices.Sorted(maps.Keys(given)) {
		if given[what] {
			errs = append(errs, usage(fmt.Errorf("%s is for one service, and -f names several", what), "leave it out, or run the command for each service alone"))
		}
	}
	return errors.Join(errs...)
}

// serviceOutcome is what came of one service of several.
type serviceOutcome struct {
	File   string          `json:"file"`
	Status int             `json:"status"`
	Name   string          `json:"name"`             // the status in a word
	Error  string          `json:"error,omitempty"`  // why there is no result
	Hint   string          `json:"hint,omitempty"`   // what to do about that
	Result json.RawMessage `json:"result,omitempty"` // as the command prints it for this service alone
}

// each runs a command for every service in turn, and sums up. One that cannot be
// judged does not keep the others from it; the status is the first of 8, 6, 4, 5, 1,
// 7 among theirs. In JSON the results are a list.
func (o servicesOption) each(ctx context.Context, s *streams, out outputOption, one func(s *streams, file string) error) error {
	if !o.several() {
		return one(s, strings.Join(o.Files, ""))
	}
	if err := out.check(); err != nil {
		return err
	}
	files, err := o.paths()
	if err != nil {
		return err
	}
	var all []serviceOutcome
	var statuses []errext.Status
	for i, file := range files {
		var err error
		var result []byte
		if out.json() {
			result, err = aloneInJSON(s, file, one)
		} else {
			err = aloneInText(s, i, file, one)
		}
		if ctx.Err() != nil {
			return cmp.Or(err, context.Cause(ctx))
		}
		all = append(all, newServiceOutcome(s, file, result, err))
		statuses = append(statuses, errext.StatusOf(err))
	}
	status := errext.Combine(statuses...)
	if out.json() {
		return reported(s, writeJSON(s, all), nil, status)
	}
	return reported(s, printOutcomes(s, all, status), nil, status)
}

// aloneInJSON runs the command for one service and keeps what it prints.
func aloneInJSON(s *streams, file string, one func(*streams, string) error) ([]byte, error) {
	var printed bytes.Buffer
	alone := *s
	alone.Out = s.Redactor.Writer(&printed)
	err := one(&alone, file)
	if ferr := alone.Out.Flush(); err == nil {
		err = ferr
	}
	return bytes.TrimSpace(printed.Bytes()), err
}

// aloneInText runs the command for one service beneath a heading.
func aloneInText(s *streams, i int, file string, one func(*streams, string) error) error {
	if i > 0 {
		fmt.Fprintln(s.Out)
	}
	printLine(s.Out, "── %s", file)
	err := one(s, file)
	if err != nil {
		printError(s, err)
	}
	return err
}

func newServiceOutcome(s *streams, file string, result []byte, err error) serviceOutcome {
	status := errext.StatusOf(err)
	o := serviceOutcome{File: file, Status: int(status), Name: status.String(), Result: result}
	if said, ok := errors.AsType[outcome](err); err != nil && !(ok && err.Error() == said.Error()) {
		o.Error, o.Hint = s.Redactor.String(err.Error()), s.Redactor.String(errext.Hint(err))
	}
	return o
}

// printOutcomes writes the summary: one line a service.
func printOutcomes(s *streams, all []serviceOutcome, status errext.Status) error {
	holding := 0
	for _, o := range all {
		if o.Status == int(errext.Holds) {
			holding++
		}
	}
	fmt.Fprintf(s.Out, "\n%s: %d of them hold; exit status %d (%s)\n", countOf(len(all), "service", "services"), holding, status, status)
	for _, o := range all {
		why := ""
		if o.Error != "" {
			why = "  no result: " + o.Error
		}
		printLine(s.Out, "  %d  %-11s  %s%s", o.Status, o.Name, o.File, why)
	}
	return nil
}
