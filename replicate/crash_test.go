package replicate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/manifest/region"
	"drkit/manifest/release"
	"drkit/replicate"
	"drkit/verify"
)

// The helper process of TestKilledRuns is this test binary, told what to do by
// its environment.
const (
	envRoot = "DRKIT_CRASH_ROOT" // holds us/ and eu/
	envAt   = "DRKIT_CRASH_AT"   // the step at which it kills itself
)

func TestMain(m *testing.M) {
	if root := os.Getenv(envRoot); root != "" {
		if err := crash(root, os.Getenv(envAt)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// crash replicates the second release and dies on the way.
func crash(root, at string) error {
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return err
	}
	files := crashFiles(2)
	m := newRelease(files)
	c := &countdown{}
	c.left.Store(n)
	regions := crashRegions(root)
	for i := range regions {
		regions[i].Store = counted{regions[i].Store, c}
		regions[i].State = counted{regions[i].State, c}
	}
	found, err := replicate.Survey(context.Background(), m, regions, verify.Options{})
	if err != nil {
		return err
	}
	p, err := replicate.NewPlan(replicate.PlanInput{Manifest: m, Found: found})
	if err != nil {
		return err
	}
	_, err = replicate.Execute(context.Background(), p, replicate.ExecuteInput{Manifest: m, Regions: regions, Content: content(files)})
	return err
}

func crashRegions(root string) []replicate.Region {
	var all []replicate.Region
	for name, role := range map[string]region.Role{"us": region.Source, "eu": region.Target} {
		all = append(all, replicate.Region{Name: name, Role: role, Store: dir.Plain(filepath.Join(root, name)), State: dir.Plain(filepath.Join(root, name, ".drkit"))})
	}
	return all
}

// crashFiles is a release with some files of several reads.
func crashFiles(generation int) map[string]string {
	files := maps.Clone(small)
	for i := range 6 {
		files[fmt.Sprintf("model/base/model-%d.safetensors", i)] = strings.Repeat(fmt.Sprintf("%d-%d ", generation, i), 300_000+i*40_000)
	}
	return files
}

// countdown kills this process at its last step.
type countdown struct{ left atomic.Int64 }

func (c *countdown) step() {
	if c.left.Add(-1) == 0 {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}

// counted is a store whose operations, and whose reads of content while it is
// written, are the steps.
type counted struct {
	store.ReadWriter
	c *countdown
}

func (s counted) HoldsNoClaims() {}

func (s counted) Put(ctx context.Context, key string, b store.Body, c store.Cond) (store.Object, error) {
	s.c.step()
	open := b.Open
	b.Open = func(ctx context.Context, off, n int64) (io.ReadCloser, error) {
		r, err := open(ctx, off, n)
		if err != nil {
			return nil, err
		}
		return stepping{r, s.c}, nil
	}
	o, err := s.ReadWriter.Put(ctx, key, b, c)
	s.c.step()
	return o, err
}

type stepping struct {
	io.ReadCloser
	c *countdown
}

func (s stepping) Read(p []byte) (int, error) {
	s.c.step()
	return s.ReadCloser.Read(p)
}

// startCrash starts the helper; n <= 0 lets it run until it is killed from here.
func startCrash(t *testing.T, root string, n int) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envRoot+"="+root, fmt.Sprintf("%s=%d", envAt, n))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestKilledRuns kills runs at steps spread over the whole work and at random
// instants. After each kill every object is whole and CURRENT names a whole
// release; the next run in this process ends right and leaves nothing behind.
func TestKilledRuns(t *testing.T) {
	first := crashFiles(1)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 3))
	for round := range 2 {
		root := t.TempDir()
		regions := crashRegions(root)
		mustRun(t, newRelease(first), first, regions)
		killed := 0
		for i := range 6 {
			if i%2 == 0 {
				killed += wait(startCrash(t, root, 1+rng.IntN(15*(i+2))))
			} else {
				cmd := startCrash(t, root, 0)
				time.Sleep(time.Duration(rng.IntN(120)) * time.Millisecond) // the instant itself is what is tried
				cmd.Process.Kill()
				killed += wait(cmd)
			}
			whole := checkAfterKill(t, regions, first)
			if whole {
				break
			}
		}
		if killed == 0 {
			t.Errorf("round %d: no run was killed", round)
		}
		second := crashFiles(2)
		m := newRelease(second)
		for _, r := range mustRun(t, m, second, regions).Regions {
			if !r.Published || r.Generation != 2 {
				t.Errorf("round %d: %+v", round, r)
			}
		}
		for _, r := range regions {
			noLeftovers(t, filepath.Join(root, r.Name))
		}
	}
}

// wait returns 1 when the process was killed.
func wait(cmd *exec.Cmd) int {
	var exit *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
		return 1
	}
	return 0
}

// checkAfterKill reports whether the second release is published everywhere.
func checkAfterKill(t *testing.T, regions []replicate.Region, first map[string]string) (done bool) {
	t.Helper()
	done = true
	second := crashFiles(2)
	ids := map[string]map[string]string{newRelease(first).Release: first, newRelease(second).Release: second}
	for _, r := range regions {
		c, m, err := release.LoadCurrent(t.Context(), r.State, r.Store, r.Name, "support")
		if err != nil {
			t.Fatalf("%s: %v", r.Name, err)
		}
		v, err := verify.Release(t.Context(), m, verify.Copy{Region: r.Name, Store: r.Store, Prefix: release.Prefix("support", c.Release)}, verify.Options{Level: verify.ByContent})
		if err != nil || !v.Holds() {
			t.Fatalf("CURRENT of %s names a release that is not whole: %v, %v", r.Name, v.Err(), err)
		}
		done = done && c.Generation == 2
		for o, err := range r.Store.List(t.Context(), "support/") {
			if err != nil {
				t.Fatal(err)
			}
			id, below, _ := strings.Cut(strings.TrimPrefix(o.Key, "support/"), "/")
			data, err := store.ReadAll(t.Context(), r.Store, o, 64<<20)
			if want := ids[id][below]; err != nil || (below != release.ManifestName && string(data) != want) {
				t.Fatalf("%s: %s is not whole: %d bytes, want %d; %v", r.Name, o.Key, len(data), len(want), err)
			}
		}
	}
	return done
}

// noLeftovers looks for temporary files with the file system's own eyes.
func noLeftovers(t *testing.T, root string) {
	t.Helper()
	for _, folder := range []string{".drkit/tmp", ".drkit/.drkit/tmp"} {
		entries, err := os.ReadDir(filepath.Join(root, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != ".lock" {
				t.Errorf("%s/%s was left behind", folder, e.Name())
			}
		}
	}
}
