package overflow

import (
	"encoding/binary"
	"errors"
)

// headerBytes is how many bytes of a key come before the key of a row: area, number of the state, key group.
const headerBytes = prefixBytes + 2 + 2

// Unit names a record of a table: the number of its state (-1 for rows), the key group and encoded key of its row, and what
// tells it apart from other units of the row.
type Unit struct {
	Number, Group int
	Key, Sub      []byte
}

// Records is an Area whose keys are units. The order of keys is that of (number, group, key, sub) as bytes.
type Records struct {
	*Area
	key   []byte
	value []byte
}

// Records makes an area for a table.
func (s *Store) Records() *Records { return &Records{Area: s.Area()} }

func (r *Records) name(dst []byte, u *Unit) []byte {
	dst = append(dst, r.Prefix()...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(u.Number+1))
	dst = binary.BigEndian.AppendUint16(dst, uint16(u.Group))
	return append(append(dst, u.Key...), u.Sub...)
}

// Fits reports whether a unit can have a record: one with a very long key cannot.
func (r *Records) Fits(u *Unit) bool { return headerBytes+len(u.Key)+len(u.Sub) <= MaxKey }

// Load is the record of a unit, valid until the next call.
func (r *Records) Load(u *Unit) (record []byte, ok bool, err error) {
	r.key = r.name(r.key[:0], u)
	v, ok, err := r.Get(r.key)
	if err != nil || !ok {
		return nil, false, err
	}
	r.value = append(r.value[:0], v...) // what is written meanwhile does not touch it
	return r.value, true, nil
}

// Save writes the record of a unit.
func (r *Records) Save(u *Unit, record []byte) error {
	r.key = r.name(r.key[:0], u)
	return r.Put(r.key, record)
}

// Remove deletes the record of a unit.
func (r *Records) Remove(u *Unit) error {
	r.key = r.name(r.key[:0], u)
	return r.Delete(r.key)
}

// Walk calls f for the records of the units of u's row and state, in their order, until it returns false.
func (r *Records) Walk(u *Unit, f func(sub, record []byte) (bool, error)) error {
	prefix := r.name(nil, u)
	return r.Scan(prefix, nil, func(key, value []byte) (bool, error) { return f(key[len(prefix):], value) })
}

// errKey is a key that no Records has written.
var errKey = errors.New("bad key in the overflow of the state")

// WalkAll calls f for all records from a position on, in their order, until it returns false, and returns the position to
// go on from; nil is the beginning, and the end. rest is key and sub-key of the unit.
func (r *Records) WalkAll(from []byte, f func(number int, rest, record []byte) (bool, error)) (next []byte, err error) {
	err = r.Scan(r.Prefix(), from, func(key, value []byte) (bool, error) {
		if len(key) < headerBytes {
			return false, errKey
		}
		more, err := f(int(binary.BigEndian.Uint16(key[prefixBytes:]))-1, key[headerBytes:], value)
		if !more {
			next = append(next, key...)
		}
		return more, err
	})
	return next, err
}
