package step

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"drkit/drill"
	"drkit/internal/redact"
	"drkit/playbooks"
)

// commandOptions are a command of a playbook. It is no shell's: what a shell is to
// do is given to one, [sh, -c, "…"].
type commandOptions struct {
	Command []string          `yaml:"command" strict:"required"`
	Dir     string            `yaml:"dir"`     // relative to drkit.yaml's folder, which it is without
	Env     []string          `yaml:"env"`     // variables that it gets from drkit's environment
	Secrets []string          `yaml:"secrets"` // the same; their values are kept out of all that drkit writes
	Set     map[string]string `yaml:"set"`     // variables with these values
	Exit    int               `yaml:"exit" strict:"min=0,max=255"`
	Stdout  string            `yaml:"stdout"` // a text that must be in what it prints
}

// faults are what is wrong with the options by themselves.
func (o commandOptions) faults(s playbooks.Step, under string) error {
	errs := []error{wordsFault(s, under+"command", o.Command)}
	for _, name := range slices.Concat(o.Env, o.Secrets) {
		errs = append(errs, nameFault(s, under+"env", name))
		if _, twice := o.Set[name]; twice {
			errs = append(errs, s.Fault(under+"set", fmt.Sprintf("%s is taken from the environment as well", name), "keep one of the two"))
		}
	}
	for name, v := range o.Set {
		errs = append(errs, nameFault(s, under+"set", name), plainFault(s, under+"set", name+"="+v, "take it from the environment: secrets: ["+name+"]"))
	}
	return errors.Join(errs...)
}

// wordsFault refuses a command that could not be started, or not kept in a journal.
func wordsFault(s playbooks.Step, key string, words []string) error {
	var errs []error
	if len(words) > 0 && words[0] == "" {
		errs = append(errs, s.Fault(key, "does not say which program", ""))
	}
	for _, word := range words {
		errs = append(errs, plainFault(s, key, word, "take it from the environment: secrets: [NAME]"))
	}
	return errors.Join(errs...)
}

// program is a command that can be started.
type program struct {
	argv    []string
	dir     string
	env     []string
	secrets []string
}

// resolve finds the program and takes the variables. Everything that is missing is
// in the error.
func (o commandOptions) resolve(base string, env lookup, labels ...string) (program, error) {
	p := program{dir: within(base, o.Dir)}
	path, err := findProgram(p.dir, o.Command[0])
	errs := []error{err}
	p.argv = append([]string{path}, o.Command[1:]...)
	if info, err := os.Stat(p.dir); err != nil || !info.IsDir() {
		errs = append(errs, fmt.Errorf("the folder %s is not there", p.dir))
	}
	values := map[string]string{}
	if path, found := env("PATH"); found {
		values["PATH"] = path
	}
	for _, name := range o.Env {
		if values[name], err = env.value(name); err != nil {
			errs = append(errs, err)
		}
	}
	for _, name := range o.Secrets {
		if values[name], err = env.secret(name); err != nil {
			errs = append(errs, err)
		}
		p.secrets = append(p.secrets, values[name])
	}
	for name, v := range o.Set {
		values[name] = v
	}
	for name, v := range values {
		p.env = append(p.env, name+"="+v)
	}
	slices.Sort(p.env)
	p.env = append(p.env, labels...)
	return p, errors.Join(errs...)
}

// within is a path as it is seen from a folder.
func within(base, path string) string {
	if path == "" {
		path = "."
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// findProgram looks for a program without a slash in PATH, for others from dir.
func findProgram(dir, name string) (string, error) {
	if !strings.Contains(name, "/") {
		path, err := exec.LookPath(name)
		if err != nil {
			return name, fmt.Errorf("the program %s is not found in PATH", name)
		}
		return path, nil
	}
	path := within(dir, name)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, fmt.Errorf("the program %s is not there", path)
	case err != nil:
		return path, fmt.Errorf("the program %s: %w", path, err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return path, fmt.Errorf("%s is not a program that can be started", path)
	}
	return path, nil
}

// killAfter is the time between the request to end (SIGTERM) and SIGKILL, and how
// long a command's children may hold its output after its end.
const killAfter = 3 * time.Second

// maxStdout is as much of the output as a text is looked for in.
const maxStdout = 1 << 20

// ended is how a command ended.
type ended struct {
	code  int    // exit status; -1: a signal ended it
	state string // "exit status 3", "signal: killed"
	took  time.Duration
	lines int    // of its output
	last  string // the last line that says something, of stderr if there is one
	out   string // the first bytes of stdout
	left  bool   // children held its output and were ended
}

// run starts the program in a session of its own and waits for it. When ctx ends,
// and after its end in any case, everything in its process group is ended too. line
// gets each line of output without secrets. The error says that it could not be
// started, or why it was ended early.
func (p program) run(ctx context.Context, line func(string)) (ended, error) {
	began := time.Now()
	hide := redact.New(pieces(p.secrets...)...)
	var mu sync.Mutex
	var e ended
	stdout := &head{limit: maxStdout}
	var said, complained string
	lines := func(last *string) *lineWriter {
		return &lineWriter{say: func(text string) {
			mu.Lock()
			defer mu.Unlock()
			if e.lines++; strings.TrimSpace(text) != "" {
				*last = text
			}
			line(text)
		}}
	}
	one, two := lines(&said), lines(&complained)
	out, errs := hide.Writer(tee{one, stdout}), hide.Writer(two)
	cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.dir, p.env, out, errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killAfter
	if err := cmd.Start(); err != nil {
		return e, fmt.Errorf("starting %s: %w", p.argv[0], err)
	}
	err := cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left in its group; mostly nothing
	_ = errors.Join(out.Flush(), errs.Flush())
	one.end()
	two.end()
	mu.Lock()
	defer mu.Unlock()
	e.took, e.out, e.left = time.Since(began), stdout.String(), errors.Is(err, exec.ErrWaitDelay)
	e.last = cmp.Or(complained, said)
	e.code, e.state = cmd.ProcessState.ExitCode(), cmd.ProcessState.String()
	if ctx.Err() != nil {
		return e, fmt.Errorf("the command was ended: %w", context.Cause(ctx))
	}
	return e, nil
}

// judge says whether a command ended as it should have.
func (e ended) judge(o commandOptions) (observed string, ok bool) {
	observed = fmt.Sprintf("%s after %v", e.state, e.took.Round(time.Millisecond))
	ok = e.code == o.Exit
	if o.Stdout != "" && !strings.Contains(e.out, o.Stdout) {
		observed, ok = observed+"; the text is not in its output", false
		if len(e.out) >= maxStdout {
			observed += fmt.Sprintf(" (its first %d bytes)", maxStdout)
		}
	}
	if !ok && e.last != "" {
		observed += "; its last line: " + drill.Clip(e.last, 300)
	}
	return observed, ok
}

// expected is what judge asks for.
func (o commandOptions) expected() string {
	text := fmt.Sprintf("exit status %d", o.Exit)
	if o.Stdout != "" {
		text += fmt.Sprintf(", and %q in its output", o.Stdout)
	}
	return text
}

// tee writes to both; what the second one does not take is no error.
type tee struct {
	a *lineWriter
	b *head
}

func (t tee) Write(p []byte) (int, error) {
	t.b.keep(p)
	return t.a.Write(p)
}

// head keeps the first bytes.
type head struct {
	strings.Builder
	limit int
}

func (h *head) keep(p []byte) { h.Builder.Write(p[:min(len(p), h.limit-h.Len())]) }

// maxCommandLine bounds a line of a command's output in bytes.
const maxCommandLine = 4 << 10

// lineWriter hands on what is written to it line by line; a longer one is cut.
type lineWriter struct {
	say  func(string)
	held []byte
	cut  int
}

func (l *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		at := bytes.IndexByte(p, '\n')
		if at < 0 {
			l.hold(p)
			return n, nil
		}
		l.hold(p[:at])
		l.flush()
		p = p[at+1:]
	}
}

func (l *lineWriter) hold(p []byte) {
	room := min(len(p), maxCommandLine-len(l.held))
	l.held = append(l.held, p[:room]...)
	l.cut += len(p) - room
}

func (l *lineWriter) flush() {
	text := strings.ToValidUTF8(strings.TrimRight(string(l.held), "\r"), "\uFFFD")
	if l.cut > 0 {
		text += fmt.Sprintf("… (%d bytes more)", l.cut)
	}
	l.held, l.cut = l.held[:0], 0
	l.say(text)
}

// end says what stands behind the last line's end.
func (l *lineWriter) end() {
	if len(l.held) > 0 || l.cut > 0 {
		l.flush()
	}
}
