//go:build unix

package process

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"drkit/drill"
	"drkit/internal/errext"
)

// Ports are taken beneath those that systems give to outgoing connections (32768
// and up on Linux, 49152 and up elsewhere): between the choice and the engine's
// bind, minutes later, such a connection could take one of theirs.
const lowest, highest = 18000, 32000

// given are the ports that this process has handed out: two launches at once
// must not get the same one before either engine has bound it.
var given struct {
	sync.Mutex
	ports map[int]bool
}

// FreePort takes a TCP port of 127.0.0.1 that nothing listens on and that this
// process has not handed out before. Another program can still take it before
// the engine binds it; the engine then exits, and ExitError says why.
func FreePort() (int, error) {
	given.Lock()
	defer given.Unlock()
	if given.ports == nil {
		given.ports = map[int]bool{}
	}
	for try := range 200 {
		want := lowest + rand.IntN(highest-lowest)
		if try >= 100 { // an unusual machine: whatever the system offers
			want = 0
		}
		port, err := probePort(want)
		if err != nil && try < 199 {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("taking a free port: %w", err)
		}
		if !given.ports[port] {
			given.ports[port] = true
			return port, nil
		}
	}
	return 0, errors.New("taking a free port: the system keeps offering ports that are in use here")
}

// takePort gives a free port for 0, else sees that the wanted one is free.
func takePort(want int) (int, error) {
	switch {
	case want == 0:
		return FreePort()
	case want < 0 || want > 65535:
		return 0, errext.WithStatus(fmt.Errorf("port %d: not a TCP port", want), errext.Usage)
	}
	_, err := probePort(want)
	if errors.Is(err, syscall.EADDRINUSE) {
		return 0, inUse(want)
	}
	if err != nil {
		return 0, fmt.Errorf("port %d cannot be used: %w", want, err)
	}
	return want, nil
}

func inUse(port int) error {
	return errext.WithHint(fmt.Errorf("port %d of %s is in use by another program", port, host),
		fmt.Sprintf("stop it (lsof -i tcp:%d shows it), name another port, or 0 for a free one", port))
}

func probePort(port int) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// metricsPort adds a free port for {{metrics_port}} where the command asks for it
// and the spec has none.
func metricsPort(s drill.Spec) (map[string]string, error) {
	if s.Values[metricsPortName] != "" || !strings.Contains(strings.Join(s.Command, " "), "{{"+metricsPortName+"}}") {
		return s.Values, nil
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	maps.Copy(values, s.Values)
	values[metricsPortName] = strconv.Itoa(port)
	return values, nil
}

// checkPorts sees that the ports among the values are free too.
func checkPorts(values map[string]string) error {
	for _, name := range sortedKeys(values) {
		if !strings.HasSuffix(name, "_port") {
			continue
		}
		port, err := strconv.Atoi(values[name])
		if err != nil || port == 0 {
			return errext.WithStatus(fmt.Errorf("value %s=%q: not a TCP port", name, values[name]), errext.Usage)
		}
		if _, err := takePort(port); err != nil {
			return fmt.Errorf("value %s: %w", name, err)
		}
	}
	return nil
}
