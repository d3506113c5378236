package verify

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"

	"drkit/internal/errext"
)

// Sample asks that some objects, chosen by chance, are read in full while the
// others are judged by the checksums that are held of them. The zero value asks
// for none.
type Sample struct {
	Count   int     `json:"count,omitempty"`   // so many objects
	Percent float64 `json:"percent,omitempty"` // or so many of a hundred
	// BySize draws with chances that are proportional to size, so that a byte, not
	// an object, is as likely to be read as any other.
	BySize bool   `json:"by_size,omitempty"`
	Seed   uint64 `json:"seed"` // the same seed chooses the same of the same objects
}

// ParseSample reads "300" or "5%".
func ParseSample(text string) (Sample, error) {
	var s Sample
	var err error
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		s.Percent, err = strconv.ParseFloat(percent, 64)
	} else {
		s.Count, err = strconv.Atoi(text)
	}
	if err != nil || s.Count < 0 || !(s.Percent >= 0 && s.Percent <= 100) || s.IsZero() {
		return Sample{}, errext.WithHint(errext.WithStatus(fmt.Errorf("%q is no sample", text), errext.Usage), "give a number of objects, such as 300, or a percentage, such as 5%")
	}
	return s, nil
}

// IsZero reports whether no sample is asked for.
func (s Sample) IsZero() bool { return s.Count == 0 && s.Percent == 0 }

// of is how many draws are made from n objects.
func (s Sample) of(n int) int {
	if s.Count > 0 {
		return min(s.Count, n)
	}
	return int(math.Ceil(float64(n) * s.Percent / 100))
}

// Sampled says how a sample was drawn and how much it can show.
type Sampled struct {
	Sample
	Objects int `json:"objects"` // those that the sample was drawn from
	Draws   int `json:"draws"`
	Read    int `json:"read"` // different objects drawn: a draw by size may hit one twice
}

// Confidence is the probability that the sample holds a rotten object if the given
// share of the objects (of the bytes, when drawn by size) were rotten.
//
// Uniform draws are without replacement: the complement of a hypergeometric
// probability, 1 - C(N-K, n)/C(N, n) with K rotten of N, K = share·N rounded up.
// Draws by size are with replacement, each independent: 1 - (1-share)^n.
func (s Sampled) Confidence(share float64) float64 {
	if s.BySize {
		return 1 - math.Pow(1-share, float64(s.Draws))
	}
	// The tiny subtraction keeps 0.07·100 = 7.000000000000001 at 7.
	return detection(s.Objects, int(math.Ceil(share*float64(s.Objects)-1e-9)), s.Draws)
}

// detection is the probability that n of N objects, drawn without replacement,
// hold at least one of K.
func detection(N, K, n int) float64 {
	if K <= 0 || n <= 0 {
		return 0
	}
	if n > N-K {
		return 1
	}
	miss := 0.0 // logarithm of the product of (N-K-i)/(N-i)
	for i := range n {
		miss += math.Log1p(-float64(K) / float64(N-i))
	}
	return -math.Expm1(miss)
}

// Claim says in a sentence what the sample shows, and what it does not.
func (s Sampled) Claim() string {
	of := "the objects"
	if s.BySize {
		of = "the bytes"
	}
	if s.Read == s.Objects {
		return fmt.Sprintf("the sample took in all of the %d objects", s.Objects)
	}
	return fmt.Sprintf("a sample: %d of %d objects were read in full (seed %d); if 1 %% of %s were rotten, such a sample finds one with %.1f %%; of the other %d objects it says nothing",
		s.Read, s.Objects, s.Seed, of, math.Floor(1000*s.Confidence(0.01)+1e-6)/10, s.Objects-s.Read)
}

// draw chooses the subjects to read.
func (s Sample) draw(subjects []subject) (map[string]bool, Sampled) {
	pool := slices.SortedFunc(slices.Values(subjects), func(a, b subject) int { return cmp.Compare(a.name, b.name) })
	pool = slices.DeleteFunc(pool, func(s subject) bool { return s.whole })
	done := Sampled{Sample: s, Objects: len(pool), Draws: s.of(len(pool))}
	rng := rand.New(rand.NewPCG(s.Seed, 0))
	chosen := map[string]bool{}
	if s.BySize {
		for _, i := range bySize(rng, pool, done.Draws) {
			chosen[pool[i].name] = true
		}
	} else {
		for _, i := range rng.Perm(len(pool))[:done.Draws] {
			chosen[pool[i].name] = true
		}
	}
	done.Read = len(chosen)
	return chosen, done
}

// bySize draws n indices with replacement, with chances proportional to size.
func bySize(rng *rand.Rand, pool []subject, n int) []int {
	ends := make([]float64, len(pool)) // the sizes that a manifest says may add up to more than an int64 holds
	total := 0.0
	for i, s := range pool {
		total += float64(s.size)
		ends[i] = total
	}
	if total == 0 {
		return nil
	}
	var all []int
	for range n {
		at := rng.Float64() * total
		all = append(all, sort.Search(len(ends), func(i int) bool { return ends[i] > at }))
	}
	return all
}
