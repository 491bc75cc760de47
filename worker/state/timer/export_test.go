package timer

// Spill moves all buckets to the overflow that can go there.
func (s *Service[K]) Spill() {
	for _, c := range []*clock{&s.event, &s.proc} {
		if c.index.area == nil {
			continue
		}
		for _, b := range c.index.buckets[1:] {
			if len(b.entries) > 0 {
				s.d.Fail(c.index.spill(b))
			}
		}
		if b := c.index.buckets[0]; !b.sorted && len(b.entries) > 0 {
			s.d.Fail(c.index.spill(b))
		}
	}
}

// Decode reads the entries of a blob.
func Decode(b []byte) bool { return new(bag).decode(b) }
