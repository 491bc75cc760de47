package audit

import (
	"strings"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
)

// Outcome is what is known of a checkpoint.
type Outcome string

// Outcomes.
const (
	Whole      Outcome = "whole"      // each of its objects is intact in one of the directories at least
	Incomplete Outcome = "incomplete" // objects are missing, or no copy of them is intact
	Superseded Outcome = "superseded" // objects are missing, but there is a newer checkpoint: they may have been deleted
	Unreadable Outcome = "unreadable" // no copy of the manifest can be used
)

// Report is the stable JSON of `snapshot verify -o json`.
type Report struct {
	Directories []Place      `json:"directories"`
	Checkpoints []Checkpoint `json:"checkpoints"`
	Objects     []Object     `json:"objects"`
	// Damaged objects, and Broken checkpoints, are counted; with none of both the snapshots are sound.
	Damaged int `json:"damaged"`
	Broken  int `json:"broken"`
}

// Sound reports whether nothing is wrong.
func (r *Report) Sound() bool { return r.Damaged == 0 && r.Broken == 0 }

// Place is one directory.
type Place struct {
	Path      string   `json:"path"`      // as it was given
	Savepoint string   `json:"savepoint"` // JOB:ID that was exported to it; else empty
	Objects   int      `json:"objects"`
	Bytes     int64    `json:"bytes"`
	Others    []string `json:"others"` // files that are no objects, for example such as were being written
}

// Checkpoint is one manifest.
type Checkpoint struct {
	Job      string  `json:"job"`
	Epoch    uint64  `json:"epoch"` // of the job
	ID       uint64  `json:"id"`
	Kind     string  `json:"kind"`
	Manifest string  `json:"manifest"`
	Outcome  Outcome `json:"outcome"`
	Subtasks int     `json:"subtasks"` // planned: each has an entry
	Objects  int     `json:"objects"`
	Bytes    int64   `json:"bytes"` // of state
	// Lacks are the names of objects without an intact copy.
	Lacks []string `json:"lacks"`
	Code  string   `json:"code"`
	Error string   `json:"error"`
}

// Object is one object in one directory.
type Object struct {
	Name      string           `json:"name"`
	Size      int64            `json:"size"` // in bytes, as it should be
	Directory string           `json:"directory"`
	Verdict   snapshot.Verdict `json:"verdict"`
	Parts     int              `json:"parts"`   // of checkpoints that lie in it, read and sound
	Entries   int              `json:"entries"` // of those
	// Named: a manifest names it, or it is one. Others are left from checkpoints that did not complete.
	Named bool   `json:"named"`
	Code  string `json:"code"`
	Error string `json:"error"`
}

// codeOf is the stable code of what is wrong with an object.
func codeOf(v snapshot.Verdict) string {
	switch v {
	case snapshot.Intact:
		return ""
	case snapshot.Damaged, snapshot.Short:
		return snapshot.CodeDamaged
	case snapshot.Missing, snapshot.Unfit:
		return snapshot.CodeFormat
	}
	return CodeFile
}

// CodeFile is the code of a file or directory that cannot be read.
const CodeFile = "E096"

// kindName is a kind as tables show it.
func kindName(k jobpb.CheckpointKind) string {
	return strings.ToLower(strings.TrimPrefix(k.String(), "CHECKPOINT_"))
}
