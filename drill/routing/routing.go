// Package routing decides which engine gets a request: prefix blocks, an index
// of which worker was sent which prefix, and a policy that keeps a prefix on its
// worker, a request in its region, and data inside its borders.
//
//	blocks := routing.TextBlocks("support-chat", prompt, 64)
//	for i := range candidates {
//		candidates[i].Matched = index.Match(candidates[i].ID, blocks)
//	}
//	d, err := routing.Regional{Home: "us-east-1"}.Choose(routing.Request{Blocks: len(blocks)}, candidates)
//	…
//	index.Record(d.ID, blocks) // once the worker has answered
//
// Choose is a pure function of what it is given; the index is the only state,
// and it is history: what a worker was sent, not what its cache still holds.
package routing

import (
	"encoding/binary"
	"hash/fnv"
)

// Block names a prefix that ends at a block's end: it is the hash of the block
// and of all before it, so that equal blocks after different beginnings differ.
// It is FNV-1a, 64 bits: two prefixes that collide cost one misplaced request.
type Block uint64

// TokenBlocks cuts a prompt of token ids into blocks of size tokens. Only whole
// blocks count, as in an engine's cache. The scope (model or adapter name) is
// part of every hash: engines share no cache across adapters.
func TokenBlocks(scope string, ids []int, size int) []Block {
	if size <= 0 {
		return nil
	}
	buf := make([]byte, 0, 8*size)
	var out []Block
	for prev := root(scope, "tokens"); len(ids) >= size; ids = ids[size:] {
		buf = buf[:0]
		for _, id := range ids[:size] {
			buf = binary.LittleEndian.AppendUint64(buf, uint64(id))
		}
		prev = chain(prev, buf)
		out = append(out, prev)
	}
	return out
}

// TextBlocks cuts a prompt of text into blocks of size bytes. They match no
// blocks of token ids.
func TextBlocks(scope, text string, size int) []Block {
	if size <= 0 {
		return nil
	}
	var out []Block
	for prev := root(scope, "text"); len(text) >= size; text = text[size:] {
		prev = chain(prev, []byte(text[:size]))
		out = append(out, prev)
	}
	return out
}

func root(scope, kind string) Block {
	return chain(0, []byte(kind+"\x00"+scope))
}

func chain(prev Block, data []byte) Block {
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(prev))
	_, _ = h.Write(b[:])
	_, _ = h.Write(data)
	return Block(h.Sum64())
}
