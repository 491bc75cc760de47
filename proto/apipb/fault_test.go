package apipb

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func TestErrorCarriesItsDetailThroughWrapping(t *testing.T) {
	want := &ErrorDetail{
		Code: "E040", Where: "bin/job", Hints: []string{"build for linux/amd64"},
		Retryable: true, Leader: "127.0.0.1:7420", UnknownOutcome: true,
	}
	err := NewError(codes.FailedPrecondition, want, "binary is %s", "darwin/arm64")
	// The wire carries a status, not a Go value: what a client has is FromProto of what the server sent.
	received := status.FromProto(status.Convert(err).Proto()).Err()
	for _, err := range []error{err, received, fmt.Errorf("submit: %w", received), errors.Join(errors.New("x"), received)} {
		got, ok := DetailOf(err)
		if !ok || !proto.Equal(got, want) {
			t.Errorf("DetailOf(%v) = %v, %t; want %v", err, got, ok, want)
		}
		if c := CodeOf(err); c != codes.FailedPrecondition {
			t.Errorf("CodeOf(%v) = %v", err, c)
		}
		if m := MessageOf(err); m != "binary is darwin/arm64" {
			t.Errorf("MessageOf(%v) = %q", err, m)
		}
	}
}

func TestErrorWithoutDetail(t *testing.T) {
	for _, err := range []error{nil, errors.New("plain"), status.Error(codes.Unavailable, "refused"), NewError(codes.NotFound, nil, "no job")} {
		if d, ok := DetailOf(err); ok {
			t.Errorf("DetailOf(%v) = %v; want none", err, d)
		}
	}
	if c := CodeOf(errors.New("plain")); c != codes.Unknown {
		t.Errorf("code of a plain error: %v", c)
	}
	if c := CodeOf(nil); c != codes.OK {
		t.Errorf("code of nil: %v", c)
	}
	if m := MessageOf(fmt.Errorf("open: %w", errors.New("plain"))); m != "open: plain" {
		t.Errorf("message of a plain error: %q", m)
	}
}

func TestErrorIsNeverAnAnswer(t *testing.T) {
	if err := NewError(codes.OK, &ErrorDetail{Code: "E001"}, "x"); CodeOf(err) != codes.Internal {
		t.Errorf("an error of code OK became %v", err)
	}
}

func TestErrorSurvivesTextThatIsNoUTF8(t *testing.T) {
	err := NewError(codes.NotFound, &ErrorDetail{Where: "\xff"}, "no such job")
	if CodeOf(err) != codes.NotFound || MessageOf(err) != "no such job" {
		t.Errorf("got %v", err)
	}
}
