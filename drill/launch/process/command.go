//go:build unix

package process

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"drkit/drill"
	"drkit/internal/errext"
)

// host is where every replica listens: nothing outside this machine reaches it.
const host = "127.0.0.1"

var (
	placeholder = regexp.MustCompile(`\{\{(.*?)\}\}`)
	idForm      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

// builtIn are the placeholders that every spec has.
var builtIn = []string{"model", "port", "host", "served", "dir"}

// metricsPortName is a placeholder that the launcher fills with a free port when
// the spec gives it no value: routers serve their metrics on a port of its own.
const metricsPortName = "metrics_port"

// Validate finds everything wrong with a spec before a launch: placeholders that
// nothing fills, a program that is not there, variables that would undo the
// offline settings. Values that are only known later (port, model) may be empty.
func Validate(s drill.Spec) error {
	errs := []error{checkID("run id", s.Run), checkID("replica name", s.Name)}
	for _, name := range builtIn {
		if _, ok := s.Values[name]; ok {
			errs = append(errs, fmt.Errorf("value %q: the placeholder is the launcher's own", name))
		}
	}
	vars := variables(s)
	for i, arg := range s.Command {
		errs = append(errs, checkText(fmt.Sprintf("command[%d]", i), arg, vars))
	}
	errs = append(errs, checkProgram(s.Command), checkEnv(s.Env))
	for name, v := range s.Env {
		errs = append(errs, checkText("environment variable "+name, v, vars))
	}
	var found []error
	for _, err := range errs {
		if err != nil {
			found = append(found, errext.WithStatus(err, errext.Usage))
		}
	}
	return errors.Join(found...)
}

func checkID(what, id string) error {
	if !idForm.MatchString(id) {
		return fmt.Errorf("%s %q: letters, digits, '.', '_' and '-' only, at most 128", what, id)
	}
	return nil
}

// variables are all placeholders of a spec with their values.
func variables(s drill.Spec) map[string]string {
	vars := map[string]string{"model": s.Model, "host": host, "served": s.Served, "dir": s.Dir}
	vars["port"], vars[metricsPortName] = "", ""
	if s.Port != 0 {
		vars["port"] = strconv.Itoa(s.Port)
	}
	for name, dir := range s.Adapters {
		vars["adapter:"+name] = dir
	}
	for name, v := range s.Values {
		vars[name] = v
	}
	return vars
}

func checkText(where, text string, vars map[string]string) error {
	var errs []error
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		if _, ok := vars[m[1]]; !ok {
			errs = append(errs, errext.WithHint(fmt.Errorf("%s: unknown placeholder %s", where, m[0]), known(vars)))
		}
	}
	if strings.Contains(placeholder.ReplaceAllString(text, ""), "{{") {
		errs = append(errs, fmt.Errorf("%s: a placeholder is not closed: %q", where, text))
	}
	return errors.Join(errs...)
}

func known(vars map[string]string) string {
	return "known here: {{" + strings.Join(sortedKeys(vars), "}}, {{") + "}}"
}

func checkProgram(command []string) error {
	if len(command) == 0 || command[0] == "" {
		return errext.WithHint(errors.New("no command to launch"), "set regions[].canary.command in drkit.yaml, for example [vllm, serve, \"{{model}}\", --port, \"{{port}}\"]")
	}
	if placeholder.MatchString(command[0]) {
		return nil // known only when it is filled in
	}
	_, err := program(command[0])
	return err
}

// program is the absolute path of a command, so that the working directory of
// the replica cannot change which one runs.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", errext.WithHint(fmt.Errorf("program %q cannot be run: %w", name, err),
			"install it, put it on PATH, or give its absolute path")
	}
	return filepath.Abs(path)
}

// render fills the placeholders of command and environment.
func render(s drill.Spec) (argv []string, env map[string]string, err error) {
	vars := variables(s)
	var errs []error
	fill := func(text string) string {
		return placeholder.ReplaceAllStringFunc(text, func(m string) string {
			v := vars[m[2:len(m)-2]]
			if v == "" {
				errs = append(errs, fmt.Errorf("placeholder %s has no value in this launch", m))
			}
			return v
		})
	}
	for _, arg := range s.Command {
		argv = append(argv, fill(arg))
	}
	env = environment(hostEnvironment())
	for name, v := range s.Env {
		env[name] = fill(v)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	argv[0], err = program(argv[0])
	return argv, env, err
}
