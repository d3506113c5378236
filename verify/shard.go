package verify

import (
	"cmp"
	"container/heap"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"

	"drkit/internal/errext"
)

// Shard is one of Count parts of a verification, numbered from 0, so that it can be
// a Kubernetes Indexed Job's JOB_COMPLETION_INDEX. The zero value is the whole.
type Shard struct {
	Index int `json:"index"`
	Count int `json:"count"`
}

// maxShards bounds Count.
const maxShards = 1 << 20

// ParseShard reads "0/8".
func ParseShard(text string) (Shard, error) {
	index, count, ok := strings.Cut(text, "/")
	i, err1 := strconv.Atoi(index)
	n, err2 := strconv.Atoi(count)
	s := Shard{i, n}
	if !ok || err1 != nil || err2 != nil || n < 1 || s.check() != nil {
		return Shard{}, errext.WithHint(errext.WithStatus(fmt.Errorf("%q is no shard", text), errext.Usage), "give INDEX/COUNT; the first of eight is 0/8, the last 7/8")
	}
	return s, nil
}

func (s Shard) check() error {
	if s.Count == 0 && s.Index == 0 || s.Count > 0 && s.Count <= maxShards && s.Index >= 0 && s.Index < s.Count {
		return nil
	}
	return errext.WithStatus(fmt.Errorf("there is no shard %d of %d", s.Index, s.Count), errext.Usage)
}

// IsZero reports whether it is the whole.
func (s Shard) IsZero() bool { return s.Count == 0 }

// String is the form that ParseShard reads.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// perObject is what an object costs besides its bytes, in bytes that could be read
// in the time of a request or two. It keeps small files spread.
const perObject = 1 << 20

// split returns the subjects of one shard. All shards of the same subjects have
// about the same to do: each subject, largest first, goes to the shard that has the
// least so far.
func (s Shard) split(subjects []subject) []subject {
	if s.IsZero() {
		return subjects
	}
	order := slices.SortedFunc(slices.Values(subjects), func(a, b subject) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.name, b.name))
	})
	loads := make(loads, s.Count)
	for i := range loads {
		loads[i].shard = i
	}
	var mine []subject
	for _, sub := range order {
		if loads[0].shard == s.Index {
			mine = append(mine, sub)
		}
		loads[0].bytes += sub.size + perObject
		heap.Fix(&loads, 0)
	}
	return mine
}

// extra reports whether a key that nobody expects is for this shard to report.
func (s Shard) extra(below string) bool {
	if s.IsZero() {
		return true
	}
	h := fnv.New64a()
	io.WriteString(h, below)
	return h.Sum64()%uint64(s.Count) == uint64(s.Index)
}

// loads is a heap of what each shard has to do, the least first.
type loads []struct {
	bytes int64
	shard int
}

func (l loads) Len() int { return len(l) }
func (l loads) Less(i, j int) bool {
	return l[i].bytes < l[j].bytes || l[i].bytes == l[j].bytes && l[i].shard < l[j].shard
}
func (l loads) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l loads) Push(any)      {}
func (l loads) Pop() any      { return nil }

// expected is a digest over the names of all subjects, and one over all that is
// expected of them: shards that expect other things cannot be merged, and the names
// that shards speak of must be all of them.
func expected(subjects []subject) string {
	h := sha256.New()
	names := make([]string, 0, len(subjects))
	for _, s := range slices.SortedFunc(slices.Values(subjects), func(a, b subject) int { return cmp.Compare(a.name, b.name) }) {
		fmt.Fprintf(h, "%q %d %s\n", s.name, s.size, s.mark)
		names = append(names, s.name)
	}
	return digestOf(names) + "-" + hex.EncodeToString(h.Sum(nil))
}

// digestOf is a digest over sorted names.
func digestOf(names []string) string {
	h := sha256.New()
	for _, n := range names {
		fmt.Fprintf(h, "%q\n", n)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// listings is a digest over everything that the places were seen to hold.
func listings(places ...*place) string {
	h := sha256.New()
	for _, p := range places {
		keys := make([]string, 0, len(p.objects))
		for k := range p.objects {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			o := p.objects[k]
			fmt.Fprintf(h, "%q %d %q %q %d\n", k, o.Size, o.Version, o.ETag, o.ModTime.UnixNano())
		}
		fmt.Fprintf(h, "partial %t\n", p.partial)
	}
	return hex.EncodeToString(h.Sum(nil))
}
