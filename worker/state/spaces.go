package state

import "iter"

// Spaces is keyed state in namespaces: a Directory for each window or pane, which comes and goes as a whole. H is what
// the operator declares in each, its handles. What does not touch a key or a handle is in spaces: the compiler makes this
// type for each pair of shapes of K and H that a job has.
//
// One table keyed by (namespace, key) would do the same; it is two times slower, because a record of the current window
// looks for its key among those of all windows, and dropping a window would name its keys one by one.
type Spaces[K comparable, H any] struct {
	all     *spaces
	declare func(*Directory[K]) (H, error)
}

// Space is one namespace.
type Space[K comparable, H any] struct {
	ID int64
	// Dir finds the keys. Checkpoints belong to the Spaces, not to it.
	Dir     *Directory[K]
	Handles H
	core    space
}

// NewSpaces makes state without namespaces, for the key groups in [first, end). declare declares the states of each; they
// are the same every time.
func NewSpaces[K comparable, H any](o Options, first, end int, declare func(*Directory[K]) (H, error)) (*Spaces[K, H], error) {
	s := &Spaces[K, H]{declare: declare}
	s.all = newSpaces(o, first, end, s.build)
	if err := s.all.model(); err != nil {
		return nil, err
	}
	return s, nil
}

// build makes a namespace.
func (s *Spaces[K, H]) build(id int64) (*space, error) {
	sp := &Space[K, H]{ID: id, Dir: &Directory[K]{}}
	if err := sp.Dir.init(s.all.opts, s.all.epochs); err != nil {
		return nil, err
	}
	s.all.adopt(&sp.core, id, &sp.Dir.t)
	sp.core.self, sp.core.dir = sp, &sp.Dir.directory
	var err error
	sp.Handles, err = s.declare(sp.Dir)
	return &sp.core, err
}

// Open is the namespace with this id, a new one if there is none. It fails only if declare does.
func (s *Spaces[K, H]) Open(id int64) (*Space[K, H], error) {
	sp, err := s.all.get(id)
	if err != nil {
		return nil, err
	}
	return sp.self.(*Space[K, H]), nil
}

// Find is the namespace with this id; nil if it is not open.
func (s *Spaces[K, H]) Find(id int64) *Space[K, H] {
	if sp := s.all.find(id); sp != nil {
		return sp.self.(*Space[K, H])
	}
	return nil
}

// Len is the number of namespaces.
func (s *Spaces[K, H]) Len() int { return len(s.all.ids) }

// All yields the namespaces in ascending order of their ids. The loop may drop them.
func (s *Spaces[K, H]) All() iter.Seq[*Space[K, H]] {
	return func(yield func(*Space[K, H]) bool) {
		s.all.each(func(sp *space) bool { return yield(sp.self.(*Space[K, H])) })
	}
}

// Drop ends a namespace with all that is in it. It costs the same whatever that is.
func (s *Spaces[K, H]) Drop(sp *Space[K, H]) { s.all.drop(&sp.core) }

// Err is the first failure.
func (s *Spaces[K, H]) Err() error { return s.all.err }

// Table is what the driver of checkpoints sees: what it does is done for all namespaces.
func (s *Spaces[K, H]) Table() Table { return s.all }
