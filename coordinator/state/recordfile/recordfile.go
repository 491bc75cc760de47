package recordfile

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/commandpb"
)

const (
	magic     = "SLUICEST"
	version   = 1
	maxRecord = 256 << 20 // bytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes a file. It keeps the first error; what follows it writes nothing.
type Writer struct {
	out     *bufio.Writer
	sum     hash.Hash
	buf     []byte
	records uint64
	err     error
}

// NewWriter begins a file. The first record is its header.
func NewWriter(out io.Writer) *Writer {
	w := &Writer{out: bufio.NewWriterSize(out, 64<<10), sum: sha256.New()}
	w.raw(binary.BigEndian.AppendUint32([]byte(magic), version))
	return w
}

// Seal ends the file with a trailer, which keeps chain.
func (w *Writer) Seal(chain []byte) error {
	w.Record(&commandpb.Record{Record: &commandpb.Record_Trailer{Trailer: &commandpb.Trailer{
		Chain: chain, Records: w.records, Digest: w.sum.Sum(nil),
	}}})
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}

func (w *Writer) raw(b []byte) {
	if w.err != nil {
		return
	}
	w.sum.Write(b)
	_, w.err = w.out.Write(b)
}

// Record appends a record.
func (w *Writer) Record(r *commandpb.Record) {
	if w.err != nil {
		return
	}
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(append(w.buf[:0], make([]byte, 8)...), r)
	if err == nil && len(b)-8 > maxRecord {
		err = fmt.Errorf("a record of %d bytes, at most %d", len(b)-8, maxRecord)
	}
	if w.err = err; err != nil {
		return
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-8))
	binary.BigEndian.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
	w.raw(b)
	w.buf = b
	w.records++
}

// reader reads a file.
type reader struct {
	in      *bufio.Reader
	sum     hash.Hash
	digest  []byte // of everything before the newest record
	records uint64
}

// Read reads what a Writer wrote, and gives every record between magic and trailer to take. It returns the chain that the
// trailer keeps, and with an error the number of the record at which it stopped.
func Read(in io.Reader, chain int, take func(*commandpb.Record) error) (sum []byte, records uint64, err error) {
	r := &reader{in: bufio.NewReaderSize(in, 64<<10), sum: sha256.New()}
	t, err := r.read(take)
	if err == nil && len(t.Chain) != chain {
		err = fmt.Errorf("the hash chain has %d bytes", len(t.Chain))
	}
	if err != nil {
		return nil, r.records, err
	}
	return t.Chain, r.records, nil
}

func (r *reader) read(take func(*commandpb.Record) error) (*commandpb.Trailer, error) {
	head := make([]byte, len(magic)+4)
	if _, err := io.ReadFull(r.in, head); err != nil {
		return nil, err
	}
	if string(head[:len(magic)]) != magic {
		return nil, errors.New("this is no snapshot of the coordinators' state")
	}
	if n := binary.BigEndian.Uint32(head[len(magic):]); n != version {
		return nil, fmt.Errorf("the snapshot has format version %d, this binary reads %d", n, version)
	}
	r.sum.Write(head)
	for {
		record, err := r.next()
		if err != nil {
			return nil, err
		}
		if t := record.GetTrailer(); t != nil {
			return t, r.seal(t)
		}
		if (r.records == 0) != (record.GetHeader() != nil) {
			return nil, errors.New("the header must come first, and once")
		}
		if err := take(record); err != nil {
			return nil, err
		}
		r.records++
	}
}

func (r *reader) next() (*commandpb.Record, error) {
	var head [8]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return nil, fmt.Errorf("the snapshot ends before its trailer: %w", err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxRecord {
		return nil, fmt.Errorf("a record of %d bytes, at most %d", size, maxRecord)
	}
	// The length is not believed before the bytes are there.
	var body bytes.Buffer
	if _, err := io.CopyN(&body, r.in, int64(size)); err != nil {
		return nil, fmt.Errorf("the snapshot ends inside a record: %w", err)
	}
	if crc32.Checksum(body.Bytes(), castagnoli) != binary.BigEndian.Uint32(head[4:]) {
		return nil, errors.New("the checksum does not match")
	}
	r.digest = r.sum.Sum(nil)
	r.sum.Write(head[:])
	r.sum.Write(body.Bytes())
	record := &commandpb.Record{}
	return record, proto.Unmarshal(body.Bytes(), record)
}

func (r *reader) seal(t *commandpb.Trailer) error {
	switch {
	case r.records == 0:
		return errors.New("there is no header")
	case t.Records != r.records:
		return fmt.Errorf("the trailer counts %d records, there are %d", t.Records, r.records)
	case !bytes.Equal(t.Digest, r.digest):
		return errors.New("the digest does not match")
	}
	if _, err := r.in.ReadByte(); err != io.EOF {
		return errors.New("something follows the trailer")
	}
	return nil
}
