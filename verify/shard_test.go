package verify_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/internal/store/dir"
	"drkit/internal/store/mem"
	"drkit/verify"
)

func shardsOf(t *testing.T, n int, one func(verify.Shard) verify.Result) []verify.Result {
	t.Helper()
	var all []verify.Result
	for i := range n {
		all = append(all, one(verify.Shard{Index: i, Count: n}))
	}
	return all
}

// TestShardsAddUp: whatever the number of shards, their merged result says of every
// subject what one verification says of it.
func TestShardsAddUp(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 7))
		files := map[string]string{}
		for i := range 1 + rng.IntN(40) {
			files[fmt.Sprintf("model/base/f%d", i)] = strings.Repeat("x", rng.IntN(3000)) + fmt.Sprint(i)
		}
		m, s := newRelease(files), mem.New()
		c := publish(t, m, files, s)
		for name := range files {
			switch rng.IntN(5) {
			case 0:
				s.Damage(c.Prefix+name, []byte(strings.Repeat("y", len(files[name]))))
			case 1:
				put(t, s, c.Prefix+name+".extra", "x")
			case 2:
				s.Remove(t.Context(), c.Prefix+name, store.Cond{})
			}
		}
		opts := verify.Options{Level: verify.ByContent}
		want := mustRelease(t, m, c, opts)
		for _, n := range []int{1, 2, 3, 7, 64} {
			merged, err := verify.Merge(shardsOf(t, n, func(sh verify.Shard) verify.Result {
				o := opts
				o.Shard = sh
				return mustRelease(t, m, c, o)
			}))
			if err != nil || !maps.Equal(verdicts(merged), verdicts(want)) || len(merged.Gaps) != len(want.Gaps) || merged.Compared != want.Compared ||
				merged.BytesRead != want.BytesRead || merged.Status() != want.Status() || !merged.Shard.IsZero() {
				t.Fatalf("seed %d, %d shards: %v\n%v\nwant\n%v", seed, n, err, verdicts(merged), verdicts(want))
			}
		}
	}
}

// TestShardsOfPairs: also without a manifest, and when one side is a list.
func TestShardsOfPairs(t *testing.T) {
	a := fillDir(t, map[string]string{"a": "1", "b": "22", "c": "333", "gone": "4", "other": "5"})
	b := fillDir(t, map[string]string{"a": "1", "b": "22", "c": "333", "new": "4", "other": "x"})
	merged, err := verify.Merge(shardsOf(t, 3, func(sh verify.Shard) verify.Result {
		r, err := verify.Pair(t.Context(), verify.Copy{Store: a}, verify.Copy{Store: b}, verify.Options{Shard: sh})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}))
	want := map[string]verify.Verdict{"a": "match", "b": "match", "c": "match", "gone": "missing", "new": "extra", "other": "diverged"}
	if err != nil || !maps.Equal(verdicts(merged), want) {
		t.Errorf("%v %v", err, verdicts(merged))
	}
}

func TestMergeRefuses(t *testing.T) {
	m, s := newRelease(small), mem.New()
	c := publish(t, m, small, s)
	run := func(o verify.Options) verify.Result { return mustRelease(t, m, c, o) }
	three := func() []verify.Result {
		return shardsOf(t, 3, func(sh verify.Shard) verify.Result { return run(verify.Options{Level: verify.ByContent, Shard: sh}) })
	}
	if r, err := verify.Merge(three()); err != nil || !r.Holds() {
		t.Fatalf("%v", err)
	}
	other := newRelease(map[string]string{"model/base/x": "y"})
	for name, c2 := range map[string]struct {
		change func(all []verify.Result) []verify.Result
		says   string
	}{
		"nothing":           {func([]verify.Result) []verify.Result { return nil }, "nothing to merge"},
		"the first missing": {func(a []verify.Result) []verify.Result { return a[1:] }, "shard 0/3 is missing"},
		"one missing":       {func(a []verify.Result) []verify.Result { return append(a[:1], a[2]) }, "shard 1/3 is missing"},
		"the last missing":  {func(a []verify.Result) []verify.Result { return a[:2] }, "shard 2/3 is missing"},
		"one twice":         {func(a []verify.Result) []verify.Result { return append(a, a[1]) }, "shard 1/3 is there twice"},
		"one instead":       {func(a []verify.Result) []verify.Result { return []verify.Result{a[0], a[1], a[1]} }, "shard 1/3 is there twice"},
		"a whole one": {func(a []verify.Result) []verify.Result {
			return append(a, run(verify.Options{Level: verify.ByContent}))
		}, "a whole verification"},
		"of two shards": {func(a []verify.Result) []verify.Result {
			return append(a[:2], run(verify.Options{Level: verify.ByContent, Shard: verify.Shard{Index: 1, Count: 2}}))
		}, "number of shards"},
		"another level":      {func(a []verify.Result) []verify.Result { a[2].Level = verify.Checksum; return a }, "the level"},
		"another evidence":   {func(a []verify.Result) []verify.Result { a[2].Require = store.Content; return a }, "the required evidence"},
		"another region":     {func(a []verify.Result) []verify.Result { a[2].Region = "us"; return a }, "the place"},
		"another release":    {func(a []verify.Result) []verify.Result { a[2].Release = other.Release; return a }, "the release"},
		"other expectations": {func(a []verify.Result) []verify.Result { a[2].Expected = "x"; return a }, "what should be there"},
		"another sample":     {func(a []verify.Result) []verify.Result { a[2].Sample = &verify.Sampled{}; return a }, "the sample"},
		"one of yesterday":   {func(a []verify.Result) []verify.Result { a[1].Began = a[1].Began.Add(-24 * time.Hour); return a }, "shard 1/3 began 24h0m0s before"},
		"a verdict left out": {func(a []verify.Result) []verify.Result { a[0].Gaps = a[0].Gaps[1:]; return a }, "says something of"},
		"a verdict renamed": {func(a []verify.Result) []verify.Result {
			a[0].Gaps = slices.Clone(a[0].Gaps)
			a[0].Gaps[0].Subject += "x"
			return a
		}, "other objects"},
		"a verdict in two": {func(a []verify.Result) []verify.Result {
			a[0].Gaps = slices.Clone(a[0].Gaps)
			a[0].Gaps[0] = a[1].Gaps[0]
			return a
		}, "two shards"},
	} {
		_, err := verify.Merge(c2.change(three()))
		if err == nil || !strings.Contains(err.Error(), c2.says) || errext.StatusOf(err) != errext.Refused || errext.Hint(err) == "" {
			t.Errorf("%s: %v, want %q", name, err, c2.says)
		}
	}
}

// TestACopyThatChangesBetweenShards: each shard saw a whole copy, and yet they did
// not see the same one.
func TestACopyThatChangesBetweenShards(t *testing.T) {
	m, s := newRelease(small), dir.Plain(t.TempDir())
	c := publish(t, m, small, s)
	all := shardsOf(t, 2, func(sh verify.Shard) verify.Result {
		if sh.Index == 1 {
			os.Chtimes(s.Root()+"/"+c.Prefix+"engine/vllm.yaml", timeZero, timeZero)
		}
		return mustRelease(t, m, c, verify.Options{Shard: sh})
	})
	if !all[0].Holds() || !all[1].Holds() {
		t.Fatalf("%+v", all)
	}
	r, err := verify.Merge(all)
	if err != nil || r.Status() != errext.Failed || len(r.Errors) != 1 || !strings.Contains(r.Errors[0].Error(), "it changed while") {
		t.Errorf("%v %v %v", err, r.Status(), r.Errors)
	}
}

func TestParseShard(t *testing.T) {
	for text, want := range map[string]verify.Shard{"0/1": {Index: 0, Count: 1}, "7/8": {Index: 7, Count: 8}} {
		if got, err := verify.ParseShard(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "8/8", "-1/8", "0/0", "1/", "/", "a/b", "0/99999999999"} {
		if got, err := verify.ParseShard(text); errext.StatusOf(err) != errext.Usage || errext.Hint(err) == "" {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
}

// TestMoreShardsThanObjects: one without work is not red; a whole without is.
func TestMoreShardsThanObjects(t *testing.T) {
	m, s := newRelease(map[string]string{"model/base/x": "x"}), mem.New()
	c := publish(t, m, map[string]string{"model/base/x": "x"}, s)
	empty := 0
	for _, r := range shardsOf(t, 5, func(sh verify.Shard) verify.Result {
		return mustRelease(t, m, c, verify.Options{Level: verify.ByContent, Shard: sh})
	}) {
		if r.Subjects == 0 {
			empty++
		}
		if !r.Holds() {
			t.Errorf("%s: %v", r.Shard, r.Err())
		}
	}
	if empty != 3 {
		t.Errorf("%d shards of 5 are empty, want 3", empty)
	}
	none := verify.Copy{Store: mem.New()}
	if r, err := verify.Pair(t.Context(), none, verify.Copy{Store: mem.New().Fill(nil)}, verify.Options{}); err == nil && r.Holds() {
		t.Errorf("a comparison of nothing holds: %+v", r)
	}
}
