package verify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/mem"
	"drkit/manifest"
	"drkit/verify"
)

var timeZero = time.Unix(0, 0)

// counting counts what is opened, and stops everything after so many.
type counting struct {
	mu     sync.Mutex
	opened map[string]int
	after  int // 0: never
	stop   context.CancelCauseFunc
}

func (c *counting) fault(op, key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if op != "open" || strings.HasSuffix(key, "manifest.json") {
		return nil
	}
	if c.after > 0 && len(c.opened) >= c.after {
		c.stop(errors.New("killed"))
		return errors.New("killed")
	}
	c.opened[key]++
	return nil
}

// interrupt verifies until so many objects were read, and returns the state file.
func interrupt(t *testing.T, m *manifest.Manifest, c verify.Copy, s *mem.Store, after int) string {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	count := &counting{opened: map[string]int{}, after: after, stop: cancel}
	s.Fault = count.fault
	defer func() { s.Fault = nil }()
	var file bytes.Buffer
	st := verify.NewState(key(m))
	if err := st.Record(&file); err != nil {
		t.Fatal(err)
	}
	if _, err := verify.Release(ctx, m, c, verify.Options{Level: verify.ByContent, Workers: 1, State: st}); err == nil {
		t.Fatal("it was not interrupted")
	}
	return file.String()
}

func key(m *manifest.Manifest) verify.StateKey {
	return verify.StateKey{Service: m.Service, Release: m.Release, Region: "eu", Level: verify.ByContent, Require: store.Claimed}
}

// resume goes on from a state file and returns what was read.
func resume(t *testing.T, m *manifest.Manifest, c verify.Copy, s *mem.Store, file string, now time.Time) (verify.Result, map[string]int) {
	t.Helper()
	st := verify.NewState(key(m))
	if err := st.Load(strings.NewReader(file), now); err != nil {
		t.Fatal(err)
	}
	count := &counting{opened: map[string]int{}}
	s.Fault = count.fault
	defer func() { s.Fault = nil }()
	r := mustRelease(t, m, c, verify.Options{Level: verify.ByContent, State: st})
	return r, count.opened
}

func TestAnInterruptedVerificationGoesOn(t *testing.T) {
	m, s := newRelease(small), mem.New()
	c := publish(t, m, small, s)
	file := interrupt(t, m, c, s, 4)
	if n := strings.Count(file, "\n"); n != 1+4 {
		t.Fatalf("the state has %d lines, want a header and 4 proofs:\n%s", n, file)
	}
	r, opened := resume(t, m, c, s, file, time.Now())
	if !r.Holds() || len(opened) != len(small)-4 || r.Resumed.Objects != 4 || r.CountEvidence(store.Content) != len(small)+1 {
		t.Errorf("read %v, taken over %d of 4: %+v", opened, r.Resumed.Objects, r)
	}
	// What is cut off in the middle of a line was in flight.
	r, opened = resume(t, m, c, s, file[:len(file)-10], time.Now())
	if !r.Holds() || len(opened) != len(small)-3 {
		t.Errorf("read %v of a state that was cut off", opened)
	}
	// Half a day later everything is read again.
	_, opened = resume(t, m, c, s, file, time.Now().Add(13*time.Hour))
	if len(opened) != len(small) {
		t.Errorf("old proofs were taken over: read %v", opened)
	}
}

// TestAProofIsOfOneStateOfTheObject: what was written since is read again, though
// its size is the same.
func TestAProofIsOfOneStateOfTheObject(t *testing.T) {
	m, s := newRelease(small), mem.New()
	c := publish(t, m, small, s)
	all := len(small)
	file := interrupt(t, m, c, s, all-1)
	name := c.Prefix + "model/base/model.safetensors" // the largest: read first
	for what, change := range map[string]struct {
		change func(o *store.Object)
		reread bool
	}{
		"nothing":             {func(o *store.Object) {}, false},
		"its ETag":            {func(o *store.Object) { o.ETag = "other" }, true},
		"its ETag is unknown": {func(o *store.Object) { o.ETag = "" }, true},
		"its time":            {func(o *store.Object) { o.ModTime = o.ModTime.Add(time.Second) }, true},
		"a version appears":   {func(o *store.Object) { o.Version = "v2" }, true},
	} {
		before, err := s.Stat(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		s.Say(name, change.change)
		_, opened := resume(t, m, c, s, file, time.Now())
		if (opened[name] == 1) != change.reread {
			t.Errorf("%s changed: read %d times", what, opened[name])
		}
		s.Say(name, func(o *store.Object) { *o = before })
	}
	put(t, s, name, strings.Repeat("Weights ", 1000))
	r, _ := resume(t, m, c, s, file, time.Now())
	if verdicts(r)["model/base/model.safetensors"] != verify.Diverged || r.Holds() {
		t.Errorf("an overwritten object: %v", verdicts(r))
	}
}

// TestIdentity: whatever is not said is not the same.
func TestIdentity(t *testing.T) {
	at := time.Unix(1000, 0)
	whole := verify.Identity{Version: "v1", ETag: "e", Size: 3, ModTime: at}
	for name, c := range map[string]struct {
		a, b verify.Identity
		same bool
	}{
		"nothing said":               {verify.Identity{}, verify.Identity{}, false},
		"size alone":                 {verify.Identity{Size: 3}, verify.Identity{Size: 3}, false},
		"size and time":              {verify.Identity{Size: 3, ModTime: at}, verify.Identity{Size: 3, ModTime: at}, false},
		"ETag, size and time":        {verify.Identity{ETag: "e", Size: 3, ModTime: at}, verify.Identity{ETag: "e", Size: 3, ModTime: at}, true},
		"ETag without a time":        {verify.Identity{ETag: "e", Size: 3}, verify.Identity{ETag: "e", Size: 3}, false},
		"another size":               {whole, verify.Identity{Version: "v1", ETag: "e", Size: 4, ModTime: at}, false},
		"one version":                {whole, verify.Identity{Version: "v1", Size: 3}, true},
		"another version":            {whole, verify.Identity{Version: "v2", ETag: "e", Size: 3, ModTime: at}, false},
		"null is overwritten":        {verify.Identity{Version: "null", Size: 3, ModTime: at}, verify.Identity{Version: "null", Size: 3, ModTime: at}, false},
		"null, with its ETag":        {verify.Identity{Version: "null", ETag: "e", Size: 3, ModTime: at}, verify.Identity{Version: "null", ETag: "e", Size: 3, ModTime: at}, true},
		"inode and times":            {verify.Identity{File: "i", Size: 3, ModTime: at}, verify.Identity{File: "i", Size: 3, ModTime: at}, true},
		"another inode":              {verify.Identity{File: "i", Size: 3, ModTime: at}, verify.Identity{File: "j", Size: 3, ModTime: at}, false},
		"an inode on one side only":  {verify.Identity{File: "i", ETag: "e", Size: 3, ModTime: at}, verify.Identity{ETag: "e", Size: 3, ModTime: at}, false},
		"a version on one side only": {whole, verify.Identity{ETag: "e", Size: 3, ModTime: at}, false},
	} {
		if got := c.a.Same(c.b); got != c.same || c.b.Same(c.a) != c.same {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// filed is a directory as far as identities go.
type filed struct {
	*mem.Store
	text    string
	changed time.Time
}

func (f *filed) HoldsNoClaims()                            {}
func (f *filed) Identity(store.Object) (string, time.Time) { return f.text, f.changed }

// TestFilesOfADirectory: a file counts as unchanged by inode and change time, and
// only when its last change was well before it was read.
func TestFilesOfADirectory(t *testing.T) {
	for name, c := range map[string]struct {
		before time.Duration
		later  string
		reused int
	}{
		"written long before":         {time.Minute, "inode 1", len(small)},
		"written just before":         {time.Second, "inode 1", 0},
		"changed since":               {time.Minute, "inode 1 changed", 0},
		"the system says no identity": {time.Minute, "", 0},
	} {
		m, s := newRelease(small), &filed{Store: mem.New(), text: "inode 1", changed: time.Now().Add(-c.before)}
		copy := publish(t, m, small, s.Store)
		copy.Store = s
		var file bytes.Buffer
		st := verify.NewState(key(m))
		if err := st.Record(&file); err != nil {
			t.Fatal(err)
		}
		opts := verify.Options{Level: verify.ByContent, State: st}
		if r := mustRelease(t, m, copy, opts); !r.Holds() || r.Resumed.Objects != 0 {
			t.Fatalf("%+v", r)
		}
		s.text = c.later
		opts.State = verify.NewState(key(m))
		if err := opts.State.Load(&file, time.Now()); err != nil {
			t.Fatal(err)
		}
		if r := mustRelease(t, m, copy, opts); !r.Holds() || r.Resumed.Objects != c.reused {
			t.Errorf("%s: %d taken over, want %d", name, r.Resumed.Objects, c.reused)
		}
	}
}

// TestPairResumes: a proof of two places is of both objects.
func TestPairResumes(t *testing.T) {
	files := map[string]string{"a": "1", "b": "22", "c": "333"}
	a, b := mem.New().Fill(files), mem.New().Fill(files)
	var file bytes.Buffer
	st := verify.NewState(verify.StateKey{})
	if err := st.Record(&file); err != nil {
		t.Fatal(err)
	}
	pair := func(st *verify.State) verify.Result {
		t.Helper()
		r, err := verify.Pair(t.Context(), verify.Copy{Store: a}, verify.Copy{Store: b}, verify.Options{Level: verify.ByContent, State: st})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	pair(st)
	again := verify.NewState(verify.StateKey{})
	if err := again.Load(bytes.NewReader(file.Bytes()), time.Now()); err != nil {
		t.Fatal(err)
	}
	if r := pair(again); r.Resumed.Objects != 3 || r.BytesRead != 0 || !r.Holds() {
		t.Errorf("%+v", r)
	}
	put(t, a, "b", "xx") // the source's object is another one now
	if r := pair(again); r.Resumed.Objects != 2 || r.Holds() {
		t.Errorf("%+v", r)
	}
}

func TestStateOfAnotherVerification(t *testing.T) {
	m, s := newRelease(small), mem.New()
	c := publish(t, m, small, s)
	file := interrupt(t, m, c, s, 2)
	other := key(m)
	other.Level = verify.Checksum
	if err := verify.NewState(other).Load(strings.NewReader(file), time.Now()); !errors.Is(err, verify.ErrOtherState) {
		t.Errorf("%v", err)
	}
	lines := strings.SplitAfter(file, "\n")
	for name, text := range map[string]string{
		"empty": "", "something else": "{}\n", "no state": "hello\nworld\n", "a bare header": strings.TrimSpace(lines[0]),
		"a damaged line":   lines[0] + "{}\n" + lines[1],
		"an unknown field": lines[0] + strings.Replace(lines[1], `"subject"`, `"x":1,"subject"`, 1),
		"a weak proof":     lines[0] + strings.Replace(lines[1], `"content"`, `"size"`, 1),
	} {
		if err := verify.NewState(key(m)).Load(strings.NewReader(text), time.Now()); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// TestAFullDiskEndsNoVerification: it goes on without its state, and says so.
func TestAFullDiskEndsNoVerification(t *testing.T) {
	m, s := newRelease(small), mem.New()
	c := publish(t, m, small, s)
	st := verify.NewState(key(m))
	if err := st.Record(&full{room: 1}); err != nil {
		t.Fatal(err)
	}
	r := mustRelease(t, m, c, verify.Options{Level: verify.ByContent, State: st})
	if !r.Holds() || st.Err() == nil {
		t.Errorf("%v, %v", r.Status(), st.Err())
	}
}

type full struct{ room int }

func (f *full) Write(p []byte) (int, error) {
	if f.room--; f.room < 0 {
		return 0, errors.New("no space left on device")
	}
	return len(p), nil
}

// TestSampleReadsWhatItChose: all bytes are rotten beneath their checksums, and just
// the objects of the sample show it.
func TestSampleReadsWhatItChose(t *testing.T) {
	files := map[string]string{}
	for i := range 40 {
		files[fmt.Sprintf("model/base/f%02d", i)] = fmt.Sprint("content", i)
	}
	m, s := newRelease(files), claims("sha256")
	c := publish(t, m, files, s)
	for name, content := range files {
		s.Damage(c.Prefix+name, []byte(strings.ToUpper(content)))
	}
	if r := mustRelease(t, m, c, verify.Options{}); !r.Holds() {
		t.Fatalf("at level checksum the damage does not show: %+v", r)
	}
	find := func(o verify.Sample) (verify.Result, []string) {
		r := mustRelease(t, m, c, verify.Options{Sample: o, Level: verify.ByContent})
		var bad []string
		for _, g := range r.Gaps {
			if g.Verdict == verify.Diverged {
				bad = append(bad, g.Subject)
			}
		}
		return r, bad
	}
	r, bad := find(verify.Sample{Count: 7, Seed: 3})
	_, again := find(verify.Sample{Count: 7, Seed: 3})
	_, other := find(verify.Sample{Count: 7, Seed: 4})
	if len(bad) != 7 || !slices.Equal(bad, again) || slices.Equal(bad, other) || r.Status() != errext.Gate {
		t.Errorf("found %v, then %v, by another seed %v", bad, again, other)
	}
	if r.CountEvidence(store.Claimed) != 33 || r.Level != verify.Checksum || r.Sample.Read != 7 || r.Sample.Objects != 40 {
		t.Errorf("the others: %+v", r.Sample)
	}
	if _, all := find(verify.Sample{Percent: 100}); len(all) != 40 {
		t.Errorf("a sample of everything found %d of 40", len(all))
	}
	if _, err := verify.Release(t.Context(), m, c, verify.Options{Level: verify.Presence, Sample: verify.Sample{Count: 1}}); errext.StatusOf(err) != errext.Usage {
		t.Errorf("at level presence: %v", err)
	}
	if r := mustRelease(t, m, c, verify.Options{Sample: verify.Sample{Count: 1}, Require: store.Content}); r.Holds() || r.Count(verify.Present) != 39 {
		t.Errorf("a sample gave content for all: %v", verdicts(r))
	}
}

func TestSampleClaim(t *testing.T) {
	s := verify.Sampled{Sample: verify.Sample{Count: 300, Seed: 9}, Objects: 5008, Draws: 300, Read: 300}
	for _, want := range []string{"300 of 5008 objects", "seed 9", "1 % of the objects", "95.7 %", "other 4708"} {
		if !strings.Contains(s.Claim(), want) {
			t.Errorf("%q does not say %q", s.Claim(), want)
		}
	}
	for text, ok := range map[string]bool{"300": true, "5%": true, "0.5%": true, "100%": true, "0": false, "0%": false, "101%": false, "-1": false, "": false, "x": false, "NaN%": false, "5 %": false, "1e3": false} {
		if _, err := verify.ParseSample(text); (err == nil) != ok || (err != nil && errext.StatusOf(err) != errext.Usage) {
			t.Errorf("ParseSample(%q) = %v", text, err)
		}
	}
}

// TestAPlaceThatAnswersNothing: not every object is asked for, and none has a verdict.
func TestAPlaceThatAnswersNothing(t *testing.T) {
	files := map[string]string{}
	for i := range 100 {
		files[fmt.Sprintf("model/base/f%02d", i)] = "x"
	}
	m, s := newRelease(files), mem.New()
	c := publish(t, m, files, s)
	asked := 0
	s.Fault = func(op, key string) error {
		if op == "stat" {
			asked++
		}
		return errors.New("the token has expired")
	}
	r := mustRelease(t, m, c, verify.Options{Workers: 1})
	if asked != 16 || len(r.Gaps) != 0 || r.Unasked != 85 || r.Status() != errext.Failed {
		t.Errorf("asked for %d, %d gaps, %d left out, %v", asked, len(r.Gaps), r.Unasked, r.Status())
	}
	if text := fmt.Sprint(r.Errors); !strings.Contains(text, "85 further objects") || !strings.Contains(text, "token has expired") {
		t.Errorf("%s", text)
	}
}

// TestWithoutAVerdictNothingHolds: also where the error that explains it got lost.
func TestWithoutAVerdictNothingHolds(t *testing.T) {
	m, s := newRelease(small), mem.New()
	r := mustRelease(t, m, publish(t, m, small, s), verify.Options{Level: verify.ByContent})
	if !r.Holds() {
		t.Fatal(r.Err())
	}
	failed, unasked := r, r
	failed.Failed, unasked.Unasked = []string{"model/base/x"}, 1
	for name, r := range map[string]verify.Result{"failed": failed, "not asked for": unasked} {
		if r.Status() != errext.Failed {
			t.Errorf("%s: %v", name, r.Status())
		}
	}
}

// TestAPlaceThatCannotBeReached: one error, and no request for each object.
func TestAPlaceThatCannotBeReached(t *testing.T) {
	m, s := newRelease(small), mem.New()
	c := publish(t, m, small, s)
	asked := 0
	s.Fault = func(op, key string) error {
		if asked++; op == "list" {
			return fmt.Errorf("listing: %w", store.ErrUnreachable)
		}
		return nil
	}
	r := mustRelease(t, m, c, verify.Options{})
	if asked > 2 || len(r.Gaps) != 0 || len(r.Errors) != 1 || r.Unasked != len(small)+1 || r.Status() != errext.Failed {
		t.Errorf("%d requests: %+v", asked, r)
	}
}

// TestADeniedPrefixHidesNoOther: the whole and one part may not be listed.
func TestADeniedPrefixHidesNoOther(t *testing.T) {
	m, s := newRelease(small), mem.New()
	c := publish(t, m, small, s)
	put(t, s, c.Prefix+"deploy/extra.yaml", "x")
	put(t, s, c.Prefix+"engine/vllm.yaml", "model: y\n")
	s.Fault = func(op, key string) error {
		if op == "list" && (key == c.Prefix || key == c.Prefix+"model/") || op != "list" && strings.Contains(key, "/model/") {
			return errors.New("access denied")
		}
		return nil
	}
	r := mustRelease(t, m, c, verify.Options{Level: verify.ByContent})
	got := verdicts(r)
	want := map[string]verify.Verdict{"deploy/@eu/values.yaml": "match", "deploy/@us/values.yaml": "match", "deploy/extra.yaml": "extra", "engine/vllm.yaml": "diverged", "manifest.json": "match"}
	if !maps.Equal(got, want) || r.Status() != errext.Gate || len(r.Reasons()) != 2 {
		t.Errorf("%v, %v", got, r.Reasons())
	}
	named := 0
	for _, e := range r.Errors {
		if strings.HasPrefix(e.Subject, "model/") {
			named++
		}
	}
	if named != 4 {
		t.Errorf("errors name %d of 4 objects: %v", named, r.Errors)
	}
}

func FuzzState(f *testing.F) {
	f.Add("{}\n")
	f.Add(`{"schema":"drkit.verify.state/1.0","verification":{"level":"content","require":"claimed"}}` + "\n" +
		`{"subject":"a","got":{"etag":"e","size":1,"mod_time":"2026-01-01T00:00:00Z"},"want_size":1,"evidence":"content","at":"2026-01-01T00:00:00Z"}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		st := verify.NewState(verify.StateKey{Level: verify.ByContent, Require: store.Claimed})
		if err := st.Load(strings.NewReader(text), time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)); err == nil && st.Len() > strings.Count(text, "\n") {
			t.Errorf("%d proofs of %d lines", st.Len(), strings.Count(text, "\n"))
		}
	})
}
