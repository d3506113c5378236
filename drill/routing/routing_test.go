package routing

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"drkit/manifest/region"
)

// The numbers are FNV-1a (64 bits, offset cbf29ce484222325, prime 100000001b3)
// over the previous block's 8 bytes, little endian, and the block's bytes,
// computed outside Go.
func TestBlocksByHand(t *testing.T) {
	if got := TextBlocks("m", "abcdefgh!", 4); !slices.Equal(got, []Block{0x2cc322ebc4555802, 0xcdbc75cc0486996c}) {
		t.Errorf("TextBlocks = %#x", got)
	}
	if got := TokenBlocks("m", []int{1, 2, 3, 4, 5}, 2); !slices.Equal(got, []Block{0x793d75fc5bdbb80a, 0x9eabd2877033c0d3}) {
		t.Errorf("TokenBlocks = %#x", got)
	}
}

func TestBlocks(t *testing.T) {
	ids := []int{1, 2, 3, 4, 5, 6, 7, 8}
	a := TokenBlocks("base", ids, 4)
	if len(a) != 2 {
		t.Fatalf("%d blocks, want 2", len(a))
	}
	if b := TokenBlocks("base", append(ids, 9, 10, 11), 4); !slices.Equal(a, b) {
		t.Error("a tail shorter than a block changed the blocks")
	}
	if b := TokenBlocks("billing", ids, 4); a[0] == b[0] {
		t.Error("two adapters share a block")
	}
	if b := TokenBlocks("base", []int{9, 2, 3, 4, 5, 6, 7, 8}, 4); a[1] == b[1] {
		t.Error("equal blocks after different beginnings are equal")
	}
	if got := TokenBlocks("base", ids[:3], 4); got != nil {
		t.Errorf("a short prompt has blocks %v", got)
	}
	if TokenBlocks("m", ids, 0) != nil || TextBlocks("m", "text", -1) != nil {
		t.Error("blocks of no size")
	}
}

func TestIndex(t *testing.T) {
	x := NewIndex(4)
	x.Record("a", []Block{1, 2, 3})
	for _, tt := range []struct {
		worker string
		blocks []Block
		want   int
	}{{"a", []Block{1, 2, 3, 4}, 3}, {"a", []Block{1, 9, 3}, 1}, {"a", []Block{2, 3}, 2}, {"a", nil, 0}, {"b", []Block{1}, 0}} {
		if got := x.Match(tt.worker, tt.blocks); got != tt.want {
			t.Errorf("Match(%s, %v) = %d, want %d", tt.worker, tt.blocks, got, tt.want)
		}
	}
	x.Record("a", []Block{1, 5, 6}) // five different blocks, four fit: 3 is the oldest end
	if got := x.Match("a", []Block{1, 2, 3}); got != 2 {
		t.Errorf("after eviction Match = %d, want 2: the end goes before the beginning", got)
	}
	if got := x.Match("a", []Block{1, 5, 6}); got != 3 {
		t.Errorf("Match of the newest = %d", got)
	}
	x.Record("a", []Block{10, 11, 12, 13, 14}) // more than fit
	if x.Len("a") != 4 || x.Match("a", []Block{10, 11, 12, 13, 14}) != 4 {
		t.Errorf("Len %d, Match %d, want 4 and 4", x.Len("a"), x.Match("a", []Block{10, 11, 12, 13, 14}))
	}
	x.Forget("a")
	if x.Match("a", []Block{10}) != 0 || x.Len("a") != 0 {
		t.Error("a forgotten worker is remembered")
	}
}

func TestIndexConcurrently(t *testing.T) {
	x := NewIndex(100)
	var wait sync.WaitGroup
	for w := range 4 {
		wait.Go(func() {
			for i := range 200 {
				x.Record(fmt.Sprint(w%2), []Block{Block(i), Block(i + 1)})
				x.Match("0", []Block{Block(i)})
				if i == 100 {
					x.Forget("1")
				}
			}
		})
	}
	wait.Wait()
	if n := x.Len("0"); n > 100 {
		t.Errorf("%d blocks, limit 100", n)
	}
}

func TestRegional(t *testing.T) {
	p := Regional{Home: "us", MatchShare: 0.5, BalanceAbs: 4, BalanceRel: 1.5}
	us := func(id string, load, matched int) Candidate {
		return Candidate{ID: id, Region: "us", Residency: "us", Available: true, Load: load, Matched: matched}
	}
	eu := func(id string, load, matched int) Candidate {
		return Candidate{ID: id, Region: "eu", Residency: "eu", Available: true, Load: load, Matched: matched}
	}
	down := func(c Candidate) Candidate { c.Available = false; return c }
	sent := func(c Candidate, n uint64) Candidate { c.Sent = n; return c }
	nowhere := Candidate{ID: "x", Region: "eu", Available: true, Matched: 10}
	only := func(r ...region.Residency) Request { return Request{Blocks: 10, Bound: true, Allowed: r} }
	free := Request{Blocks: 10}
	tests := []struct {
		name string
		r    Request
		c    []Candidate
		want Decision
		err  error
	}{
		{"longest prefix", free, []Candidate{us("a", 0, 5), us("b", 3, 8)}, Decision{"b", Hit}, nil},
		{"equal prefixes: less load", free, []Candidate{us("a", 2, 8), us("b", 1, 8)}, Decision{"b", Hit}, nil},
		{"half known is known", free, []Candidate{us("a", 0, 0), us("b", 1, 5)}, Decision{"b", Hit}, nil},
		{"less than half known", free, []Candidate{us("a", 0, 0), us("b", 1, 4)}, Decision{"a", Miss}, nil},
		{"nothing known: less load", free, []Candidate{us("a", 2, 0), us("b", 1, 0)}, Decision{"b", Miss}, nil},
		{"nothing known, idle: sent less", free, []Candidate{sent(us("a", 0, 0), 7), sent(us("b", 0, 0), 3)}, Decision{"b", Miss}, nil},
		{"all equal: by name", free, []Candidate{us("b", 0, 0), us("a", 0, 0)}, Decision{"a", Miss}, nil},
		{"four more are not too many", free, []Candidate{us("a", 0, 0), us("b", 4, 10)}, Decision{"b", Hit}, nil},
		{"five more are", free, []Candidate{us("a", 0, 0), us("b", 5, 10)}, Decision{"a", Miss}, nil},
		{"five more of many are not", free, []Candidate{us("a", 20, 0), us("b", 25, 10)}, Decision{"b", Hit}, nil},
		{"prompt not seen", Request{}, []Candidate{us("a", 1, 0), us("b", 0, 0)}, Decision{"b", Blind}, nil},
		{"home before a longer prefix abroad", free, []Candidate{us("a", 3, 0), eu("b", 0, 10)}, Decision{"a", Miss}, nil},
		{"home is down", free, []Candidate{down(us("a", 0, 10)), eu("b", 9, 0)}, Decision{"b", Miss}, nil},
		{"down is never chosen", free, []Candidate{down(us("a", 0, 10)), us("b", 2, 0)}, Decision{"b", Miss}, nil},
		{"nobody up", free, []Candidate{down(us("a", 0, 10))}, Decision{}, ErrNoWorker},
		{"nobody at all", free, nil, Decision{}, ErrNoWorker},
		{"border beats home and prefix", only("eu"), []Candidate{us("a", 0, 10), eu("b", 9, 0)}, Decision{"b", Miss}, nil},
		{"border: both allowed", only("eu", "us"), []Candidate{us("a", 0, 10), eu("b", 0, 10)}, Decision{"a", Hit}, nil},
		{"border: nobody inside", only("eu"), []Candidate{us("a", 0, 10)}, Decision{}, ErrBorder},
		{"border: inside but down", only("eu"), []Candidate{us("a", 0, 10), down(eu("b", 0, 0))}, Decision{}, ErrNoWorker},
		{"border: unknown residency is outside", only("eu"), []Candidate{nowhere}, Decision{}, ErrBorder},
		{"border: an unknown residency allows nothing", only(""), []Candidate{nowhere}, Decision{}, ErrBorder},
		{"border: empty list allows nothing", only(), []Candidate{us("a", 0, 10), eu("b", 0, 0)}, Decision{}, ErrBorder},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := p.Choose(tt.r, tt.c)
			if got != tt.want || err != tt.err {
				t.Errorf("Choose = %+v, %v, want %+v, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func BenchmarkTokenBlocks(b *testing.B) {
	ids := make([]int, 8192)
	for i := range ids {
		ids[i] = i * 7 % 32000
	}
	for b.Loop() {
		TokenBlocks("m", ids, 32)
	}
}

func BenchmarkIndex(b *testing.B) {
	x := NewIndex(1 << 16)
	prompts := make([][]Block, 512)
	for i := range prompts {
		prompts[i] = TokenBlocks(fmt.Sprint(i), make([]int, 8192), 32)
	}
	i := 0
	for b.Loop() {
		p := prompts[i%len(prompts)]
		x.Record("a", p)
		x.Match("a", p)
		i++
	}
}

func BenchmarkChoose(b *testing.B) {
	c := make([]Candidate, 64)
	for i := range c {
		c[i] = Candidate{ID: fmt.Sprint(i), Region: fmt.Sprint(i % 4), Residency: "eu", Available: true, Load: i % 7, Matched: i % 11}
	}
	p := Regional{Home: "1", MatchShare: 0.5, BalanceAbs: 64, BalanceRel: 1.5}
	r := Request{Blocks: 10, Bound: true, Allowed: []region.Residency{"eu"}}
	for b.Loop() {
		if _, err := p.Choose(r, c); err != nil {
			b.Fatal(err)
		}
	}
}
