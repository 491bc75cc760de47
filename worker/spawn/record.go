package spawn

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/worker/record"
)

// recordKind is the first word of the file; docs/format/workerdir.md.
const recordKind = "sluice-process"

// Record says which process a directory belongs to, so that a later agent can tell it from any other with the same id.
type Record struct {
	Job     string `json:"job"`     // empty: a build for a dry run
	Process uint64 `json:"process"` // 0: a build
	Pid     int    `json:"pid"`
	Start   uint64 `json:"start"` // in the system's own unit
	Boot    string `json:"boot"`
}

// WriteRecord notes, durably, which process runs in dir.
func WriteRecord(dir, job string, process uint64, pid int) error {
	start, err := startTime(pid)
	if err != nil {
		return fmt.Errorf("start time of process %d: %w", pid, err)
	}
	boot, err := bootID()
	if err != nil {
		return fmt.Errorf("boot id: %w", err)
	}
	data, err := record.Encode(recordKind, Record{Job: job, Process: process, Pid: pid, Start: start, Boot: boot})
	if err != nil {
		return err
	}
	return vfs.Publish(vfs.OS{}, filepath.Join(dir, RecordName), data)
}

// ReadRecord reads the record of a process directory.
func ReadRecord(dir string) (Record, error) {
	data, err := vfs.ReadFile(vfs.OS{}, filepath.Join(dir, RecordName))
	if err != nil {
		return Record{}, err
	}
	r, err := decodeRecord(data)
	if err != nil {
		return Record{}, fmt.Errorf("%s: %w", filepath.Join(dir, RecordName), err)
	}
	return r, nil
}

func decodeRecord(data []byte) (Record, error) {
	body, err := record.Decode(recordKind, data)
	if err != nil {
		return Record{}, err
	}
	var r Record
	if err := json.Unmarshal(body, &r); err != nil {
		return Record{}, fmt.Errorf("%w: %w", record.ErrCorrupt, err)
	}
	if r.Pid <= 1 || r.Boot == "" {
		return Record{}, fmt.Errorf("%w: process id %d, boot id %q", record.ErrCorrupt, r.Pid, r.Boot)
	}
	return r, nil
}

// alive reports whether the process of the record still exists.
func (r Record) alive() (bool, error) {
	boot, err := bootID()
	if err != nil {
		return false, fmt.Errorf("boot id: %w", err)
	}
	if boot != r.Boot {
		return false, nil
	}
	start, err := startTime(r.Pid)
	return err == nil && start == r.Start, nil
}
