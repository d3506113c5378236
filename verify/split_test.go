package verify

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
)

func named(sizes ...int64) []subject {
	var all []subject
	for i, n := range sizes {
		all = append(all, subject{name: fmt.Sprintf("f%03d", i), size: n << 30})
	}
	return all
}

// TestSplitBalances: by hand, largest first to the least loaded: 8 and 5, 7 and 6.
func TestSplitBalances(t *testing.T) {
	subjects := named(5, 6, 7, 8)
	var got [2][]int64
	for i := range 2 {
		for _, s := range (Shard{i, 2}).split(subjects) {
			got[i] = append(got[i], s.size>>30)
		}
	}
	if !slices.Equal(got[0], []int64{8, 5}) || !slices.Equal(got[1], []int64{7, 6}) {
		t.Errorf("%v", got)
	}
	// 1,000 empty files cost requests: they are spread as well.
	for i := range 8 {
		if n := len((Shard{i, 8}).split(make([]subject, 1000))); n != 125 {
			t.Errorf("shard %d has %d of 1000", i, n)
		}
	}
}

// TestDetection: 1 - C(N-K,n)/C(N,n), some by hand and some by exact binomials.
func TestDetection(t *testing.T) {
	for _, c := range []struct {
		N, K, n int
		want    float64
	}{
		{100, 1, 50, 0.5},            // one object, half of all
		{10, 2, 3, 1 - 56.0/120},     // C(8,3)=56, C(10,3)=120
		{5, 1, 5, 1},                 // all
		{5, 3, 3, 1 - 0.0/10},        // three good ones cannot be drawn of two
		{4, 2, 2, 1 - 1.0/6},         // C(2,2)=1, C(4,2)=6
		{10, 0, 5, 0}, {10, 5, 0, 0}, // nothing rotten, nothing drawn
	} {
		if got := detection(c.N, c.K, c.n); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("detection(%d, %d, %d) = %v, want %v", c.N, c.K, c.n, got, c.want)
		}
	}
	for _, c := range [][3]int64{{5008, 51, 300}, {5008, 51, 290}, {200000, 2000, 299}, {37, 1, 20}, {1000, 10, 258}} {
		miss := new(big.Rat).SetFrac(new(big.Int).Binomial(c[0]-c[1], c[2]), new(big.Int).Binomial(c[0], c[2]))
		want, _ := new(big.Rat).Sub(big.NewRat(1, 1), miss).Float64()
		if got := detection(int(c[0]), int(c[1]), int(c[2])); math.Abs(got-want) > 1e-9 {
			t.Errorf("detection%v = %v, want %v", c, got, want)
		}
	}
}

func TestConfidence(t *testing.T) {
	uniform := Sampled{Objects: 5008, Draws: 300}
	// 1 % of 5,008 are 50.08, so 51 objects.
	if got, want := uniform.Confidence(0.01), detection(5008, 51, 300); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	// 0.07 · 100 is 7.000000000000001 in floating point, and still 7 objects.
	if got, want := (Sampled{Objects: 100, Draws: 10}).Confidence(0.07), detection(100, 7, 10); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	// 0.99^300 = exp(300·ln 0.99) = exp(-3.015101) = 0.049041
	bySize := Sampled{Sample: Sample{BySize: true}, Objects: 5008, Draws: 300}
	if got := bySize.Confidence(0.01); math.Abs(got-0.950959) > 1e-6 {
		t.Errorf("by size %v", got)
	}
}

// TestDraw: the same seed draws the same, each object has the same chance, and by
// size each byte.
func TestDraw(t *testing.T) {
	pool := named(make([]int64, 20)...)
	hits := map[string]int{}
	for seed := range uint64(2000) {
		chosen, done := Sample{Count: 5, Seed: seed}.draw(pool)
		again, _ := Sample{Count: 5, Seed: seed}.draw(slices.Clone(pool))
		if len(chosen) != 5 || done.Draws != 5 || done.Read != 5 || done.Objects != 20 || fmt.Sprint(chosen) != fmt.Sprint(again) {
			t.Fatalf("seed %d: %v, %v, %+v", seed, chosen, again, done)
		}
		for name := range chosen {
			hits[name]++
		}
	}
	for _, s := range pool { // 2,000 · 5/20 = 500, standard deviation sqrt(2000·¼·¾) = 19.4
		if n := hits[s.name]; n < 400 || n > 600 {
			t.Errorf("%s was drawn %d times of 2000, expected are 500", s.name, n)
		}
	}
	heavy := 0
	for seed := range uint64(1000) {
		chosen, _ := Sample{Count: 1, BySize: true, Seed: seed}.draw(named(1, 1, 0, 6)) // 6 of 8
		if chosen["f002"] {
			t.Fatal("an empty object was drawn by size")
		}
		if chosen["f003"] {
			heavy++
		}
	}
	if heavy < 690 || heavy > 810 { // 750, standard deviation 13.7
		t.Errorf("the object with 6 of 8 GiB was drawn %d times of 1000", heavy)
	}
	if chosen, done := (Sample{Count: 3, BySize: true}).draw(named(0, 0)); len(chosen) != 0 || done.Read != 0 {
		t.Errorf("without bytes: %v %+v", chosen, done)
	}
	// A manifest may say any sizes: together more than an int64 holds.
	for _, huge := range [][]subject{{{name: "a", size: math.MaxInt64}, {name: "b", size: math.MaxInt64}}, {{name: "a", size: math.MaxInt64}, {name: "b", size: math.MaxInt64}, {name: "c", size: 5}}} {
		for seed := range uint64(20) {
			if chosen, done := (Sample{Count: 2, BySize: true, Seed: seed}).draw(huge); len(chosen) == 0 || chosen["c"] || done.Read != len(chosen) {
				t.Errorf("of huge objects: %v %+v", chosen, done)
			}
		}
	}
	if _, done := (Sample{Percent: 5}).draw(pool); done.Draws != 1 {
		t.Errorf("5 %% of 20 are 1, drew %d", done.Draws)
	}
	if _, done := (Sample{Percent: 0.1}).draw(pool); done.Draws != 1 {
		t.Errorf("a percentage is rounded up: drew %d", done.Draws)
	}
}
