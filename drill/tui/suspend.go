package tui

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// errNoShell: the kernel stops no process whose group nobody could continue, as in
// a container or a terminal that runs drkit alone.
var errNoShell = errors.New("cannot suspend: there is no shell to return to")

// suspend gives the terminal back, stops the process's group as Ctrl-Z does, and
// draws again after fg.
func (m *model) suspend() tea.Cmd {
	stop := m.opts.stop
	if stop == nil {
		stop = stopGroup
	}
	return tea.Exec(pauseProgram(stop), func(err error) tea.Msg { return suspendedMsg{err} })
}

// pauseProgram is a tea.ExecCommand: Bubble Tea gives the terminal back while it
// runs. Its own Suspend waits for ever where the kernel stops nothing.
type pauseProgram func() error

func (p pauseProgram) Run() error        { return p() }
func (pauseProgram) SetStdin(io.Reader)  {}
func (pauseProgram) SetStdout(io.Writer) {}
func (pauseProgram) SetStderr(io.Writer) {}

// stopGroup stops the process's group and returns when it goes on.
func stopGroup() error {
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	defer signal.Stop(goesOn)
	if err := syscall.Kill(0, syscall.SIGTSTP); err != nil {
		return err
	}
	select {
	case <-goesOn:
		return nil
	case <-time.After(time.Second):
	}
	select { // after a long stop both are due at once
	case <-goesOn:
		return nil
	case <-time.After(time.Second):
		return errNoShell
	}
}
