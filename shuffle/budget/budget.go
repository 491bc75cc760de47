package budget

import (
	"fmt"
	"sync"
)

// Code of Error.
const Code = "E085"

// Sizes of buffers in bytes.
const (
	MinUnit = 4 << 10  // every peer accepts it
	MaxUnit = 32 << 10 // if memory is plenty
)

// Error says that the network memory of the process cannot hold the buffers that something needs.
type Error struct {
	What              string // who needs the memory
	Need, Free, Limit int64  // bytes
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s needs %d bytes of network memory, %d of %d are free (raise network.memory or lower the parallelism)",
		Code, e.What, e.Need, e.Free, e.Limit)
}

// Account is how much of the network memory is promised to whom.
//
// Buffers shrink before anyone is refused: only half of the memory may be spent on making buffers larger than the
// smallest. So whatever the order of deployment, what fits into half of the memory with the smallest buffers fits.
// (To give those who come first all that they can use, and the others the rest, lets the order decide who is refused.)
type Account struct {
	limit int64 // bytes
	mu    struct {
		sync.Mutex
		used  int64
		extra int64 // of used: what larger buffers cost more
	}
}

// New opens the account of a process with limit bytes.
func New(limit int64) *Account { return &Account{limit: limit} }

// Reservation is what a writer or gate has of the memory.
type Reservation struct {
	Bytes int64
	extra int64 // of Bytes: what its buffers cost more than the smallest
}

// Reserve takes a fixed number of bytes.
func (m *Account) Reserve(what string, bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if free := m.limit - m.mu.used; bytes > free {
		return &Error{What: what, Need: bytes, Free: free, Limit: m.limit}
	}
	m.mu.used += bytes
	return nil
}

// Release gives back what Reserve has taken.
func (m *Account) Release(bytes int64) { m.GiveBack(Reservation{Bytes: bytes}) }

// GiveBack ends a Reservation.
func (m *Account) GiveBack(r Reservation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.used -= r.Bytes
	m.mu.extra -= r.extra
}

// Usage is how much is reserved, and how much there is, in bytes.
func (m *Account) Usage() (used, limit int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.used, m.limit
}

// Fit reserves buffers for one writer or gate and chooses their size. Nobody takes more than a quarter of what is left
// for larger buffers.
func (m *Account) Fit(what string, buffers int) (unit int, r Reservation, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	free, least := m.limit-m.mu.used, int64(buffers)*MinUnit
	if least > free {
		return 0, Reservation{}, &Error{What: what, Need: least, Free: free, Limit: m.limit}
	}
	unit = MinUnit
	for _, larger := range []int{16 << 10, MaxUnit} { // 8 KiB would arrive in buffers of 16 KiB
		extra := int64(buffers) * int64(larger-MinUnit)
		if extra > (m.limit/2-m.mu.extra)/4 || least+extra > free {
			break
		}
		unit, r.extra = larger, extra
	}
	r.Bytes = least + r.extra
	m.mu.used += r.Bytes
	m.mu.extra += r.extra
	return unit, r, nil
}
