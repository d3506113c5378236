package standin

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
)

const (
	blockSize = 32   // tokens of a block; only full blocks are kept, as with vLLM's --block-size 32
	maxBlocks = 1024 // blocks kept; the longest unused go first
)

type blockHash [sha256.Size]byte

// blockCache keeps the keys and values of 32-token blocks under a hash of all
// tokens up to the block's end and the adapter, so that a request with a known
// prefix need not compute it again.
type blockCache struct {
	mu     sync.Mutex
	blocks map[blockHash]*list.Element
	recent *list.List // of *block, the latest used first
}

type block struct {
	hash         blockHash
	keys, values [][]float32 // one a layer
}

func newBlockCache() *blockCache {
	return &blockCache{blocks: map[blockHash]*list.Element{}, recent: list.New()}
}

// hashes gives the hash of every full block of tokens.
func hashes(adapter string, tokens []int) []blockHash {
	var out []blockHash
	parent := sha256.Sum256([]byte(adapter))
	for len(tokens) >= blockSize {
		b := append([]byte(nil), parent[:]...)
		for _, t := range tokens[:blockSize] {
			b = binary.LittleEndian.AppendUint64(b, uint64(t))
		}
		parent = sha256.Sum256(b)
		out = append(out, parent)
		tokens = tokens[blockSize:]
	}
	return out
}

// restore fills a fresh session with the longest known prefix of prompt and
// gives its length in tokens. The last token is always left to compute, for
// its logits.
func (c *blockCache) restore(s *session, name string, prompt []int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*list.Element
	for _, h := range hashes(name, prompt[:len(prompt)-1]) {
		el := c.blocks[h]
		if el == nil {
			break
		}
		found = append(found, el)
		b := el.Value.(*block)
		for i := range s.keys {
			s.keys[i] = append(s.keys[i], b.keys[i]...)
			s.values[i] = append(s.values[i], b.values[i]...)
		}
		s.length += blockSize
	}
	// A prefix counts as used after its continuation, so that it goes later:
	// blocks without their prefix are of no use.
	for _, el := range slices.Backward(found) {
		c.recent.MoveToFront(el)
	}
	return s.length
}

// store keeps the full blocks of a finished session; tokens are those in its
// KV cache.
func (c *blockCache) store(s *session, name string, tokens []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	width := s.m.cfg.KVHeads * s.m.cfg.HeadDim * blockSize
	for n, h := range slices.Backward(hashes(name, tokens)) {
		if el := c.blocks[h]; el != nil {
			c.recent.MoveToFront(el)
			continue
		}
		b := &block{hash: h}
		for i := range s.keys {
			b.keys = append(b.keys, append([]float32(nil), s.keys[i][n*width:(n+1)*width]...))
			b.values = append(b.values, append([]float32(nil), s.values[i][n*width:(n+1)*width]...))
		}
		c.blocks[h] = c.recent.PushFront(b)
		if c.recent.Len() > maxBlocks {
			last := c.recent.Back()
			delete(c.blocks, c.recent.Remove(last).(*block).hash)
		}
	}
}
