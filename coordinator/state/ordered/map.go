package ordered

import (
	"cmp"
	"iter"
)

// Map is an immutable ordered map: Put and Del return a new map that shares all but the path to the changed entry
// with the old one. That is what makes a view of the facts one pointer. A Go map would have to be copied whole for every command
// while anybody looks at an older view, and its order differs from node to node.
//
// It is an AVL tree; entries are visited in the order of their keys.
type Map[K cmp.Ordered, V any] struct {
	root *branch[K, V]
	n    int
}

type branch[K cmp.Ordered, V any] struct {
	left, right *branch[K, V]
	key         K
	val         V
	height      int8
}

// Same reports whether no entry was put or deleted between two maps of which one was made from the other. If not, it may
// still be that they are equal.
func (m Map[K, V]) Same(o Map[K, V]) bool { return m.root == o.root }

// Len is the number of entries.
func (m Map[K, V]) Len() int { return m.n }

// Get finds the value of a key.
func (m Map[K, V]) Get(k K) (V, bool) {
	for b := m.root; b != nil; {
		switch c := cmp.Compare(k, b.key); {
		case c < 0:
			b = b.left
		case c > 0:
			b = b.right
		default:
			return b.val, true
		}
	}
	var zero V
	return zero, false
}

// Put is m with an entry that is new or has replaced the one of its key.
func (m Map[K, V]) Put(k K, v V) Map[K, V] {
	root, added := m.root.put(k, v)
	if added {
		m.n++
	}
	m.root = root
	return m
}

// Del is m without the entry of a key.
func (m Map[K, V]) Del(k K) Map[K, V] {
	root, removed := m.root.del(k)
	if removed {
		m.n--
		m.root = root
	}
	return m
}

// All visits every entry in the order of keys.
func (m Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { m.root.walk(yield) }
}

// After visits the entries with a key above k.
func (m Map[K, V]) After(k K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { m.root.walkAfter(k, yield) }
}

// First is the entry with the lowest key.
func (m Map[K, V]) First() (k K, v V, ok bool) {
	b := m.root
	if b == nil {
		return k, v, false
	}
	for b.left != nil {
		b = b.left
	}
	return b.key, b.val, true
}

func (b *branch[K, V]) walk(yield func(K, V) bool) bool {
	return b == nil || b.left.walk(yield) && yield(b.key, b.val) && b.right.walk(yield)
}

func (b *branch[K, V]) walkAfter(k K, yield func(K, V) bool) bool {
	if b == nil {
		return true
	}
	if b.key <= k {
		return b.right.walkAfter(k, yield)
	}
	return b.left.walkAfter(k, yield) && yield(b.key, b.val) && b.right.walk(yield)
}

func (b *branch[K, V]) depth() int8 {
	if b == nil {
		return 0
	}
	return b.height
}

func (b *branch[K, V]) put(k K, v V) (root *branch[K, V], added bool) {
	if b == nil {
		return &branch[K, V]{key: k, val: v, height: 1}, true
	}
	c := *b
	switch o := cmp.Compare(k, b.key); {
	case o < 0:
		c.left, added = b.left.put(k, v)
	case o > 0:
		c.right, added = b.right.put(k, v)
	default:
		c.val = v
		return &c, false
	}
	return c.balance(), added
}

func (b *branch[K, V]) del(k K) (root *branch[K, V], removed bool) {
	if b == nil {
		return nil, false
	}
	c := *b
	switch o := cmp.Compare(k, b.key); {
	case o < 0:
		c.left, removed = b.left.del(k)
	case o > 0:
		c.right, removed = b.right.del(k)
	case b.left == nil:
		return b.right, true
	case b.right == nil:
		return b.left, true
	default:
		next := b.right
		for next.left != nil {
			next = next.left
		}
		c.key, c.val = next.key, next.val
		c.right, removed = b.right.del(next.key)
	}
	if !removed {
		return b, false
	}
	return c.balance(), true
}

// balance restores the heights of b, which is a fresh copy: subtrees differ by two at most.
func (b *branch[K, V]) balance() *branch[K, V] {
	switch l, r := b.left.depth(), b.right.depth(); {
	case l > r+1:
		if b.left.left.depth() < b.left.right.depth() {
			b.left = b.left.rotateLeft()
		}
		return b.rotateRight()
	case r > l+1:
		if b.right.right.depth() < b.right.left.depth() {
			b.right = b.right.rotateRight()
		}
		return b.rotateLeft()
	}
	b.measure()
	return b
}

func (b *branch[K, V]) measure() { b.height = 1 + max(b.left.depth(), b.right.depth()) }

func (b *branch[K, V]) rotateRight() *branch[K, V] {
	top, low := *b.left, *b
	low.left = top.right
	low.measure()
	top.right = &low
	top.measure()
	return &top
}

func (b *branch[K, V]) rotateLeft() *branch[K, V] {
	top, low := *b.right, *b
	low.right = top.left
	low.measure()
	top.left = &low
	top.measure()
	return &top
}
