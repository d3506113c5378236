//go:build unix && !linux

package process

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// processes asks ps. Environments cannot be read here, so labels stay empty and
// a replica is known by its record: the process group that its leader began.
func processes() ([]proc, error) {
	out, err := ps("-A")
	if err != nil {
		return nil, fmt.Errorf("running ps: %w", err)
	}
	var all []proc
	for line := range strings.Lines(out) {
		if p, ok := parsePS(line); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

func ps(which ...string) (string, error) {
	args := append(which, "-o", "pid=,ppid=,pgid=,stat=,lstart=")
	cmd := exec.Command("ps", args...)
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=/bin:/usr/bin"}
	out, err := cmd.Output()
	return string(out), err
}

func parsePS(line string) (proc, bool) {
	f := strings.Fields(line)
	if len(f) < 5 {
		return proc{}, false
	}
	var n [3]int
	for i := range n {
		v, err := strconv.Atoi(f[i])
		if err != nil {
			return proc{}, false
		}
		n[i] = v
	}
	return proc{pid: n[0], ppid: n[1], session: n[2], zombie: strings.HasPrefix(f[3], "Z"), start: strings.Join(f[4:], " ")}, true
}

func startOf(pid int) string {
	out, err := ps("-p", strconv.Itoa(pid))
	if err != nil {
		return ""
	}
	p, _ := parsePS(out)
	return p.start
}

// writesTo is not known without /proc.
func writesTo(int, string) bool { return false }

func bootID() string { return "" }
