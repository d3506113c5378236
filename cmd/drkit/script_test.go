package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts of testdata/script run the whole program: this test binary, under
// the name drkit, as a process of its own. The fakes stand in for engines and
// routers that misbehave.

func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){
		"drkit":       main,
		"fake-engine": fakeEngine,
		"fake-router": fakeRouter,
	})
}

// suite is the tests with what they share.
type suite struct{ m *testing.M }

// Run lets more scripts run at once than there are cores: they mostly wait for
// what they started.
func (s suite) Run() int {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == f.DefValue {
		_ = f.Value.Set("4")
	}
	defer published.remove()
	return s.m.Run()
}

func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("the scripts start engines and routers")
	}
	testscript.Run(t, scripts(filepath.Join("..", "..", "testdata", "script")))
}

func scripts(dir string) testscript.Params {
	return testscript.Params{
		Dir: dir, Setup: setup, Condition: condition, RequireUniqueNames: true, RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"service": cmdService, "edit": cmdEdit, "canary": cmdCanary, "router": cmdRouter, "playbook": cmdPlaybook, "fifo": cmdFifo, "damage": cmdDamage, "fill": cmdFill, "age": cmdAge, "listen": cmdListen, "free-port": cmdFreePort, "await-http": cmdAwaitHTTP,
			"status": cmdStatus, "start": cmdStart, "await": cmdAwait, "await-file": cmdAwaitFile, "signal": cmdSignal, "ended": cmdEnded, "kill-at": cmdKillAt,
			"complains": cmdComplains, "json": cmdJSON, "plain": cmdPlain, "secret-free": cmdSecretFree, "nothing-left": cmdNothingLeft, "same": cmdSame, "key": cmdKey, "endpoint": cmdEndpoint, "grow": cmdGrow, "file-mode": cmdFileMode, "glob": cmdGlob, "empty": cmdEmpty, "json-lines": cmdJSONLines, "redacted-runs": cmdRedactedRuns,
			"whole-or-absent": cmdWholeOrAbsent, "something-left": cmdSomethingLeft,
		},
	}
}

// setup gives a script an environment without the machine's own settings. HOME
// lies in the script's folder, so that every process that it starts, and what
// those start in turn, can be told from all others.
func setup(env *testscript.Env) error {
	home := filepath.Join(env.WorkDir, "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	env.Setenv("HOME", home)
	env.Setenv("USER", "tester")
	env.Setenv("LC_ALL", "C")
	env.Setenv("TZ", "UTC")
	env.Setenv("VLLM_ROUTER", os.Getenv("DRKIT_VLLM_ROUTER"))
	env.Setenv("MODELS", filepath.Join(sourceDir, "..", "..", "testdata", "models"))
	env.Setenv("REHEARSAL", filepath.Join(sourceDir, "..", "..", "playbooks", "rehearsal.yaml"))
	b := &background{env: env, home: home, running: map[string]*program{}}
	env.Values[backgroundKey{}] = b
	env.Defer(b.end)
	return nil
}

func condition(cond string) (bool, error) {
	switch cond {
	case "vllm-router":
		return os.Getenv("DRKIT_VLLM_ROUTER") != "", nil
	case "root":
		return os.Geteuid() == 0, nil
	case "proc": // the process table can be read with each process's environment
		_, err := os.Stat("/proc/self/environ")
		return err == nil, nil
	}
	return false, fmt.Errorf("unknown condition %q", cond)
}
