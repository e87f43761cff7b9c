package deadletter_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// TestEndlessRecordIsKept checks that a record whose data contains itself is kept.
func TestEndlessRecordIsKept(t *testing.T) {
	object := map[string]any{"name": "it"}
	object["self"], object["list"] = object, []any{object, object}
	l := engine.DeadLetter{SourceID: "p:src", RefusedBy: "p:dst", Err: errors.New("no"),
		Record: record.Record{Position: record.Position("1"), Key: record.Structured(object),
			After: record.Structured(object)}}
	kept := deadletter.New(&spec.Declaration{}, &l, time.Now())
	var r record.Record
	if err := r.UnmarshalJSON(kept.Record); err != nil {
		t.Fatal(err)
	}
	if text, _ := r.After.Raw(); !strings.Contains(string(text), "nested deeper") ||
		!strings.Contains(string(text), `"name":"it"`) {
		t.Errorf("kept is %.300s", text)
	}
	if e := l.Enveloped(); e.After.IsNone() {
		t.Error("the envelope is empty")
	} else if _, err := record.AppendWire(nil, &e); err != nil {
		t.Error(err)
	}
}
