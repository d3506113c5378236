package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"drkit/internal/demo"
)

// fixture is the demonstration's service as a folder: once made by the program
// itself, then copied for every script that needs it.
type fixture struct {
	once sync.Once
	dir  string
	err  error
}

// published holds the service with recorded probes and the release in both regions.
var published fixture

func (f *fixture) path() (string, error) {
	f.once.Do(func() { f.err = f.make() })
	return f.dir, f.err
}

func (f *fixture) remove() {
	if f.dir != "" {
		_ = os.RemoveAll(f.dir)
	}
}

func (f *fixture) make() (err error) {
	if f.dir, err = os.MkdirTemp("", "drkit-scripts-*"); err != nil {
		return err
	}
	if err := writeService(f.dir); err != nil {
		return err
	}
	if err := f.record(); err != nil {
		return err
	}
	return runProgram(f.dir, "replicate", "--yes", "--progress", "quiet")
}

// slow says that this test binary is much slower than drkit is. Engines and
// routers, which have tests of their own, are then run from a drkit built as usual.
var slow bool

// enginePath is the drkit that canaries and routers are started from.
var enginePath = sync.OnceValues(func() (string, error) {
	self, err := exec.LookPath("drkit")
	if err != nil || !slow {
		return self, err
	}
	built := filepath.Join(filepath.Dir(self), "engine", "drkit") // removed with the folder
	build := exec.Command("go", "build", "-o", built, ".")
	build.Dir = sourceDir
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the engine: %w\n%s", err, out)
	}
	return built, nil
})

// writeService lays the service out, with short windows: what they prove is the
// steps' own tests' matter, here they only have to pass.
func writeService(dir string) error {
	engine, err := enginePath()
	if err != nil {
		return err
	}
	if err := demo.Write(dir, demo.StandIn(engine)); err != nil {
		return err
	}
	return replaceIn(filepath.Join(dir, "drkit.yaml"),
		"ttft_p99: 5s", "ttft_p99: 30s",
		"windows: 3, window: 1s, min_requests: 5", "windows: 1, window: 1s, min_requests: 8")
}

var listening = regexp.MustCompile(`on (http://127\.0\.0\.\d:\d+)`)

// record asks an engine on the sources, as a person does before the first release.
func (f *fixture) record() error {
	engine := exec.Command("drkit", "engine", filepath.Join(f.dir, "models", "support-tiny"), "--port", "0", "--served-model-name", demo.Served, "--adapter", "billing="+filepath.Join(f.dir, "models", "billing"))
	engine.Dir = f.dir
	log, err := engine.StderrPipe()
	if err != nil {
		return err
	}
	if err := engine.Start(); err != nil {
		return err
	}
	defer func() {
		_ = engine.Process.Kill()
		_ = engine.Wait()
	}()
	watchdog := time.AfterFunc(patience, func() { _ = engine.Process.Kill() })
	defer watchdog.Stop()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if at := listening.FindStringSubmatch(lines.Text()); at != nil {
			return runProgram(f.dir, "probe", "record", "--endpoint", at[1], "--progress", "quiet")
		}
	}
	return errors.New("the engine did not say where it listens")
}

// service [-bare] DIR: lays a service out in a new folder and makes it the working
// directory. Its release is published in both regions; -bare: it has no probes and
// no region holds anything.
func cmdService(ts *testscript.TestScript, neg bool, args []string) {
	bare := len(args) == 2 && args[0] == "-bare"
	if neg || len(args) != 1 && !bare {
		ts.Fatalf("usage: service [-bare] DIR")
	}
	dir := ts.MkAbs(args[len(args)-1])
	ts.Check(os.MkdirAll(filepath.Dir(dir), 0o755))
	if bare {
		ts.Check(os.Mkdir(dir, 0o755))
		ts.Check(writeService(dir))
	} else {
		from, err := published.path()
		ts.Check(err)
		ts.Check(os.CopyFS(dir, os.DirFS(from)))
	}
	ts.Check(ts.Chdir(dir))
}

// edit FILE OLD NEW [OLD NEW...]: replaces text that must be there.
func cmdEdit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args)%2 != 1 {
		ts.Fatalf("usage: edit FILE OLD NEW [OLD NEW...]")
	}
	escapes := strings.NewReplacer(`\n`, "\n", `\t`, "\t")
	for i := range args[1:] {
		args[i+1] = escapes.Replace(args[i+1])
	}
	ts.Check(replaceIn(ts.MkAbs(args[0]), args[1:]...))
}

func replaceIn(path string, pairs ...string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := string(data)
	for i := 0; i+1 < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			return fmt.Errorf("%s does not contain %q", path, pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// canary REGION WORD...: replaces the command of a region's canary.
func cmdCanary(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: canary REGION WORD...")
	}
	setCommand(ts, `- name: `+regexp.QuoteMeta(args[0])+`\n(?:    .*\n)*?    canary: .*command: `, args[1:])
}

// router DRIVER WORD...: replaces the rehearsal router.
func cmdRouter(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: router DRIVER WORD...")
	}
	setCommand(ts, `rehearsal:\n(?:  .*\n)*?  router: .*command: `, args[1:])
	ts.Check(replaceIn(ts.MkAbs("drkit.yaml"), "driver: reference", "driver: "+args[0]))
}

func setCommand(ts *testscript.TestScript, before string, words []string) {
	path := ts.MkAbs("drkit.yaml")
	data, err := os.ReadFile(path)
	ts.Check(err)
	command := regexp.MustCompile(`(` + before + `)\[.*\]`)
	if !command.Match(data) {
		ts.Fatalf("drkit.yaml has no such command")
	}
	list, err := json.Marshal(words)
	ts.Check(err)
	ts.Check(os.WriteFile(path, command.ReplaceAll(data, []byte("${1}"+strings.ReplaceAll(string(list), "$", "$$"))), 0o644))
}

// playbook FILE [STEP=TIMEOUT...]: writes the built-in rehearsal with other
// time-outs and names it in drkit.yaml.
func cmdPlaybook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: playbook FILE [STEP=TIMEOUT...]")
	}
	data, err := os.ReadFile(filepath.Join(sourceDir, "..", "..", "playbooks", "rehearsal.yaml"))
	ts.Check(err)
	text := string(data)
	for _, change := range args[1:] {
		id, timeout, ok := strings.Cut(change, "=")
		step := regexp.MustCompile(`(?m)(- id: ` + regexp.QuoteMeta(id) + `\n(?:    .*\n)*?    timeout: ).*`)
		if !ok || !step.MatchString(text) {
			ts.Fatalf("the rehearsal has no step %s with a time-out", id)
		}
		text = step.ReplaceAllString(text, "${1}"+timeout)
		text = regexp.MustCompile(`(- id: `+regexp.QuoteMeta(id)+`\n(?:    .*\n)*?)    budget: .*\n`).ReplaceAllString(text, "$1")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
	ts.Check(replaceIn(ts.MkAbs("drkit.yaml"), "objectives:", "playbook: ./"+args[0]+"\nobjectives:"))
}

// sourceDir is this package's folder: scripts change the working directory.
var sourceDir = func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return dir
}()

// fifo FILE: makes a named pipe that nobody writes to.
func cmdFifo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: fifo FILE")
	}
	ts.Check(syscall.Mkfifo(ts.MkAbs(args[0]), 0o644))
}

// damage PATTERN: flips one byte in the middle of a file; its size stays.
func cmdDamage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: damage PATTERN")
	}
	path := one(ts, args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	data[len(data)/2] ^= 0x40
	ts.Check(os.WriteFile(path, data, 0o644))
}

// one is the only file that a pattern finds.
func one(ts *testscript.TestScript, pattern string) string {
	found, err := filepath.Glob(ts.MkAbs(pattern))
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("%s finds %d files", pattern, len(found))
	}
	return found[0]
}

// fill FILE BYTES: makes a file of zeros, or cuts a file short.
func cmdFill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fill FILE BYTES")
	}
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_CREATE|os.O_WRONLY, 0o644)
	ts.Check(err)
	ts.Check(errors.Join(f.Truncate(n), f.Close()))
}

// age DIR: gives everything beneath DIR other times and modes.
func cmdAge(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: age DIR")
	}
	old := time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC)
	for _, path := range filesBeneath(ts.MkAbs(args[0])) {
		ts.Check(errors.Join(os.Chmod(path, 0o600), os.Chtimes(path, old, old)))
		old = old.Add(time.Hour)
	}
}

// listen VARIABLE: takes a port of the loopback interface for the rest of the
// script and puts its number into a variable.
func cmdListen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listen VARIABLE")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	b := backgroundOf(ts)
	b.listens = append(b.listens, l)
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}

// grow FILE: appends to a file without a pause for the rest of the script.
func cmdGrow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: grow FILE")
	}
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_APPEND|os.O_WRONLY, 0)
	ts.Check(err)
	b := backgroundOf(ts)
	b.listens = append(b.listens, f)
	go func() {
		for { // until it is closed
			if _, err := f.Write([]byte{1}); err != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
}

// file-mode MODE PATTERN: chmod for the one file that a pattern finds.
func cmdFileMode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: file-mode MODE PATTERN")
	}
	mode, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	ts.Check(os.Chmod(one(ts, args[1]), os.FileMode(mode)))
}

// free-port VARIABLE: puts a port that nothing listens on into a variable.
func cmdFreePort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: free-port VARIABLE")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	defer l.Close()
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}
