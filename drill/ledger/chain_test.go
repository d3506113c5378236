package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/internal/store/mem"
)

func opening(run string) Record {
	return Record{Kind: KindOpened, Run: run, At: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), By: "kim@laptop", Opened: &Opened{Service: "support", Mode: "rehearsal"}}
}

func appendTo3(t *testing.T, c *Chain, from int) []Entry {
	t.Helper()
	var all []Entry
	for i := range 3 {
		e, err := c.Append(t.Context(), opening(id(t, from+i)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// TestChain recomputes the links with a hash of the test's own from the bytes in the store.
func TestChain(t *testing.T) {
	s := mem.New()
	all := appendTo3(t, NewChain(s, "mem", nil), 1)
	previous := strings.Repeat("0", 64)
	for i, e := range all {
		raw := s.Content()[fmt.Sprintf("%010d.json", i+1)]
		var r struct {
			Seq                uint64
			Previous, Sum, Run string
		}
		if err := json.Unmarshal([]byte(raw), &r); err != nil {
			t.Fatal(err)
		}
		own := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Replace(raw, r.Sum, strings.Repeat("0", 64), 1))))
		if r.Seq != uint64(i+1) || r.Previous != previous || r.Sum != own {
			t.Errorf("record %d: %+v, want previous %s and sum %s", i+1, r, previous, own)
		}
		previous = fmt.Sprintf("%x", sha256.Sum256([]byte(raw)))
		if e.SHA256 != previous || e.Anchored {
			t.Errorf("%+v, want %s", e, previous)
		}
	}
}

// TestManyWriters: none is lost, whoever else writes.
func TestManyWriters(t *testing.T) {
	root := t.TempDir()
	var wait sync.WaitGroup
	for w := range 4 {
		wait.Go(func() {
			c := NewChain(dir.Plain(root), root, nil) // as another process would
			for i := range 5 {
				if _, err := c.Append(context.Background(), opening(id(t, 5*w+i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	scan, err := NewChain(dir.Plain(root), root, nil).Scan(t.Context())
	if err != nil || len(scan.Faults) != 0 || len(scan.Entries) != 20 || len(scan.Runs()) != 20 {
		t.Errorf("%v %+v, %d records, %d runs", err, scan.Faults, len(scan.Entries), len(scan.Runs()))
	}
}

// lossy is a store whose first answer to a write gets lost.
type lossy struct {
	*mem.Store
	lost bool
}

func (l *lossy) Put(ctx context.Context, key string, b store.Body, c store.Cond) (store.Object, error) {
	o, err := l.Store.Put(ctx, key, b, c)
	if !l.lost && err == nil {
		l.lost = true
		return l.Store.Put(ctx, key, b, c) // the client's own second try
	}
	return o, err
}

func TestStoresThatMisbehave(t *testing.T) {
	if _, err := NewChain(&lossy{Store: mem.New()}, "lossy", nil).Append(t.Context(), opening(id(t, 1))); err != nil {
		t.Errorf("an answer that got lost: %v", err)
	}
	_, err := NewChain(careless{mem.New()}, "careless", nil).Append(t.Context(), opening(id(t, 1)))
	if err == nil || errext.StatusOf(err) != errext.Evidence || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a store without conditions: %v", err)
	}
	for _, op := range []string{"list", "put", "stat", "open"} {
		s := mem.New()
		c := NewChain(s, "mem", nil)
		appendTo3(t, c, 1)
		s.Fault = func(o, _ string) error {
			if o == op {
				return syscall.ENOSPC
			}
			return nil
		}
		if _, err := c.Append(t.Context(), opening(id(t, 9))); !errors.Is(err, syscall.ENOSPC) || errext.StatusOf(err) != errext.Evidence || errext.Hint(err) == "" {
			t.Errorf("%s: %v", op, err)
		}
		s.Fault = nil
		if scan, err := c.Scan(t.Context()); err != nil || len(scan.Faults) != 0 || len(scan.Entries) != 3 && op == "put" {
			t.Errorf("after a failed %s: %v %+v", op, err, scan)
		}
	}
}

// TestDamagedTail: nothing is written behind a record that does not hold.
func TestDamagedTail(t *testing.T) {
	for name, damage := range map[string]func(*mem.Store){
		"changed": func(s *mem.Store) { s.Damage(Key(3), []byte(strings.Replace(s.Content()[Key(3)], "kim", "tim", 1))) },
		"moved":   func(s *mem.Store) { s.Damage(Key(3), []byte(s.Content()[Key(2)])) },
		"gone":    func(s *mem.Store) { _ = s.Remove(context.Background(), Key(2), store.Cond{}) },
		"huge":    func(s *mem.Store) { s.Damage(Key(3), make([]byte, maxRecord+1)) },
	} {
		s := mem.New()
		c := NewChain(s, "mem", nil)
		appendTo3(t, c, 1)
		damage(s)
		if _, err := c.Append(t.Context(), opening(id(t, 9))); errext.StatusOf(err) != errext.Evidence || errext.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRewritten: whoever rewrites a record with care makes the next one contradict it.
func TestRewritten(t *testing.T) {
	s := mem.New()
	c := NewChain(s, "mem", nil)
	appendTo3(t, c, 1)
	r, err := decodeRecord([]byte(s.Content()[Key(2)]))
	if err != nil {
		t.Fatal(err)
	}
	r.By = "somebody else"
	raw, err := r.encode()
	if err != nil {
		t.Fatal(err)
	}
	s.Damage(Key(2), raw)
	scan, err := c.Scan(t.Context())
	if err != nil || len(scan.Faults) != 1 || scan.Faults[0].Record != 3 || !strings.Contains(scan.Faults[0].What, "does not follow record 2") {
		t.Errorf("%v %+v", err, scan.Faults)
	}
}

// TestRecordZero: nothing comes before the first record.
func TestRecordZero(t *testing.T) {
	s := mem.New()
	raw, err := Record{Schema: RecordSchema, Previous: NoRecord, Kind: KindOpened, Run: id(t, 1), Opened: &Opened{}}.encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), Key(0), store.BytesBody(raw), store.Cond{}); err != nil {
		t.Fatal(err)
	}
	if scan, err := NewChain(s, "mem", nil).Scan(t.Context()); err != nil || len(scan.Faults) != 1 || !strings.Contains(scan.Faults[0].What, "count from 1") {
		t.Errorf("%v %+v", err, scan)
	}
}

// TestAHighNumber: one file that names the last record there can be is one fault, and
// found at once.
func TestAHighNumber(t *testing.T) {
	s := mem.New()
	if _, err := s.Put(t.Context(), Key(9999999999), store.BytesBody(nil), store.Cond{}); err != nil {
		t.Fatal(err)
	}
	scan, err := NewChain(s, "mem", nil).Scan(t.Context())
	if err != nil || len(scan.Faults) != 2 || !strings.Contains(scan.Faults[0].What, "all up to record 9999999998 are missing") {
		t.Errorf("%v %+v", err, scan)
	}
}

// vault is a store with an object lock: removals only hide what is held.
type vault struct {
	*mem.Store
	off  bool
	held map[string]string
}

func (v *vault) PutRetained(ctx context.Context, key string, b store.Body, c store.Cond, until time.Time) (store.Object, error) {
	if v.off {
		return store.Object{}, store.ErrNoRetention
	}
	if time.Until(until) < 300*24*time.Hour {
		return store.Object{}, errors.New("held for less than a year's audit")
	}
	o, err := v.Store.Put(ctx, key, b, c)
	if err == nil {
		v.held[key] = v.Content()[key]
	}
	return o, err
}

func (v *vault) Retained(context.Context, string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		if v.off {
			yield(store.Object{}, store.ErrNoRetention)
			return
		}
		for key := range v.held {
			if !yield(store.Object{Key: key, Version: "held"}, nil) {
				return
			}
		}
	}
}

func (v *vault) Open(ctx context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	if o.Version == "held" {
		return io.NopCloser(strings.NewReader(v.held[o.Key])), nil
	}
	return v.Store.Open(ctx, o, off, n)
}

func TestObjectLock(t *testing.T) {
	newVault := func() (*vault, *Chain) {
		v := &vault{Store: mem.New(), held: map[string]string{}}
		c := NewChain(v, "vault", nil)
		for _, e := range appendTo3(t, c, 1) {
			if !e.Anchored || e.Until.IsZero() {
				t.Fatalf("not anchored: %+v", e)
			}
		}
		return v, c
	}
	v, c := newVault()
	if scan, err := c.Scan(t.Context()); err != nil || len(scan.Faults) != 0 || !scan.Head().Anchored {
		t.Errorf("%v %+v", err, scan)
	}
	if err := v.Remove(t.Context(), Key(3), store.Cond{}); err != nil {
		t.Fatal(err)
	}
	if scan, err := c.Scan(t.Context()); err != nil || len(scan.Faults) != 1 || scan.Faults[0].Record != 3 || !strings.Contains(scan.Faults[0].What, "it was deleted") {
		t.Errorf("a cut end: %v %+v", err, scan.Faults)
	}
	v, c = newVault()
	raw, err := Record{Schema: RecordSchema, Seq: 3, Kind: KindOpened, Run: id(t, 9), Opened: &Opened{}, Previous: hexSum([]byte(v.Content()[Key(2)]))}.encode()
	if err != nil {
		t.Fatal(err)
	}
	v.Damage(Key(3), raw)
	if scan, err := c.Scan(t.Context()); err != nil || len(scan.Faults) != 1 || !strings.Contains(scan.Faults[0].What, "overwritten") {
		t.Errorf("a new end: %v %+v", err, scan.Faults)
	}
	off := &vault{Store: mem.New(), off: true}
	c = NewChain(off, "off", nil)
	for _, e := range appendTo3(t, c, 1) {
		if e.Anchored {
			t.Errorf("a bucket without object lock anchors: %+v", e)
		}
	}
	if scan, err := c.Scan(t.Context()); err != nil || len(scan.Faults) != 0 || scan.Head().Anchored {
		t.Errorf("%v %+v", err, scan)
	}
}

// TestKilledWhileAppending: a kill leaves a whole record or none.
func TestKilledWhileAppending(t *testing.T) {
	if root := os.Getenv("DRKIT_TEST_LEDGER"); root != "" {
		c := NewChain(dir.Plain(root), root, nil)
		for i := 0; ; i++ {
			if _, err := c.Append(context.Background(), opening(NewID(time.Unix(int64(i), 0)))); err != nil {
				panic(err)
			}
		}
	}
	root := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWhileAppending$")
	cmd.Env = append(os.Environ(), "DRKIT_TEST_LEDGER="+root)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := NewChain(dir.Plain(root), root, nil)
	for deadline := time.Now().Add(time.Minute); ; {
		if found, _ := filepath.Glob(filepath.Join(root, "*.json")); len(found) >= 5 || time.Now().After(deadline) {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	before, err := c.Scan(t.Context())
	if err != nil || len(before.Faults) != 0 || len(before.Entries) < 5 {
		t.Fatalf("%v %+v", err, before)
	}
	if e, err := c.Append(t.Context(), opening(id(t, 1))); err != nil || e.Seq != uint64(len(before.Entries)+1) {
		t.Errorf("%v %+v", err, e)
	}
}

func FuzzRecord(f *testing.F) {
	raw, err := Record{Schema: RecordSchema, Seq: 1, Previous: NoRecord, Kind: KindOpened, Run: NewID(time.Unix(1, 0)), Opened: &Opened{}}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"schema":"drkit.ledger/1.0"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeRecord(data)
		if err != nil {
			return
		}
		if again, err := r.encode(); err != nil || string(again) != string(data) {
			t.Errorf("read %q and would write %q, %v", data, again, err)
		}
	})
}
