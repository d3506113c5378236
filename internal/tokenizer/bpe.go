package tokenizer

import "container/heap"

// bpe is the model: a vocabulary and merges over the characters that stand for
// bytes.
type bpe struct {
	vocab        map[string]int
	merges       map[[2]int]merge
	ignoreMerges bool     // a word that is in the vocabulary is one token at once
	byteID       [256]int // token of each single byte, -1: not in the vocabulary
}

type merge struct{ rank, id int }

// encode appends the ids of one word.
func (m *bpe) encode(ids []int, word string) []int {
	if m.ignoreMerges {
		if id, ok := m.vocab[mapBytes(word)]; ok {
			return append(ids, id)
		}
	}
	// A byte that the vocabulary lacks is dropped, as in the reference.
	symbols := make([]symbol, 0, len(word))
	for i := range len(word) {
		if id := m.byteID[word[i]]; id >= 0 {
			symbols = append(symbols, symbol{id: id, prev: len(symbols) - 1, next: len(symbols) + 1})
		}
	}
	m.mergeAll(symbols)
	for i := 0; i < len(symbols); i = symbols[i].next {
		ids = append(ids, symbols[i].id)
	}
	return ids
}

// symbol is a link of the list of tokens that a word has been merged to.
type symbol struct {
	id, prev, next int
	gone           bool
}

// candidate is a pair that may be merged: the symbols at left and to its right.
type candidate struct {
	merge
	left      int
	leftID    int // what the pair was when it was queued: a stale candidate differs
	rightID   int
	rightSlot int
}

// mergeAll merges the pair of lowest rank, the leftmost of equals, until none
// is left. The queue keeps a long word from costing its length squared.
func (m *bpe) mergeAll(s []symbol) {
	q := &queue{}
	for i := 0; i+1 < len(s); i++ {
		m.push(q, s, i)
	}
	for q.Len() > 0 {
		c := heap.Pop(q).(candidate)
		l, r := &s[c.left], c.rightSlot
		if l.gone || l.id != c.leftID || l.next != r || s[r].id != c.rightID {
			continue
		}
		l.id, l.next = c.id, s[r].next
		s[r].gone = true
		if l.next < len(s) {
			s[l.next].prev = c.left
			m.push(q, s, c.left)
		}
		if l.prev >= 0 {
			m.push(q, s, l.prev)
		}
	}
}

func (m *bpe) push(q *queue, s []symbol, left int) {
	right := s[left].next
	if mg, ok := m.merges[[2]int{s[left].id, s[right].id}]; ok {
		heap.Push(q, candidate{merge: mg, left: left, leftID: s[left].id, rightID: s[right].id, rightSlot: right})
	}
}

type queue []candidate

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].rank != q[j].rank {
		return q[i].rank < q[j].rank
	}
	return q[i].left < q[j].left
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
