package record_test

import (
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
)

// A record with an object takes more memory than one with the same content but no object.
func TestMemoryOfObjects(t *testing.T) {
	raw := record.Record{Position: record.Position("1"), After: record.Raw([]byte("x"))}
	object := record.Record{Position: record.Position("1"), After: record.Structured(map[string]any{})}
	overhead := func(all ...record.Record) int { b := record.NewBatch(all); return b.Memory() - b.Size() }
	if overhead(raw) <= 0 || overhead(object) <= overhead(raw) ||
		overhead(raw, object, raw) != 2*overhead(raw)+overhead(object) {
		t.Errorf("%d, %d and together %d bytes", overhead(raw), overhead(object), overhead(raw, object, raw))
	}
	joined, err := record.Join([]*record.Batch{record.NewBatch([]record.Record{raw, object}),
		record.NewBatch([]record.Record{object})})
	if err != nil || joined.Memory()-joined.Size() != overhead(raw)+2*overhead(object) {
		t.Errorf("%d bytes joined, %v", joined.Memory()-joined.Size(), err)
	}
	wire, err := record.NewBatch([]record.Record{raw, raw}).AppendWire(nil, 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	b, err := record.NewEncodedBatch(wire)
	if err != nil {
		t.Fatal(err)
	}
	before := b.Memory()
	if _, err := b.Records(); err != nil || b.Memory() <= before {
		t.Errorf("%d bytes decoded, %d encoded: %v", b.Memory(), before, err)
	}
}
