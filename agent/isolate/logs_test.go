package isolate_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/isolate"
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

// The text of a backlog is for people.
func TestText(t *testing.T) {
	for want, b := range map[string]spec.Backlog{
		"writing, 0 records wait (0 bytes of 100)": {State: spec.BacklogWriting, Limit: 100},
		"retrying, 1 record waits (7 bytes of 100, the oldest for 1m5s)": {State: spec.BacklogRetrying, Limit: 100,
			Records: 1, Bytes: 7, Seconds: 65.9},
		"draining, 2 records wait (14 bytes, the oldest for 0s)": {State: spec.BacklogDraining, Records: 2, Bytes: 14},
		"writing, 9 records wait (99 bytes of 100, the oldest for 1h0m0s), its log is full: drop-oldest, 3 dropped": {
			State: spec.BacklogWriting, Limit: 100, Records: 9, Bytes: 99, Seconds: 3600,
			Full: spec.IsolationDropsOldest, Dropped: 3},
	} {
		if got := isolate.TextOf(&b); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
