package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"drkit/internal/redact"
)

// action is what of action.yml the tests look at.
type action struct {
	Inputs map[string]struct {
		Description string
		Default     *string
	}
	Outputs map[string]struct{ Value string }
	Runs    struct {
		Using string
		Steps []struct {
			ID, Shell, Run string
			Env            map[string]string
		}
	}
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(sourceDir, "..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// parsed are the options that drkit's own flags make of a command line of check
// or verify, without running it.
func parsed(t *testing.T, args []string) (check *checkOptions, verify *verifyOptions) {
	t.Helper()
	r := redact.New()
	s := &streams{In: strings.NewReader(""), Out: r.Writer(os.Stderr), Err: r.Writer(os.Stderr), Redactor: r, Getenv: func(string) string { return "" }}
	root, group := &cobra.Command{Use: "drkit", SilenceErrors: true, SilenceUsage: true}, &cobra.Command{Use: "manifest"}
	group.AddCommand(newManifestCheck(s, func(_ context.Context, _ *streams, o checkOptions) error { check = &o; return o.reportOption.check() }))
	root.AddCommand(group, newVerify(s, func(_ context.Context, _ *streams, o verifyOptions) error { verify = &o; return o.reportOption.check() }))
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		t.Errorf("drkit refuses %q: %v", args, err)
	}
	return check, verify
}

// runAction runs the action's script as a runner does, with a program that keeps
// its arguments in the place of drkit.
func runAction(t *testing.T, inputs map[string]string) (args []string, status int, outputs string) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	var a action
	readYAML(t, "action.yml", &a)
	step := a.Runs.Steps[0]
	dir := t.TempDir()
	fake := filepath.Join(dir, "drkit")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\nprintf '%s\\0' \"$@\" >\""+dir+"/args\"\nexit ${FAKE_STATUS:-0}\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(bash, "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step.Run)
	c.Dir = dir
	c.Env = append(os.Environ(), "GITHUB_OUTPUT="+filepath.Join(dir, "output"), "GITHUB_ACTION_PATH=/no/such")
	for name, value := range step.Env {
		input := strings.TrimPrefix(strings.TrimSuffix(value, " }}"), "${{ inputs.")
		switch given, ok := inputs[input]; {
		case ok:
			value = given
		case input == "drkit":
			value = fake
		default:
			value = *a.Inputs[input].Default
		}
		c.Env = append(c.Env, name+"="+value)
	}
	if s, ok := inputs["status"]; ok {
		c.Env = append(c.Env, "FAKE_STATUS="+s)
	}
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(filepath.Join(dir, "args"))
	if len(data) > 0 {
		args = strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
	}
	written, _ := os.ReadFile(filepath.Join(dir, "output"))
	return args, c.ProcessState.ExitCode(), string(written) + string(out)
}

func TestActionIsWhole(t *testing.T) {
	var a action
	readYAML(t, "action.yml", &a)
	if a.Runs.Using != "composite" || len(a.Runs.Steps) != 1 || a.Runs.Steps[0].Shell != "bash" || a.Outputs["status"].Value != "${{ steps.run.outputs.status }}" {
		t.Errorf("%+v", a)
	}
	if strings.Contains(a.Runs.Steps[0].Run, "${{") {
		t.Error("an input in the script is a way in for shell text")
	}
	used := strings.Join(slices.Collect(func(yield func(string) bool) {
		for _, v := range a.Runs.Steps[0].Env {
			if !yield(v) {
				return
			}
		}
	}), " ")
	for name, in := range a.Inputs {
		if in.Description == "" || in.Default == nil || name != "working-directory" && !strings.Contains(used, "inputs."+name+" ") {
			t.Errorf("input %s: no description or default, or it does nothing", name)
		}
	}
}

func TestActionsCommandLines(t *testing.T) {
	t.Chdir(t.TempDir())
	args, status, out := runAction(t, map[string]string{})
	if check, _ := parsed(t, args); status != 0 || check == nil || !slices.Equal(check.Files, []string{"drkit.yaml"}) || check.Strict || !slices.Equal(check.Reports, []string{"github"}) || !strings.Contains(out, "status=0\n") {
		t.Errorf("%q, status %d, %s", args, status, out)
	}
	args, status, out = runAction(t, map[string]string{"file": "a b/$(id).yaml", "strict": "true", "annotations": "false", "sarif": "o;x.sarif", "junit": "o.xml", "args": "--output\n\njson\n", "status": "4"})
	check, _ := parsed(t, args)
	if status != 4 || check == nil || !slices.Equal(check.Files, []string{"a b/$(id).yaml"}) || !check.Strict || check.Output != "json" || !slices.Equal(check.Reports, []string{"sarif=o;x.sarif", "junit=o.xml"}) || !strings.Contains(out, "status=4\n") {
		t.Errorf("%q, status %d, %s", args, status, out)
	}
	args, status, _ = runAction(t, map[string]string{"command": "verify", "args": "--level=content"})
	if _, verify := parsed(t, args); status != 0 || verify == nil || verify.Level != "content" {
		t.Errorf("%q, status %d", args, status)
	}
	if args, status, out = runAction(t, map[string]string{"command": "rm -rf"}); status != 2 || args != nil || !strings.Contains(out, "::error") {
		t.Errorf("%q, status %d, %s", args, status, out)
	}
	if args, status, out = runAction(t, map[string]string{"drkit": ""}); status != 1 || args != nil || !strings.Contains(out, "::error title=drkit::drkit could not be built") {
		t.Errorf("%q, status %d, %s", args, status, out)
	}
}

func TestPreCommitHook(t *testing.T) {
	var hooks []struct {
		ID, Name, Entry, Language string
		Pass                      *bool `yaml:"pass_filenames"`
	}
	readYAML(t, ".pre-commit-hooks.yaml", &hooks)
	for _, h := range hooks {
		words := strings.Fields(h.Entry)
		if h.ID == "" || h.Name == "" || h.Language != "golang" || h.Pass == nil || *h.Pass || words[0] != "drkit" {
			t.Errorf("%+v", h)
		}
		if check, _ := parsed(t, words[1:]); check == nil {
			t.Errorf("%s does not run the gate", h.Entry)
		}
	}
	if len(hooks) != 1 {
		t.Errorf("%d hooks", len(hooks))
	}
}
