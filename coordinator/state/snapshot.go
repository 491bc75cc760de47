package state

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

	"github.com/sluiceio/sluice/coordinator/state/ordered"
	"github.com/sluiceio/sluice/proto/commandpb"
)

// Snapshot format, docs/format/raft-snapshot.md.
const (
	snapshotMagic   = "SLUICEST"
	snapshotVersion = 1
	maxRecord       = 256 << 20 // bytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Save writes the view as a snapshot: magic, version, then records, each with its length and checksum, from a header to
// a trailer that seals them. The same view gives the same bytes.
func (v *View) Save(w io.Writer) error {
	s := &saver{out: bufio.NewWriterSize(w, 64<<10), sum: sha256.New()}
	s.raw(binary.BigEndian.AppendUint32([]byte(snapshotMagic), snapshotVersion))
	s.record(&commandpb.Record{Record: &commandpb.Record_Header{Header: &commandpb.Header{
		Version: Version, Cluster: v.cluster, Index: v.index, NextJob: v.nextJob, NextProcess: v.nextProcess, TimeUs: v.now,
		Term: v.term, Leader: v.leader,
	}}})
	v.saveRecords(s)
	n := s.records
	s.record(&commandpb.Record{Record: &commandpb.Record_Trailer{Trailer: &commandpb.Trailer{
		Chain: v.chain[:], Records: n, Digest: s.sum.Sum(nil),
	}}})
	if s.err == nil {
		s.err = s.out.Flush()
	}
	if s.err != nil {
		return fmt.Errorf("save state at index %d: %w", v.index, s.err)
	}
	return nil
}

func (v *View) saveRecords(s *saver) {
	for _, n := range v.nodes.All() {
		s.record(&commandpb.Record{Record: &commandpb.Record_Node{Node: n}})
	}
	for _, w := range v.workers.All() {
		s.record(&commandpb.Record{Record: &commandpb.Record_Worker{Worker: w}})
	}
	for _, a := range v.artifacts.All() {
		s.record(&commandpb.Record{Record: &commandpb.Record_Artifact{Artifact: a}})
	}
	for _, j := range v.jobs.All() {
		s.record(&commandpb.Record{Record: &commandpb.Record_Job{Job: j.Proto()}})
		for _, src := range j.sources {
			s.record(&commandpb.Record{Record: &commandpb.Record_Source{Source: src.Proto()}})
		}
	}
	for _, id := range v.requestAge.All() {
		s.record(&commandpb.Record{Record: &commandpb.Record_Request{Request: v.Request(id)}})
	}
	for _, e := range v.events.All() {
		s.record(&commandpb.Record{Record: &commandpb.Record_Event{Event: e}})
	}
}

// saver keeps the first error; what follows it writes nothing.
type saver struct {
	out     *bufio.Writer
	sum     hash.Hash
	buf     []byte
	records uint64
	err     error
}

func (s *saver) raw(b []byte) {
	if s.err != nil {
		return
	}
	s.sum.Write(b)
	_, s.err = s.out.Write(b)
}

func (s *saver) record(r *commandpb.Record) {
	if s.err != nil {
		return
	}
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(append(s.buf[:0], make([]byte, 8)...), r)
	if err == nil && len(b)-8 > maxRecord {
		err = fmt.Errorf("a record of %d bytes, at most %d", len(b)-8, maxRecord)
	}
	if s.err = err; err != nil {
		return
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-8))
	binary.BigEndian.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
	s.raw(b)
	s.buf = b
	s.records++
}

// Load reads what View.Save wrote. It trusts nothing: what is not exactly a snapshot is an error, and then nothing has
// happened.
func Load(r io.Reader) (*State, error) {
	l := &loader{in: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	v, err := l.load()
	if err != nil {
		return nil, fmt.Errorf("load state: record %d: %w", l.records, err)
	}
	return from(v), nil
}

type loader struct {
	in      *bufio.Reader
	sum     hash.Hash
	digest  []byte // of everything before the newest record
	records uint64
	v       View
}

func (l *loader) load() (*View, error) {
	head := make([]byte, len(snapshotMagic)+4)
	if _, err := io.ReadFull(l.in, head); err != nil {
		return nil, err
	}
	if string(head[:len(snapshotMagic)]) != snapshotMagic {
		return nil, errors.New("this is no snapshot of the coordinators' state")
	}
	if n := binary.BigEndian.Uint32(head[len(snapshotMagic):]); n != snapshotVersion {
		return nil, fmt.Errorf("the snapshot has format version %d, this binary reads %d", n, snapshotVersion)
	}
	l.sum.Write(head)
	for {
		r, err := l.next()
		if err != nil {
			return nil, err
		}
		if t := r.GetTrailer(); t != nil {
			return l.seal(t)
		}
		if (l.records == 0) != (r.GetHeader() != nil) {
			return nil, errors.New("the header must come first, and once")
		}
		if err := l.take(r); err != nil {
			return nil, err
		}
		l.records++
	}
}

func (l *loader) next() (*commandpb.Record, error) {
	var head [8]byte
	if _, err := io.ReadFull(l.in, head[:]); err != nil {
		return nil, fmt.Errorf("the snapshot ends before its trailer: %w", err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxRecord {
		return nil, fmt.Errorf("a record of %d bytes, at most %d", size, maxRecord)
	}
	// The length is not believed before the bytes are there.
	var body bytes.Buffer
	if _, err := io.CopyN(&body, l.in, int64(size)); err != nil {
		return nil, fmt.Errorf("the snapshot ends inside a record: %w", err)
	}
	if crc32.Checksum(body.Bytes(), castagnoli) != binary.BigEndian.Uint32(head[4:]) {
		return nil, errors.New("the checksum does not match")
	}
	l.digest = l.sum.Sum(nil)
	l.sum.Write(head[:])
	l.sum.Write(body.Bytes())
	r := &commandpb.Record{}
	if err := proto.Unmarshal(body.Bytes(), r); err != nil {
		return nil, err
	}
	return r, nil
}

func (l *loader) seal(t *commandpb.Trailer) (*View, error) {
	switch {
	case l.records == 0:
		return nil, errors.New("there is no header")
	case t.Records != l.records:
		return nil, fmt.Errorf("the trailer counts %d records, there are %d", t.Records, l.records)
	case !bytes.Equal(t.Digest, l.digest):
		return nil, errors.New("the digest does not match")
	case len(t.Chain) != len(l.v.chain):
		return nil, fmt.Errorf("the hash chain has %d bytes", len(t.Chain))
	}
	if _, err := l.in.ReadByte(); err != io.EOF {
		return nil, errors.New("something follows the trailer")
	}
	copy(l.v.chain[:], t.Chain)
	return &l.v, nil
}

func (l *loader) take(r *commandpb.Record) error {
	v := &l.v
	switch r := r.Record.(type) {
	case *commandpb.Record_Header:
		h := r.Header
		if h.Version > Version {
			return fmt.Errorf("the snapshot speaks command version %d, this binary %d: upgrade this coordinator", h.Version, Version)
		}
		v.cluster, v.index, v.nextJob, v.nextProcess = h.Cluster, h.Index, h.NextJob, h.NextProcess
		v.now, v.term, v.leader = h.TimeUs, h.Term, h.Leader
	case *commandpb.Record_Node:
		return put(&v.nodes, r.Node.Id, r.Node)
	case *commandpb.Record_Worker:
		return put(&v.workers, r.Worker.Id, r.Worker)
	case *commandpb.Record_Artifact:
		return put(&v.artifacts, r.Artifact.Digest, r.Artifact)
	case *commandpb.Record_Job:
		return l.takeJob(r.Job)
	case *commandpb.Record_Source:
		return l.takeSource(r.Source)
	case *commandpb.Record_Request:
		v.nextRequest++
		v.requestAge = v.requestAge.Put(v.nextRequest, r.Request.Id)
		return put(&v.requests, r.Request.Id, r.Request)
	case *commandpb.Record_Event:
		v.nextEvent++
		v.events = v.events.Put(v.nextEvent, r.Event)
		if v.events.Len() > MaxEvents {
			return fmt.Errorf("more than %d events", MaxEvents)
		}
	default:
		return errors.New("a kind of record that this binary does not know")
	}
	return nil
}

func put[V any](m *ordered.Map[string, V], key string, val V) error {
	if _, double := m.Get(key); double || key == "" {
		return fmt.Errorf("record %q is there twice or has no name", key)
	}
	*m = m.Put(key, val)
	return nil
}
