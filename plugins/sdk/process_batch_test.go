package sdk_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func recordsAt(positions ...string) []record.Record {
	records := make([]record.Record, len(positions))
	for i, p := range positions {
		records[i].Position = record.Position(p)
	}
	return records
}

func TestProcessBatchKeepsFatesByIndex(t *testing.T) {
	records, refused := recordsAt("a", "b", "c", "d", "e"), errors.New("refused")
	b := sdk.NewProcessBatch("token", records, []int32{1, 2, 3, 4})
	if b.Len() != 4 || string(b.Record(0).Position) != "b" {
		t.Fatalf("%d records, the first at %q; want 4 from b", b.Len(), b.Record(0).Position)
	}
	b.Filter(0)
	b.Refuse(1, refused)
	b.Replace(2, []record.Record{{}, {Position: record.Position("other")}})
	held := b.Hold(3)

	want := []sdk.FateKind{sdk.Kept, sdk.Filtered, sdk.Refused, sdk.Replaced, sdk.HeldBack}
	for i, f := range b.Fates() {
		if f.Kind != want[i] {
			t.Errorf("record %d has fate %d, want %d", i, f.Kind, want[i])
		}
	}
	if err := b.Fates()[2].Err; err != refused {
		t.Errorf("refused with %v", err)
	}
	for _, piece := range b.Fates()[3].Pieces {
		if string(piece.Position) != "d" {
			t.Errorf("a piece has position %q, not that of its record", piece.Position)
		}
	}
	if want := (sdk.Held{Batch: "token", Index: 4}); held != want {
		t.Errorf("held %v, want %v", held, want)
	}
}

func TestProcessBatchForgetsOnReset(t *testing.T) {
	b := sdk.NewProcessBatch(1, recordsAt("a", "b"), nil)
	b.Replace(1, nil)
	b.Emit(sdk.Emission{Records: recordsAt("x")})
	if diff := cmp.Diff([]sdk.Fate{{}, {Kind: sdk.Filtered}}, b.Fates()); diff != "" {
		t.Errorf("replaced by nothing (-want +got):\n%s", diff)
	}
	b.Reset(2, recordsAt("c", "d"), nil)
	if b.Fates() != nil || b.Emitted() != nil || b.Token() != 2 {
		t.Errorf("after Reset: fates %v, emitted %v, token %v", b.Fates(), b.Emitted(), b.Token())
	}
	b.Filter(0)
	if diff := cmp.Diff([]sdk.Fate{{Kind: sdk.Filtered}, {}}, b.Fates()); diff != "" {
		t.Errorf("fates of the batch before are still there (-want +got):\n%s", diff)
	}
}

func TestProcessBatchDoesNotAllocate(t *testing.T) {
	records := recordsAt("a", "b", "c")
	b := sdk.NewProcessBatch(nil, records, nil)
	if n := testing.AllocsPerRun(100, func() {
		b.Reset(nil, records, nil)
		for i := range b.Len() {
			b.Record(i).Operation = record.OperationUpdate
		}
	}); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}
