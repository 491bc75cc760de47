package spill

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/internal/vfs"
)

// blocksPerExtent is how many blocks of a stream lie together at least. What an extent does not use is a hole.
const blocksPerExtent = 16

// File holds streams of spilled records: partitions, or runs. Streams are written side by side, each in extents of its own
// that are linked, so that a stream costs no memory while nobody writes or reads it.
type File struct {
	space   *Space
	f       vfs.File // nil: nothing was written
	path    string
	end     int64  // of the last extent
	streams uint32 // begun
	closed  bool
}

// Close gives the space on the disk back. Streams of the file cannot be read any more.
func (f *File) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	f.space.forget(f)
	if f.f == nil {
		return nil
	}
	f.space.area.files.Add(-1)
	return f.f.Close()
}

// write stores b at off.
func (f *File) write(b []byte, off int64) error {
	if f.f == nil {
		if f.closed {
			return errClosed
		}
		file, path, err := f.space.area.create(int64(len(b)))
		if err != nil {
			return err
		}
		f.f, f.path = file, path
		if n := f.space.counts.Files; n != nil {
			*n++
		}
	}
	if _, err := f.f.WriteAt(b, off); err != nil {
		return noSpace(f.path, int64(len(b)), err)
	}
	*f.space.counts.Bytes += int64(len(b))
	f.space.area.bytes.Add(int64(len(b)))
	return nil
}

var errClosed = errors.New("spill file is closed")

// extend gives a stream room for a block of n bytes and the link behind it.
func (f *File) extend(n int) (from, to int64) {
	size := max(int64(blocksPerExtent*(headerSize+f.space.block)), int64(n)+linkSize)
	from = f.end
	f.end += size
	return from, f.end
}

// place is where a stream goes on.
type place struct {
	pos, end int64 // in the current extent
	sequence uint32
}

// append writes a block behind the others of the stream. The payload may lie where it belongs in packed, or elsewhere.
func (f *File) append(p *place, h header, payload []byte) error {
	n := headerSize + len(payload)
	if p.pos+int64(n)+linkSize > p.end {
		if err := f.link(p, h.stream, n); err != nil {
			return err
		}
	}
	b := f.space.packed[:n]
	if &payload[0] != &b[headerSize] {
		copy(b[headerSize:], payload)
	}
	h.sequence, h.stored = p.sequence, uint32(len(payload))
	h.put(b)
	if err := f.write(b, p.pos); err != nil {
		return err
	}
	p.pos += int64(n)
	p.sequence++
	return nil
}

// link moves a stream to a new extent.
func (f *File) link(p *place, stream uint32, n int) error {
	from, to := f.extend(n)
	if p.end > 0 {
		var b [linkSize]byte
		binary.LittleEndian.PutUint64(b[headerSize:], uint64(from))
		h := header{kind: kindLink, stream: stream, sequence: p.sequence, raw: linkSize - headerSize, stored: linkSize - headerSize}
		h.put(b[:])
		if err := f.write(b[:], p.pos); err != nil {
			return err
		}
		p.sequence++
	}
	p.pos, p.end = from, to
	return nil
}

// read fills b from off.
func (f *File) read(b []byte, off int64) error {
	if f.f == nil || f.closed {
		return f.corrupt(off, errClosed)
	}
	if n, err := f.f.ReadAt(b, off); n < len(b) {
		if err == nil || errors.Is(err, io.EOF) {
			err = corrupt("%d bytes at %d, %d expected", n, off, len(b))
		}
		return f.corrupt(off, err)
	}
	return nil
}

// next reads the next block of a stream that is no link. Its payload, as stored, lies in packed until the next call of any
// method of the space.
func (f *File) next(p *place, l limits) (header, []byte, error) {
	f.space.buffers()
	for {
		l.sequence = p.sequence
		h, payload, err := f.one(p.pos, l)
		if err != nil {
			return h, nil, err
		}
		p.sequence++
		if h.kind != kindLink {
			p.pos += int64(headerSize + len(payload))
			return h, payload, nil
		}
		to := binary.LittleEndian.Uint64(payload)
		if to >= uint64(f.end) {
			return h, nil, f.corrupt(p.pos, corrupt("link to %d of %d", to, f.end))
		}
		p.pos = int64(to)
	}
}

func (f *File) one(pos int64, l limits) (header, []byte, error) {
	packed := f.space.packed
	if err := f.read(packed[:headerSize], pos); err != nil {
		return header{}, nil, err
	}
	h, err := parse(packed[:headerSize], l)
	if err != nil {
		return h, nil, f.corrupt(pos, err)
	}
	b := packed[:headerSize+int(h.stored)]
	if err := f.read(b[headerSize:], pos+headerSize); err != nil {
		return h, nil, err
	}
	if err := verify(b); err != nil {
		return h, nil, f.corrupt(pos, err)
	}
	return h, b[headerSize:], nil
}

// corrupt is the failure to read what lies at pos. A codec of the user's that does not read what it writes is no fault of
// the disk.
func (f *File) corrupt(pos int64, err error) error {
	if _, ok := errors.AsType[*codec.CustomError](err); ok {
		return fmt.Errorf("decode a record that was spilled: %w", err)
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	return &Error{Code: CodeCorrupt, Path: f.path, Bytes: pos, Err: err}
}
