package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrUnimplemented means that the plugin does not know the method.
var ErrUnimplemented = errors.New("the plugin does not implement it")

// ErrTooLarge means that the other side sent a message above the bound.
var ErrTooLarge = errors.New("a message is too large")

// tooLarge begins what gRPC says of a message above the bound.
const tooLarge = "grpc: received message larger than max"

// PlainError returns the error that the other side meant: plugins put the text of
// their errors into the message of a status.
func PlainError(err error) error {
	s, ok := status.FromError(err)
	if err == nil || errors.Is(err, io.EOF) || !ok {
		return err
	}
	switch {
	case s.Code() == codes.Unimplemented:
		return ErrUnimplemented
	case s.Code() == codes.ResourceExhausted && strings.HasPrefix(s.Message(), tooLarge):
		return fmt.Errorf("%w: %s", ErrTooLarge, strings.TrimPrefix(s.Message(), "grpc: "))
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
