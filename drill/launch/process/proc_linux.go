package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// processes reads /proc. Processes that end meanwhile are left out.
func processes() ([]proc, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []proc
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, err := readStat(pid)
		if err != nil {
			if gone(err) {
				continue
			}
			return nil, err
		}
		if !p.zombie {
			p.readLabels()
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, errors.New("/proc shows no process: is it mounted?")
	}
	return all, nil
}

func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "no such process")
}

// readStat reads /proc/PID/stat (proc_pid_stat(5)). The name in it is in
// parentheses and may hold anything, so fields are counted from the last ")".
func readStat(pid int) (proc, error) {
	b, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return proc{}, err
	}
	end := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[end+1:]))
	if end < 0 || len(f) < 20 {
		return proc{}, fmt.Errorf("%s: not in the known form", procFile(pid, "stat"))
	}
	p := proc{pid: pid, zombie: f[0] == "Z" || f[0] == "X", start: f[19]} // fields 3 and 22
	if p.ppid, err = strconv.Atoi(f[1]); err != nil {
		return proc{}, fmt.Errorf("%s: parent: %w", procFile(pid, "stat"), err)
	}
	if p.session, err = strconv.Atoi(f[3]); err != nil {
		return proc{}, fmt.Errorf("%s: session: %w", procFile(pid, "stat"), err)
	}
	return p, nil
}

func procFile(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

// readLabels takes the labels from the environment that the process began with.
// Those of another user's process cannot be read, and it is not ours.
func (p *proc) readLabels() {
	b, err := os.ReadFile(procFile(p.pid, "environ"))
	if err != nil {
		return
	}
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if !bytes.HasPrefix(kv, []byte("DRKIT_")) {
			continue
		}
		name, v, _ := strings.Cut(string(kv), "=")
		switch name {
		case labelRun:
			p.run = v
		case labelReplica:
			p.name = v
		case labelEndpoint:
			p.endpoint = v
		}
	}
}

// startOf is when a process began, in clock ticks since boot; "" when there is
// none.
func startOf(pid int) string {
	p, err := readStat(pid)
	if err != nil {
		return ""
	}
	return p.start
}

// writesTo tells whether stdout or stderr of a process is the file at path.
func writesTo(pid int, path string) bool {
	for _, fd := range []string{"1", "2"} {
		if to, err := os.Readlink(procFile(pid, "fd/"+fd)); err == nil && path != "" && strings.TrimSuffix(to, " (deleted)") == path {
			return true
		}
	}
	return false
}

var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})
