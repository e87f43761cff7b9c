package plugintest

import (
	"context"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Eventually waits until ok returns true, and fails the test when that takes too long.
func Eventually(t testing.TB, timeout time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long until %s", what)
		}
	}
}

// OpenSource configures s and opens it at the position, and returns it. It is torn down when
// the test ends.
func OpenSource[S sdk.Source](t testing.TB, s S, settings map[string]string, at record.Position) S {
	t.Helper()
	if err := s.Configure(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Teardown(context.WithoutCancel(t.Context())) })
	return s
}
