package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sluiceio/sluice/internal/vfs"

	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
)

// FileName is the file in the data directory of a development cluster that describes it.
const FileName = "cluster.json"

// File describes a development cluster. It is written when all nodes were started, and again when they were stopped.
type File struct {
	Version   int       `json:"version"` // 1
	Binary    string    `json:"binary"`  // that all nodes run
	DataDir   string    `json:"dataDir"`
	Temporary bool      `json:"temporary"` // the data directory goes with the cluster
	Nodes     []*Member `json:"nodes"`
}

// Member is one node and its process.
type Member struct {
	Name    string `json:"name"`              // c1, c2, …, w1, w2, …
	Role    string `json:"role"`              // coordinator, worker
	PID     int    `json:"pid"`               // 0: stopped
	API     string `json:"api,omitempty"`     // coordinators: clients, workers, other coordinators
	Raft    string `json:"raft,omitempty"`    // coordinators
	Control string `json:"control,omitempty"` // workers
	Data    string `json:"data,omitempty"`    // workers
	HTTP    string `json:"http"`              // /metrics, /healthz, /readyz
	DataDir string `json:"dataDir"`
	Log     string `json:"log"`
}

const fileVersion = 1

func (f *File) path() string { return filepath.Join(f.DataDir, FileName) }

func (f *File) write() error {
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := vfs.Publish(vfs.OS{}, f.path(), append(data, '\n')); err != nil {
		return devFault(ops.ExitOther, "", err)
	}
	return nil
}

// readFile returns nil without an error if dir holds no cluster.
func readFile(dir string) (*File, error) {
	path := filepath.Join(dir, FileName)
	data, err := vfs.ReadFile(vfs.OS{}, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, devFault(ops.ExitOther, "", err)
	}
	f := &File{}
	if err := json.Unmarshal(data, f); err != nil {
		return nil, devFault(ops.ExitPrecondition, "remove the file if no node of this directory runs", fmt.Errorf("%s is damaged: %w", path, err))
	}
	if f.Version != fileVersion {
		return nil, devFault(ops.ExitPrecondition, "use the sluice that wrote it", fmt.Errorf("%s has version %d; this sluice reads %d", path, f.Version, fileVersion))
	}
	f.DataDir = dir // it may have been moved
	return f, nil
}

func (f *File) role(role string) (nodes []*Member) {
	for _, n := range f.Nodes {
		if n.Role == role {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// addrs are the API addresses.
func (f *File) addrs() (addrs []string) {
	for _, n := range f.role(roleCoordinator) {
		addrs = append(addrs, n.API)
	}
	return addrs
}

func devFault(exit ops.Exit, hint string, err error) error {
	f := &ops.Fault{Exit: exit, Code: ops.CodeDev, Err: err}
	if hint != "" {
		f.Hints = []string{hint}
	}
	return f
}
