package task

import "github.com/sluiceio/sluice/proto/taskpb"

// Trigger is a stub.
func (p *Process) Trigger(*taskpb.Trigger) {}

// Notice is a stub.
func (p *Process) Notice(*taskpb.CheckpointNotice) {}
