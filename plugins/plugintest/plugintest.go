// Package plugintest checks that a connector keeps the connector contract: its specification, and its handling of
// settings, positions, acknowledgements, stops, crashes and clean-up. It checks connectors written with package sdk as
// well as executables in any language.
package plugintest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Target is the connector to check, with the information that the checks need. Either Connector or Start is set, and
// Source or Destination, or both.
type Target struct {
	Connector sdk.Connector // runs in the process of the test
	// Start returns a host whose calls are answered within the timeout. Package protocol provides it for executables.
	Start   func(timeout time.Duration) Host
	Timeout time.Duration // longest wait for an answer; 0: 5 s
	// Parallel reports whether the checks of a source, and the checks of a destination, run at the same time. They then
	// call the functions below concurrently.
	Parallel bool

	// Source returns settings with which a source has at least n records to read, the
	// same in the same order each time it is opened. It is called once for every check.
	// nil: the connector is not checked as a source.
	Source func(t testing.TB, n int) map[string]string

	// Destination returns settings of a destination that holds nothing yet. It is called
	// once for every check. nil: the connector is not checked as a destination.
	Destination func(t testing.TB) map[string]string
	// Written returns the payloads of the records in a destination with these settings, in order. nil: the content is
	// unknown and is not checked.
	Written func(t testing.TB, settings map[string]string) []string
}

// checkTimeout limits the duration of a check. Only a failing check takes so long.
const checkTimeout = 2 * time.Minute

// Run runs all checks, each as a subtest of t.
func Run(t *testing.T, target Target) {
	t.Helper()
	h := newHost(target)
	t.Run("specification", func(t *testing.T) { perform(t, h, checkSpecification) })
	if target.Source != nil {
		runAll(t, h, "source", sourceChecks)
	}
	if target.Destination != nil {
		runAll(t, h, "destination", destinationChecks)
	}
}

// alone is the check that never runs at the same time as others, because it depends on the states of goroutines.
const alone = "stop while waiting"

type check struct {
	name string
	run  func(*checker)
}

func runAll(t *testing.T, h *host, name string, checks []check) {
	t.Run(name, func(t *testing.T) {
		for _, c := range checks {
			t.Run(c.name, func(t *testing.T) {
				if h.Parallel && c.name != alone {
					t.Parallel()
				}
				perform(t, h, c.run)
			})
		}
	})
}

func perform(t *testing.T, h *host, fn func(*checker)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), checkTimeout)
	defer cancel()
	fn(&checker{T: t, ctx: ctx, host: h})
}

// checker is the state of a single check.
type checker struct {
	*testing.T
	ctx  context.Context
	host *host
}

// must ends the check unless err is nil.
func (c *checker) must(err error, doing string, args ...any) {
	c.Helper()
	if err != nil {
		c.Fatalf("%s: %v", fmt.Sprintf(doing, args...), err)
	}
}

// eventually waits until ok returns true.
func (c *checker) eventually(what string, ok func() bool) {
	c.Helper()
	if !wait.Until(c.ctx, ok) {
		c.Fatalf("waited too long until %s", what)
	}
}
