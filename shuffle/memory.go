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
type memory struct {
	limit int64
	mu    struct {
		sync.Mutex
		used int64
	}
}

func (m *memory) reserve(what string, bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if free := m.limit - m.mu.used; bytes > free {
		return &MemoryError{What: what, Need: bytes, Free: free, Limit: m.limit}
	}
	m.mu.used += bytes
	return nil
}

func (m *memory) release(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.used -= bytes
}

func (m *memory) usage() (used, limit int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.used, m.limit
}

// fit reserves buffers for one writer or gate and returns their size. Large buffers cost less per record, but nobody
// takes more than a quarter of what is free for them, so that those who come later find something: with thousands of
// channels the buffers are small before anyone is refused.
func (m *memory) fit(what string, buffers int) (unit int, bytes int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	free := m.limit - m.mu.used
	for unit = maxUnit; unit > minUnit; unit /= 2 {
		if unit != 8<<10 && int64(buffers)*int64(unit) <= free/4 { // 8 KiB arrive in buffers of 16 KiB
			break
		}
	}
	bytes = int64(buffers) * int64(unit)
	if bytes > free {
		return 0, 0, &MemoryError{What: what, Need: bytes, Free: free, Limit: m.limit}
	}
	m.mu.used += bytes
	return unit, bytes, nil
}
