package controlpb

import (
	"strings"
	"testing"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

func TestMessagesAboutObjectsAreChecked(t *testing.T) {
	good := &jobpb.Object{Name: "job-1/1/1/1-0.segment", Size: 1, Digest: make([]byte, jobpb.DigestBytes)}
	bad := &jobpb.Object{Name: "job-1/1/1/1-0.segment", Size: -1}
	report := func(o *jobpb.Object) error {
		return (&WorkerMessage{Message: &WorkerMessage_Objects{Objects: &ObjectsReport{Job: "job-1", Stored: []*jobpb.Object{o}}}}).Validate()
	}
	copies := func(o *jobpb.Object, s *taskpb.StoreAddress) error {
		m := &CopyObjects{Job: "job-1", Objects: []*jobpb.StoredObject{{Object: o}}, Stores: []*taskpb.StoreAddress{s}}
		return (&CoordinatorMessage{Term: 1, Message: &CoordinatorMessage_CopyObjects{CopyObjects: m}}).Validate()
	}
	remove := func(names ...string) error {
		return (&CoordinatorMessage{Term: 1, Message: &CoordinatorMessage_DeleteObjects{DeleteObjects: &DeleteObjects{Job: "job-1", Names: names}}}).Validate()
	}
	at := &taskpb.StoreAddress{Store: "w-1", Address: "127.0.0.1:1"}
	for _, err := range []error{report(good), copies(good, at), remove("a")} {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
	}
	for what, err := range map[string]error{
		"stored": report(bad), "objects": copies(bad, at), "stores": copies(good, nil), "names": remove(""),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
