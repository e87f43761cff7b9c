package wire_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conduit-agent/conduit/plugins/wire"
	"github.com/conduit-agent/conduit/spec/texts"
)

// TestPlainErrorIsBounded checks the error of a plugin that fails with a very long text.
func TestPlainErrorIsBounded(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Unknown, codes.ResourceExhausted, codes.Unimplemented} {
		err := wire.PlainError(status.Error(code, "grpc: received message larger than max"+strings.Repeat("x", 15<<20)))
		if n := len(err.Error()); n > texts.MaxFullError {
			t.Errorf("%v: the error has %d bytes", code, n)
		}
	}
	if err := wire.PlainError(status.Error(codes.Unknown, "no")); err.Error() != "no" {
		t.Errorf("got %v", err)
	}
}
