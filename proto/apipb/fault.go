package apipb

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NewError makes the error that a client sees: a gRPC status whose message is one line and whose detail carries the
// stable code, the place, the hints, and what a client needs to decide about a retry. It is for the edge of the API
// only; inside, errors are wrapped values, and the handler that answers gives them their code here, once.
//
// detail may be nil. It is copied. A gRPC code of OK is a bug of the caller and becomes Internal, since an error that
// says OK would be taken for an answer.
func NewError(code codes.Code, detail *ErrorDetail, format string, args ...any) error {
	if code == codes.OK {
		code = codes.Internal
	}
	plain := status.New(code, fmt.Sprintf(format, args...))
	if detail == nil {
		return plain.Err()
	}
	full, err := plain.WithDetails(detail)
	if err != nil {
		// Only strings that are no UTF-8 get here. The cause matters more than its decoration.
		return plain.Err()
	}
	return full.Err()
}

// DetailOf finds the detail of an error that came from the API, through any wrapping. It reports false for an error
// that carries none, which includes what the transport itself says (connection refused, deadline).
func DetailOf(err error) (*ErrorDetail, bool) {
	s, ok := statusOf(err)
	if !ok {
		return nil, false
	}
	for _, d := range s.Details() {
		if detail, ok := d.(*ErrorDetail); ok {
			return detail, true
		}
	}
	return nil, false
}

// CodeOf returns the gRPC code of an error through any wrapping: OK for nil, Unknown for an error that is no status.
func CodeOf(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	if s, ok := statusOf(err); ok {
		return s.Code()
	}
	return codes.Unknown
}

// MessageOf returns the one line of an error: that of the innermost status, without "rpc error: code = …", or all
// of Error if it is no status.
func MessageOf(err error) string {
	if err == nil {
		return ""
	}
	if s, ok := statusOf(err); ok {
		return s.Message()
	}
	return err.Error()
}

// statusOf takes the status as it was sent. status.FromError would do, but prefixes the message with the wrapping.
func statusOf(err error) (*status.Status, bool) {
	var carrier interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &carrier) {
		return nil, false
	}
	s := carrier.GRPCStatus()
	return s, s != nil
}
