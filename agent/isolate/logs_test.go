package isolate_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// The notes of a plan describe the consequences of a change for the records that wait.
func TestNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7)
		w.slow.hold = make(chan struct{})
		r := w.start()
		time.Sleep(time.Second)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		change := func(f func(*spec.Connector)) *spec.Pipeline {
			p := w.spec()
			f(&p.Connectors[2])
			return p
		}
		without := w.spec()
		without.Connectors = without.Connectors[:2]
		tests := []struct {
			name   string
			before *spec.Pipeline
			after  *spec.Pipeline
			want   string // in a note on slow
		}{
			{"added", nil, w.spec(), "beyond 67108864 bytes the pipeline waits"},
			{"removed pipeline", w.spec(), nil, "7 records wait in its log that it has not received; they are discarded " +
				"with the connector 10m after"},
			{"removed destination", w.spec(), without, "7 records wait in its log that it has not received"},
			{"no longer isolated", w.spec(), change(func(c *spec.Connector) { c.Isolate = nil }), "takes them first"},
			{"other plugin", w.spec(), change(func(c *spec.Connector) { c.Plugin = "other" }), "it takes them, too"},
		}
		for _, tt := range tests {
			if got := strings.Join(w.logs.Notes(tt.before, tt.after, "10m")["slow"], "; "); !strings.Contains(got, tt.want) {
				t.Errorf("%s: %q", tt.name, got)
			}
		}
		if notes := w.logs.Notes(w.spec(), w.spec(), "10m"); len(notes) != 1 || len(notes["slow"]) != 1 {
			t.Errorf("without a change: %v", notes)
		}
		if err := w.logs.Remove("p", "slow"); err != nil || w.logs.Has("p", "slow") {
			t.Errorf("the log is not removed, error %v", err)
		}
		if err := w.logs.Remove("p", "slow"); err != nil {
			t.Errorf("a log that does not exist cannot be removed: %v", err)
		}
	})
}
