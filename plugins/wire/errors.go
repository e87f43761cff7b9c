package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/conduit-agent/conduit/spec/texts"
)

// ErrUnimplemented means that the plugin does not know the method.
var ErrUnimplemented = errors.New("the plugin does not implement the method")

// ErrTooLarge means that the other side sent a message above the limit.
var ErrTooLarge = errors.New("a message is too large")

// tooLarge is the prefix of gRPC's error for a message above the limit.
const tooLarge = "grpc: received message larger than max"

// PlainError returns the original error of the other side: plugins put the text of their errors into the message of a
// status.
func PlainError(err error) error {
	s, ok := status.FromError(err)
	if err == nil || errors.Is(err, io.EOF) || !ok {
		return err
	}
	switch {
	case s.Code() == codes.Unimplemented:
		return ErrUnimplemented
	case s.Code() == codes.ResourceExhausted && strings.HasPrefix(s.Message(), tooLarge):
		return fmt.Errorf("%w: %.256s", ErrTooLarge, strings.TrimPrefix(s.Message(), "grpc: "))
	case s.Message() == context.Canceled.Error():
		return context.Canceled
	case s.Message() == context.DeadlineExceeded.Error():
		return context.DeadlineExceeded
	}
	return errors.New(texts.Truncate(s.Message(), texts.MaxFullError))
}

// streamError returns the error with which a stream ends because of err. Its code tells whether a retry may succeed.
func streamError(err error) error {
	var lost interface{ Lost() bool }
	if errors.As(err, &lost) && lost.Lost() {
		return status.Error(codes.Unavailable, err.Error())
	}
	return err
}

// PermanentTrailer is a trailer of a failed call. The value true means that no retry can fix the error
// (sdk.Permanent), false that a retry may. A call without the trailer may not have reached the plugin, or the plugin
// does not know the trailer. A host that does not know the trailer shows only the error.
const PermanentTrailer = "conduit-permanent"

// IsPermanent reports whether the trailer of a failed call marks the error as permanent. If answered is false, there is
// no mark.
func IsPermanent(trailer metadata.MD) (permanent, answered bool) {
	values := trailer.Get(PermanentTrailer)
	return len(values) > 0 && values[0] == "true", len(values) > 0
}

// permanentTrailer returns the trailer that goes with err, nil for none.
func permanentTrailer(err error) metadata.MD {
	if err == nil {
		return nil
	}
	var p interface{ Permanent() bool }
	return metadata.Pairs(PermanentTrailer, strconv.FormatBool(errors.As(err, &p) && p.Permanent()))
}

// markCall sets the trailer of a call that fails.
func markCall(ctx context.Context, req any, _ *grpc.UnaryServerInfo, call grpc.UnaryHandler) (any, error) {
	resp, err := call(ctx, req)
	if trailer := permanentTrailer(err); trailer != nil {
		_ = grpc.SetTrailer(ctx, trailer) // without it a permanent error is retried
	}
	return resp, err
}

// markStream sets the trailer of a stream that fails.
func markStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, run grpc.StreamHandler) error {
	err := run(srv, stream)
	if trailer := permanentTrailer(err); trailer != nil {
		stream.SetTrailer(trailer)
	}
	return err
}
