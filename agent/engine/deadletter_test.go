package engine_test

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

func TestDeadLetterEnveloped(t *testing.T) {
	begin := time.Now()
	refused := record.Record{Position: record.Position("7"), Operation: record.OperationUpdate,
		Metadata: record.Metadata{{Key: "k", Value: "v"}}, After: record.Raw([]byte("x"))}
	l := engine.DeadLetter{SourceID: "p:src", Record: refused, RefusedBy: "p:dst", Destination: true,
		Err: errors.New("it is full")}
	got := l.Enveloped()
	if string(got.Position) != "p:src/7" || got.Operation != record.OperationCreate {
		t.Errorf("position %s, operation %v", got.Position, got.Operation)
	}
	if e, n := got.Metadata.Get(record.KeyDLQNackError), got.Metadata.Get(record.KeyDLQNackNodeID); e != "it is full" ||
		n != "p:dst-acker" {
		t.Errorf("error %q, node %q", e, n)
	}
	byProcessor := engine.DeadLetter{RefusedBy: "p:check", Err: errors.New("no")}
	if n := byProcessor.Enveloped().Metadata.Get(record.KeyDLQNackNodeID); n != "p:check" {
		t.Errorf("node %q", n)
	}
	nanos, err := strconv.ParseInt(got.Metadata.Get(record.KeyCreatedAt), 10, 64)
	if at := time.Unix(0, nanos); err != nil || at.Before(begin) || at.After(time.Now()) {
		t.Errorf("created at %v, error %v", at, err)
	}
	m, ok := got.After.Structured()
	if !ok || m["operation"] != "update" || m["metadata"].(map[string]any)["k"] != "v" {
		t.Errorf("it holds %v", m)
	}
}

// A refusal is tolerated while no more than threshold of the last size records were refused.
func TestDeadLetterWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, 6).Draw(t, "size")
		threshold := rapid.IntRange(0, 5).Draw(t, "threshold")
		w := engine.NewDeadLetterWindow(&spec.DeadLetterQueue{WindowSize: size, WindowNackThreshold: threshold})
		var all []bool // for every record: it was refused
		exceeded := false
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if !rapid.Bool().Draw(t, "refused") {
				n := rapid.IntRange(1, 3).Draw(t, "n")
				w.Ack(n)
				all = append(all, make([]bool, n)...)
				continue
			}
			all = append(all, true)
			n := 0
			for _, refused := range all[max(0, len(all)-size):] {
				if refused {
					n++
				}
			}
			exceeded = exceeded || size > 0 && n > threshold
			if got := w.Nack(); got == exceeded {
				t.Fatalf("size %d, threshold %d, after %v: tolerated %v", size, threshold, all, got)
			}
		}
	})
}

// A queue that tolerates no refusal is exceeded by the first, and stays exceeded.
func TestDeadLetterWindowThatToleratesNone(t *testing.T) {
	w := engine.NewDeadLetterWindow(&spec.DeadLetterQueue{WindowSize: 1})
	w.Ack(1000)
	got := []bool{w.Nack(), w.Nack()}
	w.Ack(1000)
	if got = append(got, w.Nack()); slices.Contains(got, true) {
		t.Errorf("tolerated: %v", got)
	}
}

// Dead letters have a form in every encoding, for every refused record.
func TestEveryDeadLetterCanBeEnveloped(t *testing.T) {
	var nested any = 1.0
	for range 990 { // as deep as a connector may send it: the envelope is deeper
		nested = map[string]any{"a": nested}
	}
	for name, v := range map[string]any{"NaN": math.NaN(), "Latin-1": "\xe9", "channel": make(chan int),
		"depth": nested} {
		l := engine.DeadLetter{SourceID: "p:src", Err: errors.New("caf\xe9"), Record: record.Record{
			Position: record.Position("\xff"), Metadata: record.Metadata{{Key: "\xff"}},
			After: record.Structured(map[string]any{"v": v})}}
		e := l.Enveloped()
		if _, err := record.AppendJSON(nil, &e); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := record.AppendWire(nil, &e); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if _, err := record.ParseWire(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
