package builtin_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func newRecord(source, position, window string) record.Record {
	r := record.Record{Position: record.Position(position)}
	r.Metadata.Set(record.KeySourceConnectorID, source)
	if window != "" {
		r.Metadata.Set(record.KeyWindowStart, window)
	}
	return r
}

// Different records have different ids. The same record has the same id each time, in any division into batches.
func TestIDs(t *testing.T) {
	given := []record.Record{
		newRecord("a", "1", ""), newRecord("a", "1", ""), newRecord("a", "1", ""), // made from one record
		newRecord("a", "2", ""), newRecord("b", "2", ""),
		newRecord("a", "2", "2026-01-01T00:00:00Z"), newRecord("b", "2", "2026-01-01T00:00:00Z"),
		// from overlapping windows
		newRecord("a", "2", "2026-01-01T00:00:01Z"), newRecord("b", "2", "2026-01-01T00:00:01Z"),
	}
	var s common.RecordIDs
	want := s.IDs(given)
	for i, id := range want {
		if slices.Contains(want[:i], id) {
			t.Errorf("record %d has the id of an earlier one", i)
		}
	}
	for divided := 1; divided < len(given); divided++ {
		var s common.RecordIDs
		var got []common.RecordID
		for all := given; len(all) > 0; {
			n := min(divided, len(all))
			got = append(got, s.IDs(all)[:n]...)
			s.Settled(n)
			all = all[n:]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d at a time they have other ids", divided)
		}
	}
}

// A record that was neither written nor refused has the same id when it is repeated.
func TestWrote(t *testing.T) {
	given := []record.Record{newRecord("a", "1", ""), newRecord("a", "2", ""), newRecord("a", "2", "")}
	for err, again := range map[error]bool{sdk.Unavailable(errors.New("away")): true, context.Canceled: true,
		errors.New("refused"): false} {
		var s common.RecordIDs
		before := s.IDs(given)[1]
		s.Wrote(1, err)
		if after := s.IDs(given[1:])[0]; (after == before) != again {
			t.Errorf("after %v the record has the id %s, before %s", err, after, before)
		}
	}
}
