package datadir

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/sluiceio/sluice/internal/vfs"
)

// Names in the data directory; docs/format/coordinator-dir.md describes them.
const (
	lockName      = "lock"
	identityName  = "node"
	haltedName    = "halted"
	artifactsName = "artifacts"
	spoolName     = "spool"
)

// Artifacts is the directory of the artifact store.
func Artifacts(dir string) string { return path.Join(dir, artifactsName) }

// Exists reports whether dir has been the data directory of a coordinator.
func Exists(fsys vfs.FS, dir string) (bool, error) {
	_, err := fsys.Stat(path.Join(dir, identityName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Lock makes dir the property of this process until the lock is closed.
func Lock(fsys vfs.FS, dir string) (io.Closer, error) {
	lock, err := fsys.Lock(path.Join(dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("data directory %s is in use by another process", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	return lock, nil
}

// Identity is what makes a data directory a node. The id is random and never an address: a machine that gets another
// address is the same voter, and a new machine at an old address is not the old voter.
//
// Cluster is set as soon as the node knows it. From then on a directory without a Raft log is a voter that has lost its
// memory, which must not vote again under its old id.
type Identity struct {
	ID      string
	Cluster string
	// The addresses that were bound at the last start, so that a drawn port is drawn once.
	API, Raft, HTTP string
}

const identityMagic = "sluice-coordinator 1"

// encode writes one key per line and a checksum over all lines before it.
func (i Identity) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, identityMagic)
	for _, f := range i.fields() {
		fmt.Fprintf(&b, "%s %s\n", f.name, *f.value)
	}
	fmt.Fprintf(&b, "crc32c %08x\n", crc32.Checksum(b.Bytes(), crc32.MakeTable(crc32.Castagnoli)))
	return b.Bytes()
}

type identityField struct {
	name  string
	value *string
}

func (i *Identity) fields() []identityField {
	return []identityField{{"id", &i.ID}, {"cluster", &i.Cluster}, {"api", &i.API}, {"raft", &i.Raft}, {"http", &i.HTTP}}
}

// errIdentity: the file is not what encode writes.
var errIdentity = errors.New("damaged")

func decodeIdentity(data []byte) (Identity, error) {
	body, sum, ok := cutLastLine(data)
	if !ok {
		return Identity{}, fmt.Errorf("%w: no checksum", errIdentity)
	}
	want := fmt.Sprintf("crc32c %08x\n", crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	if string(sum) != want {
		return Identity{}, fmt.Errorf("%w: the checksum differs", errIdentity)
	}
	lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	if lines[0] != identityMagic {
		return Identity{}, fmt.Errorf("%w: begins with %.40q, want %q", errIdentity, lines[0], identityMagic)
	}
	var i Identity
	fields := i.fields()
	if len(lines) != 1+len(fields) {
		return Identity{}, fmt.Errorf("%w: %d lines, want %d", errIdentity, len(lines), 1+len(fields))
	}
	for n, f := range fields {
		name, value, ok := strings.Cut(lines[1+n], " ")
		if !ok || name != f.name {
			return Identity{}, fmt.Errorf("%w: line %d is %.40q, want %s", errIdentity, n+2, lines[1+n], f.name)
		}
		*f.value = value
	}
	if i.ID == "" {
		return Identity{}, fmt.Errorf("%w: no id", errIdentity)
	}
	return i, nil
}

func cutLastLine(data []byte) (body, last []byte, ok bool) {
	if len(data) == 0 || data[len(data)-1] != '\n' {
		return nil, nil, false
	}
	at := bytes.LastIndexByte(data[:len(data)-1], '\n')
	if at < 0 {
		return nil, nil, false
	}
	return data[:at+1], data[at+1:], true
}

// Load reads the identity of a data directory; a new directory gets one, which is durable before anyone hears it.
func Load(fsys vfs.FS, dir string) (Identity, error) {
	name := path.Join(dir, identityName)
	data, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		i := Identity{ID: NewID()}
		return i, Store(fsys, dir, i)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("read node identity: %w", err)
	}
	i, err := decodeIdentity(data)
	if err != nil {
		return Identity{}, fmt.Errorf("node identity %s: %w; restore it from a backup, or move the data directory away and"+
			" let the node join anew", name, err)
	}
	return i, nil
}

// Store makes an identity durable.
func Store(fsys vfs.FS, dir string, i Identity) error {
	if err := vfs.Publish(fsys, path.Join(dir, identityName), i.encode()); err != nil {
		return fmt.Errorf("store node identity: %w", err)
	}
	return nil
}

// NewID draws the id of a node, or of a cluster: 60 random bits, short enough for tables.
func NewID() string { return strings.ToLower(rand.Text()[:12]) }

// CheckHalted refuses a directory whose node stopped itself because its facts differed from those of another one.
func CheckHalted(fsys vfs.FS, dir string) error {
	name := path.Join(dir, haltedName)
	data, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return fmt.Errorf("this coordinator stopped itself and must not go on by itself: %s\n"+
		"find out which coordinator is wrong (sluice raft info), move its data directory away and let it join anew;"+
		" then delete %s on the right ones and start them", strings.TrimSpace(string(data)), name)
}

// Halt writes down why this node must not be started again by itself.
func Halt(fsys vfs.FS, dir, reason string) error {
	if err := vfs.Publish(fsys, path.Join(dir, haltedName), []byte(reason+"\n")); err != nil {
		return fmt.Errorf("store the reason for the halt: %w", err)
	}
	return nil
}
