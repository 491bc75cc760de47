package shuffle

import "sync"

const (
	maxUnit = 32 << 10 // bytes of a buffer if memory is plenty
	minUnit = 4 << 10  // bytes of the smallest buffer; every peer accepts it

	// connectionBytes are charged for each stream to another process: read and write buffers of the transport.
	connectionBytes = 128 << 10
	// grpcPrefix is what gRPC puts before a message. Units include it, so that a full frame fills whole HTTP/2 frames,
	// and whole buffers of the receiver's pool.
	grpcPrefix = 5
)

// memory is the account of a process's network memory. What is reserved is a promise: everything that allocates
// buffers stays within its reservation.
//
// Buffers shrink before anyone is refused: only half of the memory may be spent on making buffers larger than the
// smallest. So whatever the order of deployment, what fits into half of the memory with the smallest buffers fits.
// (To give those who come first all that they can use, and the others the rest, lets the order decide who is refused.)
type memory struct {
	limit int64
	mu    struct {
		sync.Mutex
		used  int64
		extra int64 // of used: what larger buffers cost more
	}
}

// reservation is what a writer or gate has of the memory.
type reservation struct{ bytes, extra int64 }

func (m *memory) reserve(what string, bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if free := m.limit - m.mu.used; bytes > free {
		return &MemoryError{What: what, Need: bytes, Free: free, Limit: m.limit}
	}
	m.mu.used += bytes
	return nil
}

func (m *memory) release(bytes int64) { m.giveBack(reservation{bytes: bytes}) }

func (m *memory) giveBack(r reservation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.used -= r.bytes
	m.mu.extra -= r.extra
}

func (m *memory) usage() (used, limit int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.used, m.limit
}

// fit reserves buffers for one writer or gate and chooses their size. Nobody takes more than a quarter of what is left
// for larger buffers.
func (m *memory) fit(what string, buffers int) (unit int, r reservation, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	free, least := m.limit-m.mu.used, int64(buffers)*minUnit
	if least > free {
		return 0, reservation{}, &MemoryError{What: what, Need: least, Free: free, Limit: m.limit}
	}
	unit = minUnit
	for _, larger := range []int{16 << 10, maxUnit} { // 8 KiB would arrive in buffers of 16 KiB
		extra := int64(buffers) * int64(larger-minUnit)
		if extra > (m.limit/2-m.mu.extra)/4 || least+extra > free {
			break
		}
		unit, r.extra = larger, extra
	}
	r.bytes = least + r.extra
	m.mu.used += r.bytes
	m.mu.extra += r.extra
	return unit, r, nil
}
