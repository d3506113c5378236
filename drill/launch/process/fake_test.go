//go:build unix

package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"drkit/drill"
)

// The test binary is its own fake engine: FAKE_ENGINE says how it behaves.
const fakeVar = "FAKE_ENGINE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(fakeVar); mode != "" {
		time.AfterFunc(2*time.Minute, func() { os.Exit(99) }) // never outlives a broken test for long
		fake(mode)
		return
	}
	os.Exit(m.Run())
}

func fake(mode string) {
	switch mode {
	case "hang":
		fmt.Println("ready")
		select {}
	case "exit":
		fmt.Println("loading weights")
		fmt.Fprintln(os.Stderr, "ValueError: no such shard")
		os.Exit(3)
	case "taken":
		fmt.Println("OSError: [Errno 98] Address already in use")
		os.Exit(1)
	case "ignore":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		select {}
	case "ignore-first":
		c := make(chan os.Signal, 2)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Println("ready")
		<-c
		fmt.Println("first ignored")
		<-c
		os.Exit(130)
	case "fork":
		child(inherit("ignore"), false, true)
		fmt.Println("ready")
		select {}
	case "orphan": // what a program that wipes its environment leaves when its parent dies
		child([]string{fakeVar + "=ignore"}, false, true)
	case "mute-orphan":
		child([]string{fakeVar + "=ignore"}, false, false)
	case "escape":
		child(inherit("ignore"), true, false)
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "lines":
		fmt.Print("one\r\ntwo\n\n10%\r20%\rthree\n")
		time.Sleep(150 * time.Millisecond)
		fmt.Print("last")
	case "launcher":
		launchAndHang()
	}
}

func inherit(mode string) []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, fakeVar+"=") })
	return append(env, fakeVar+"="+mode)
}

func child(env []string, ownSession, logged bool) {
	c := exec.Command(os.Args[0])
	c.Env = env
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: ownSession}
	if logged {
		c.Stdout = os.Stdout
	}
	if err := c.Start(); err != nil {
		fmt.Println("child:", err)
		os.Exit(98)
	}
	fmt.Println("child", c.Process.Pid)
}

// launchAndHang is a drkit that is going to be killed.
func launchAndHang() {
	l := &Launcher{Dir: os.Getenv("FAKE_DIR")}
	spec := drill.Spec{Run: os.Getenv("FAKE_RUN"), Name: "target", Command: []string{os.Args[0]},
		Env: map[string]string{fakeVar: "fork"}, LogPath: os.Getenv("FAKE_DIR") + "/engine.log"}
	if _, err := l.Launch(context.Background(), spec); err != nil {
		fmt.Println("launch:", err)
		os.Exit(97)
	}
	fmt.Println("launched")
	select {}
}
