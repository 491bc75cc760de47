package ops

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

func answers(err error) *fake {
	return &fake{list: func(context.Context, *apipb.ListRequest) (*apipb.ListResponse, error) {
		return &apipb.ListResponse{}, err
	}}
}

// silent accepts calls and never answers, like a paused process.
func silent() *fake {
	return &fake{list: func(ctx context.Context, _ *apipb.ListRequest) (*apipb.ListResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
}

func TestAnyCoordinatorThatAnswersIsEnough(t *testing.T) {
	for name, others := range map[string][]*fake{
		"refused":   {nil, nil},
		"no leader": {answers(noLeader()), answers(noLeader())},
		"paused":    {silent(), silent()},
		"mixed":     {nil, answers(status.Error(codes.Unavailable, "shutting down"))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, append(others, answers(nil))...)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				if err := List(ctx, r.Session, ListOptions{}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAPausedCoordinatorCostsAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &fake{paused: true}, &fake{paused: true}, answers(nil))
		begun := time.Now()
		if err := List(t.Context(), r.Session, ListOptions{}); err != nil || time.Since(begun) > 2*connectTime {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestTheCoordinatorThatAnsweredIsAskedFirstNextTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, silent(), answers(nil))
		for range 2 {
			if err := List(t.Context(), r.Session, ListOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		if err := List(t.Context(), r.Session, ListOptions{}); err != nil || time.Since(begun) > time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestWithoutALeaderTheTimeoutEndsWithFive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, answers(noLeader()), nil, answers(noLeader()))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begun := time.Now()
		err := List(ctx, r.Session, ListOptions{})
		wantExit(t, err, ExitUnreachable, "E069")
		if took := time.Since(begun); took != 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestSilenceIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		var told []string
		r.Client.Waiting = func(said string) { told = append(told, said) }
		for _, limit := range []time.Duration{2 * time.Second, 10 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			wantExit(t, List(ctx, r.Session, ListOptions{}), ExitUnreachable, CodeUnreachable)
			cancel()
		}
		if want := []string{"127.0.0.1:1: connection refused; 127.0.0.1:2: connection refused"}; !slices.Equal(told, want) {
			t.Errorf("told %q", told)
		}
	})
}

func TestNobodyAnsweringEndsWithFive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := List(ctx, r.Session, ListOptions{})
		wantExit(t, err, ExitUnreachable, CodeUnreachable)
		if !strings.Contains(err.Error(), "127.0.0.1:1: connection refused; 127.0.0.1:2: connection refused") {
			t.Errorf("the causes are missing: %v", err)
		}
	})
}

func TestWithoutATimeoutPatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		begun := time.Now()
		wantExit(t, List(t.Context(), r.Session, ListOptions{}), ExitUnreachable, CodeUnreachable)
		wantExit(t, Events(t.Context(), r.Session, EventsOptions{Follow: Forever}), ExitUnreachable, CodeUnreachable)
		if took := time.Since(begun); took < 2*patience || took > 2*patience+10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestSlowAnswersEndWithSeven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, silent(), silent())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		wantExit(t, List(ctx, r.Session, ListOptions{}), ExitTimeout, CodeTimeout)
	})
}

func TestInterruptionIsNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, silent())
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		wantExit(t, List(ctx, r.Session, ListOptions{}), ExitInterrupted, "")
	})
	// A stream that is cut off says it by its own code.
	for _, err := range []error{context.Canceled, status.Error(codes.Canceled, context.Canceled.Error())} {
		var out bytes.Buffer
		if exit := ReportError(&out, Table, err); exit != ExitInterrupted || out.String() != "interrupted\n" {
			t.Errorf("%v: exit %d, said %q", err, exit, out.String())
		}
	}
}

func TestRefusalsAreFinalAndHaveTheirExitCode(t *testing.T) {
	for code, exit := range map[codes.Code]Exit{
		codes.InvalidArgument: ExitUsage, codes.OutOfRange: ExitUsage, codes.NotFound: ExitNotFound,
		codes.FailedPrecondition: ExitPrecondition, codes.AlreadyExists: ExitPrecondition, codes.Aborted: ExitPrecondition,
		codes.PermissionDenied: ExitDenied, codes.Unauthenticated: ExitDenied,
		codes.Internal: ExitOther, codes.Unknown: ExitOther, codes.Unimplemented: ExitOther,
	} {
		t.Run(code.String(), func(t *testing.T) {
			calls := 0
			f := &fake{list: func(context.Context, *apipb.ListRequest) (*apipb.ListResponse, error) {
				calls++
				return nil, apipb.NewError(code, &apipb.ErrorDetail{Code: "E102", Where: "x", Hints: []string{"look"}}, "because")
			}}
			r := newRig(t, f, f)
			err := List(t.Context(), r.Session, ListOptions{})
			wantExit(t, err, exit, "E102")
			if calls != 1 {
				t.Errorf("asked %d times", calls)
			}
			var out bytes.Buffer
			ReportError(&out, Table, err)
			if want := "error E102: because at x\n  fix: look\n"; out.String() != want {
				t.Errorf("got %q, want %q", out.String(), want)
			}
		})
	}
}

func TestErrorsInJSONAreStable(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{apipb.NewError(codes.NotFound, &apipb.ErrorDetail{Code: "E102", Where: "j", Hints: []string{"look"}}, `no "j"`), `{
  "errors": [
    {
      "code": "E102",
      "message": "no \"j\"",
      "where": "j",
      "hints": [
        "look"
      ],
      "retryable": false
    }
  ],
  "exit": 3
}
`},
		{errors.New("plain"), `{
  "errors": [
    {
      "code": "",
      "message": "plain",
      "where": "",
      "hints": [],
      "retryable": false
    }
  ],
  "exit": 1
}
`},
	} {
		var out bytes.Buffer
		if ReportError(&out, JSON, c.err); out.String() != c.want {
			t.Errorf("got %s", out.String())
		}
	}
}

func TestEveryFaultOfAPlanIsShown(t *testing.T) {
	err := error(&PlanError{Diagnostics: []*jobpb.Diagnostic{
		{Code: "E014", Message: "operator without id", Where: "main.go:118", Hints: []string{`.ID("profile")`}},
		{Code: "E007", Message: "a float cannot be a key\nit has no equality", Where: "main.go:120"},
	}})
	var out bytes.Buffer
	if exit := ReportError(&out, Table, err); exit != ExitUsage {
		t.Errorf("exit %d", exit)
	}
	want := "error E014: operator without id at main.go:118\n  fix: .ID(\"profile\")\nerror E007: a float cannot be a key at main.go:120\n  it has no equality\n"
	if out.String() != want {
		t.Errorf("got %s", out.String())
	}
}

func TestSuccessSaysNothing(t *testing.T) {
	var out bytes.Buffer
	if exit := ReportError(&out, Table, nil); exit != ExitOK || out.Len() > 0 {
		t.Errorf("exit %d: %s", exit, out.String())
	}
	if ReportError(&out, JSON, nil); out.Len() > 0 {
		t.Errorf("JSON: %s", out.String())
	}
}
