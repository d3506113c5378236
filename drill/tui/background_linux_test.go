package tui

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// asksNothing is set for the child that shows what a program with a screen writes to its
// terminal before it does anything.
const asksNothing = "DRKIT_TEST_ASKS_NOTHING"

// TestTheTerminalIsAskedNothing: a terminal that never answers holds no program up. The
// sequence is that of XTerm's control sequences: OSC 11 with a question mark.
func TestTheTerminalIsAskedNothing(t *testing.T) {
	if os.Getenv(asksNothing) != "" {
		fmt.Println("begun")
		return
	}
	master, tty := openTerminal(t)
	c := exec.Command(os.Args[0], "-test.run=^TestTheTerminalIsAskedNothing$", "-test.v")
	c.Stdin, c.Stdout, c.Stderr = tty, tty, tty
	c.Env = append(os.Environ(), asksNothing+"=1", "TERM=xterm-256color", "NO_COLOR=", "CI=")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	said := readUntilClosed(master)
	if err := c.Wait(); err != nil {
		t.Errorf("%v: %q", err, said)
	}
	if !strings.Contains(said, "begun") || strings.Contains(said, "\x1b]1") || strings.Contains(said, "\x1b[6n") {
		t.Errorf("it wrote %q", said)
	}
}

// openTerminal opens a terminal that answers nothing.
func openTerminal(t *testing.T) (master, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal can be opened here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	var unlock, n int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &n} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Skipf("no terminal can be opened here: %v", errno)
		}
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal can be opened here: %v", err)
	}
	return master, tty
}

// readUntilClosed reads what the program writes until its end has been closed.
func readUntilClosed(master *os.File) string {
	var said bytes.Buffer
	_, _ = io.Copy(&said, master) // the last reader of a terminal gets EIO
	return said.String()
}
