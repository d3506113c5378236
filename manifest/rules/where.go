package rules

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// whereLost is the file to look at for a lost tensor: the shard that the index
// names, else where writers would have put it. They write the embedding, the
// layers by number, the last norm and the output layer, in this order.
func (r *repo) whereLost(name string) string {
	if ix := r.facts.Weights.Index; ix != nil && ix.Elsewhere[name] != "" {
		return r.path(ix.Elsewhere[name])
	}
	shards := slices.Compact(slices.Sorted(maps.Values(r.shardOf)))
	switch m := layerName.FindStringSubmatch(name); {
	case len(shards) == 0:
		return r.tree
	case m != nil:
		return r.path(r.shardOfLayer(name))
	case strings.Contains(name, "embed"):
		return r.path(shards[0])
	case strings.Contains(name, "lm_head"):
		return r.path(shards[len(shards)-1])
	}
	return r.path(r.lastLayerShard())
}

// shardOfLayer is the shard that holds the tensor whose name has the longest
// common beginning with the lost one's.
func (r *repo) shardOfLayer(name string) string {
	best, most := "", -1
	for _, other := range slices.Sorted(maps.Keys(r.shardOf)) {
		if n := common(name, other); n > most {
			best, most = r.shardOf[other], n
		}
	}
	return best
}

func (r *repo) lastLayerShard() string {
	best, highest := "", -1
	for _, name := range slices.Sorted(maps.Keys(r.shardOf)) {
		i := 0
		if m := layerName.FindStringSubmatch(name); m != nil {
			i, _ = strconv.Atoi(m[3])
		}
		if i > highest {
			best, highest = r.shardOf[name], i
		}
	}
	return best
}

// common is the length of the common beginning of two names.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
