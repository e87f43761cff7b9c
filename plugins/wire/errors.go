package wire

import (
	"context"
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errUnimplemented means that the plugin does not know the method.
var errUnimplemented = errors.New("the plugin does not implement it")

// tooLarge begins what gRPC says of a message above the bound.
const tooLarge = "grpc: received message larger than max"

// plainError returns the error that the other side meant: plugins put the text of
// their errors into the message of a status.
func plainError(err error) error {
	s, ok := status.FromError(err)
	if err == nil || errors.Is(err, io.EOF) || !ok {
		return err
	}
	switch {
	case s.Code() == codes.Unimplemented:
		return errUnimplemented
	case s.Code() == codes.ResourceExhausted && strings.HasPrefix(s.Message(), tooLarge):
		return errors.New("a message is too large: " + strings.TrimPrefix(s.Message(), "grpc: "))
	case s.Message() == context.Canceled.Error():
		return context.Canceled
	case s.Message() == context.DeadlineExceeded.Error():
		return context.DeadlineExceeded
	}
	return errors.New(s.Message())
}

// streamError returns err as a stream ends with it. Its code says whether another try may
// well succeed.
func streamError(err error) error {
	var lost interface{ Lost() bool }
	if errors.As(err, &lost) && lost.Lost() {
		return status.Error(codes.Unavailable, err.Error())
	}
	return err
}

// lostError means that the plugin went away or did not answer, rather than that it
// refused something.
type lostError struct{ error }

// Lost reports that another try may well succeed.
func (lostError) Lost() bool { return true }

// Unwrap returns the cause.
func (e lostError) Unwrap() error { return e.error }
